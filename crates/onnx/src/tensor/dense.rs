//! A tensor in memory.

/// A tensor with its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name; NumPy's files have none.
    pub name: String,
    /// Its element type, by its name in the operator table.
    pub dtype: String,
    /// Its shape.
    pub shape: Vec<i64>,
    /// Its elements: dense, row-major, little-endian; truth values are 0 or 1.
    pub bytes: Vec<u8>,
}

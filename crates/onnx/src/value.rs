//! Values of a network.

use opkeep_ops::{TensorId, elements};

/// A tensor under its ONNX shape. The graph's is the same, but for a scalar: it is described as one element there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) id: TensorId,
    pub(crate) shape: Vec<i64>,
}

impl Value {
    pub(crate) fn rank(&self) -> usize {
        self.shape.len()
    }
}

/// The shape by which the graph knows a tensor of ONNX shape `shape`.
pub(crate) fn described(shape: &[i64]) -> Vec<i64> {
    if shape.is_empty() { vec![1] } else { shape.to_vec() }
}

/// The most dimensions of a tensor: as many as NumPy has.
pub(crate) const MAX_RANK: usize = 64;

/// How many elements a shape has; `None` if it is not a shape, or absurdly large.
pub(crate) fn count(shape: &[i64]) -> Option<u64> {
    if shape.len() > MAX_RANK { None } else { elements(shape) }
}

/// The product of dimensions of a shape that [`count`] has found to be one.
pub(crate) fn product(dims: &[i64]) -> i64 {
    dims.iter().fold(1i64, |product, dim| product.saturating_mul(*dim))
}

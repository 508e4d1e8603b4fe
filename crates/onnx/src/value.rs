//! Values of a network.

use opkeep_ops::{TensorId, elements};

/// A tensor with its ONNX shape. The graph's shape differs only for a scalar, which has one element there.
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

/// The graph's shape of a tensor with the ONNX shape `shape`.
pub(crate) fn described(shape: &[i64]) -> Vec<i64> {
    if shape.is_empty() { vec![1] } else { shape.to_vec() }
}

/// The largest number of dimensions of a tensor, as in NumPy.
pub(crate) const MAX_RANK: usize = 64;

/// The number of elements of a shape; `None` if it is invalid or overflows.
pub(crate) fn count(shape: &[i64]) -> Option<u64> {
    if shape.len() > MAX_RANK { None } else { elements(shape) }
}

/// The product of dimensions of a shape that [`count`] accepts.
pub(crate) fn product(dims: &[i64]) -> i64 {
    dims.iter().fold(1i64, |product, dim| product.saturating_mul(*dim))
}

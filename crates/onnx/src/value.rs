//! Values of a network.

use opbuild_ops::TensorId;

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

/// The most elements that a tensor may have: its bytes must fit a signed 64-bit offset with room to spare.
const MAX_ELEMENTS: u64 = 1 << 48;

/// The most dimensions of a tensor: as many as NumPy has.
pub(crate) const MAX_RANK: usize = 64;

/// How many elements a shape has; `None` if it is not a shape, or absurdly large.
pub(crate) fn count(shape: &[i64]) -> Option<u64> {
    if shape.len() > MAX_RANK {
        return None;
    }
    // A dimension of 0 must not hide an absurd one beside it.
    let extent = shape.iter().try_fold(1u64, |product, dim| {
        let dim = u64::try_from(*dim).ok()?.max(1);
        product.checked_mul(dim).filter(|elements| *elements <= MAX_ELEMENTS)
    })?;
    Some(if shape.contains(&0) { 0 } else { extent })
}

/// The product of dimensions of a shape that [`count`] has found to be one.
pub(crate) fn product(dims: &[i64]) -> i64 {
    dims.iter().fold(1i64, |product, dim| product.saturating_mul(*dim))
}

//! Element types and shapes of outputs.

use opbuild_descriptor::Tensor;

use crate::{OpSpec, OpsError, Rule};

/// The most elements of a tensor: its bytes must fit a signed 64-bit offset with room to spare.
pub(crate) const MAX_ELEMENTS: u64 = 1 << 48;

impl OpSpec {
    /// The outputs that follow from `inputs`.
    ///
    /// # Errors
    /// Inputs that this operator cannot take together.
    pub fn infer(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, OpsError> {
        let op_type = || self.op_type.to_owned();
        let Some((first, rest)) = inputs.split_first().filter(|_| inputs.len() == self.inputs.len()) else {
            let (expected, found) = (self.inputs.len(), inputs.len());
            return Err(OpsError::Count { op_type: op_type(), what: "inputs", expected, found });
        };
        let mut shape = first.shape.clone();
        for (input, name) in rest.iter().zip(&self.inputs[1..]) {
            if input.dtype != first.dtype {
                let (expected, found) = (first.dtype.clone(), input.dtype.clone());
                return Err(OpsError::Dtype { op_type: op_type(), name, expected, found });
            }
            shape = broadcast(&shape, &input.shape).ok_or_else(|| OpsError::Broadcast {
                op_type: op_type(),
                left: shape.clone(),
                right: input.shape.clone(),
            })?;
        }
        for shape in inputs.iter().map(|input| &input.shape).chain([&shape]) {
            if elements(shape).is_none() {
                return Err(OpsError::Shape {
                    op_type: op_type(),
                    shape: shape.clone(),
                    limit: MAX_ELEMENTS,
                });
            }
        }
        let dtype = match self.rule {
            Rule::Elementwise => first.dtype.clone(),
            Rule::Predicate => "bool".to_owned(),
        };
        Ok(vec![Tensor { dtype, shape, ..described_like(first) }])
    }
}

/// The shape to which `left` and `right` broadcast: aligned at the last dimension, each pair equal or one of them 1.
///
/// ```
/// assert_eq!(opbuild_ops::broadcast(&[4, 1, 3], &[2, 1]), Some(vec![4, 2, 3]));
/// assert_eq!(opbuild_ops::broadcast(&[4], &[3]), None);
/// ```
pub fn broadcast(left: &[i64], right: &[i64]) -> Option<Vec<i64>> {
    let rank = left.len().max(right.len());
    let dim = |shape: &[i64], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(at) => shape[at],
        None => 1,
    };
    (0..rank)
        .map(|axis| match (dim(left, axis), dim(right, axis)) {
            (a, b) if a == b => Some(a),
            (1, b) => Some(b),
            (a, 1) => Some(a),
            _ => None,
        })
        .collect()
}

/// How many elements a static shape has; `None` for a dynamic one, or one beyond [`MAX_ELEMENTS`].
pub(crate) fn elements(shape: &[i64]) -> Option<u64> {
    // A dimension of 0 must not hide an absurd one beside it: strides are computed from both.
    let extent = shape.iter().try_fold(1u64, |product, dim| {
        let dim = u64::try_from(*dim).ok()?.max(1);
        product.checked_mul(dim).filter(|elements| *elements <= MAX_ELEMENTS)
    })?;
    Some(if shape.contains(&0) { 0 } else { extent })
}

/// A fresh description of the same format and kind as `tensor`.
fn described_like(tensor: &Tensor) -> Tensor {
    let mut fresh = Tensor::new(tensor.dtype.clone(), tensor.shape.clone());
    fresh.format.clone_from(&tensor.format);
    fresh.ori_format.clone_from(&tensor.ori_format);
    fresh
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting_is_numpys() {
        for (left, right, both) in [
            (&[3][..], &[3][..], Some(vec![3])),
            (&[2, 3], &[3], Some(vec![2, 3])),
            (&[], &[2, 2], Some(vec![2, 2])),
            (&[2, 1, 4], &[3, 1], Some(vec![2, 3, 4])),
            (&[0], &[1], Some(vec![0])),
            (&[0], &[2], None),
            (&[2, 3], &[2], None),
        ] {
            assert_eq!(broadcast(left, right), both);
            assert_eq!(broadcast(right, left), both);
        }
    }

    #[test]
    fn absurd_shapes_are_no_sizes() {
        assert_eq!(elements(&[]), Some(1));
        assert_eq!(elements(&[2, 0, 3]), Some(0));
        assert_eq!(elements(&[-1]), None);
        assert_eq!(elements(&[i64::MAX, i64::MAX]), None);
        assert_eq!(elements(&[0, i64::MAX, 4]), None);
        assert_eq!(elements(&[1 << 24, 1 << 24]), Some(1 << 48));
        assert_eq!(elements(&[1 << 24, 1 << 25]), None);
    }
}

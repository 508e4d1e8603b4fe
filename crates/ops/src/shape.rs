//! Shapes, and the broadcast of two shapes.

/// The largest number of elements of a tensor: its size in bytes is well below 2^63.
pub const MAX_ELEMENTS: u64 = 1 << 48;

/// Element type and shape of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// Element type.
    pub dtype: String,
    /// Shape.
    pub shape: Vec<i64>,
}

/// The shape to which `left` and `right` broadcast: aligned at the last dimension, with each pair equal or one of them
/// 1.
///
/// ```
/// assert_eq!(opkeep_ops::broadcast(&[4, 1, 3], &[2, 1]), Some(vec![4, 2, 3]));
/// assert_eq!(opkeep_ops::broadcast(&[4], &[3]), None);
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

/// The number of elements of a static shape; `None` for a dynamic one, or one above [`MAX_ELEMENTS`].
///
/// ```
/// assert_eq!(opkeep_ops::elements(&[2, 3]), Some(6));
/// assert_eq!(opkeep_ops::elements(&[-1, 3]), None);
/// ```
pub fn elements(shape: &[i64]) -> Option<u64> {
    // A dimension of 0 must not hide an absurd one beside it, since strides are computed from both.
    let extent = shape.iter().try_fold(1u64, |product, dim| {
        let dim = u64::try_from(*dim).ok()?.max(1);
        product.checked_mul(dim).filter(|elements| *elements <= MAX_ELEMENTS)
    })?;
    Some(if shape.contains(&0) { 0 } else { extent })
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

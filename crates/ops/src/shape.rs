//! Element types and shapes of outputs.

use opkeep_descriptor::Tensor;

use crate::{Call, Conv2d, Gather, LayerNorm, MatMul, OpsError, Pad, Pool, Reduce, Rule, Slice};
use crate::{dtype, movement};

/// The most elements of a tensor: its bytes must fit a signed 64-bit offset with room to spare.
pub const MAX_ELEMENTS: u64 = 1 << 48;

/// Element type and shape of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// Element type.
    pub dtype: String,
    /// Shape.
    pub shape: Vec<i64>,
}

impl Call<'_> {
    /// The outputs that follow, one list a position.
    ///
    /// # Errors
    /// Inputs or attributes that this operator cannot take together.
    pub fn infer(&self) -> Result<Vec<Vec<TensorType>>, OpsError> {
        for tensor in self.inputs().iter().flatten() {
            self.static_shape(&tensor.shape)?;
        }
        let outputs = self.outputs()?;
        for tensor in outputs.iter().flatten() {
            self.static_shape(&tensor.shape)?;
        }
        Ok(outputs)
    }

    fn outputs(&self) -> Result<Vec<Vec<TensorType>>, OpsError> {
        let first = || -> Result<&Tensor, OpsError> {
            self.inputs().iter().flatten().next().copied().map_or_else(|| self.tensor(0), Ok)
        };
        let like = |shape: Vec<i64>| Ok(vec![vec![TensorType { dtype: first()?.dtype.clone(), shape }]]);
        match self.spec().rule {
            Rule::Elementwise => like(self.all_broadcast(0)?),
            Rule::Predicate => {
                Ok(vec![vec![TensorType { dtype: "bool".to_owned(), shape: self.all_broadcast(0)? }]])
            }
            Rule::Select => self.select(),
            Rule::Clip => match self.all_broadcast(0)? {
                shape if shape == first()?.shape => like(shape),
                shape => Err(self.misfit(format!("bounds make {:?} into {shape:?}", first()?.shape))),
            },
            Rule::Cast => {
                let number = self.int("dst_type")?;
                let dtype = dtype::of_ge_number(number)
                    .ok_or_else(|| self.attr_value("dst_type", "the number of an element type", number))?;
                Ok(vec![vec![TensorType { dtype: dtype.to_owned(), shape: first()?.shape.clone() }]])
            }
            Rule::Accumulate => {
                movement::counted(self, self.group(0).len())?;
                like(self.all_broadcast(0)?)
            }
            Rule::Conv2d => self.one_dtype().and_then(|()| like(Conv2d::of(self)?.output())),
            Rule::Pool => like(Pool::of(self)?.output()),
            Rule::PerChannel => self.per_channel().and_then(|()| like(first()?.shape.clone())),
            Rule::Same => {
                if self.spec().attrs.iter().any(|attr| attr.name == "axes") {
                    Reduce::of(self)?;
                }
                like(first()?.shape.clone())
            }
            Rule::LayerNorm => {
                self.one_dtype()?;
                let norm = LayerNorm::of(self)?;
                let (y, statistics) = (like(first()?.shape.clone())?, like(norm.statistics)?);
                Ok([y, statistics.clone(), statistics].concat())
            }
            Rule::MatMul => self.one_dtype().and_then(|()| like(MatMul::of(self)?.output())),
            Rule::Reduce => like(Reduce::of(self)?.output()),
            Rule::Transpose => {
                let perm = movement::permutation(self)?;
                like(perm.iter().map(|at| first().map(|x| x.shape[*at])).collect::<Result<_, _>>()?)
            }
            Rule::Concat => self.one_dtype().and_then(|()| like(movement::concat(self)?.1)),
            Rule::Gather => like(Gather::of(self)?.output),
            Rule::Slice => like(Slice::of(self)?.output()),
            Rule::Split | Rule::SplitV => self.split(),
            Rule::Pad => {
                movement::one_element(self, 2, &first()?.dtype)?;
                like(Pad::of(self)?.output)
            }
            Rule::Fill => {
                let dtype = self.tensor(1)?.dtype.clone();
                movement::one_element(self, 1, &dtype)?;
                Ok(vec![vec![TensorType { dtype, shape: not_empty(self.values(0)?) }]])
            }
            Rule::BroadcastTo => {
                let (from, to) = (&first()?.shape, not_empty(self.values(1)?));
                match broadcast(from, &to) {
                    Some(both) if both == to => like(to),
                    _ => Err(self.misfit(format!("{from:?} cannot be broadcast to {to:?}"))),
                }
            }
            Rule::Tile => {
                let times = movement::multiples(self)?;
                let dim = |(dim, times): (&i64, &u64)| dim.checked_mul(i64::try_from(*times).ok()?);
                let shape: Option<Vec<i64>> = first()?.shape.iter().zip(&times).map(dim).collect();
                like(shape.ok_or_else(|| self.misfit(format!("multiples {times:?} are too many")))?)
            }
        }
    }

    fn static_shape(&self, shape: &[i64]) -> Result<(), OpsError> {
        match elements(shape) {
            Some(_) => Ok(()),
            None => {
                Err(OpsError::Shape { op_type: self.op_type(), shape: shape.to_vec(), limit: MAX_ELEMENTS })
            }
        }
    }

    /// All tensors from position `from` on, with their names.
    fn named(&self, from: usize) -> impl Iterator<Item = (&'static str, &Tensor)> {
        let ports = self.spec().inputs.iter().zip(self.inputs()).skip(from);
        ports.flat_map(|(port, tensors)| tensors.iter().map(|tensor| (port.name, *tensor)))
    }

    /// The shape to which all tensors from position `from` on broadcast; they have one element type.
    fn all_broadcast(&self, from: usize) -> Result<Vec<i64>, OpsError> {
        self.one_dtype_from(from)?;
        let mut shape: Option<Vec<i64>> = None;
        for (_, tensor) in self.named(from) {
            let Some(left) = shape else {
                shape = Some(tensor.shape.clone());
                continue;
            };
            shape = Some(broadcast(&left, &tensor.shape).ok_or_else(|| OpsError::Broadcast {
                op_type: self.op_type(),
                left,
                right: tensor.shape.clone(),
            })?);
        }
        Ok(shape.unwrap_or_default())
    }

    fn one_dtype(&self) -> Result<(), OpsError> {
        self.one_dtype_from(0)
    }

    fn one_dtype_from(&self, from: usize) -> Result<(), OpsError> {
        let mut expected: Option<&str> = None;
        for (name, tensor) in self.named(from) {
            let expected = *expected.get_or_insert(&tensor.dtype);
            if tensor.dtype != expected {
                return Err(OpsError::Dtype {
                    op_type: self.op_type(),
                    name,
                    expected: format!("{expected} as the other inputs are"),
                    found: tensor.dtype.clone(),
                });
            }
        }
        Ok(())
    }

    fn select(&self) -> Result<Vec<Vec<TensorType>>, OpsError> {
        let condition = self.tensor(0)?;
        if condition.dtype != "bool" {
            return Err(OpsError::Dtype {
                op_type: self.op_type(),
                name: "condition",
                expected: "bool".to_owned(),
                found: condition.dtype.clone(),
            });
        }
        let chosen = self.all_broadcast(1)?;
        let shape = broadcast(&condition.shape, &chosen).ok_or_else(|| OpsError::Broadcast {
            op_type: self.op_type(),
            left: condition.shape.clone(),
            right: chosen,
        })?;
        Ok(vec![vec![TensorType { dtype: self.tensor(1)?.dtype.clone(), shape }]])
    }

    /// Every input but the first has one value a channel; for `PRelu`, one for all is as good.
    fn per_channel(&self) -> Result<(), OpsError> {
        self.one_dtype()?;
        let shape = &self.tensor(0)?.shape;
        let channels = shape.get(1).copied().unwrap_or(1);
        for (name, tensor) in self.named(1) {
            let one = self.spec().op_type == "PRelu" && tensor.shape == [1];
            if tensor.shape != [channels] && !one {
                let problem = format!(
                    "`{name}` has shape {:?}, expected [{channels}], the channels of {shape:?}",
                    tensor.shape
                );
                return Err(self.misfit(problem));
            }
        }
        Ok(())
    }

    fn split(&self) -> Result<Vec<Vec<TensorType>>, OpsError> {
        let (at, sizes) = movement::pieces(self)?;
        let x = self.tensor(if self.spec().op_type == "Split" { 1 } else { 0 })?;
        let piece = |size: i64| {
            let mut shape = x.shape.clone();
            shape[at] = size;
            TensorType { dtype: x.dtype.clone(), shape }
        };
        Ok(vec![sizes.into_iter().map(piece).collect()])
    }
}

/// A scalar is described as one element.
fn not_empty(shape: Vec<i64>) -> Vec<i64> {
    if shape.is_empty() { vec![1] } else { shape }
}

/// The shape to which `left` and `right` broadcast: aligned at the last dimension, each pair equal or one of them 1.
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

/// How many elements a static shape has; `None` for a dynamic one, or one beyond [`MAX_ELEMENTS`].
///
/// ```
/// assert_eq!(opkeep_ops::elements(&[2, 3]), Some(6));
/// assert_eq!(opkeep_ops::elements(&[-1, 3]), None);
/// ```
pub fn elements(shape: &[i64]) -> Option<u64> {
    // A dimension of 0 must not hide an absurd one beside it: strides are computed from both.
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

//! Element types and shapes of outputs. Each rule of the table is a branch of [`Call::infer`]; a rule whose parameters
//! code generators need has its own type, such as [`Conv2d`].

mod matmul;
mod movement;
mod reduce;
mod window;

pub use matmul::MatMul;
pub use movement::{Gather, Pad, PadMode, Slice, concat, multiples, permutation, pieces, slice_range};
pub use reduce::{LayerNorm, Reduce, axis};
pub use window::{Conv2d, Pool, PoolKind, Window};

use opkeep_descriptor::Tensor;

use crate::dtype;
use crate::shape::{MAX_ELEMENTS, TensorType, broadcast, elements};
use crate::{Call, OpsError, Rule};

impl Call<'_> {
    /// The types of the outputs, one list for each position.
    ///
    /// # Errors
    /// Inputs or attributes that this operator cannot combine.
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
                movement::check_count(self, self.group(0).len())?;
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

    /// The floating-point operations of a matrix product or a convolution: a multiplication and an addition for each
    /// tap. `None` for other operators, whose time is not in arithmetic.
    pub fn flops(&self) -> Option<u64> {
        let product = |dims: &[u64]| dims.iter().try_fold(2u64, |product, dim| product.checked_mul(*dim));
        match self.spec().rule {
            Rule::Conv2d => {
                let Conv2d { batch, groups, in_channels, out_channels, y, x, bias: _ } =
                    Conv2d::of(self).ok()?;
                let taps = [in_channels, y.kernel, x.kernel];
                product(&[&[batch, groups, out_channels, y.output, x.output], &taps[..]].concat())
            }
            Rule::MatMul => {
                let product_of = MatMul::of(self).ok()?;
                product(&[&product_of.batch[..], &[product_of.m, product_of.k, product_of.n]].concat())
            }
            _ => None,
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

    /// The shape to which all tensors from position `from` on broadcast, after a check that they have one element type.
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

    /// Checks that every input except the first has one value for each channel; for `PRelu`, a single value is also
    /// allowed.
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

//! Operators whose output is the input read with other steps.

use opkeep_backend::BackendError;
use opkeep_ops::{Call, Slice, multiples};

use crate::codegen::code::{Args, Code, argument, invalid, word_of};
use crate::codegen::elementwise::{Elements, dims};
use crate::codegen::loops::{Operand, strides};

/// `StridedSliceV2`.
pub(crate) fn slice(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let x = call.tensor(0).map_err(invalid)?;
    let Slice { input, start, count, step } = Slice::of(call).map_err(invalid)?;
    let dense = strides(&x.shape, &input);
    let offset = start.iter().zip(&dense).map(|(start, stride)| start * stride.unsigned_abs()).sum();
    // A step that leads out of the tensor is never taken.
    let strides = dense.iter().zip(&step).map(|(stride, step)| stride.saturating_mul(*step)).collect();
    let c_type = word_of(call, x)?;
    let x = Operand { name: "x".to_owned(), argument: argument(call, args, 0)?, c_type, offset, strides };
    Ok(Elements { result: c_type, output: count, operands: vec![x], value: "x".to_owned() }.code())
}

/// `Tile`: each dimension becomes two, the repetitions and what is repeated.
pub(crate) fn tile(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let x = call.tensor(0).map_err(invalid)?;
    let input = dims(&x.shape);
    let pairs = multiples(call).map_err(invalid)?.into_iter().zip(&input);
    let output = pairs.flat_map(|(times, dim)| [times, *dim]).collect();
    let strides = strides(&x.shape, &input).into_iter().flat_map(|stride| [0, stride]).collect();
    let c_type = word_of(call, x)?;
    let x = Operand { name: "x".to_owned(), argument: argument(call, args, 0)?, c_type, offset: 0, strides };
    Ok(Elements { result: c_type, output, operands: vec![x], value: "x".to_owned() }.code())
}

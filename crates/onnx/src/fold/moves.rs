//! Operators that move elements without changing them, for all element types.

use opkeep_ops::{Call, Gather, Pad, PadMode, Rule, Slice, TensorType};
use opkeep_ops::{concat, dtype_bytes, multiples, permutation, pieces};

use super::operand::{Operand, broadcast, dense, places};
use crate::number::Numbers;
use crate::value::product;

pub(super) fn compute(call: &Call<'_>, operands: &[Operand], types: &[TensorType]) -> Option<Vec<Vec<u8>>> {
    let (x, made) = (operands.first()?, types.first()?);
    let size = dtype_bytes(&x.dtype)?;
    let pick = |places: Vec<usize>| picked(&x.bytes, size, &places);
    let steps = dense(&x.shape);
    let one = match call.spec().rule {
        Rule::Transpose => {
            let steps: Vec<i64> = permutation(call).ok()?.into_iter().map(|at| steps[at]).collect();
            pick(places(&made.shape, &steps, 0))?
        }
        Rule::BroadcastTo => pick(places(&made.shape, &broadcast(&x.shape, made.shape.len()), 0))?,
        Rule::Tile => {
            // Each dimension becomes two: its repetitions, and itself.
            let pairs = multiples(call).ok()?.into_iter().zip(&x.shape);
            let shape: Vec<i64> = pairs.flat_map(|(times, dim)| [times.cast_signed(), *dim]).collect();
            let steps: Vec<i64> = steps.into_iter().flat_map(|step| [0, step]).collect();
            pick(places(&shape, &steps, 0))?
        }
        Rule::Slice => {
            let Slice { start, step, .. } = Slice::of(call).ok()?;
            let start = start.iter().zip(&steps).map(|(start, step)| start.cast_signed() * step).sum();
            // A step that is never made may have any size.
            let steps: Vec<i64> =
                steps.iter().zip(step).map(|(along, step)| along.wrapping_mul(step)).collect();
            pick(places(&made.shape, &steps, start))?
        }
        Rule::Split | Rule::SplitV => return split(call, x, types),
        Rule::Gather => gather(call, x, operands.get(1)?)?,
        Rule::Concat => join(call, operands)?,
        Rule::Pad => pad(call, x, operands.get(1), made)?,
        _ => return None,
    };
    Some(vec![one])
}

/// The elements at `places`.
fn picked(bytes: &[u8], size: usize, places: &[usize]) -> Option<Vec<u8>> {
    let mut picked = Vec::with_capacity(places.len() * size);
    for place in places {
        picked.extend_from_slice(bytes.get(place * size..(place + 1) * size)?);
    }
    Some(picked)
}

fn split(call: &Call<'_>, x: &Operand, types: &[TensorType]) -> Option<Vec<Vec<u8>>> {
    let (at, _) = pieces(call).ok()?;
    let (size, steps) = (dtype_bytes(&x.dtype)?, dense(&x.shape));
    let mut start = 0;
    let mut piece = |made: &TensorType| {
        let places = places(&made.shape, &steps, start * steps[at]);
        start += made.shape[at];
        picked(&x.bytes, size, &places)
    };
    types.iter().map(&mut piece).collect()
}

fn gather(call: &Call<'_>, x: &Operand, indices: &Operand) -> Option<Vec<u8>> {
    let Gather { outer, size, inner, .. } = Gather::of(call).ok()?;
    let Numbers::Ints(indices) = Numbers::decode(&indices.dtype, &indices.bytes)? else { return None };
    let item = usize::try_from(inner).ok()? * dtype_bytes(&x.dtype)?;
    let mut gathered = Vec::new();
    for block in 0..outer {
        for index in &indices {
            let index = if *index < 0 { index.checked_add_unsigned(size)? } else { *index };
            let index = u64::try_from(index).ok().filter(|index| *index < size)?;
            let start = usize::try_from(block * size + index).ok()? * item;
            gathered.extend_from_slice(x.bytes.get(start..start + item)?);
        }
    }
    Some(gathered)
}

fn join(call: &Call<'_>, operands: &[Operand]) -> Option<Vec<u8>> {
    let (at, _) = concat(call).ok()?;
    let blocks = usize::try_from(product(&operands.first()?.shape[..at])).ok()?;
    let mut joined = Vec::new();
    for block in 0..blocks {
        for operand in operands {
            let run = operand.bytes.len() / blocks;
            joined.extend_from_slice(&operand.bytes[block * run..(block + 1) * run]);
        }
    }
    Some(joined)
}

fn pad(call: &Call<'_>, x: &Operand, value: Option<&Operand>, made: &TensorType) -> Option<Vec<u8>> {
    let Pad { mode, before, .. } = Pad::of(call).ok()?;
    let size = dtype_bytes(&x.dtype)?;
    let value = value.map_or_else(|| vec![0; size], |value| value.bytes.clone());
    if value.len() != size {
        return None;
    }
    // The source of each element of the output; `None` at an edge that is filled.
    let mut sources = vec![Some(0i64)];
    for ((dim, step), (before, size)) in
        made.shape.iter().zip(dense(&x.shape)).zip(before.iter().zip(&x.shape))
    {
        let along: Vec<Option<i64>> =
            (0..*dim).map(|at| reflected(mode, at - before, *size).map(|at| at * step)).collect();
        let further = |source: Option<i64>| along.iter().map(move |at| Some(source? + (*at)?));
        sources = sources.into_iter().flat_map(further).collect();
    }
    let mut padded = Vec::with_capacity(sources.len() * size);
    for source in sources {
        match source {
            Some(at) => {
                let at = usize::try_from(at).ok()? * size;
                padded.extend_from_slice(x.bytes.get(at..at + size)?);
            }
            None => padded.extend_from_slice(&value),
        }
    }
    Some(padded)
}

/// The index of the element at `at`, which may be beyond the edges of a dimension of `size` elements.
fn reflected(mode: PadMode, at: i64, size: i64) -> Option<i64> {
    match mode {
        _ if (0..size).contains(&at) => Some(at),
        PadMode::Constant => None,
        PadMode::Edge => Some(at.clamp(0, size - 1)),
        PadMode::Reflect => Some(if at < 0 { -at } else { 2 * (size - 1) - at }),
        PadMode::Symmetric => Some(if at < 0 { -at - 1 } else { 2 * size - 1 - at }),
    }
}

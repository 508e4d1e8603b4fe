//! Operators that change shapes but no elements.

use opkeep_ops::axis;
use opkeep_text::counted;

use crate::node::{Mapped, Node};
use crate::value::product;

/// Axes of a tensor of `rank` dimensions, sorted, each at most once.
pub(super) fn axes(given: &[i64], rank: usize) -> Result<Vec<usize>, String> {
    let found: Option<Vec<usize>> = given.iter().map(|given| axis(*given, rank)).collect();
    let mut found = found.ok_or_else(|| {
        format!("axes {given:?} are not all those of {rank}", rank = counted(rank, "dimension"))
    })?;
    found.sort_unstable();
    match found.windows(2).any(|pair| pair[0] == pair[1]) {
        true => {
            Err(format!("axes {given:?} name one axis of {rank} twice", rank = counted(rank, "dimension")))
        }
        false => Ok(found),
    }
}

pub(super) fn one_axis(given: i64, rank: usize) -> Result<usize, String> {
    axis(given, rank)
        .ok_or_else(|| format!("axis {given} is none of {rank}", rank = counted(rank, "dimension")))
}

pub(crate) fn identity(node: &mut Node<'_>) -> Mapped {
    Ok(vec![node.input(0)?])
}

/// 0 stands for the input's dimension unless `allowzero` is set, -1 for the remaining elements.
pub(crate) fn reshape(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    let asked = node.required(1, "shape")?;
    let copies = !node.flag("allowzero", false)?;
    let misfit = || format!("{:?} cannot be reshaped to {asked:?}", x.shape);
    let mut shape = asked.clone();
    if copies {
        for (at, dim) in shape.iter_mut().enumerate().filter(|(_, dim)| **dim == 0) {
            *dim = *x.shape.get(at).ok_or_else(misfit)?;
        }
    }
    if let Some(open) = shape.iter().position(|dim| *dim == -1) {
        shape[open] = 1;
        let rest = shape.iter().try_fold(1i64, |product, dim| product.checked_mul(*dim));
        let rest = rest.filter(|rest| *rest > 0 && product(&x.shape) % rest == 0).ok_or_else(misfit)?;
        shape[open] = product(&x.shape) / rest;
    }
    Ok(vec![node.value(x.id, shape)?])
}

/// The dimensions before an axis become one, and those from it on become another.
pub(crate) fn flatten(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    let given = node.int("axis", 1)?;
    // The axis may be after the last dimension.
    let at = match usize::try_from(given) {
        Ok(at) if at == x.rank() => at,
        _ => one_axis(given, x.rank())?,
    };
    let (before, after) = x.shape.split_at(at);
    let shape = [product(before), product(after)];
    Ok(vec![node.value(x.id, shape)?])
}

/// The axes of `Squeeze`, `Unsqueeze` and reductions: an attribute, or in later versions an input.
pub(super) fn given_axes(node: &Node<'_>, input_since: i64) -> Result<Option<Vec<i64>>, String> {
    if node.opset >= input_since { node.known(1, "axes") } else { node.ints("axes") }
}

pub(crate) fn squeeze(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    let gone = match given_axes(node, 13)? {
        Some(given) => axes(&given, x.rank())?,
        None => (0..x.rank()).filter(|at| x.shape[*at] == 1).collect(),
    };
    if let Some(at) = gone.iter().find(|at| x.shape[**at] != 1) {
        return Err(format!("axis {at} of {:?} cannot be squeezed: it is not 1", x.shape));
    }
    let left = (0..x.rank()).filter(|at| !gone.contains(at)).map(|at| x.shape[at]);
    let shape: Vec<i64> = left.collect();
    Ok(vec![node.value(x.id, shape)?])
}

pub(crate) fn unsqueeze(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    let given = given_axes(node, 13)?.ok_or("its axes are not given")?;
    let new = axes(&given, x.rank() + given.len())?;
    let mut shape = x.shape.clone();
    new.iter().for_each(|at| shape.insert(*at, 1));
    Ok(vec![node.value(x.id, shape)?])
}

//! Operators that move elements without changing them.

use opkeep_ops::{axis, bool_attr, int_attr, str_attr};
use opkeep_text::counted;

use super::elementwise;
use super::views::{axes, one_axis};
use crate::node::{Mapped, Node};
use crate::value::{Value, count, product};

/// Inputs without elements are left out.
pub(crate) fn concat(node: &mut Node<'_>) -> Mapped {
    let values = node.all()?;
    let rank = values[0].rank();
    if !node.has("axis") {
        return Err("attribute `axis` is not given".to_owned());
    }
    let at = one_axis(node.int("axis", 0)?, rank)?;
    let mut shape = values[0].shape.clone();
    shape[at] = 0;
    for value in &values {
        let alike = value.rank() == rank && (0..rank).all(|dim| dim == at || value.shape[dim] == shape[dim]);
        let sum = value.shape.get(at).and_then(|dim| shape[at].checked_add(*dim));
        shape[at] = sum.filter(|_| alike).ok_or_else(|| {
            let shapes: Vec<&[i64]> = values.iter().map(|value| value.shape.as_slice()).collect();
            format!("shapes {shapes:?} differ in more than axis {at}")
        })?;
    }
    let filled: Vec<&Value> = values.iter().filter(|value| value.shape[at] != 0).collect();
    match filled.as_slice() {
        [] => Ok(vec![values[0].clone()]),
        [only] => Ok(vec![(*only).clone()]),
        filled => {
            let ids: Vec<_> = filled.iter().map(|value| value.id).collect();
            let attrs = [int_attr("concat_dim", at as i64), int_attr("N", ids.len() as i64)];
            let y = node.emit("ConcatD", &ids, attrs)?;
            Ok(vec![node.value(y, shape)?])
        }
    }
}

pub(crate) fn gather(node: &mut Node<'_>) -> Mapped {
    let (x, indices) = (node.input(0)?, node.input(1)?);
    let at = one_axis(node.int("axis", 0)?, x.rank())?;
    if let Some(crate::number::Numbers::Ints(ints)) = node.numbers(indices.id)? {
        let size = x.shape[at];
        if let Some(wrong) = ints.iter().find(|index| !(-size..size).contains(index)) {
            return Err(format!(
                "index {wrong} is none of axis {at}, of {size}",
                size = counted(size, "element")
            ));
        }
    }
    let shape = [&x.shape[..at], &indices.shape, &x.shape[at + 1..]].concat();
    let axis = node.parameter("int32", &[at as i64]);
    let attrs = [bool_attr("negative_index_support", true)];
    let y = node.emit("GatherV2", &[x.id, indices.id, axis], attrs)?;
    Ok(vec![node.value(y, shape)?])
}

/// The order is reversed if the attribute is unset.
pub(crate) fn transpose(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    let perm = match node.ints("perm")? {
        Some(perm) => perm,
        None => (0..x.rank() as i64).rev().collect(),
    };
    let order: Option<Vec<usize>> = perm.iter().map(|at| axis(*at, x.rank())).collect();
    let order = order
        .filter(|order| order.len() == x.rank() && axes(&perm, x.rank()).is_ok())
        .ok_or_else(|| format!("attribute `perm` is {perm:?}, expected each axis of {:?} once", x.shape))?;
    let y = transposed(node, &x, &order, None)?;
    Ok(vec![y])
}

/// `x` with its axes in another order. If the axes longer than 1 keep their order, no element moves.
pub(super) fn transposed(
    node: &mut Node<'_>,
    x: &Value,
    order: &[usize],
    step: Option<&str>,
) -> Result<Value, String> {
    let shape: Vec<i64> = order.iter().map(|at| x.shape[*at]).collect();
    let long: Vec<usize> = order.iter().copied().filter(|at| x.shape[*at] != 1).collect();
    if long.is_sorted() {
        return node.value(x.id, shape);
    }
    let numbers: Vec<i64> = order.iter().map(|at| *at as i64).collect();
    let perm = node.parameter("int32", &numbers);
    let y = match step {
        Some(step) => node.add_step(step, "Transpose", &[x.id, perm], [])?,
        None => node.emit("Transpose", &[x.id, perm], [])?,
    };
    node.value(y, shape)
}

pub(crate) fn expand(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    let asked = node.required(1, "shape")?;
    let shape = opkeep_ops::broadcast(&x.shape, &asked)
        .ok_or_else(|| format!("shape {:?} cannot be expanded to {asked:?}", x.shape))?;
    // Leading dimensions of 1 need no kernel.
    if count(&shape).is_some() && product(&shape) == product(&x.shape) {
        return Ok(vec![node.value(x.id, shape)?]);
    }
    let target = node.parameter("int64", &shape);
    let y = node.emit("Expand", &[x.id, target], [])?;
    Ok(vec![node.value(y, shape)?])
}

/// `x` expanded to `shape`, as an input of another operator.
pub(super) fn expand_to(node: &mut Node<'_>, x: &Value, shape: &[i64], step: &str) -> Result<Value, String> {
    if opkeep_ops::broadcast(&x.shape, shape).as_deref() != Some(shape) {
        return Err(format!("its {step} has shape {:?}, which does not expand to {shape:?}", x.shape));
    }
    if product(&x.shape) == product(shape) {
        return node.value(x.id, shape);
    }
    let target = node.parameter("int64", shape);
    let y = node.add_step(step, "Expand", &[x.id, target], [])?;
    node.value(y, shape)
}

pub(crate) fn tile(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    let repeats = node.required(1, "repeats")?;
    if repeats.len() != x.rank() || repeats.iter().any(|times| *times < 0) {
        return Err(format!("its repeats are {repeats:?}, expected one for each axis of {:?}", x.shape));
    }
    if repeats.iter().all(|times| *times == 1) {
        return Ok(vec![x]);
    }
    let shape =
        x.shape.iter().zip(&repeats).map(|(dim, times)| dim.checked_mul(*times)).collect::<Option<Vec<_>>>();
    let shape = shape.ok_or_else(|| format!("{:?} repeated {repeats:?} times is absurdly large", x.shape))?;
    let multiples = node.parameter("int64", &repeats);
    let y = node.emit("Tile", &[x.id, multiples], [])?;
    Ok(vec![node.value(y, shape)?])
}

/// Sizes are an attribute, and an input since version 13; without them the pieces are equal. Since version 18, a number
/// of pieces may be given, and the last may be smaller.
pub(crate) fn split(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    let at = one_axis(node.int("axis", 0)?, x.rank())?;
    let (size, pieces) = (x.shape[at], node.proto.output.len());
    let given = if node.opset >= 13 { node.known(1, "sizes")? } else { node.ints("split")? };
    let asked = node.has("num_outputs").then(|| node.int("num_outputs", 0)).transpose()?;
    let sizes = match (given, asked) {
        (Some(_), Some(_)) => return Err("both sizes and their number are given".to_owned()),
        (Some(sizes), None) => Some(sizes),
        (None, Some(number)) if number != pieces as i64 => {
            return Err(format!(
                "attribute `num_outputs` is {number}, and it has {pieces}",
                pieces = counted(pieces, "output")
            ));
        }
        (None, Some(number)) => {
            let each = size / number + i64::from(size % number != 0);
            let last = size - each * (number - 1);
            if last < 1 {
                return Err(format!(
                    "axis {at}, of {size}, cannot be split into {number}",
                    size = counted(size, "element"),
                    number = counted(number, "piece")
                ));
            }
            Some([vec![each; pieces - 1], vec![last]].concat())
        }
        (None, None) if size % pieces.max(1) as i64 != 0 => {
            return Err(format!(
                "axis {at}, of {size}, cannot be split into {pieces} equal pieces",
                size = counted(size, "element")
            ));
        }
        (None, None) => None,
    };
    let each = sizes.clone().unwrap_or_else(|| vec![size / pieces.max(1) as i64; pieces]);
    let sum = each.iter().try_fold(0i64, |sum, piece| sum.checked_add(*piece).filter(|_| *piece >= 0));
    if each.len() != pieces || sum != Some(size) {
        return Err(format!(
            "axis {at}, of {size}, does not consist of {pieces} of sizes {each:?}",
            pieces = counted(pieces, "piece"),
            size = counted(size, "element")
        ));
    }
    if pieces == 1 {
        return Ok(vec![x]);
    }
    let number = [int_attr("num_split", pieces as i64)];
    let axis = node.parameter("int32", &[at as i64]);
    let made = match sizes {
        None => node.emit_all("Split", &[Some(axis), Some(x.id)], number)?,
        Some(sizes) => {
            let sizes = node.parameter("int64", &sizes);
            node.emit_all("SplitV", &[Some(x.id), Some(sizes), Some(axis)], number)?
        }
    };
    let piece = |(id, size): (opkeep_ops::TensorId, &i64)| {
        let mut shape = x.shape.clone();
        shape[at] = *size;
        node.value(id, shape)
    };
    made.into_iter().zip(&each).map(piece).collect()
}

/// Before version 11, pads and mode are attributes, and the IR has the same modes. Later, pads are an input in ONNX's
/// order, for all axes or for some. The IR takes pads in pairs, and reflection is a separate operator.
pub(crate) fn pad(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    let mode = node.text("mode", "constant")?;
    if !matches!(mode.as_str(), "constant" | "reflect" | "edge") {
        return Err(format!("attribute `mode` is `{mode}`, expected constant, reflect or edge"));
    }
    let old = node.opset < 11;
    let given = if old {
        node.ints("pads")?.ok_or("attribute `pads` is not given")?
    } else {
        node.required(1, "pads")?
    };
    let along = match node.known(3, "axes")? {
        Some(given) => given.iter().map(|at| one_axis(*at, x.rank())).collect::<Result<Vec<_>, _>>()?,
        None => (0..x.rank()).collect(),
    };
    if given.len() != 2 * along.len() {
        return Err(format!(
            "its pads are {given:?}, expected two values for each of {}",
            counted(along.len(), "axis")
        ));
    }
    let mut pads = vec![0i64; 2 * x.rank()];
    for (place, at) in along.iter().enumerate() {
        pads[*at] = given[place];
        pads[x.rank() + at] = given[along.len() + place];
    }
    if pads.iter().all(|pad| *pad == 0) {
        return Ok(vec![x]);
    }
    let (before, after) = pads.split_at(x.rank());
    let shape = x
        .shape
        .iter()
        .zip(before)
        .zip(after)
        .map(|((dim, before), after)| dim.checked_add(*before).and_then(|dim| dim.checked_add(*after)));
    let shape =
        shape.collect::<Option<Vec<_>>>().ok_or_else(|| format!("pads {pads:?} are absurdly large"))?;
    let pairs: Vec<i64> = before.iter().zip(after).flat_map(|(before, after)| [*before, *after]).collect();
    let y = if old && mode == "reflect" {
        let pads = node.parameter("int32", &pairs);
        node.emit("MirrorPad", &[x.id, pads], [str_attr("mode", "REFLECT")])?
    } else {
        let pads = if old { node.parameter("int32", &pairs) } else { node.parameter("int64", &pads) };
        let value = edge_value(node, &x, &mode)?;
        let attrs = [str_attr("mode", &mode), bool_attr("paddings_contiguous", old)];
        node.emit_all("PadV3", &[Some(x.id), Some(pads), value], attrs)?[0]
    };
    Ok(vec![node.value(y, shape)?])
}

/// The value of a constant padding; `None` for the default, zeros.
fn edge_value(node: &mut Node<'_>, x: &Value, mode: &str) -> Result<Option<opkeep_ops::TensorId>, String> {
    if mode != "constant" {
        return Ok(None);
    }
    if node.opset < 11 {
        let dtype = node.dtype(x.id).to_owned();
        let number = node.float("value", 0.0)?;
        return Ok(Some(node.fill(&dtype, &[], f64::from(number))?.id));
    }
    let Some(value) = node.optional(2) else { return Ok(None) };
    if product(&value.shape) != 1 {
        return Err(format!("its value has shape {:?}, expected one number", value.shape));
    }
    node.view(&value, &[]).map(Some)
}

/// Rearranges blocks of channels into squares of elements.
pub(crate) fn depth_to_space(node: &mut Node<'_>) -> Mapped {
    let (x, [n, c, h, w], b) = picture(node)?;
    let mode = node.text("mode", "DCR")?;
    if c % (b * b) != 0 {
        return Err(format!("{c} channels are no multiple of a block of {b} by {b}"));
    }
    let rest = c / (b * b);
    let (split, order) = match mode.as_str() {
        "DCR" => ([n, b, b, rest, h, w], [0, 3, 4, 1, 5, 2]),
        "CRD" => ([n, rest, b, b, h, w], [0, 1, 4, 2, 5, 3]),
        other => return Err(format!("attribute `mode` is `{other}`, expected DCR or CRD")),
    };
    regrouped(node, &x, &split, &order, [Some(n), Some(rest), h.checked_mul(b), w.checked_mul(b)])
}

/// Rearranges squares of elements into blocks of channels.
pub(crate) fn space_to_depth(node: &mut Node<'_>) -> Mapped {
    let (x, [n, c, h, w], b) = picture(node)?;
    if h % b != 0 || w % b != 0 {
        return Err(format!("a picture of {h} by {w} does not consist of blocks of {b} by {b}"));
    }
    let split = [n, c, h / b, b, w / b, b];
    regrouped(
        node,
        &x,
        &split,
        &[0, 3, 5, 1, 2, 4],
        [Some(n), c.checked_mul(b * b), Some(h / b), Some(w / b)],
    )
}

fn picture(node: &Node<'_>) -> Result<(Value, [i64; 4], i64), String> {
    let x = node.input(0)?;
    let block = node.int("blocksize", 0)?;
    // The square of a block must not overflow.
    if !(1..=1 << 24).contains(&block) {
        return Err(format!("attribute `blocksize` is {block}, expected 1 or more"));
    }
    match <[i64; 4]>::try_from(x.shape.as_slice()) {
        Ok(shape) => Ok((x, shape, block)),
        Err(_) => Err(format!("an input of shape {:?}, expected four dimensions", x.shape)),
    }
}

fn regrouped(
    node: &mut Node<'_>,
    x: &Value,
    split: &[i64],
    order: &[usize],
    shape: [Option<i64>; 4],
) -> Mapped {
    let shape = shape.into_iter().collect::<Option<Vec<i64>>>().ok_or("its block is absurdly large")?;
    let seen = node.value(x.id, split)?;
    let moved = transposed(node, &seen, order, None)?;
    Ok(vec![node.value(moved.id, shape)?])
}

/// The part of a matrix on one side of a diagonal; the rest becomes zeros.
pub(crate) fn triangle(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    let upper = node.flag("upper", true)?;
    let offset = match node.known(1, "diagonal")?.as_deref() {
        None => 0,
        Some([offset]) => *offset,
        Some(other) => return Err(format!("its diagonal is {other:?}, expected one number")),
    };
    let &[.., rows, columns] = x.shape.as_slice() else {
        return Err(format!("an input of shape {:?}, expected matrices", x.shape));
    };
    if count(&[rows, columns]).is_none_or(|count| count > crate::fold::LIMIT) {
        return Err(format!(
            "matrices of {rows} by {columns} are larger than the mask that is made for them"
        ));
    }
    let is_kept = |row: i64, column: i64| {
        let distance = (column - row).saturating_sub(offset);
        if upper { distance >= 0 } else { distance <= 0 }
    };
    let mask =
        (0..rows).flat_map(|row| (0..columns).map(move |column| i64::from(is_kept(row, column)))).collect();
    let mask = node.int_constant("bool", &[rows, columns], mask)?;
    let dtype = node.dtype(x.id).to_owned();
    let zero = node.fill(&dtype, &[], 0.0)?;
    let shape = elementwise::broadcast(&[&mask, &x])?;
    let y = node.emit("SelectV2", &[mask.id, x.id, zero.id], [])?;
    Ok(vec![node.value(y, shape)?])
}

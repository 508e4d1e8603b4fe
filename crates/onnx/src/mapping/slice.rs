//! Slices.

use opkeep_ops::slice_range;

use super::views::one_axis;
use crate::node::{Mapped, Node};

/// The part of one axis that a slice takes.
struct Part {
    axis: usize,
    begin: i64,
    end: i64,
    step: i64,
    /// The number of its elements.
    count: i64,
}

impl Part {
    /// Bounds beyond the axis are clamped, and negative ones count from its end. The resulting bounds are not negative,
    /// except for an end before the first element, which no other number denotes.
    fn of(axis: usize, size: i64, begin: i64, end: i64, step: i64) -> Self {
        let from_start = |bound: i64| if bound < 0 { bound.saturating_add(size) } else { bound };
        // Backwards, a slice whose begin is before the first element begins at the first, while its end may be before
        // it.
        let (first, least, most) = if step > 0 { (0, 0, size) } else { (0.min(size - 1), -1, size - 1) };
        let (begin, end) = (from_start(begin).clamp(first, most), from_start(end).clamp(least, most));
        // Only a number below all negative indices denotes the position before the first element.
        let end = if end < 0 { -size - 1 } else { end };
        let (_, count) = slice_range(begin, end, step, size);
        match i64::try_from(count).unwrap_or(i64::MAX) {
            0 => Self { axis, begin: 0, end: 0, step, count: 0 },
            count => Self { axis, begin, end, step, count },
        }
    }
}

/// Before version 10, bounds are attributes; since then, inputs with steps.
pub(crate) fn slice(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    let (begins, ends, along, steps) = if node.opset < 10 {
        let given = |name: &str| node.ints(name)?.ok_or_else(|| format!("attribute `{name}` is not given"));
        (given("starts")?, given("ends")?, node.ints("axes")?, None)
    } else {
        let (begins, ends) = (node.required(1, "starts")?, node.required(2, "ends")?);
        (begins, ends, node.known(3, "axes")?, node.known(4, "steps")?)
    };
    let along = along.unwrap_or_else(|| (0..begins.len() as i64).collect());
    let steps = steps.unwrap_or_else(|| vec![1; begins.len()]);
    if [ends.len(), along.len(), steps.len()].iter().any(|len| *len != begins.len()) {
        return Err(format!(
            "its starts {begins:?}, ends {ends:?}, axes {along:?} and steps {steps:?} differ in number"
        ));
    }
    let mut shape = x.shape.clone();
    let mut parts: Vec<Part> = Vec::new();
    for (at, given) in along.iter().enumerate() {
        let axis = one_axis(*given, x.rank())?;
        if steps[at] == 0 || parts.iter().any(|part| part.axis == axis) {
            return Err(format!("axis {given} is sliced with step {}, or more than once", steps[at]));
        }
        let part = Part::of(axis, x.shape[axis], begins[at], ends[at], steps[at]);
        shape[axis] = part.count;
        parts.push(part);
    }
    // An axis that is taken completely is not sliced; backwards, that holds for an axis of one element.
    parts.retain(|part| part.count != x.shape[part.axis] || (part.step < 0 && part.count > 1));
    if parts.is_empty() {
        return Ok(vec![x]);
    }
    opkeep_order::by_key(&mut parts, |part| part.axis);
    let mut parameter = |of: fn(&Part) -> i64| {
        let values: Vec<i64> = parts.iter().map(of).collect();
        node.parameter("int64", &values)
    };
    let (begin, end) = (parameter(|part| part.begin), parameter(|part| part.end));
    let (axes, steps) = (parameter(|part| part.axis as i64), parameter(|part| part.step));
    let y = node.emit("StridedSliceV2", &[x.id, begin, end, axes, steps], [])?;
    Ok(vec![node.value(y, shape)?])
}

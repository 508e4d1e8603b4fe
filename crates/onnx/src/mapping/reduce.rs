//! Reductions.

use opkeep_ops::{TensorId, bool_attr};

use super::views::{axes, given_axes, one_axis};
use crate::node::{Mapped, Node};
use crate::value::Value;

/// The reduction `op_type` over axes, by an operator that is named after `step`, or after the node if there is none. A
/// reduction over axes of one element has no effect.
pub(super) fn over(
    node: &mut Node<'_>,
    op_type: &str,
    step: Option<&str>,
    x: &Value,
    axes: &[usize],
    keep: bool,
) -> Result<Value, String> {
    let dim = |(at, dim): (usize, &i64)| match (axes.contains(&at), keep) {
        (false, _) => Some(*dim),
        (true, true) => Some(1),
        (true, false) => None,
    };
    let shape: Vec<i64> = x.shape.iter().enumerate().filter_map(dim).collect();
    if axes.iter().all(|at| x.shape[*at] == 1) {
        return node.value(x.id, shape);
    }
    let numbers: Vec<i64> = axes.iter().map(|at| *at as i64).collect();
    let numbers = node.parameter("int32", &numbers);
    let attrs = [bool_attr("keep_dims", keep), bool_attr("noop_with_empty_axes", false)];
    let y = match step {
        Some(step) => node.add_step(step, op_type, &[x.id, numbers], attrs)?,
        None => node.emit(op_type, &[x.id, numbers], attrs)?,
    };
    node.value(y, shape)
}

/// The axes of a reduction, and whether they stay.
struct Over {
    x: Value,
    axes: Vec<usize>,
    keep: bool,
}

impl Over {
    /// `input_since`: the version in which the axes became an input.
    fn of(node: &Node<'_>, input_since: i64) -> Result<Self, String> {
        let x = node.input(0)?;
        let given = given_axes(node, input_since)?.unwrap_or_default();
        let axes = match given.is_empty() && !node.flag("noop_with_empty_axes", false)? {
            true => (0..x.rank()).collect(),
            false => axes(&given, x.rank())?,
        };
        Ok(Self { x, axes, keep: node.flag("keepdims", true)? })
    }
}

/// A reduction that the IR has.
pub(crate) fn reduce(node: &mut Node<'_>, op_type: &str, input_since: i64) -> Mapped {
    let Over { x, axes, keep } = Over::of(node, input_since)?;
    Ok(vec![over(node, op_type, None, &x, &axes, keep)?])
}

/// The sum of `before` applied to the elements, with `after` applied to the sum.
pub(crate) fn sum_of(node: &mut Node<'_>, before: Option<&str>, after: Option<&str>) -> Mapped {
    let Over { x, axes, keep } = Over::of(node, 18)?;
    let id = match before {
        Some(op_type) => node.add_step("terms", op_type, &[x.id], [])?,
        None => x.id,
    };
    let terms = Value { id, shape: x.shape };
    let Some(op_type) = after else { return Ok(vec![over(node, "ReduceSum", None, &terms, &axes, keep)?]) };
    let sum = over(node, "ReduceSum", Some("sum"), &terms, &axes, keep)?;
    let y = node.emit(op_type, &[sum.id], [])?;
    Ok(vec![node.value(y, sum.shape)?])
}

/// The logarithm of a sum of powers of e. The largest exponent is subtracted first, so that no power is infinite.
pub(crate) fn log_sum_exp(node: &mut Node<'_>) -> Mapped {
    let Over { x, axes, keep } = Over::of(node, 18)?;
    let most = over(node, "ReduceMax", Some("max"), &x, &axes, true)?;
    // An infinite exponent minus itself would be NaN.
    let dtype = node.dtype(x.id).to_owned();
    let finite = node.add_step("finite", "IsFinite", &[most.id], [])?;
    let zero = node.fill(&dtype, &[], 0.0)?;
    let offset = node.add_step("offset", "SelectV2", &[finite, most.id, zero.id], [])?;
    let rest = node.add_step("rest", "Sub", &[x.id, offset], [])?;
    let powers: TensorId = node.add_step("powers", "Exp", &[rest], [])?;
    let powers = Value { id: powers, shape: x.shape };
    let sum = over(node, "ReduceSum", Some("sum"), &powers, &axes, keep)?;
    let log = node.add_step("log", "Log", &[sum.id], [])?;
    let offset = node.value(offset, sum.shape.clone())?;
    let y = node.emit("Add", &[log, offset.id], [])?;
    Ok(vec![node.value(y, sum.shape)?])
}

/// The index of the greatest or least element along one axis; of several the first, or the last if an attribute says
/// so. The IR's table has no such operator: the indices of the greatest elements are selected, and the least of them
/// remains.
pub(crate) fn place_of(node: &mut Node<'_>, op_type: &str) -> Mapped {
    let x = node.input(0)?;
    let at = one_axis(node.int("axis", 0)?, x.rank())?;
    let (keep, last) = (node.flag("keepdims", true)?, node.flag("select_last_index", false)?);
    let size = x.shape[at];
    if !(1..=1 << 16).contains(&size) {
        return Err(format!("axis {at} of {:?}, expected 1 to 65536 elements", x.shape));
    }
    let extreme = over(node, op_type, Some("extreme"), &x, &[at], true)?;
    let is_it = node.add_step("is_it", "Equal", &[x.id, extreme.id], [])?;
    let mut along = vec![1; x.rank() - at];
    along[0] = size;
    let places = node.int_constant("int64", &along, (0..size).collect())?;
    // Limited to the axis in any case: if an element is NaN, no element is the greatest.
    let (nowhere, choose) = if last { (0.0, "ReduceMax") } else { ((size - 1) as f64, "ReduceMin") };
    let nowhere = node.fill("int64", &[], nowhere)?;
    let chosen = node.add_step("places", "SelectV2", &[is_it, places.id, nowhere.id], [])?;
    let chosen = Value { id: chosen, shape: x.shape };
    Ok(vec![over(node, choose, None, &chosen, &[at], keep)?])
}

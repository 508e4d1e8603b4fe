//! Folding: values that are known when a model is translated are computed then, such as shapes, axes and masks.
//!
//! Only small tensors are computed, and uniform ones, which stay a single value whatever their size. Operators whose
//! rounding is specific to their kernels are not folded.

mod moves;
mod operand;
mod pointwise;

use opkeep_descriptor::{Attr, Tensor};
use opkeep_ops::{Call, Constant, Graph, OpSpec, Origin, Pad, PadMode, PortKind, Rule, TensorId, TensorType};
use opkeep_ops::{dtype_bytes, find};

use self::operand::Operand;
use crate::value::count;

/// The largest number of elements of a tensor that is read or computed during translation.
pub(crate) const LIMIT: u64 = 1 << 16;

/// The largest number of bytes that are computed for one model.
pub(crate) const BUDGET: usize = 64 << 20;

/// A tensor whose elements were computed.
pub(crate) struct Folded {
    pub(crate) dtype: String,
    pub(crate) shape: Vec<i64>,
    pub(crate) value: Constant,
}

/// The elements of a tensor, if they are known and few.
///
/// # Errors
/// They cannot be read.
pub(crate) fn elements(graph: &Graph, id: TensorId) -> Result<Option<Vec<u8>>, String> {
    let tensor = graph.tensor(id);
    let Some(constant) = constant(graph, id) else { return Ok(None) };
    let size = count(&tensor.shape).filter(|count| *count <= LIMIT).zip(dtype_bytes(&tensor.dtype));
    let Some((count, size)) = size else { return Ok(None) };
    let mut bytes = vec![0; count as usize * size];
    match constant.copy_to(&mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) => Err(format!("a constant that it needs cannot be read: {error}")),
    }
}

fn constant(graph: &Graph, id: TensorId) -> Option<Constant> {
    match graph.origin(graph.source(id)) {
        Origin::Constant(constant) => Some(constant),
        _ => None,
    }
}

/// The outputs of an operator, if it can be folded and all of its inputs are known.
///
/// # Errors
/// A constant cannot be read.
pub(crate) fn fold(
    graph: &Graph,
    op_type: &str,
    inputs: &[Option<TensorId>],
    attrs: &[Attr],
    budget: &mut usize,
) -> Result<Option<Vec<Folded>>, String> {
    let known = inputs.iter().flatten().all(|id| constant(graph, *id).is_some());
    let Some(spec) = find(op_type).filter(|spec| known && is_computed(spec.rule)) else { return Ok(None) };
    let positions = positions(spec, inputs);
    let tensors = positions.iter().map(|ids| ids.iter().map(|id| graph.tensor(*id)).collect()).collect();
    // The graph refuses a misfit, with a reason, when the operator is added.
    let Ok(call) = Call::new(spec, tensors, attrs) else { return Ok(None) };
    let Ok(types) = call.infer() else { return Ok(None) };
    let types: Vec<TensorType> = types.into_iter().flatten().collect();
    let data = spec.inputs.iter().zip(&positions).filter(|(port, _)| !is_value(port.kind));
    let data: Vec<TensorId> = data.flat_map(|(_, ids)| ids).copied().collect();
    if let Some(element) = uniform(graph, &call, &types, &data) {
        let fill =
            |TensorType { dtype, shape }| Folded { dtype, shape, value: Constant::Fill(element.clone()) };
        return Ok(Some(types.into_iter().map(fill).collect()));
    }
    let sizes = types.iter().map(|made| count(&made.shape));
    let read = data.iter().map(|id| count(&graph.tensor(*id).shape));
    // All operands may be the same tensor.
    if !is_little(sizes, LIMIT) || !is_little(read, 4 * LIMIT) {
        return Ok(None);
    }
    let mut operands = Vec::with_capacity(data.len());
    for id in data {
        let Some(bytes) = elements(graph, id)? else { return Ok(None) };
        let Tensor { dtype, shape, .. } = graph.tensor(id).clone();
        operands.push(Operand { dtype, shape, bytes });
    }
    let Some(computed) = compute(&call, &operands, &types) else { return Ok(None) };
    // Reading takes time, as writing takes memory.
    let cost =
        made_bytes(&computed).saturating_add(operands.iter().map(|operand| 8 * operand.bytes.len()).sum());
    let Some(left) = budget.checked_sub(cost) else { return Ok(None) };
    *budget = left;
    Ok(Some(types.into_iter().zip(computed).map(|(made, bytes)| folded(made, bytes)).collect()))
}

fn made_bytes(computed: &[Vec<u8>]) -> usize {
    computed.iter().map(Vec::len).sum()
}

/// Whether tensors of these sizes have at most `limit` elements together.
fn is_little(mut sizes: impl Iterator<Item = Option<u64>>, limit: u64) -> bool {
    sizes.try_fold(0u64, |sum, size| sum.checked_add(size?)).is_some_and(|sum| sum <= limit)
}

/// A single element is uniform.
fn folded(TensorType { dtype, shape }: TensorType, bytes: Vec<u8>) -> Folded {
    let value = match count(&shape) {
        Some(1) => Constant::Fill(bytes),
        _ => Constant::of_bytes(bytes),
    };
    Folded { dtype, shape, value }
}

fn is_value(kind: PortKind) -> bool {
    matches!(kind, PortKind::Value | PortKind::OptionalValue)
}

/// The inputs by position of the operator.
fn positions(spec: &OpSpec, inputs: &[Option<TensorId>]) -> Vec<Vec<TensorId>> {
    let mut rest = inputs.iter();
    let take = |kind| match kind {
        PortKind::Dynamic => rest.by_ref().flatten().copied().collect(),
        _ => rest.next().copied().flatten().into_iter().collect(),
    };
    spec.inputs.iter().map(|port| port.kind).map(take).collect()
}

fn is_pointwise(rule: Rule) -> bool {
    matches!(rule, Rule::Elementwise | Rule::Predicate | Rule::Select | Rule::Cast | Rule::Accumulate)
}

fn is_move(rule: Rule) -> bool {
    use Rule::{BroadcastTo, Concat, Gather, Pad, Slice, Split, SplitV, Tile, Transpose};
    matches!(rule, BroadcastTo | Concat | Gather | Pad | Slice | Split | SplitV | Tile | Transpose)
}

fn is_computed(rule: Rule) -> bool {
    is_pointwise(rule) || is_move(rule) || rule == Rule::Reduce
}

/// The single value of all outputs, if each input is uniform.
fn uniform(graph: &Graph, call: &Call<'_>, types: &[TensorType], data: &[TensorId]) -> Option<Vec<u8>> {
    let element = |id: &TensorId| match constant(graph, *id)? {
        Constant::Fill(element) => Some(element),
        Constant::Elements(_) => None,
    };
    let rule = call.spec().rule;
    if is_pointwise(rule) {
        let operand = |id: &TensorId| {
            Some(Operand { dtype: graph.tensor(*id).dtype.clone(), shape: vec![1], bytes: element(id)? })
        };
        let operands = data.iter().map(operand).collect::<Option<Vec<_>>>()?;
        let one = TensorType { dtype: types[0].dtype.clone(), shape: vec![1] };
        return pointwise::compute(call, &operands, &one);
    }
    if !is_move(rule) {
        return None;
    }
    let moved = if rule == Rule::Gather { &data[..1] } else { data };
    let first = element(moved.first()?)?;
    let alike = moved.iter().all(|id| element(id).as_ref() == Some(&first));
    // If no value is given, the edge is filled with zeros.
    let edge = rule == Rule::Pad && Pad::of(call).ok()?.mode == PadMode::Constant;
    let zero_edge = !edge || data.len() > 1 || first.iter().all(|byte| *byte == 0);
    (alike && zero_edge).then_some(first)
}

/// The elements of each output.
fn compute(call: &Call<'_>, operands: &[Operand], types: &[TensorType]) -> Option<Vec<Vec<u8>>> {
    if types.iter().all(|made| made.shape.contains(&0)) {
        return Some(vec![Vec::new(); types.len()]);
    }
    match call.spec().rule {
        rule if is_pointwise(rule) => pointwise::compute(call, operands, &types[0]).map(|bytes| vec![bytes]),
        Rule::Reduce => pointwise::reduce(call, &operands[0], &types[0]).map(|bytes| vec![bytes]),
        _ => moves::compute(call, operands, types),
    }
}

//! Whether a network that was rewritten still is the one it was.

use std::collections::HashMap;

use opkeep_backend_ascend::OpsInfo;
use opkeep_descriptor::{Arg, Job};
use opkeep_ops::{Graph, Origin, TensorId, is_blocked, logical};

use super::formats::is_taken;

/// Checks a rewritten network whole: jobs that their operators take, shapes that go with formats, the old network once
/// conversions are taken out, inputs and outputs as they were.
pub(crate) fn check(before: &Graph, after: &Graph, ops: &OpsInfo) -> Result<(), String> {
    for (name, job) in after.jobs() {
        is_taken(&job, ops).map_err(|error| format!("`{name}`: {error}"))?;
    }
    for id in after.tensors() {
        shape_fits(after, id)?;
    }
    let ends = |graph: &Graph| -> Vec<(String, String, Vec<i64>, String)> {
        let all = graph.inputs().iter().chain(graph.outputs());
        let described = all.map(|(name, id)| (name.clone(), graph.tensor(*id).clone()));
        described.map(|(name, tensor)| (name, tensor.dtype, tensor.shape, tensor.format)).collect()
    };
    if ends(before) != ends(after) {
        return Err(format!("inputs and outputs were {:?}, and are {:?}", ends(before), ends(after)));
    }
    let stripped = stripped(before, after);
    let jobs = |graph: &Graph| -> Vec<(String, String)> {
        graph
            .jobs()
            .into_iter()
            .map(|(name, job)| (name, format!("{:?}", without_type_of_values(job))))
            .collect()
    };
    for (old, new) in jobs(before).iter().zip(&jobs(&stripped)) {
        if old != new {
            return Err(format!("without conversions, {old:?} is {new:?}"));
        }
    }
    if stripped.nodes().len() != before.nodes().len() {
        return Err("there are other nodes".to_owned());
    }
    names_are_single(after)
}

/// Values that a compiler knows are the same in another type.
fn without_type_of_values(mut job: Job) -> Job {
    let inputs = job.ops[0].inputs.iter_mut().flat_map(Arg::iter_mut).map(|input| &mut input.tensor);
    for tensor in
        inputs.chain(job.data.iter_mut().flat_map(|data| data.outputs.iter_mut()).flat_map(Arg::iter_mut))
    {
        if let Some(value) = &mut tensor.const_value {
            (tensor.dtype, value.dtype) = ("any".to_owned(), None);
        }
    }
    job
}

/// Written down anew here: what is cut into blocks of 16 channels has that shape.
fn shape_fits(graph: &Graph, id: TensorId) -> Result<(), String> {
    let tensor = graph.tensor(id);
    let ori = tensor.ori_shape.clone().unwrap_or_default();
    let blocks = |dim: i64| (dim + 15) / 16;
    let expected = match (tensor.format.as_str(), ori.as_slice()) {
        ("NC1HWC0", [n, c, h, w]) => vec![*n, blocks(*c), *h, *w, 16],
        ("NC1HWC0", [c]) => vec![1, blocks(*c), 1, 1, 16],
        ("NC1HWC0", [c, h, w]) => vec![1, blocks(*c), *h, *w, 16],
        ("FRACTAL_Z", [n, c, h, w]) if tensor.extra.is_empty() => {
            vec![blocks(*c) * h * w, blocks(*n), 16, 16]
        }
        ("FRACTAL_Z", _) if !tensor.extra.is_empty() => return Ok(()),
        (format, _) if is_blocked(format) => return Err(format!("{tensor:?}")),
        _ => logical(tensor).shape.clone(),
    };
    if tensor.shape == expected { Ok(()) } else { Err(format!("expected {expected:?}: {tensor:?}")) }
}

/// The network without the nodes that are not in `before`, made anew, so that all shapes are inferred again.
fn stripped(before: &Graph, after: &Graph) -> Graph {
    let mut graph = Graph::new(before.name());
    let mut new: HashMap<TensorId, TensorId> = HashMap::new();
    let old: Vec<&str> = before.nodes().iter().map(|node| node.name.as_str()).collect();
    for id in after.tensors() {
        let tensor = after.tensor(id);
        let place = match after.origin(id) {
            Origin::Input(at) => graph.input(&after.inputs()[at].0, &tensor.dtype, tensor.shape.clone()),
            Origin::Constant(value) => match tensor.const_value.as_ref().and_then(|value| value.to_ints()) {
                Some(values) => graph.parameter(&tensor.dtype, &values),
                None => graph.constant(&tensor.dtype, tensor.shape.clone(), value),
            },
            Origin::View(of) => graph.view(new[&of], tensor.shape.clone()).unwrap(),
            Origin::Node { node, output } => {
                let node = &after.nodes()[node];
                if !old.contains(&node.name.as_str()) {
                    let input = new[&node.inputs[0][0]];
                    let shape = logical(tensor).shape.clone();
                    new.insert(id, graph.view(input, shape).unwrap());
                    continue;
                }
                if output > 0 {
                    continue;
                }
                let is_list = |at: usize| {
                    opkeep_ops::find(&node.op_type).unwrap().inputs[at].kind.param_type() == "dynamic"
                };
                let mut inputs = Vec::new();
                for (at, ids) in node.inputs.iter().enumerate() {
                    match ids.as_slice() {
                        [] if !is_list(at) => inputs.push(None),
                        ids => inputs.extend(ids.iter().map(|id| Some(new[id]))),
                    }
                }
                let made = graph.add(&node.name, &node.op_type, &inputs, node.attrs.clone()).unwrap();
                new.extend(node.outputs.iter().copied().zip(made));
                continue;
            }
        };
        new.insert(id, place);
    }
    graph
}

fn names_are_single(graph: &Graph) -> Result<(), String> {
    let mut names: Vec<&str> = graph.nodes().iter().map(|node| node.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("two nodes are called `{}`", pair[0])),
        None => Ok(()),
    }
}

/// How many nodes of a type there are.
pub(crate) fn count(graph: &Graph, op_type: &str) -> usize {
    graph.nodes().iter().filter(|node| node.op_type == op_type).count()
}

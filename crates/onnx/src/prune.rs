//! A graph without what leads to no output.

use opbuild_ops::{Graph, OpsError, Origin, TensorId};

/// `graph` without the nodes and constants that no output needs; its inputs stay.
///
/// # Errors
/// None for a graph that was put together by its own functions.
pub(crate) fn prune(graph: &Graph) -> Result<Graph, OpsError> {
    let live = live(graph);
    let mut pruned = Graph::new(graph.name());
    let mut copies = Copies { graph, copies: vec![None; graph.len()] };
    for (name, id) in graph.inputs() {
        let tensor = graph.tensor(*id);
        copies.copies[id.index()] = Some(pruned.input(name, &tensor.dtype, tensor.shape.clone()));
    }
    for node in graph.nodes().iter().zip(&live).filter_map(|(node, live)| live.then_some(node)) {
        let mut inputs = Vec::new();
        for ids in &node.inputs {
            if ids.is_empty() {
                inputs.push(None);
            }
            for id in ids {
                inputs.push(Some(copies.copy(&mut pruned, *id)?));
            }
        }
        let outputs = pruned.add(&node.name, &node.op_type, &inputs, node.attrs.clone())?;
        node.outputs.iter().zip(outputs).for_each(|(old, new)| copies.copies[old.index()] = Some(new));
    }
    for (name, id) in graph.outputs() {
        let id = copies.copy(&mut pruned, *id)?;
        pruned.output(name, id)?;
    }
    Ok(pruned)
}

/// Which nodes lead to an output.
fn live(graph: &Graph) -> Vec<bool> {
    let mut live = vec![false; graph.nodes().len()];
    let mut open: Vec<TensorId> = graph.outputs().iter().map(|(_, id)| *id).collect();
    while let Some(id) = open.pop() {
        if let Origin::Node { node, .. } = graph.origin(graph.source(id))
            && !std::mem::replace(&mut live[node], true)
        {
            open.extend(graph.nodes()[node].inputs.iter().flatten());
        }
    }
    live
}

/// What became of a graph's tensors.
struct Copies<'g> {
    graph: &'g Graph,
    copies: Vec<Option<TensorId>>,
}

impl Copies<'_> {
    /// The copy of a tensor: an output of a node that was copied before, or a constant, or a view of such.
    fn copy(&mut self, into: &mut Graph, id: TensorId) -> Result<TensorId, OpsError> {
        if let Some(copy) = self.copies[id.index()] {
            return Ok(copy);
        }
        let tensor = self.graph.tensor(id);
        let copy = match self.graph.origin(id) {
            Origin::Constant(value) => match tensor.const_value.as_ref().and_then(|value| value.to_ints()) {
                Some(values) => into.parameter(&tensor.dtype, &values),
                None => into.constant(&tensor.dtype, tensor.shape.clone(), value),
            },
            Origin::View(_) => {
                // The source is no view, so this goes no deeper.
                let source = self.copy(into, self.graph.source(id))?;
                into.view(source, tensor.shape.clone())?
            }
            Origin::Input(_) | Origin::Node { .. } => {
                return Err(OpsError::NoSuchTensor { id: id.index(), count: into.len() });
            }
        };
        self.copies[id.index()] = Some(copy);
        Ok(copy)
    }
}

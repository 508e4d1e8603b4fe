//! A graph without the nodes and constants that no output needs.

use super::{Graph, Origin, TensorId};

impl Graph {
    /// The graph without the nodes and constants that no output needs; its inputs stay. Nodes and tensors keep their
    /// order; tensors get new numbers.
    #[must_use]
    pub fn pruned(self) -> Self {
        let live = Live::of(&self);
        let (tensor_at, node_at) = (places(&live.tensors), places(&live.nodes));
        let moved = |id: TensorId| TensorId(tensor_at[id.0]);
        let renamed = |named: Vec<(String, TensorId)>| {
            named.into_iter().map(|(name, id)| (name, moved(id))).collect::<Vec<_>>()
        };
        let Self { name, tensors, origins, inputs, outputs, nodes } = self;
        let origins = kept(origins, &live.tensors).map(|origin| match origin {
            Origin::Node { node, output } => Origin::Node { node: node_at[node], output },
            Origin::View(of) => Origin::View(moved(of)),
            Origin::Input(_) | Origin::Constant(_) => origin,
        });
        let nodes = kept(nodes, &live.nodes).map(|mut node| {
            node.inputs.iter_mut().flatten().chain(&mut node.outputs).for_each(|id| *id = moved(*id));
            node
        });
        Self {
            name,
            origins: origins.collect(),
            nodes: nodes.collect(),
            tensors: kept(tensors, &live.tensors).collect(),
            inputs: renamed(inputs),
            outputs: renamed(outputs),
        }
    }
}

/// The nodes and tensors that lead to an output, and the inputs.
struct Live {
    /// By tensor. All outputs of a node are live if one of them is.
    tensors: Vec<bool>,
    /// By node.
    nodes: Vec<bool>,
}

impl Live {
    fn of(graph: &Graph) -> Self {
        let mut live = Self { tensors: vec![false; graph.len()], nodes: vec![false; graph.nodes().len()] };
        let named = graph.inputs().iter().chain(graph.outputs());
        let mut open: Vec<TensorId> = named.map(|(_, id)| *id).collect();
        while let Some(id) = open.pop() {
            if std::mem::replace(&mut live.tensors[id.0], true) {
                continue;
            }
            match graph.origins[id.0] {
                Origin::View(of) => open.push(of),
                Origin::Node { node, .. } if !std::mem::replace(&mut live.nodes[node], true) => {
                    let node = &graph.nodes()[node];
                    open.extend(node.inputs.iter().flatten().chain(&node.outputs));
                }
                Origin::Node { .. } | Origin::Input(_) | Origin::Constant(_) => {}
            }
        }
        live
    }
}

/// The index of each live element among the live ones.
fn places(live: &[bool]) -> Vec<usize> {
    let before = |count: &mut usize, live: &bool| {
        let place = *count;
        *count += usize::from(*live);
        Some(place)
    };
    live.iter().scan(0, before).collect()
}

/// The live elements of `all`.
fn kept<'l, T: 'l>(all: Vec<T>, live: &'l [bool]) -> impl Iterator<Item = T> + 'l {
    all.into_iter().zip(live).filter_map(|(one, live)| live.then_some(one))
}

//! Graphs as text.

use opkeep_descriptor::AttrValue;
use opkeep_onnx::Network;
use opkeep_ops::{Constant, Graph, Node, Origin, TensorId, dtype_bytes, find};

/// One line for each node: its operator, its inputs, the attributes that differ from their defaults, and the shapes of
/// its outputs, with their types if they are not floats.
///
/// Inputs are `x` (by name), `%0` (the first node's output; `%0.1` its second), whole numbers that a compiler needs
/// (`int64[1, 2]`), `2.5` (a uniform constant) or `const`; followed by `as [..]` for views.
pub(crate) fn nodes(network: &Network) -> Vec<String> {
    network.graph.nodes().iter().map(|made| node(&network.graph, made)).collect()
}

/// The network's outputs in the same form, with their ONNX shapes.
pub(crate) fn outputs(network: &Network) -> Vec<String> {
    let outputs = network.graph.outputs().iter().zip(&network.outputs);
    outputs
        .map(|((_, id), info)| format!("{} {} {:?}", tensor(&network.graph, *id), info.dtype, info.shape))
        .collect()
}

fn node(graph: &Graph, node: &Node) -> String {
    let inputs = node.inputs.iter().map(|ids| match ids.as_slice() {
        [] => "-".to_owned(),
        ids => ids.iter().map(|id| tensor(graph, *id)).collect::<Vec<_>>().join(", "),
    });
    let mut inputs: Vec<String> = inputs.collect();
    while inputs.last().is_some_and(|input| input == "-") {
        inputs.pop();
    }
    let known = find(&node.op_type).unwrap().attrs.iter();
    let attrs = node
        .attrs
        .iter()
        .zip(known)
        .filter(|(attr, known)| Some(&attr.value) != known.default_value().as_ref());
    let attrs: Vec<String> =
        attrs.map(|(attr, _)| format!(" {}={}", attr.name, value(&attr.value))).collect();
    let outputs = node.outputs.iter().map(|id| match graph.tensor(*id) {
        tensor if tensor.dtype == "float32" => format!("{:?}", tensor.shape),
        tensor => format!("{} {:?}", tensor.dtype, tensor.shape),
    });
    let outputs: Vec<String> = outputs.collect();
    format!("{}({}){} -> {}", node.op_type, inputs.join(", "), attrs.concat(), outputs.join(", "))
}

fn value(value: &AttrValue) -> String {
    match value {
        AttrValue::Float(float) => (float.value() as f32).to_string(),
        AttrValue::Int(int) => int.to_string(),
        AttrValue::Bool(truth) => truth.to_string(),
        AttrValue::Str(text) => text.clone(),
        other => format!("{:?}", other.to_ints().unwrap()),
    }
}

fn tensor(graph: &Graph, id: TensorId) -> String {
    let shown = graph.tensor(id);
    match graph.origin(id) {
        Origin::Input(at) => graph.inputs()[at].0.clone(),
        Origin::Node { node, output: 0 } => format!("%{node}"),
        Origin::Node { node, output } => format!("%{node}.{output}"),
        Origin::View(of) => format!("{} as {:?}", tensor(graph, of), shown.shape),
        Origin::Constant(_) if shown.const_value.is_some() => {
            format!("{}{:?}", shown.dtype, shown.const_value.as_ref().unwrap().to_ints().unwrap())
        }
        Origin::Constant(Constant::Fill(element)) if shown.dtype == "float32" => {
            f32::from_le_bytes(element.try_into().unwrap()).to_string()
        }
        Origin::Constant(Constant::Fill(element)) => format!("{}:{}", shown.dtype, element[0]),
        Origin::Constant(_) => "const".to_owned(),
    }
}

/// The elements of a known output.
pub(crate) fn elements(network: &Network, output: usize) -> Vec<u8> {
    let id = network.graph.outputs()[output].1;
    let shown = network.graph.tensor(id);
    let count: i64 = shown.shape.iter().product();
    let mut bytes = vec![0; count as usize * dtype_bytes(&shown.dtype).unwrap()];
    match network.graph.origin(network.graph.source(id)) {
        Origin::Constant(constant) => constant.copy_to(&mut bytes).unwrap(),
        origin => panic!("{origin:?}"),
    }
    bytes
}

pub(crate) fn int64s(network: &Network, output: usize) -> Vec<i64> {
    let bytes = elements(network, output);
    bytes.as_chunks().0.iter().map(|element| i64::from_le_bytes(*element)).collect()
}

pub(crate) fn float32s(network: &Network, output: usize) -> Vec<f32> {
    let bytes = elements(network, output);
    bytes.as_chunks().0.iter().map(|element| f32::from_le_bytes(*element)).collect()
}

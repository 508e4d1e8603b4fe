//! Graphs derived from others: the parts that must stay, and the refusals.

use crate::common::refused;
use opkeep_ops::{
    Constant, Conversion, Function, Graph, OpsError, Origin, Rewriter, Storage, TensorId, int_attr, str_attr,
};

/// `relu(x + w)`, viewed as flat, with the sum as another output.
fn network() -> (Graph, [TensorId; 4]) {
    let mut graph = Graph::new("g");
    let x = graph.input("x", "float32", [1, 20, 4, 4]);
    let w = graph.constant("float32", [1, 20, 4, 4], Constant::of_bytes(vec![7; 1280]));
    let sum = graph.node("sum", "Add", &[x, w], []).unwrap();
    let flat = graph.view(sum, [20, 16]).unwrap();
    let y = graph.node("relu", "Relu", &[flat], []).unwrap();
    graph.output("y", y).unwrap();
    graph.output("sum", sum).unwrap();
    (graph, [x, w, sum, flat])
}

fn plain() -> Storage {
    Storage::new("float32", "NCHW")
}

fn blocked() -> Storage {
    Storage::new("float32", "NC1HWC0")
}

fn convert(
    to: &mut Rewriter<'_>,
    name: &str,
    from: TensorId,
    storage: &Storage,
) -> Result<TensorId, OpsError> {
    let tensor = to.graph().tensor(from).clone();
    let attrs = [str_attr("src_format", &tensor.format), str_attr("dst_format", &storage.format)];
    let conversion = Conversion { name, op_type: "TransData", attrs: &attrs, function: None };
    to.convert(conversion, from, &tensor, storage)
}

#[test]
fn a_network_that_is_kept_as_it_is_is_the_same() {
    let (graph, [x, w, sum, flat]) = network();
    let mut to = Rewriter::new(&graph);
    let inputs = [x, w].map(|id| vec![to.current(id).unwrap()]);
    let new = to.keep(0, inputs.to_vec(), &[plain()], None).unwrap()[0];
    assert_eq!((to.current(sum), to.current(flat)), (Some(new), None));
    let shown = to.show(flat, new).unwrap();
    let y = to.keep(1, vec![vec![shown]], &[Storage::new("float32", "ND")], None).unwrap()[0];
    assert_eq!(to.finish(&[y, new]).unwrap(), graph);
}

#[test]
fn conversions_between_nodes_keep_their_logical_tensors() {
    let (graph, [x, w, _, flat]) = network();
    let mut to = Rewriter::new(&graph);
    let inputs = [x, w].map(|id| {
        let current = to.current(id).unwrap();
        vec![convert(&mut to, "in", current, &blocked()).unwrap()]
    });
    let function = Function {
        module: "impl.sum".into(),
        name: "sum_up".into(),
        inputs: 3,
        ..graph.nodes()[0].by_rule()
    };
    let sum = to.keep(0, inputs.to_vec(), &[blocked()], Some(function)).unwrap()[0];
    // A blocked tensor has no other shape, no plain format, and cannot be an output.
    refused!(to.show(flat, sum), OpsError::NotPlain { .. });
    refused!(to.label(sum, "ND"), OpsError::Storage { .. });
    let back = convert(&mut to, "out", sum, &plain()).unwrap();
    let shown = to.show(flat, back).unwrap();
    let label = to.label(back, "ND").unwrap();
    refused!(to.label(back, "NHWC"), OpsError::Storage { .. });
    assert_eq!(to.graph().origin(label), Origin::View(back));
    let y = to.keep(1, vec![vec![shown]], &[Storage::new("float32", "ND")], None).unwrap()[0];
    let after = to.finish(&[y, back]).unwrap();
    let names: Vec<&str> = after.nodes().iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["in", "in", "sum", "out", "relu"]);
    assert_eq!((after.inputs(), after.outputs().len()), (graph.inputs(), 2));
    let (_, job) = after.jobs().swap_remove(2);
    let op = &job.ops[0];
    assert_eq!((op.module_name.as_str(), op.func_name.as_str(), op.inputs.len()), ("impl.sum", "sum_up", 3));
    let output = op.outputs[0].iter().next().unwrap();
    assert_eq!((output.format.as_str(), output.shape.as_slice()), ("NC1HWC0", &[1, 2, 4, 4, 16][..]));
    assert_eq!(output.ori_shape.as_deref(), Some(&[1, 20, 4, 4][..]));
}

#[test]
fn changes_of_the_network_are_refused() {
    let (graph, [x, w, ..]) = network();
    let mut to = Rewriter::new(&graph);
    let [x, w] = [x, w].map(|id| to.current(id).unwrap());
    refused!(to.keep(7, vec![], &[], None), OpsError::NoSuchTensor { .. });
    refused!(to.keep(0, vec![vec![x]], &[plain()], None), OpsError::Misfit { .. });
    refused!(to.keep(0, vec![vec![x], vec![w]], &[], None), OpsError::Count { .. });
    let flat = to.view(w, [20, 16]).unwrap();
    refused!(to.keep(0, vec![vec![x], vec![flat]], &[plain()], None), OpsError::Misfit { .. });
    let none = Storage::new("float32", "FRACTAL_Z_3D");
    refused!(to.keep(0, vec![vec![x], vec![w]], &[none], None), OpsError::Storage { .. });
    // A conversion computes the declared type and shape.
    let tensor = to.graph().tensor(x).clone();
    let attrs = [int_attr("dst_type", 1)];
    let cast = Conversion { name: "cast", op_type: "Cast", attrs: &attrs, function: None };
    refused!(to.convert(cast.clone(), x, &tensor, &plain()), OpsError::Misfit { .. });
    refused!(to.convert(cast.clone(), flat, &graph.tensor(x).clone(), &plain()), OpsError::Misfit { .. });
    to.convert(cast, x, &tensor, &Storage::new("float16", "NCHW")).unwrap();
    let unknown = Conversion { name: "n", op_type: "Conv9D", attrs: &[], function: None };
    refused!(to.convert(unknown, x, &tensor, &plain()), OpsError::UnknownOp { .. });
}

#[test]
fn outputs_are_those_of_the_network() {
    let (graph, [x, w, ..]) = network();
    let finish = |outputs: &dyn Fn(&mut Rewriter<'_>, TensorId, TensorId) -> Vec<TensorId>| {
        let mut to = Rewriter::new(&graph);
        let inputs = [x, w].map(|id| vec![to.current(id).unwrap()]);
        let sum = to.keep(0, inputs.to_vec(), &[plain()], None).unwrap()[0];
        let shown = to.view(sum, [20, 16]).unwrap();
        let y = to.keep(1, vec![vec![shown]], &[Storage::new("float32", "ND")], None).unwrap()[0];
        let outputs = outputs(&mut to, y, sum);
        to.finish(&outputs)
    };
    assert!(finish(&|_, y, sum| vec![y, sum]).is_ok());
    refused!(finish(&|_, y, _| vec![y]), OpsError::Misfit { .. });
    refused!(finish(&|_, y, _| vec![y, y]), OpsError::NotPlain { .. });
    refused!(finish(&|_, _, sum| vec![sum, sum]), OpsError::NotPlain { .. });
    refused!(
        finish(&|to, y, sum| vec![y, convert(to, "in", sum, &blocked()).unwrap()]),
        OpsError::NotPlain { .. }
    );
    // Two dimensions have the same size, so the shape does not show their order.
    let mut cube = Graph::new("g");
    let x = cube.input("x", "float32", [1, 4, 4, 4]);
    let y = cube.node("relu", "Relu", &[x], []).unwrap();
    cube.output("y", y).unwrap();
    let mut to = Rewriter::new(&cube);
    let x = to.current(x).unwrap();
    let y = to.keep(0, vec![vec![x]], &[Storage::new("float32", "NHWC")], None).unwrap();
    refused!(to.finish(&y), OpsError::NotPlain { .. });
    // A node is missing.
    refused!(Rewriter::new(&graph).finish(&[x, x]), OpsError::Misfit { .. });
}

/// A graph may hold blocked tensors; shapes follow from their logical tensors.
#[test]
fn shapes_follow_from_logical_tensors() {
    let (graph, [x, w, ..]) = network();
    let mut to = Rewriter::new(&graph);
    let [x, w] = [x, w].map(|id| to.current(id).unwrap());
    let sum = to.keep(0, vec![vec![x], vec![w]], &[blocked()], None).unwrap()[0];
    let mut graph = to.graph().clone();
    let channels = graph.constant("float32", [1, 20, 1, 1], Constant::Fill(vec![0; 4]));
    let y = graph.node("mul", "Mul", &[sum, channels], []).unwrap();
    assert_eq!(graph.tensor(y).shape, [1, 20, 4, 4]);
    refused!(graph.view(sum, [20, 32]), OpsError::NotPlain { .. });
    refused!(graph.view(sum, [1, 20, 4, 4]), OpsError::NotPlain { .. });
}

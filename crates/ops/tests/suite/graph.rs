//! Graphs, and the parts of a node that are in its job.

use crate::common::{of, refused, x};
use opkeep_descriptor::{Arg, Attr};
use opkeep_ops::{Constant, Graph, OpsError, bool_attr, int_attr, ints_attr};

/// A graph of one slice, with variable begin and weights.
fn slice_of(begin: i64, weight: u8) -> Graph {
    let mut graph = Graph::new("g");
    let x = graph.input("x", "float32", [4, 5]);
    let weights = graph.constant("float32", [5], Constant::of_bytes(vec![weight; 20]));
    let sum = graph.node("sum", "Add", &[x, weights], []).unwrap();
    let (begin, end, step) =
        (graph.parameter("int64", &[begin]), graph.parameter("int64", &[3]), graph.parameter("int64", &[1]));
    let inputs = [Some(sum), Some(begin), Some(end), None, Some(step)];
    graph.add("slice", "StridedSliceV2", &inputs, []).unwrap();
    graph
}

#[test]
fn values_that_compilers_need_are_in_the_key_and_weights_are_not() {
    let digests = |graph: &Graph| graph.jobs().iter().map(|(_, job)| job.digest()).collect::<Vec<_>>();
    let (one, other, heavy) = (slice_of(1, 1), slice_of(2, 1), slice_of(1, 9));
    assert_eq!(digests(&one)[0], digests(&other)[0]);
    assert_ne!(digests(&one)[1], digests(&other)[1]);
    assert_eq!(digests(&one), digests(&heavy));
    // A value that only some nodes need is only in their jobs.
    let mut graph = Graph::new("g");
    let (x, shape) = (graph.input("x", "int64", [1]), graph.parameter("int64", &[7]));
    let sum = graph.node("sum", "Add", &[x, shape], []).unwrap();
    graph.node("wide", "BroadcastTo", &[sum, shape], []).unwrap();
    let values = |job: &opkeep_descriptor::Job| {
        job.ops[0]
            .inputs
            .iter()
            .flat_map(Arg::iter)
            .filter(|input| input.tensor.const_value.is_some())
            .count()
    };
    let jobs = graph.jobs();
    assert_eq!((values(&jobs[0].1), values(&jobs[1].1)), (0, 1));
}

#[test]
fn absent_inputs_and_groups_are_where_they_belong() {
    let (_, job) = slice_of(1, 1).jobs().swap_remove(1);
    assert!(matches!(job.ops[0].inputs[3], Arg::Absent(_)));
    // Data omits absent inputs.
    assert_eq!((job.ops[0].inputs.len(), job.data.len()), (5, 4));

    let mut graph = Graph::new("g");
    let (a, b) = (graph.input("a", "int8", [2, 3]), graph.input("b", "int8", [2, 1]));
    let attrs = [int_attr("concat_dim", 1), int_attr("N", 3)];
    let whole = graph.node("whole", "ConcatD", &[a, b, a], attrs).unwrap();
    let (sizes, dim) = (graph.parameter("int64", &[4, 3]), graph.parameter("int64", &[1]));
    let inputs = [Some(whole), Some(sizes), Some(dim)];
    let parts = graph.add("parts", "SplitV", &inputs, [int_attr("num_split", 2)]).unwrap();
    assert_eq!(graph.tensor(parts[0]).shape, [2, 4]);
    assert_eq!(graph.tensor(parts[1]).shape, [2, 3]);
    let jobs = graph.jobs();
    assert!(matches!(&jobs[0].1.ops[0].inputs[0], Arg::Many(inputs) if inputs.len() == 3));
    // As in frameworks, the data of a group are written tensor by tensor, so that both make the same job.
    assert!(matches!(&jobs[0].1.data[0].outputs[..], [Arg::One(_), Arg::One(_), Arg::One(_)]));
    assert!(matches!(&jobs[1].1.ops[0].outputs[0], Arg::Many(outputs) if outputs.len() == 2));
    for (name, job) in &jobs {
        let spec = opkeep_ops::OpSpec::of(&job.ops[0]).unwrap();
        spec.check(&job.ops[0]).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    // More inputs than there are positions.
    refused!(graph.add("n", "Relu", &[Some(a), Some(a)], []), OpsError::Count { .. });
}

#[test]
fn outputs_that_contradict_their_inputs_are_refused() {
    let (_, job) = slice_of(1, 1).jobs().swap_remove(1);
    let changed = |change: &dyn Fn(&mut opkeep_descriptor::Op)| {
        let mut op = job.ops[0].clone();
        change(&mut op);
        opkeep_ops::OpSpec::of(&op).unwrap().check(&op)
    };
    assert!(changed(&|_| {}).is_ok());
    refused!(changed(&|op| op.outputs.clear()), OpsError::Count { ports: "outputs", .. });
    refused!(changed(&|op| op.outputs = vec![Arg::Many(x(&[2, 5]))]), OpsError::Port { port: "output", .. });
    refused!(changed(&|op| op.outputs = vec![Arg::One(x(&[5, 2]).remove(0))]), OpsError::Output { .. });
    refused!(
        changed(&|op| op.outputs = vec![Arg::One(of("int8", &[2, 5]).remove(0))]),
        OpsError::Output { .. }
    );
    let mut op = job.ops[0].clone();
    op.op_type = "Conv9D".to_owned();
    refused!(opkeep_ops::OpSpec::of(&op), OpsError::UnknownOp { .. });
}

#[test]
fn defaults_given_or_left_out_are_one_job() {
    let digest = |attrs: &[Attr]| {
        let mut graph = Graph::new("g");
        let x = graph.input("x", "float32", [2, 3]);
        graph.node("soft", "SoftmaxV2", &[x], attrs).unwrap();
        graph.jobs()[0].1.digest()
    };
    let plain = digest(&[]);
    assert_eq!(digest(&[ints_attr("axes", &[-1])]), plain);
    assert_eq!(digest(&[bool_attr("half_to_float", false), ints_attr("axes", &[-1])]), plain);
    assert_ne!(digest(&[ints_attr("axes", &[0])]), plain);
    assert_ne!(digest(&[bool_attr("half_to_float", true)]), plain);
}

#[test]
fn views_show_the_same_elements() {
    let mut graph = Graph::new("g");
    let x = graph.input("x", "float32", [2, 6]);
    let y = graph.view(x, [3, 4]).unwrap();
    let z = graph.view(y, [12]).unwrap();
    assert_eq!((graph.source(z), graph.tensor(z).shape.as_slice()), (x, &[12][..]));
    assert_eq!(graph.view(z, [12]).unwrap(), z);
    refused!(graph.view(x, [5]), OpsError::View { .. });
    for shape in [vec![-12], vec![i64::MAX, 2], vec![i64::MIN]] {
        refused!(graph.view(x, shape), OpsError::View { .. });
    }
    // A node of a view is a job of the view's shape.
    graph.node("relu", "Relu", &[z], []).unwrap();
    assert_eq!(graph.jobs()[0].1.data[0].outputs[0].iter().next().unwrap().shape, [12]);
    let mut other = Graph::new("other");
    refused!(other.view(z, [12]), OpsError::NoSuchTensor { count: 0, .. });
    refused!(other.output("y", z), OpsError::NoSuchTensor { .. });
}

/// A graph of two slices and a split; `dead` adds nodes, views and constants that lead to no output.
fn with_dead_parts(dead: bool) -> Graph {
    let mut graph = Graph::new("g");
    let unread = |graph: &mut Graph, from| {
        if dead {
            let weights = graph.constant("float32", [6], Constant::of_bytes(vec![1; 24]));
            let sum = graph.node("dead", "Add", &[from, weights], []).unwrap();
            let row = graph.view(sum, [1, 6]).unwrap();
            graph.node("deader", "Relu", &[row], []).unwrap();
            graph.view(from, [3, 2]).unwrap();
        }
    };
    let (x, _) = (graph.input("x", "float32", [6]), graph.input("unread", "float32", [2]));
    unread(&mut graph, x);
    let column = graph.view(x, [6, 1]).unwrap();
    let square = graph.view(column, [2, 3]).unwrap();
    unread(&mut graph, x);
    let (sizes, dim) = (graph.parameter("int64", &[1, 2]), graph.parameter("int64", &[1]));
    let inputs = [Some(square), Some(sizes), Some(dim)];
    let parts = graph.add("parts", "SplitV", &inputs, [int_attr("num_split", 2)]).unwrap();
    unread(&mut graph, x);
    let y = graph.node("y", "Relu", &[parts[1]], []).unwrap();
    unread(&mut graph, x);
    let seen = graph.view(y, [4]).unwrap();
    graph.output("y", seen).unwrap();
    graph.output("x again", x).unwrap();
    graph
}

#[test]
fn a_pruned_graph_is_one_that_never_had_the_rest() {
    let whole = with_dead_parts(false);
    assert!(with_dead_parts(true).len() > whole.len() + 10);
    // Elements in memory are equal only to themselves.
    assert_eq!(format!("{:?}", with_dead_parts(true).pruned()), format!("{whole:?}"));
    assert_eq!(whole.clone().pruned(), whole);
    // Of a graph without needed nodes, only the inputs are left.
    let mut unread = Graph::new("g");
    let x = unread.input("x", "float32", [2]);
    unread.node("dead", "Relu", &[x], []).unwrap();
    let mut empty = Graph::new("g");
    empty.input("x", "float32", [2]);
    assert_eq!(unread.pruned(), empty);
}

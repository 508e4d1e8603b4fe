//! Networks are made to fit the toolkit's operators.
#![expect(clippy::unwrap_used, reason = "helpers fail the test that calls them")]

use crate::common::formats::{ByHand, inputs, is_taken};
use crate::common::same::{check, count};
use crate::common::{Place, SOC};
use opkeep_backend::BackendError;
use opkeep_backend_ascend::{Formats, OpsInfo, PortFormats, Prepare};
use opkeep_descriptor::{Arg, Attr, AttrValue, Job};
use opkeep_ops::{Constant, Graph, TensorId, float_attr, int_attr, ints_attr, str_attr};
use opkeep_testkit::toolkit::{Toolkit, Vendor};

struct Bench {
    _place: Place,
    ops: OpsInfo,
}

impl Bench {
    fn new() -> Self {
        Self::of(&Toolkit::new())
    }

    fn of(plan: &Toolkit) -> Self {
        let place = Place::of(plan);
        let toolkit = place.found();
        let ops = OpsInfo::read(&toolkit, &toolkit.platforms.soc(SOC).unwrap()).unwrap();
        Self { _place: place, ops }
    }

    /// The network as it is made, checked whole.
    fn prepare(&self, graph: &Graph) -> (Graph, Vec<String>) {
        let (after, warnings) = Prepare::new(&self.ops, &ByHand::default()).run(graph).unwrap();
        check(graph, &after, &self.ops).unwrap();
        (after, warnings)
    }

    fn refused(&self, graph: &Graph) -> String {
        Prepare::new(&self.ops, &ByHand::default()).run(graph).unwrap_err().to_string()
    }
}

fn conv_attrs(groups: i64) -> Vec<Attr> {
    vec![
        ints_attr("strides", &[1, 1, 1, 1]),
        ints_attr("pads", &[1, 1, 1, 1]),
        str_attr("data_format", "NCHW"),
        int_attr("groups", groups),
    ]
}

fn conv(graph: &mut Graph, name: &str, x: TensorId, filters: i64, groups: i64) -> TensorId {
    let channels = graph.tensor(x).shape[1] / groups;
    let weights = graph.constant("float32", [filters, channels, 3, 3], Constant::Fill(vec![0; 4]));
    graph.node(name, "Conv2D", &[x, weights], conv_attrs(groups)).unwrap()
}

fn norm(graph: &mut Graph, name: &str, x: TensorId) -> TensorId {
    let channels = graph.tensor(x).shape[1];
    let values: Vec<TensorId> =
        (0..4).map(|_| graph.constant("float32", [channels], Constant::Fill(vec![0; 4]))).collect();
    let inputs = [x, values[0], values[1], values[2], values[3]];
    graph.node(name, "BNInfer", &inputs, [float_attr("epsilon", 1e-5)]).unwrap()
}

fn pool_attrs() -> Vec<Attr> {
    vec![ints_attr("ksize", &[1, 1, 2, 2]), ints_attr("strides", &[1, 1, 2, 2])]
}

fn names(graph: &Graph) -> Vec<&str> {
    graph.nodes().iter().map(|node| node.name.as_str()).collect()
}

fn job_of(graph: &Graph, name: &str) -> Job {
    graph.jobs().into_iter().find(|(other, _)| other == name).unwrap().1
}

#[test]
fn nodes_after_a_convolution_keep_its_format() {
    let mut graph = Graph::new("g");
    let x = graph.input("x", "float32", [1, 3, 8, 8]);
    let y = conv(&mut graph, "conv1", x, 20, 1);
    let y = norm(&mut graph, "norm1", y);
    let y = graph.node("relu1", "Relu", &[y], []).unwrap();
    let z = conv(&mut graph, "conv2", y, 20, 1);
    let sum = graph.node("sum", "Add", &[z, y], []).unwrap();
    graph.output("sum", sum).unwrap();
    let (after, warnings) = Bench::new().prepare(&graph);
    assert_eq!(
        names(&after),
        [
            "conv1/TransData_x",
            "conv1/TransData_filter",
            "conv1",
            "norm1/TransData_scale",
            "norm1/TransData_offset",
            "norm1/TransData_mean",
            "norm1/TransData_variance",
            "norm1",
            "relu1",
            "conv2/TransData_filter",
            "conv2",
            "sum",
            "sum/TransData"
        ]
    );
    assert!(warnings.is_empty());
    let shapes =
        |name: &str| inputs(&job_of(&after, name)).into_iter().map(|x| x.shape.clone()).collect::<Vec<_>>();
    assert_eq!(shapes("conv2"), [vec![1, 2, 8, 8, 16], vec![18, 2, 16, 16]]);
    assert_eq!(shapes("norm1")[1..], vec![vec![1, 2, 1, 1, 16]; 4]);
    // Channels alone are seen with all their dimensions before they are cut.
    assert_eq!(shapes("norm1/TransData_scale"), [[1, 20, 1, 1]]);
    let job = job_of(&after, "conv1/TransData_filter");
    let (src, dst) = (inputs(&job)[0], job.ops[0].outputs[0].iter().next().unwrap());
    assert_eq!((src.format.as_str(), dst.format.as_str()), ("NCHW", "FRACTAL_Z"));
    assert_eq!(
        (dst.ori_format.as_deref(), dst.ori_shape.as_deref()),
        (Some("NCHW"), Some(&[20, 3, 3, 3][..]))
    );
    let attr = |name: &str| {
        let attrs = job.ops[0].attrs.clone().unwrap();
        attrs.into_iter().find(|attr| attr.name == name).unwrap().value
    };
    assert_eq!(attr("src_format"), AttrValue::Str("NCHW".into()));
    assert_eq!(attr("dst_format"), AttrValue::Str("FRACTAL_Z".into()));
}

#[test]
fn a_tensor_is_converted_once_for_all_that_read_it() {
    let mut graph = Graph::new("g");
    let x = graph.input("x", "float32", [1, 16, 8, 8]);
    let (a, b) = (conv(&mut graph, "a", x, 16, 1), conv(&mut graph, "b", x, 16, 1));
    // Two that want it as the network has it.
    let (axes, perm) = (graph.parameter("int64", &[2, 3]), graph.parameter("int64", &[0, 2, 3, 1]));
    let mean = graph.node("mean", "ReduceMean", &[a, axes], []).unwrap();
    let moved = graph.node("moved", "Transpose", &[a, perm], []).unwrap();
    for (name, id) in [("a", a), ("b", b), ("mean", mean), ("moved", moved)] {
        graph.output(name, id).unwrap();
    }
    let (after, _) = Bench::new().prepare(&graph);
    // x, two filters, a for `mean`, b for the network's output.
    assert_eq!(count(&after, "TransData"), 5);
    assert!(names(&after).contains(&"mean/TransData_x") && !names(&after).contains(&"moved/TransData_x"));
}

#[test]
fn views_and_outputs_are_stored_as_the_network_has_them() {
    let mut graph = Graph::new("g");
    let x = graph.input("x", "float32", [1, 3, 4, 4]);
    let y = conv(&mut graph, "conv", x, 8, 1);
    let flat = graph.view(y, [1, 128]).unwrap();
    let again = graph.view(flat, [128]).unwrap();
    let z = graph.node("relu", "Relu", &[again], []).unwrap();
    graph.output("z", z).unwrap();
    graph.output("flat", flat).unwrap();
    let (after, _) = Bench::new().prepare(&graph);
    assert_eq!(names(&after)[3..], ["relu/TransData_x", "relu"]);
    assert_eq!(inputs(&job_of(&after, "relu"))[0].shape, [128]);
}

#[test]
fn digits_are_lost_only_where_nothing_else_is_there_and_it_is_said() {
    let bench = Bench::new();
    let mut graph = Graph::new("g");
    let x = graph.input("x", "float32", [1, 16, 8, 8]);
    let y = graph.node("pool", "AvgPoolV2", &[x], pool_attrs()).unwrap();
    let z = graph.node("max", "MaxPoolV3", &[y], pool_attrs()).unwrap();
    let w = graph.node("relu", "Relu", &[y], []).unwrap();
    graph.output("z", z).unwrap();
    graph.output("w", w).unwrap();
    let (after, warnings) = bench.prepare(&graph);
    // Back to the network's type once, for both that read it.
    assert_eq!(count(&after, "Cast"), 2);
    assert_eq!(names(&after)[..5], ["pool/Cast_x", "pool/TransData_x", "pool", "max/Cast_x", "max"]);
    let job = job_of(&after, "max/Cast_x");
    assert_eq!((inputs(&job)[0].format.as_str(), inputs(&job)[0].dtype.as_str()), ("NC1HWC0", "float16"));
    assert_eq!(job.ops[0].attrs.as_ref().unwrap()[0].value, AttrValue::Int(0));
    assert_eq!(warnings.len(), 1);
    for part in ["`pool`", "AvgPoolV2", "float16", "float32"] {
        assert!(warnings[0].contains(part), "{warnings:?}");
    }
    // A type that has all values is no loss: scales of a normalisation in halves are floats.
    let mut halves = Graph::new("g");
    let x = halves.input("x", "float16", [1, 16, 4, 4]);
    let scale = halves.constant("float16", [16], Constant::Fill(vec![0; 2]));
    let y = halves
        .node("norm", "BNInfer", &[x, scale, scale, scale, scale], [float_attr("epsilon", 1e-5)])
        .unwrap();
    halves.output("y", y).unwrap();
    let (after, warnings) = bench.prepare(&halves);
    assert!(warnings.is_empty());
    let job = job_of(&after, "norm");
    let dtypes: Vec<&str> = inputs(&job).iter().map(|tensor| tensor.dtype.as_str()).collect();
    assert_eq!(dtypes, ["float16", "float32", "float32", "float32", "float32"]);
    // One scale, converted once.
    assert_eq!(count(&after, "Cast"), 1);
}

#[test]
fn broadcast_tensors_are_cut_alike_or_not_at_all() {
    let beside = |first: &[i64], shape: &[i64]| {
        let mut graph = Graph::new("g");
        let x = graph.input("x", "float32", first);
        let y = conv(&mut graph, "conv", x, 20, 1);
        let other = graph.constant("float32", shape, Constant::Fill(vec![0; 4]));
        let z = graph.node("mul", "Mul", &[y, other], []).unwrap();
        graph.output("z", z).unwrap();
        let (after, _) = Bench::new().prepare(&graph);
        inputs(&job_of(&after, "mul")).iter().map(|tensor| tensor.shape.clone()).collect::<Vec<_>>()
    };
    let second = |shape: &[i64]| beside(&[2, 20, 4, 4], shape);
    let cut = vec![2, 2, 4, 4, 16];
    assert_eq!(second(&[2, 20, 4, 4]), [cut.clone(), cut.clone()]);
    assert_eq!(second(&[1, 20, 1, 1]), [cut.clone(), vec![1, 2, 1, 1, 16]]);
    assert_eq!(second(&[20, 1, 1]), [cut, vec![1, 2, 1, 1, 16]]);
    for shape in [&[1][..], &[4], &[4, 4], &[1, 4, 4], &[2, 1, 4, 4]] {
        assert_eq!(second(shape), [vec![2, 20, 4, 4], shape.to_vec()], "{shape:?}");
    }
    // As many as there are channels, and not of channels.
    assert_eq!(beside(&[2, 20, 4, 20], &[20]), [vec![2, 20, 4, 20], vec![20]]);
    // One large conversion is less than two small ones.
    let mut graph = Graph::new("g");
    let x = graph.input("x", "float32", [2, 20, 4, 4]);
    let y = conv(&mut graph, "conv", x, 20, 1);
    let [low, high] =
        [0, 1].map(|fill| graph.constant("float32", [1, 20, 1, 1], Constant::Fill(vec![fill; 4])));
    let z = graph.node("clip", "ClipByValue", &[y, low, high], []).unwrap();
    graph.output("z", z).unwrap();
    assert!(!formats_of(&Bench::new().prepare(&graph).0, "clip").contains(&"NC1HWC0"));
    // Where any format will do, single values stay as they are.
    let mut graph = Graph::new("g");
    let x = graph.input("x", "float32", [2, 20, 4, 4]);
    let y = conv(&mut graph, "conv", x, 20, 1);
    let bound = graph.constant("float32", [1], Constant::Fill(vec![0; 4]));
    let z = graph.node("clip", "ClipByValue", &[y, bound, bound], []).unwrap();
    let sum = graph.node("sum", "AccumulateNV2", &[z, y], [int_attr("N", 2)]).unwrap();
    graph.output("sum", sum).unwrap();
    let (after, _) = Bench::new().prepare(&graph);
    let formats: Vec<&str> = ["clip", "sum"].into_iter().flat_map(|name| formats_of(&after, name)).collect();
    assert_eq!(formats, ["NC1HWC0", "ND", "ND", "NC1HWC0", "NC1HWC0"]);
}

fn formats_of(graph: &Graph, name: &str) -> Vec<&'static str> {
    let known = ["NC1HWC0", "ND", "NCHW", "FRACTAL_Z"];
    let job = job_of(graph, name);
    inputs(&job)
        .iter()
        .map(|tensor| *known.iter().find(|format| **format == tensor.format).unwrap())
        .collect()
}

#[test]
fn the_conversion_of_weights_gets_the_groups_of_the_convolution() {
    let mut graph = Graph::new("g");
    let x = graph.input("x", "float32", [1, 32, 8, 8]);
    let y = conv(&mut graph, "conv", x, 32, 32);
    graph.output("y", y).unwrap();
    let (after, _) = Bench::new().prepare(&graph);
    let job = job_of(&after, "conv/TransData_filter");
    let filter = inputs(&job_of(&after, "conv"))[1].clone();
    assert_eq!(filter.shape, [18, 1, 16, 16]);
    assert_eq!(filter.extra["sub_format"], 32);
    let attrs = job.ops[0].attrs.clone().unwrap();
    assert!(attrs.iter().any(|attr| attr.name == "groups" && attr.value == AttrValue::Int(32)), "{attrs:?}");
}

#[test]
fn values_that_compilers_know_become_the_type_that_they_take() {
    let mut graph = Graph::new("g");
    let x = graph.input("x", "float32", [1, 16, 4, 4]);
    let pads = graph.parameter("int64", &[0, 0, 0, 0, 1, 1, 1, 1]);
    let y = graph.node("pad", "PadV3", &[x, pads], []).unwrap();
    graph.output("y", y).unwrap();
    let (after, warnings) = Bench::new().prepare(&graph);
    assert_eq!((names(&after), warnings.len()), (vec!["pad"], 0));
    let job = job_of(&after, "pad");
    let pads = inputs(&job)[1];
    assert_eq!(pads.dtype, "int32");
    assert_eq!(pads.const_value.as_ref().unwrap().to_ints().unwrap(), [0, 0, 0, 0, 1, 1, 1, 1]);
    // And those that it cannot hold do not.
    let mut graph = Graph::new("g");
    let x = graph.input("x", "float32", [1, 16, 4, 4]);
    let pads = graph.parameter("int64", &[0, 0, 0, 0, 0, 0, 0, 1 << 33]);
    let y = graph.node("pad", "PadV3", &[x, pads], []).unwrap();
    graph.output("y", y).unwrap();
    assert!(Bench::new().refused(&graph).contains("node `pad`: its inputs are"));
}

#[test]
fn jobs_have_the_names_of_the_operator_information() {
    let bench = Bench::of(&Toolkit::new().vendor(Vendor::new("mine").op("Relu", "Square")));
    let mut graph = Graph::new("g");
    let x = graph.input("x", "float32", [16, 16]);
    let y = graph.node("mul", "MatMulV2", &[x, x], []).unwrap();
    let y = graph.node("relu", "Relu", &[y], []).unwrap();
    let y = graph.node("whole", "ConcatD", &[y, y], [int_attr("concat_dim", 0), int_attr("N", 2)]).unwrap();
    let y = graph.view(y, [1, 1, 32, 16]).unwrap();
    let y = graph.node("pool", "AvgPoolV2", &[y], pool_attrs()).unwrap();
    graph.output("y", y).unwrap();
    let (after, _) = bench.prepare(&graph);
    let op = |name: &str| job_of(&after, name).ops.remove(0);
    let named = |name: &str| (op(name).module_name, op(name).func_name);
    assert_eq!(named("mul"), ("impl.mat_mul".to_owned(), "mat_mul".to_owned()));
    assert_eq!(named("relu").0.split_once('.').unwrap().0, "mine_impl");
    assert_eq!(op("mul").flags.dynamic_compile_static, Some(true));
    assert_eq!(op("pool").flags.dynamic_compile_static, Some(false));
    // Attributes that the function lacks are left out; those that only it has are filled in.
    let attrs = |name: &str| op(name).attrs.unwrap().into_iter().map(|attr| attr.name).collect::<Vec<_>>();
    assert_eq!(attrs("whole"), ["concat_dim"]);
    assert_eq!(attrs("pool").last().unwrap(), "offset_x");
    assert!(!attrs("pool").contains(&"divisor_override".to_owned()));
    // So are inputs that networks do not have.
    assert!(matches!(op("pool").inputs[..], [Arg::One(_), Arg::Absent(_), Arg::Absent(_)]));
}

/// Operators that have nothing to say.
struct Silent;

impl Formats for Silent {
    fn select(&self, _job: &Job, _op_index: usize) -> Result<Option<Vec<PortFormats>>, BackendError> {
        Ok(None)
    }
}

/// Operators that cannot be asked.
struct Broken;

impl Formats for Broken {
    fn select(&self, job: &Job, op_index: usize) -> Result<Option<Vec<PortFormats>>, BackendError> {
        let op = &job.ops[op_index];
        assert_eq!((op.module_name.as_str(), op.attrs.as_ref()), ("impl.add", None));
        Err(BackendError::Cancelled)
    }
}

#[test]
fn operators_that_the_toolkit_lacks_are_errors_with_help() {
    let bench = Bench::new();
    let graph = |op_type: &str, dtype: &str, shape: &[i64]| {
        let mut graph = Graph::new("g");
        let x = graph.input("x", dtype, shape);
        let inputs = vec![x; opkeep_ops::find(op_type).unwrap().inputs.len()];
        let y = graph.node("node", op_type, &inputs, []).unwrap();
        graph.output("y", y).unwrap();
        graph
    };
    let error = bench.refused(&graph("Lgamma", "float32", &[4]));
    assert!(error.contains("Lgamma") && error.contains("install a package that has the operator"), "{error}");
    let error = bench.refused(&graph("Add", "float64", &[4]));
    for part in ["node `node`", "float64 [4]", "it takes (float16 NC1HWC0", "and 26 more", "install"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let add = graph("Add", "float32", &[4]);
    let error = Prepare::new(&bench.ops, &Silent).run(&add).unwrap_err().to_string();
    assert!(error.contains("does not answer") && error.contains("install"), "{error}");
    assert!(matches!(Prepare::new(&bench.ops, &Broken).run(&add), Err(BackendError::Cancelled)));
    // Which of two dimensions are the channels is not known.
    let mut flat = Graph::new("g");
    let x = flat.input("x", "float32", [2, 16]);
    let y = norm(&mut flat, "norm", x);
    flat.output("y", y).unwrap();
    assert!(bench.refused(&flat).contains("node `norm`: its inputs are float32 [2, 16]"));
}

#[test]
fn the_check_of_these_tests_finds_unsupported_tensors() {
    let bench = Bench::new();
    let mut graph = Graph::new("g");
    let x = graph.input("x", "float32", [1, 16, 8, 8]);
    let y = conv(&mut graph, "conv", x, 16, 1);
    graph.output("y", y).unwrap();
    assert!(is_taken(&job_of(&graph, "conv"), &bench.ops).unwrap_err().contains("Conv2D does not take"));
    let (after, _) = bench.prepare(&graph);
    let error = check(&after, &graph, &bench.ops).unwrap_err();
    assert!(error.contains("`conv`: Conv2D does not take"), "{error}");
}

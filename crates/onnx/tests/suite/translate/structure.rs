//! The structure of graphs: names, order, declarations, and nodes that cannot be mapped.

use std::collections::BTreeMap;

use opkeep_onnx::{ModelError, OnnxError, Options, from_bytes};

use super::model::{FLOAT, INT64, Model, STRING, int, number, text, unary};
use super::render;

fn model_error(model: &Model) -> ModelError {
    match model.read() {
        Err(OnnxError::Model(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the model was translated"),
    }
}

#[test]
fn all_problems_come_at_once_and_consequences_do_not() {
    let problems = Model::new(17)
        .import("com.example", 3)
        .input("x", &[2])
        .named("first", "Einsum", &["x"], &["a"])
        .node("Relu", &["a"], &["b"], &[])
        .node("Add", &["b", "x"], &["c"], &[])
        .node("Concat", &["x", "c"], &["d"], &[])
        .node_of("com.example", "Fancy", "", &["x"], &["e"], &[])
        .node("Softmax", &["x"], &["f"], &[int("axis", 7)])
        .node("Tanh", &["x"], &["unread"], &[])
        .node("QLinearConv", &["d"], &["g"], &[])
        .node_of("org.other", "Thing", "thing", &["x"], &["h"], &[])
        .node("Gelu", &["x"], &["i"], &[])
        .outputs(&["d", "e", "f", "g", "h", "i"])
        .problems();
    let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "`first` (Einsum, operator set 17): there is no translation of this operator",
            "`Fancy_4` (com.example.Fancy, operator set 3): its domain `com.example` is not known",
            "`Softmax_5` (Softmax, operator set 17): axis 7 is none of 1 dimension",
            "`QLinearConv_7` (QLinearConv, operator set 17): it is quantised, which is not supported",
            "`thing` (org.other.Thing, operator set 0): the model imports no operator set of its domain `org.other`",
            "`Gelu_9` (Gelu, operator set 17): it is known in the operator sets 20 to 25 only",
        ]
    );
    assert_eq!(
        (problems[1].domain.as_str(), problems[1].op_type.as_str(), problems[1].opset),
        ("com.example", "Fancy", 3)
    );
}

#[test]
fn a_message_lists_twenty_problems_and_counts_the_rest() {
    let names: Vec<String> = (0..23).map(|at| format!("y{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let model = Model::new(13).input("x", &[2]);
    let model = names.iter().fold(model, |model, name| model.node("Loop", &["x"], &[name], &[]));
    let error = model.outputs(&names).read().unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines[0], "23 nodes of the model cannot be mapped to Ascend IR operators:");
    assert_eq!(lines[1], "  `Loop_0` (Loop, operator set 13): what it runs is decided when the network runs");
    assert_eq!((lines.len(), lines[21]), (22, "  and 3 more"));
}

#[test]
fn nodes_without_an_output_are_left_out() {
    let model = Model::new(13)
        .input("x", &[2])
        .weight("unread", &[3])
        .tensor("unread too", STRING, &[1], &[])
        .node("Relu", &["x"], &["y"], &[])
        .node("Einsum", &["y"], &["z"], &[])
        .node("Nonsense", &["nothing"], &["w"], &[])
        .outputs(&["y"]);
    let network = model.network();
    assert_eq!(render::nodes(&network), ["Relu(x) -> [2]"]);
    assert_eq!(network.graph.len(), 2);
    // Inputs stay, since a caller passes all of them.
    let unused =
        Model::new(13).input("x", &[2]).input("u", &[3]).node("Relu", &["x"], &["y"], &[]).outputs(&["y"]);
    assert_eq!(unused.network().inputs.len(), 2);
}

#[test]
fn nodes_are_put_in_order() {
    let model = Model::new(13)
        .input("x", &[2])
        .named("third", "Add", &["b", "a"], &["y"])
        .named("second", "Neg", &["a"], &["b"])
        .named("first", "Relu", &["x"], &["a"])
        .outputs(&["y"]);
    let names: Vec<String> = model.network().graph.nodes().iter().map(|node| node.name.clone()).collect();
    assert_eq!(names, ["first", "second", "third"]);
}

#[test]
fn cycles_name_their_nodes() {
    let cycle = Model::new(13)
        .input("x", &[2])
        .named("in", "Add", &["x", "c"], &["a"])
        .named("mid", "Relu", &["a"], &["b"])
        .named("back", "Neg", &["b"], &["c"])
        .named("out", "Exp", &["b"], &["y"])
        .outputs(&["y"]);
    let names = |nodes: &[&str]| nodes.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(model_error(&cycle), ModelError::Cycle { nodes: names(&["in", "mid", "back", "in"]) });
    let alone = Model::new(13).named("self", "Relu", &["y"], &["y"]).outputs(&["y"]);
    assert_eq!(model_error(&alone), ModelError::Cycle { nodes: names(&["self", "self"]) });
}

#[test]
fn names_are_defined_once() {
    let twice = |second: Model| match model_error(&second.outputs(&["y"])) {
        ModelError::DefinedTwice { name, first, second } => (name, first, second),
        other => panic!("{other}"),
    };
    let model = || Model::new(13).input("x", &[2]).named("n", "Relu", &["x"], &["y"]);
    let expected =
        |name: &str, first: &str, second: &str| (name.to_owned(), first.to_owned(), second.to_owned());
    assert_eq!(
        twice(model().named("m", "Neg", &["x"], &["y"])),
        expected("y", "an output of node `n`", "an output of node `m`")
    );
    assert_eq!(
        twice(model().named("m", "Neg", &["y"], &["x"])),
        expected("x", "an input", "an output of node `m`")
    );
    assert_eq!(twice(model().input("x", &[3])), expected("x", "an input", "an input"));
    assert_eq!(
        twice(model().weight("w", &[1]).weight("w", &[2])),
        expected("w", "an initializer", "an initializer")
    );
}

#[test]
fn names_stand_for_something() {
    let missing = Model::new(13).named("n", "Relu", &["z"], &["y"]).outputs(&["y"]);
    let (name, reader) = ("z".to_owned(), "node `n`".to_owned());
    assert_eq!(model_error(&missing), ModelError::Undefined { name, reader });
    let missing = unary(13, "Relu", &[2], &[]).outputs(&["z"]);
    let (name, reader) = ("z".to_owned(), "the list of outputs".to_owned());
    assert_eq!(model_error(&missing), ModelError::Undefined { name, reader });
}

#[test]
fn outputs_have_names_of_their_own() {
    assert_eq!(model_error(&Model::new(13).input("x", &[2])), ModelError::NoOutputs);
    // Only an operator set.
    assert!(from_bytes(vec![0x42, 0x02, 0x10, 0x0d].into(), None, &Options::default()).is_err());
    let twice = unary(13, "Relu", &[2], &[]).outputs(&["y"]);
    assert_eq!(model_error(&twice), ModelError::Output { index: 1, name: "y".to_owned() });
    let nameless = unary(13, "Relu", &[2], &[]).outputs(&[""]);
    assert_eq!(model_error(&nameless), ModelError::Output { index: 1, name: String::new() });
    // An output may be an input, or a constant.
    let network = Model::new(13).input("x", &[2]).weight("w", &[3]).outputs(&["x", "w"]).network();
    assert_eq!(render::outputs(&network), ["x float32 [2]", "const float32 [3]"]);
}

#[test]
fn initializers_may_be_listed_as_inputs() {
    let network = Model::new(9)
        .input("x", &[2])
        .input("w", &[2])
        .weight("w", &[2])
        .node("Add", &["x", "w"], &["y"], &[])
        .outputs(&["y"])
        .network();
    assert_eq!(network.inputs.iter().map(|info| info.name.as_str()).collect::<Vec<_>>(), ["x"]);
    assert_eq!(render::nodes(&network), ["Add(x, const) -> [2]"]);
}

#[test]
fn only_known_operator_sets_are_read() {
    for opset in [6, 26] {
        assert_eq!(
            model_error(&unary(opset, "Relu", &[2], &[])),
            ModelError::Opset { found: opset as i64, oldest: 7, newest: 25 }
        );
    }
    let none = Model::default().input("x", &[2]).node("Relu", &["x"], &["y"], &[]).outputs(&["y"]);
    assert_eq!(model_error(&none), ModelError::Opset { found: 0, oldest: 7, newest: 25 });
    let two = unary(13, "Relu", &[2], &[]).import("ai.onnx", 14);
    assert!(matches!(model_error(&two), ModelError::Opsets { first: 13, second: 14, .. }));
    // Both names of the default domain are one.
    let model = Model::default()
        .import("ai.onnx", 13)
        .input("x", &[2])
        .node_of("ai.onnx", "Relu", "", &["x"], &["y"], &[])
        .outputs(&["y"]);
    assert_eq!(model.becomes(), ["Relu(x) -> [2]"]);
}

#[test]
fn functions_of_the_model_are_not_mistaken_for_operators() {
    let model = Model::new(13)
        .import("local", 1)
        .function("local", "Relu")
        .input("x", &[2])
        .node_of("local", "Relu", "", &["x"], &["a"], &[])
        .node("Relu", &["x"], &["b"], &[])
        .outputs(&["a", "b"]);
    assert!(model.why().contains("it is a function of the model"));
    let sparse = unary(13, "Relu", &[2], &[]).field(15, &[]);
    assert_eq!(model_error(&sparse), ModelError::Sparse { count: 1 });
}

fn with_dims(model: &Model, dims: &[(&str, i64)]) -> Result<Vec<Vec<i64>>, OnnxError> {
    let dims: BTreeMap<String, i64> = dims.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
    let network = from_bytes(model.bytes().into(), None, &Options::new(dims))?;
    Ok(network.inputs.into_iter().map(|info| info.shape).collect())
}

#[test]
fn dimensions_without_a_size_are_asked_for_all_together() {
    let model = Model::new(13)
        .symbolic("x", FLOAT, &["batch", "3", "?"])
        .symbolic("m", INT64, &["batch", "length"])
        .node("Relu", &["x"], &["y"], &[])
        .outputs(&["y"]);
    let error = with_dims(&model, &[]).unwrap_err().to_string();
    assert_eq!(
        error,
        "kernels are made for fixed shapes, and some dimensions have no size: `batch` (axis 0 of `x`, axis 0 of `m`), \
         `x:2` (axis 2 of `x`), `length` (axis 1 of `m`); give each one"
    );
    let one = with_dims(&model, &[("batch", 1), ("length", 2)]).unwrap_err().to_string();
    assert!(one.contains("one dimension has no size: `x:2` (axis 2 of `x`)"), "{one}");
    let all = [("batch", 2), ("x:2", 5), ("length", 7)];
    assert_eq!(with_dims(&model, &all).unwrap(), [vec![2, 3, 5], vec![2, 7]]);
    // A size for one axis takes precedence over one for its name.
    let place = [&all[..], &[("m:0", 1)]].concat();
    assert_eq!(with_dims(&model, &place).unwrap(), [vec![2, 3, 5], vec![1, 7]]);
    let unknown = with_dims(&model, &[&all[..], &[("bacth", 1)]].concat()).unwrap_err().to_string();
    assert!(unknown.contains("`bacth`") && unknown.contains("\"batch\""), "{unknown}");
    // A size that the model has cannot be replaced.
    assert!(with_dims(&model, &[&all[..], &[("x:1", 1)]].concat()).is_err());
    let negative = with_dims(&model, &[("batch", -1)]).unwrap_err().to_string();
    assert!(negative.contains("the size given for dimension `batch` is -1"), "{negative}");
}

#[test]
fn inputs_are_tensors_of_numbers() {
    let input = |info: &[u8]| Model::new(13).field(11, &[&text(1, "x"), info].concat()).outputs(&["x"]);
    for (model, why) in [
        (input(&[]), "is not a tensor"),
        (Model::new(13).typed("x", STRING, &[2]).outputs(&["x"]), "is of string"),
        (Model::new(13).typed("x", 23, &[2]).outputs(&["x"]), "is of float4e2m1"),
        (Model::new(13).input("x", &[1 << 40, 1 << 40]).outputs(&["x"]), "absurdly large"),
        // A type with an element type and no shape.
        (input(&[vec![0x12, 4, 0x0a, 2], number(1, FLOAT)].concat()), "has no shape"),
    ] {
        match model_error(&model) {
            ModelError::Input { input, problem } => {
                assert!(input == "x" && problem.contains(why), "{problem}")
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn declarations_of_outputs_are_checked() {
    let model = |dtype, dims: &[&str]| {
        Model::new(13).input("x", &[2, 3]).node("Relu", &["x"], &["y"], &[]).declared("y", dtype, dims)
    };
    for dims in [&["2", "3"][..], &["n", "3"], &["?", "?"]] {
        assert_eq!(model(FLOAT, dims).becomes().len(), 1);
    }
    for (dtype, dims) in
        [(FLOAT, &["2", "4"][..]), (FLOAT, &["n"]), (FLOAT, &["2", "3", "1"]), (INT64, &["2", "3"])]
    {
        assert!(matches!(model_error(&model(dtype, dims)), ModelError::Contradiction { .. }), "{dims:?}");
    }
    assert_eq!(
        model_error(&model(INT64, &["n", "?"])).to_string(),
        "shapes that contradict: the model declares output `y` as int64 [?, ?], and computes float32 [2, 3]"
    );
}

#[test]
fn nodes_without_a_name_are_numbered() {
    let model = Model::new(13)
        .input("x", &[2])
        .node("Relu", &["x"], &["a"], &[])
        .node("Relu", &["a"], &["y"], &[])
        .outputs(&["y"]);
    let network = model.network();
    let names: Vec<&str> = network.graph.nodes().iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["Relu_0", "Relu_1"]);
    // Equal jobs, so one kernel.
    let jobs = network.graph.jobs();
    assert_eq!(jobs[0].1.digest(), jobs[1].1.digest());
}

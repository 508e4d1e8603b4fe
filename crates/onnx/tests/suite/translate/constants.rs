//! Values that are known when a model is translated.

use opkeep_ops::{Constant, Origin};

use super::model::{BOOL, FLOAT, INT32, INT64, Model, float, floats, int, ints, unary, value, word};
use super::render::{elements, float32s, int64s, nodes, outputs};

/// A model of known values, and its outputs.
fn known(model: Model) -> Vec<i64> {
    let network = model.outputs(&["y"]).network();
    assert_eq!(nodes(&network), Vec::<String>::new());
    int64s(&network, 0)
}

#[test]
fn constants_come_in_many_forms() {
    let constant = |attr| Model::new(13).node("Constant", &[], &["y"], &[attr]).outputs(&["y"]);
    let network = constant(int("value_int", -7)).network();
    assert_eq!((outputs(&network), int64s(&network, 0)), (vec!["int64:249 int64 []".to_owned()], vec![-7]));
    assert_eq!(int64s(&constant(ints("value_ints", &[3, -4])).network(), 0), [3, -4]);
    assert_eq!(outputs(&constant(float("value_float", 0.5)).network()), ["0.5 float32 []"]);
    assert_eq!(float32s(&constant(floats("value_floats", &[0.5, -2.0])).network(), 0), [0.5, -2.0]);
    let network = constant(value("value", BOOL, &[1, 2], &[1, 0])).network();
    assert_eq!(
        (outputs(&network), elements(&network, 0)),
        (vec!["const bool [1, 2]".to_owned()], vec![1, 0])
    );
    assert!(constant(word("value_string", "a")).why().contains("its value is text"));
    let two = Model::new(13)
        .node("Constant", &[], &["y"], &[int("value_int", 1), int("value_int", 1)])
        .outputs(&["y"]);
    assert!(two.why().contains("it has 2 values"));
}

#[test]
fn a_hundred_megabytes_stay_one_value() {
    let network = Model::new(9)
        .ints("shape", &[25, 1024, 1024])
        .node("ConstantOfShape", &["shape"], &["c"], &[value("value", FLOAT, &[1], &2.5f32.to_le_bytes())])
        // Operators keep uniform constants uniform.
        .node("Unsqueeze", &["c"], &["u"], &[ints("axes", &[0])])
        .node("Transpose", &["u"], &["t"], &[])
        .node("Mul", &["t", "t"], &["m"], &[])
        .node("Cast", &["m"], &["y"], &[int("to", 1)])
        .outputs(&["c", "y"])
        .network();
    assert_eq!(
        outputs(&network),
        ["2.5 float32 [25, 1024, 1024]".to_owned(), "6.25 float32 [1024, 1024, 25, 1]".to_owned()]
    );
    assert!(nodes(&network).is_empty());
    let (_, id) = &network.graph.outputs()[0];
    assert_eq!(network.graph.origin(*id), Origin::Constant(Constant::Fill(2.5f32.to_le_bytes().to_vec())));
}

#[test]
fn large_weights_are_left_to_kernels() {
    let model = |size: i64| {
        Model::new(13).weight("w", &[2, size]).node("Transpose", &["w"], &["y"], &[]).outputs(&["y"])
    };
    assert!(model(1 << 15).becomes().is_empty());
    assert_eq!(model((1 << 15) + 1).becomes(), ["Transpose(const, int32[1, 0]) -> [32769, 2]"]);
}

#[test]
fn different_values_are_not_uniform() {
    let pad = |fill: f32, edge: Option<f32>| {
        let model = Model::new(13)
            .ints("shape", &[300, 300])
            .node("ConstantOfShape", &["shape"], &["c"], &[value("value", FLOAT, &[1], &fill.to_le_bytes())])
            .ints("pads", &[1, 0, 0, 1]);
        let model = match edge {
            Some(edge) => model.node("Constant", &[], &["v"], &[float("value_float", edge)]),
            None => model,
        };
        let inputs = ["c", "pads", if edge.is_some() { "v" } else { "" }];
        model.node("Pad", &inputs, &["y"], &[]).outputs(&["y"]).network()
    };
    assert_eq!(outputs(&pad(1.0, Some(1.0))), ["1 float32 [301, 301]"]);
    assert_eq!(nodes(&pad(1.0, Some(2.0))).len(), 1);
    // Zeros are the default at the edge.
    assert_eq!(outputs(&pad(0.0, None)), ["0 float32 [301, 301]"]);
    assert_eq!(nodes(&pad(1.0, None)).len(), 1);
}

#[test]
fn shapes_are_worked_out() {
    let x = || Model::new(15).input("x", &[2, 3, 4, 5]);
    assert_eq!(known(x().node("Shape", &["x"], &["y"], &[])), [2, 3, 4, 5]);
    assert_eq!(known(x().node("Shape", &["x"], &["y"], &[int("start", 1), int("end", -1)])), [3, 4]);
    assert_eq!(known(x().node("Shape", &["x"], &["y"], &[int("start", 9)])), [0; 0]);
    assert_eq!(known(x().node("Size", &["x"], &["y"], &[])), [120]);
    // The elements of a computed tensor are not needed if only its shape is read.
    let shape_of_node = x().node("Relu", &["x"], &["r"], &[]).node("Shape", &["r"], &["y"], &[]);
    assert_eq!(known(shape_of_node), [2, 3, 4, 5]);
}

#[test]
fn exporters_reshape_by_chains_of_nodes() {
    let network = Model::new(11)
        .input("x", &[2, 6, 4])
        .node("Shape", &["x"], &["s"], &[])
        .int_tensor("zero", &[], &[0])
        .node("Gather", &["s", "zero"], &["n"], &[])
        .node("Unsqueeze", &["n"], &["n1"], &[ints("axes", &[0])])
        .ints("one", &[1])
        .ints("two", &[2])
        .node("Slice", &["s", "one", "two"], &["c"], &[])
        .node("Div", &["c", "two"], &["half"], &[])
        .node("Cast", &["half"], &["float"], &[int("to", 1)])
        .node("Floor", &["float"], &["floor"], &[])
        .node("Cast", &["floor"], &["c1"], &[int("to", 7)])
        .ints("rest", &[-1])
        .node("Concat", &["n1", "c1", "rest"], &["target"], &[int("axis", 0)])
        .node("Relu", &["x"], &["r"], &[])
        .node("Reshape", &["r", "target"], &["y"], &[])
        .outputs(&["y"])
        .network();
    assert_eq!(nodes(&network), ["Relu(x) -> [2, 6, 4]"]);
    assert_eq!(outputs(&network), ["%0 as [2, 3, 8] float32 [2, 3, 8]"]);
}

/// `op_type` of two lists.
fn of_two(op_type: &str, a: &[i64], b: &[i64]) -> Vec<i64> {
    known(Model::new(13).ints("a", a).ints("b", b).node(op_type, &["a", "b"], &["y"], &[]))
}

#[test]
fn whole_numbers_are_computed_as_by_kernels() {
    let (a, b) = (&[7, -7, 7, -7][..], &[2, 2, -2, -2][..]);
    assert_eq!(of_two("Add", a, &[1]), [8, -6, 8, -6]);
    assert_eq!(of_two("Sub", a, b), [5, -9, 9, -5]);
    assert_eq!(of_two("Mul", a, b), [14, -14, -14, 14]);
    assert_eq!(of_two("Div", a, b), [3, -3, -3, 3]);
    assert_eq!(of_two("Mod", a, b), [1, 1, -1, -1]);
    assert_eq!(of_two("Min", a, b), [2, -7, -2, -7]);
    assert_eq!(of_two("Max", a, b), [7, 2, 7, -2]);
    assert_eq!(of_two("Add", &[i64::MAX], &[1]), [i64::MIN]);
    assert_eq!(of_two("Div", &[i64::MIN], &[-1]), [i64::MIN]);
    assert_eq!(of_two("Expand", &[5, 6], &[2, 2]), [5, 6, 5, 6]);
    assert_eq!(of_two("Tile", &[5, 6], &[2]), [5, 6, 5, 6]);
    assert_eq!(of_two("Gather", &[5, 6, 7], &[-1, 0]), [7, 5]);
    assert_eq!(of_two("Pad", &[5, 6], &[1, -1]), [0, 5]);
    for op_type in ["Div", "Mod"] {
        let by_zero = Model::new(13).ints("a", &[1]).ints("b", &[0]);
        let network = by_zero.node(op_type, &["a", "b"], &["y"], &[]).outputs(&["y"]).network();
        assert_eq!(nodes(&network).len(), 1, "what has no value is left to the kernel");
    }
}

#[test]
fn comparisons_choose() {
    let model = Model::new(13)
        .ints("a", &[3, -1, 5])
        .ints("open", &[-1])
        .ints("one", &[1])
        .node("Equal", &["a", "open"], &["is_open"], &[])
        .node("Where", &["is_open", "one", "a"], &["y"], &[]);
    assert_eq!(known(model), [3, 1, 5]);
    for (op_type, expected) in [
        ("Less", [1, 0, 0]),
        ("LessOrEqual", [1, 1, 0]),
        ("Greater", [0, 0, 1]),
        ("GreaterOrEqual", [0, 1, 1]),
        ("Equal", [0, 1, 0]),
    ] {
        let model = Model::new(13)
            .ints("a", &[1, 2, 3])
            .ints("b", &[2])
            .node(op_type, &["a", "b"], &["y"], &[])
            .outputs(&["y"]);
        assert_eq!(elements(&model.network(), 0), expected, "{op_type}");
    }
    let logic = Model::new(13)
        .tensor("a", BOOL, &[4], &[0, 0, 1, 1])
        .tensor("b", BOOL, &[4], &[0, 1, 0, 1])
        .node("And", &["a", "b"], &["and"], &[])
        .node("Or", &["a", "b"], &["or"], &[])
        .node("Xor", &["a", "b"], &["xor"], &[])
        .node("Not", &["a"], &["not"], &[])
        .outputs(&["and", "or", "xor", "not"])
        .network();
    let found: Vec<Vec<u8>> = (0..4).map(|output| elements(&logic, output)).collect();
    assert_eq!(found, [[0, 0, 0, 1], [0, 1, 1, 1], [0, 1, 1, 0], [1, 1, 0, 0]]);
}

#[test]
fn moves_and_reductions_of_known_numbers() {
    let m = || Model::new(13).int_tensor("m", &[2, 3], &[1, 2, 3, 4, 5, 6]);
    assert_eq!(known(m().node("Transpose", &["m"], &["y"], &[])), [1, 4, 2, 5, 3, 6]);
    assert_eq!(known(m().node("ReduceProd", &["m"], &["y"], &[])), [720]);
    assert_eq!(known(m().node("ReduceMax", &["m"], &["y"], &[ints("axes", &[0])])), [4, 5, 6]);
    assert_eq!(known(m().node("ReduceMin", &["m"], &["y"], &[ints("axes", &[1])])), [1, 4]);
    let axes = m().ints("axes", &[1]);
    assert_eq!(known(axes.node("ReduceSum", &["m", "axes"], &["y"], &[int("keepdims", 0)])), [6, 15]);
    assert_eq!(known(m().node("Split", &["m"], &["a", "y"], &[])), [4, 5, 6]);
    assert_eq!(
        known(m().node("Concat", &["m", "m"], &["y"], &[int("axis", 1)])),
        [1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6]
    );
    let back = m().ints("from", &[-1]).ints("to", &[-9]).ints("axes", &[1]).ints("steps", &[-2]);
    assert_eq!(known(back.node("Slice", &["m", "from", "to", "axes", "steps"], &["y"], &[])), [3, 1, 6, 4]);
    let reflected = m().ints("pads", &[0, 2, 0, 0]);
    assert_eq!(
        known(reflected.node("Pad", &["m", "pads"], &["y"], &[word("mode", "reflect")])),
        [3, 2, 1, 2, 3, 6, 5, 4, 5, 6]
    );
    assert_eq!(known(m().node("NonZero", &["m"], &["y"], &[])), [0, 0, 0, 1, 1, 1, 0, 1, 2, 0, 1, 2]);
}

#[test]
fn floats_are_rounded_after_each_step() {
    let network = Model::new(13)
        .floats("a", &[3], &[0.1, 16_777_216.0, 2.0])
        .floats("b", &[3], &[0.2, 1.0, 3.0])
        .node("Add", &["a", "b"], &["sum"], &[])
        .node("Sum", &["a", "b", "b"], &["sums"], &[])
        .node("Div", &["a", "b"], &["quotient"], &[])
        .node("Sqrt", &["a"], &["root"], &[])
        .outputs(&["sum", "sums", "quotient", "root"])
        .network();
    assert!(nodes(&network).is_empty());
    assert_eq!(float32s(&network, 0), [0.1f32 + 0.2, 16_777_216.0, 5.0]);
    assert_eq!(float32s(&network, 1), [0.1f32 + 0.2 + 0.2, 16_777_216.0, 8.0]);
    assert_eq!(float32s(&network, 2), [0.1f32 / 0.2, 16_777_216.0, 2.0 / 3.0]);
    assert_eq!(float32s(&network, 3), [0.1f32.sqrt(), 4096.0, 2f32.sqrt()]);
}

#[test]
fn ranges_end_before_their_limit() {
    let range = |start: i64, limit: i64, delta: i64| {
        let model = Model::new(11).int_tensor("a", &[], &[start]).int_tensor("b", &[], &[limit]);
        model.int_tensor("c", &[], &[delta]).node("Range", &["a", "b", "c"], &["y"], &[])
    };
    assert_eq!(known(range(1, 8, 3)), [1, 4, 7]);
    assert_eq!(known(range(1, 7, 3)), [1, 4]);
    assert_eq!(known(range(5, 0, -2)), [5, 3, 1]);
    assert_eq!(known(range(5, 0, 2)), [0; 0]);
    for (start, limit, delta, why) in [
        (0, 1, 0, "its delta is 0"),
        (0, 65_537, 1, "more than 65536 elements"),
        (i64::MIN, i64::MAX, 1, "more than 65536 elements"),
    ] {
        assert!(range(start, limit, delta).outputs(&["y"]).why().contains(why));
    }
    let floats = Model::new(11)
        .floats("a", &[], &[0.0])
        .floats("b", &[], &[1.0])
        .floats("c", &[], &[0.3])
        .node("Range", &["a", "b", "c"], &["y"], &[])
        .outputs(&["y"]);
    assert_eq!(float32s(&floats.network(), 0), [0.0, 0.3, 0.6, 0.900_000_04]);
}

#[test]
fn values_that_must_be_known_are_asked_for() {
    let model = Model::new(13)
        .input("x", &[4])
        .typed("shape", INT64, &[2])
        .node("Reshape", &["x", "shape"], &["y"], &[])
        .outputs(&["y"]);
    assert_eq!(
        model.why(),
        "its shape (`shape`): expected a few whole numbers that are known before, found what is computed when the network \
         runs"
    );
    let floats = Model::new(13)
        .input("x", &[4])
        .weight("shape", &[1])
        .node("Reshape", &["x", "shape"], &["y"], &[])
        .outputs(&["y"]);
    assert_eq!(
        floats.why(),
        "its shape (`shape`): expected a few whole numbers that are known before, found float32 [1]"
    );
    assert!(unary(13, "NonZero", &[3], &[]).why().contains("known only when the network runs"));
    let count =
        Model::new(11).typed("n", INT32, &[]).node("Range", &["n", "n", "n"], &["y"], &[]).outputs(&["y"]);
    assert_eq!(count.why(), "its start must be one known number");
}

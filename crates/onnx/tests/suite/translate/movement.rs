//! Operators that move elements.

use super::model::{INT32, INT64, Model, float, int, ints, unary, word};
use super::render;

#[test]
fn axes_in_another_order() {
    let y = |perm: &[i64]| unary(13, "Transpose", &[2, 3, 4], &[ints("perm", perm)]);
    assert_eq!(y(&[0, 2, 1]).becomes(), ["Transpose(x, int32[0, 2, 1]) -> [2, 4, 3]"]);
    assert_eq!(
        unary(1 + 6, "Transpose", &[2, 3, 4], &[]).becomes(),
        ["Transpose(x, int32[2, 1, 0]) -> [4, 3, 2]"]
    );
    for perm in [&[0, 1][..], &[0, 0, 1], &[0, 1, 3]] {
        assert!(y(perm).why().contains("each axis of [2, 3, 4] once"));
    }
}

#[test]
fn side_by_side() {
    let concat = |shapes: [&[i64]; 3], attrs: &[Vec<u8>]| {
        let model = Model::new(13).input("a", shapes[0]).input("b", shapes[1]).input("c", shapes[2]);
        model.node("Concat", &["a", "b", "c"], &["y"], attrs).outputs(&["y"])
    };
    assert_eq!(
        concat([&[2, 1], &[2, 3], &[2, 2]], &[int("axis", -1)]).becomes(),
        ["ConcatD(a, b, c) concat_dim=1 N=3 -> [2, 6]"]
    );
    assert_eq!(
        concat([&[2, 1], &[2, 0], &[2, 2]], &[int("axis", 1)]).becomes(),
        ["ConcatD(a, c) concat_dim=1 N=2 -> [2, 3]"]
    );
    assert!(
        concat([&[2, 1], &[3, 1], &[2, 1]], &[int("axis", 1)]).why().contains("differ in more than axis 1")
    );
    assert!(concat([&[2], &[2], &[2]], &[]).why().contains("`axis` is not given"));
}

#[test]
fn gathering_along_an_axis() {
    let gather = |indices: &[i64], axis| {
        Model::new(13)
            .input("x", &[4, 5, 6])
            .typed("i", INT64, indices)
            .node("Gather", &["x", "i"], &["y"], &[int("axis", axis)])
            .outputs(&["y"])
            .network()
    };
    let node = "negative_index_support=true ->";
    let network = gather(&[2, 3], -2);
    assert_eq!(render::nodes(&network), [format!("GatherV2(x, i, int32[1]) {node} [4, 2, 3, 6]")]);
    // A scalar index removes its axis.
    let network = gather(&[], 1);
    assert_eq!(render::nodes(&network), [format!("GatherV2(x, i, int32[1]) {node} [4, 1, 6]")]);
    assert_eq!(render::outputs(&network), ["%0 as [4, 6] float32 [4, 6]"]);
    let known = |index: i64| {
        Model::new(13)
            .input("x", &[3])
            .int_tensor("i", &[], &[index])
            .node("Gather", &["x", "i"], &["y"], &[])
            .outputs(&["y"])
    };
    assert_eq!(render::outputs(&known(-3).network()), ["%0 float32 []"]);
    assert!(known(3).why().contains("index 3 is none of axis 0"));
    assert!(known(-4).why().contains("index -4"));
}

fn slice(bounds: [&[i64]; 2], axes: Option<&[i64]>, steps: Option<&[i64]>) -> Model {
    let mut model = Model::new(13).input("x", &[8, 5]).ints("from", bounds[0]).ints("to", bounds[1]);
    let mut inputs = vec!["x", "from", "to"];
    for (name, values) in [("axes", axes), ("steps", steps)] {
        inputs.push(if values.is_some() { name } else { "" });
        model = values.into_iter().fold(model, |model, values| model.ints(name, values));
    }
    model.node("Slice", &inputs, &["y"], &[]).outputs(&["y"])
}

#[test]
fn slices_count_from_the_start() {
    for (model, parameters, shape) in [
        (
            slice([&[1, -3], &[-1, 9]], None, None),
            "int64[1, 2], int64[7, 5], int64[0, 1], int64[1, 1]",
            [6, 3],
        ),
        (slice([&[-3], &[9]], Some(&[-1]), None), "int64[2], int64[5], int64[1], int64[1]", [8, 3]),
        (slice([&[1], &[8]], Some(&[0]), Some(&[3])), "int64[1], int64[8], int64[0], int64[3]", [3, 5]),
        // In any order of axes; an axis that is taken completely is left out.
        (slice([&[1, 0], &[4, 8]], Some(&[1, 0]), None), "int64[1], int64[4], int64[1], int64[1]", [8, 3]),
        (
            slice([&[1, 2], &[4, 5]], Some(&[1, 0]), None),
            "int64[2, 1], int64[5, 4], int64[0, 1], int64[1, 1]",
            [3, 3],
        ),
        // Backwards, down to the first element: only a number below all negative indices denotes the end before it.
        (
            slice([&[-1], &[i64::MIN]], Some(&[0]), Some(&[-2])),
            "int64[7], int64[-9], int64[0], int64[-2]",
            [4, 5],
        ),
        // A slice whose begin is before the first element begins at the first.
        (
            slice([&[-10], &[-100]], Some(&[0]), Some(&[-1])),
            "int64[0], int64[-9], int64[0], int64[-1]",
            [1, 5],
        ),
        (slice([&[6], &[1]], Some(&[0]), Some(&[-2])), "int64[6], int64[1], int64[0], int64[-2]", [3, 5]),
        (slice([&[3], &[3]], Some(&[0]), None), "int64[0], int64[0], int64[0], int64[1]", [0, 5]),
        (slice([&[9], &[12]], Some(&[0]), None), "int64[0], int64[0], int64[0], int64[1]", [0, 5]),
    ] {
        assert_eq!(model.becomes(), [format!("StridedSliceV2(x, {parameters}) -> {shape:?}")]);
    }
    // Backwards over one element.
    let one = Model::new(13)
        .input("x", &[1])
        .ints("from", &[-1])
        .ints("to", &[-9])
        .ints("axes", &[0])
        .ints("steps", &[-1])
        .node("Slice", &["x", "from", "to", "axes", "steps"], &["y"], &[])
        .outputs(&["y"]);
    assert!(one.becomes().is_empty());
    assert!(slice([&[0], &[1]], Some(&[0]), Some(&[0])).why().contains("step 0"));
    assert!(slice([&[0, 0], &[1, 1]], Some(&[0, -2]), None).why().contains("more than once"));
    assert!(slice([&[0, 0], &[1]], None, None).why().contains("differ in number"));
    assert!(slice([&[0], &[1]], Some(&[2]), None).why().contains("axis 2"));
}

#[test]
fn slices_had_attributes_before() {
    let attrs = [ints("starts", &[1]), ints("ends", &[-1]), ints("axes", &[1])];
    assert_eq!(
        unary(9, "Slice", &[2, 5], &attrs).becomes(),
        ["StridedSliceV2(x, int64[1], int64[4], int64[1], int64[1]) -> [2, 3]"]
    );
    assert!(unary(9, "Slice", &[2, 5], &attrs[..1]).why().contains("`ends` is not given"));
    let narrow: Vec<u8> = [1i32, 0].iter().flat_map(|bound| bound.to_le_bytes()).collect();
    let narrow = Model::new(10)
        .input("x", &[4, 5])
        .tensor("from", INT32, &[2], &narrow)
        .ints("to", &[3, 5])
        .node("Slice", &["x", "from", "to"], &["y"], &[])
        .outputs(&["y"]);
    assert_eq!(narrow.becomes(), ["StridedSliceV2(x, int64[1], int64[3], int64[0], int64[1]) -> [2, 5]"]);
    let running = Model::new(10)
        .input("x", &[4])
        .typed("from", INT64, &[1])
        .ints("to", &[3])
        .node("Slice", &["x", "from", "to"], &["y"], &[])
        .outputs(&["y"]);
    assert!(running.why().contains("`from`") && running.why().contains("computed when the network runs"));
}

fn split(opset: u64, sizes: Option<&[i64]>, attrs: &[Vec<u8>], outputs: &[&str]) -> Model {
    let model = Model::new(opset).input("x", &[2, 6]);
    match sizes {
        Some(sizes) => model.ints("sizes", sizes).node("Split", &["x", "sizes"], outputs, attrs),
        None => model.node("Split", &["x"], outputs, attrs),
    }
    .outputs(&outputs[..1])
}

#[test]
fn pieces_are_equal_or_have_given_sizes() {
    let axis = || int("axis", -1);
    let equal = ["Split(int32[1], x) num_split=3 -> [2, 2], [2, 2], [2, 2]"];
    let expected = ["SplitV(x, int64[1, 5], int32[1]) num_split=2 -> [2, 1], [2, 5]"];
    assert_eq!(split(11, None, &[axis()], &["a", "b", "c"]).becomes(), equal);
    assert_eq!(split(13, None, &[axis()], &["a", "b", "c"]).becomes(), equal);
    assert_eq!(split(11, None, &[axis(), ints("split", &[1, 5])], &["a", "b"]).becomes(), expected);
    assert_eq!(split(13, Some(&[1, 5]), &[axis()], &["a", "b"]).becomes(), expected);
    // A number that does not divide the axis leaves a smaller last piece.
    assert_eq!(
        split(18, None, &[axis(), int("num_outputs", 4)], &["a", "b", "c", "d"]).why(),
        "axis 1, of 6 elements, cannot be split into 4 pieces"
    );
    let five = Model::new(18)
        .input("x", &[5])
        .node("Split", &["x"], &["a", "b", "c"], &[int("num_outputs", 3)])
        .outputs(&["c"]);
    assert_eq!(five.becomes(), ["SplitV(x, int64[2, 2, 1], int32[0]) num_split=3 -> [2], [2], [1]"]);
    for (model, why) in [
        (split(13, None, &[axis()], &["a", "b", "c", "d"]), "into 4 equal pieces"),
        (split(13, Some(&[1, 4]), &[axis()], &["a", "b"]), "does not consist of 2 pieces of sizes"),
        (split(13, Some(&[7, -1]), &[axis()], &["a", "b"]), "does not consist of 2 pieces of sizes"),
        (split(13, Some(&[6]), &[axis()], &["a", "b"]), "does not consist of 2 pieces of sizes"),
        (split(18, Some(&[3, 3]), &[axis(), int("num_outputs", 2)], &["a", "b"]), "both sizes"),
        (split(18, None, &[axis(), int("num_outputs", 3)], &["a", "b"]), "it has 2 outputs"),
    ] {
        assert!(model.why().contains(why), "{}", model.why());
    }
}

#[test]
fn pads_were_pairs_before_they_kept_their_order() {
    let old =
        |attrs: &[Vec<u8>]| unary(10, "Pad", &[4, 5], &[&[ints("pads", &[1, 2, 3, -1])], attrs].concat());
    assert_eq!(old(&[float("value", 0.5)]).becomes(), ["PadV3(x, int32[1, 3, 2, -1], 0.5) -> [8, 6]"]);
    assert_eq!(
        old(&[word("mode", "reflect")]).becomes(),
        ["MirrorPad(x, int32[1, 3, 2, -1]) mode=REFLECT -> [8, 6]"]
    );
    assert_eq!(old(&[word("mode", "edge")]).becomes(), ["PadV3(x, int32[1, 3, 2, -1]) mode=edge -> [8, 6]"]);
    let new = |inputs: &[&str], attrs: &[Vec<u8>]| {
        Model::new(19)
            .input("x", &[4, 5])
            .ints("pads", &[1, 2, 3, -1])
            .ints("two", &[1, 2])
            .input("value", &[])
            .ints("axes", &[-1])
            .node("Pad", inputs, &["y"], attrs)
            .outputs(&["y"])
    };
    let order = "paddings_contiguous=false ->";
    assert_eq!(new(&["x", "pads"], &[]).becomes(), [format!("PadV3(x, int64[1, 2, 3, -1]) {order} [8, 6]")]);
    assert_eq!(
        new(&["x", "pads", "value"], &[]).becomes(),
        [format!("PadV3(x, int64[1, 2, 3, -1], value) {order} [8, 6]")]
    );
    assert_eq!(
        new(&["x", "two", "", "axes"], &[word("mode", "reflect")]).becomes(),
        [format!("PadV3(x, int64[0, 1, 0, 2]) mode=reflect {order} [4, 8]")]
    );
    assert!(new(&["x", "pads"], &[word("mode", "wrap")]).why().contains("`mode` is `wrap`"));
    assert!(new(&["x", "two"], &[]).why().contains("expected two values for each of 2 axes"));
    assert!(new(&["x", "pads", "x"], &[]).why().contains("its value has shape [4, 5]"));
    assert!(
        unary(10, "Pad", &[4], &[ints("pads", &[4, 0]), word("mode", "reflect")])
            .why()
            .contains("do not fit")
    );
}

#[test]
fn repeating_and_expanding() {
    let with = |op_type: &str, shape: &[i64], values: &[i64]| {
        let model = Model::new(13).input("x", shape).ints("v", values);
        model.node(op_type, &["x", "v"], &["y"], &[]).outputs(&["y"])
    };
    assert_eq!(with("Tile", &[2, 3], &[2, 1]).becomes(), ["Tile(x, int64[2, 1]) -> [4, 3]"]);
    assert_eq!(with("Expand", &[3, 1], &[2, 1, 4]).becomes(), ["Expand(x, int64[2, 3, 4]) -> [2, 3, 4]"]);
    // The requested shape may be 1 where the input's is not.
    assert_eq!(with("Expand", &[3, 1], &[1, 4]).becomes(), ["Expand(x, int64[3, 4]) -> [3, 4]"]);
    assert!(with("Tile", &[2, 3], &[2]).why().contains("expected one for each axis"));
    assert!(with("Tile", &[2], &[-1]).why().contains("expected one for each axis"));
    assert!(with("Expand", &[3], &[2]).why().contains("cannot be expanded to [2]"));
}

#[test]
fn channels_become_squares_and_back() {
    let (block, shape) = (|| int("blocksize", 2), [1, 8, 2, 3]);
    let attrs = [block(), word("mode", "CRD")];
    let network = unary(11, "DepthToSpace", &shape, &attrs).network();
    assert_eq!(
        render::nodes(&network),
        ["Transpose(x as [1, 2, 2, 2, 2, 3], int32[0, 1, 4, 2, 5, 3]) -> [1, 2, 2, 2, 3, 2]"]
    );
    assert_eq!(render::outputs(&network), ["%0 as [1, 2, 4, 6] float32 [1, 2, 4, 6]"]);
    assert_eq!(
        unary(9, "DepthToSpace", &[1, 12, 2, 3], &[block()]).becomes(),
        ["Transpose(x as [1, 2, 2, 3, 2, 3], int32[0, 3, 4, 1, 5, 2]) -> [1, 3, 2, 2, 3, 2]"]
    );
    assert_eq!(
        unary(13, "SpaceToDepth", &[1, 3, 4, 6], &[block()]).becomes(),
        ["Transpose(x as [1, 3, 2, 2, 3, 2], int32[0, 3, 5, 1, 2, 4]) -> [1, 2, 2, 3, 2, 3]"]
    );
    assert!(unary(13, "DepthToSpace", &[1, 6, 2, 2], &[block()]).why().contains("no multiple of a block"));
    assert!(
        unary(13, "SpaceToDepth", &[1, 6, 3, 2], &[block()]).why().contains("does not consist of blocks")
    );
    assert!(
        unary(13, "SpaceToDepth", &[1, 6, 3, 2], &[int("blocksize", 0)]).why().contains("`blocksize` is 0")
    );
}

#[test]
fn triangles_are_chosen_by_a_mask() {
    let network = Model::new(14)
        .input("x", &[5, 2, 3])
        .int_tensor("k", &[], &[1])
        .node("Trilu", &["x", "k"], &["y"], &[])
        .outputs(&["y"])
        .network();
    assert_eq!(render::nodes(&network), ["SelectV2(const, x, 0) -> [5, 2, 3]"]);
    let mask = network.graph.nodes()[0].inputs[0][0];
    let mut bytes = vec![0; 6];
    match network.graph.origin(mask) {
        opkeep_ops::Origin::Constant(mask) => mask.copy_to(&mut bytes).unwrap(),
        other => panic!("{other:?}"),
    }
    assert_eq!(bytes, [0, 1, 1, 0, 0, 1]);
}

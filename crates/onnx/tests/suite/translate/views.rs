//! Operators that change shapes but no elements need no kernel.

use super::model::{Model, int, ints, unary};
use super::render;

/// The output of a model without nodes.
fn view(model: &Model) -> String {
    let network = model.network();
    assert_eq!(render::nodes(&network), Vec::<String>::new());
    render::outputs(&network).concat()
}

fn reshape(shape: &[i64], target: &[i64], attrs: &[Vec<u8>]) -> Model {
    Model::new(14)
        .input("x", shape)
        .ints("shape", target)
        .node("Reshape", &["x", "shape"], &["y"], attrs)
        .outputs(&["y"])
}

#[test]
fn reshaping_completes_the_shape() {
    assert_eq!(view(&reshape(&[2, 3, 4], &[4, 6], &[])), "x as [4, 6] float32 [4, 6]");
    assert_eq!(view(&reshape(&[2, 3, 4], &[0, -1], &[])), "x as [2, 12] float32 [2, 12]");
    assert_eq!(view(&reshape(&[2, 3, 4], &[-1, 0, 2], &[])), "x as [4, 3, 2] float32 [4, 3, 2]");
    assert_eq!(view(&reshape(&[1, 1], &[], &[])), "x as [1] float32 []");
    assert_eq!(view(&reshape(&[2, 3], &[2, 3], &[])), "x float32 [2, 3]");
    // With `allowzero`, a 0 means 0.
    assert_eq!(view(&reshape(&[0, 3], &[3, 0], &[int("allowzero", 1)])), "x as [3, 0] float32 [3, 0]");
    assert_eq!(view(&reshape(&[0, 3], &[0, 3], &[])), "x float32 [0, 3]");
    for (shape, target, attrs) in [
        (&[2, 3][..], &[4, -1][..], vec![]),
        (&[2, 3], &[-1, -1], vec![]),
        (&[2, 3], &[-2, 3], vec![]),
        (&[2, 3], &[7], vec![]),
        (&[2, 3], &[2, 3, 0], vec![]),
        (&[2, 3], &[0, -1], vec![int("allowzero", 1)]),
        (&[0, 3], &[0, -1], vec![]),
        (&[2, 3], &[i64::MAX, i64::MAX, -1], vec![]),
    ] {
        let why = reshape(shape, target, &attrs).why();
        assert!(why.contains("cannot be"), "{why}");
    }
}

#[test]
fn flattening_is_at_an_axis() {
    let flatten = |axis| view(&unary(13, "Flatten", &[2, 3, 4], &[int("axis", axis)]));
    assert_eq!(view(&unary(9, "Flatten", &[2, 3, 4], &[])), "x as [2, 12] float32 [2, 12]");
    assert_eq!(flatten(0), "x as [1, 24] float32 [1, 24]");
    assert_eq!(flatten(3), "x as [24, 1] float32 [24, 1]");
    assert_eq!(flatten(-1), "x as [6, 4] float32 [6, 4]");
    assert_eq!(view(&unary(13, "Flatten", &[], &[int("axis", 0)])), "x as [1, 1] float32 [1, 1]");
    assert!(unary(13, "Flatten", &[2], &[int("axis", 2)]).why().contains("axis 2"));
}

#[test]
fn axes_of_one_come_and_go() {
    let old =
        |op_type: &str, shape: &[i64], axes: &[i64]| view(&unary(11, op_type, shape, &[ints("axes", axes)]));
    assert_eq!(old("Squeeze", &[1, 2, 1, 3], &[-2]), "x as [1, 2, 3] float32 [1, 2, 3]");
    assert_eq!(old("Unsqueeze", &[2, 3], &[3, 0]), "x as [1, 2, 3, 1] float32 [1, 2, 3, 1]");
    assert_eq!(old("Unsqueeze", &[2, 3], &[-1, 1]), "x as [2, 1, 3, 1] float32 [2, 1, 3, 1]");
    assert_eq!(view(&unary(11, "Squeeze", &[1, 2, 1], &[])), "x as [2] float32 [2]");
    assert_eq!(view(&unary(13, "Squeeze", &[1, 1], &[])), "x as [1] float32 []");
    let new = |op_type: &str, shape: &[i64]| {
        Model::new(13)
            .input("x", shape)
            .ints("axes", &[1])
            .node(op_type, &["x", "axes"], &["y"], &[])
            .outputs(&["y"])
    };
    assert_eq!(view(&new("Squeeze", &[2, 1])), "x as [2] float32 [2]");
    assert_eq!(view(&new("Unsqueeze", &[2])), "x as [2, 1] float32 [2, 1]");
    assert!(new("Squeeze", &[2, 3]).why().contains("it is not 1"));
    assert!(unary(11, "Unsqueeze", &[2], &[]).why().contains("axes are not given"));
    assert!(unary(11, "Unsqueeze", &[2], &[ints("axes", &[0, -3])]).why().contains("twice"));
}

#[test]
fn views_of_views_show_the_source() {
    let model = Model::new(11)
        .input("x", &[2, 3, 4])
        .node("Flatten", &["x"], &["a"], &[])
        .node("Unsqueeze", &["a"], &["b"], &[ints("axes", &[0])])
        .node("Identity", &["b"], &["c"], &[])
        .node("Relu", &["c"], &["y"], &[])
        .outputs(&["y"]);
    assert_eq!(model.becomes(), ["Relu(x as [1, 2, 12]) -> [1, 2, 12]"]);
    let back = Model::new(11)
        .input("x", &[2, 3])
        .node("Unsqueeze", &["x"], &["a"], &[ints("axes", &[0])])
        .node("Squeeze", &["a"], &["y"], &[])
        .outputs(&["y"]);
    assert_eq!(view(&back), "x float32 [2, 3]");
}

#[test]
fn operators_that_move_no_element_are_views() {
    let with = |op_type: &str, shape: &[i64], values: &[i64]| {
        let model = Model::new(13).input("x", shape).ints("v", values);
        view(&model.node(op_type, &["x", "v"], &["y"], &[]).outputs(&["y"]))
    };
    assert_eq!(with("Expand", &[2, 3], &[2, 1]), "x float32 [2, 3]");
    assert_eq!(with("Expand", &[3], &[1, 1, 3]), "x as [1, 1, 3] float32 [1, 1, 3]");
    assert_eq!(with("Tile", &[2, 3], &[1, 1]), "x float32 [2, 3]");
    assert_eq!(with("Tile", &[], &[]), "x float32 []");
    assert_eq!(with("Pad", &[2], &[0, 0]), "x float32 [2]");
    let one = |op_type: &str, shape: &[i64], attrs: &[Vec<u8>]| view(&unary(13, op_type, shape, attrs));
    assert_eq!(one("Transpose", &[2, 1, 3], &[ints("perm", &[1, 0, 2])]), "x as [1, 2, 3] float32 [1, 2, 3]");
    assert_eq!(one("Transpose", &[4], &[]), "x float32 [4]");
    assert_eq!(one("Concat", &[4], &[int("axis", 0)]), "x float32 [4]");
    assert_eq!(one("Split", &[4], &[]), "x float32 [4]");
    assert_eq!(one("DepthToSpace", &[1, 4, 2, 2], &[int("blocksize", 1)]), "x float32 [1, 4, 2, 2]");
    let whole = Model::new(13)
        .input("x", &[4, 5])
        .ints("from", &[0, -9])
        .ints("to", &[4, i64::MAX])
        .node("Slice", &["x", "from", "to"], &["y"], &[])
        .outputs(&["y"]);
    assert_eq!(view(&whole), "x float32 [4, 5]");
    let empty = Model::new(13)
        .input("x", &[2, 3])
        .input("none", &[0, 3])
        .node("Concat", &["none", "x"], &["y"], &[int("axis", 0)])
        .outputs(&["y"]);
    assert_eq!(view(&empty), "x float32 [2, 3]");
}

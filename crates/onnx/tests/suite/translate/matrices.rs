//! Matrix products and reductions.

use super::model::{Model, float, int, ints, unary};
use super::render;

fn product(a: &[i64], b: &[i64]) -> Model {
    Model::new(13).input("a", a).input("b", b).node("MatMul", &["a", "b"], &["y"], &[]).outputs(&["y"])
}

#[test]
fn vectors_are_rows_and_columns() {
    for (a, b, node, output) in [
        (&[2, 3][..], &[3, 4][..], "BatchMatMulV2(a, b) -> [2, 4]", "%0 float32 [2, 4]"),
        (&[5, 1, 2, 3], &[6, 3, 4], "BatchMatMulV2(a, b) -> [5, 6, 2, 4]", "%0 float32 [5, 6, 2, 4]"),
        (&[3], &[3, 4], "BatchMatMulV2(a as [1, 3], b) -> [1, 4]", "%0 as [4] float32 [4]"),
        (&[2, 3], &[3], "BatchMatMulV2(a, b as [3, 1]) -> [2, 1]", "%0 as [2] float32 [2]"),
        (&[3], &[5, 3, 4], "BatchMatMulV2(a as [1, 3], b) -> [5, 1, 4]", "%0 as [5, 4] float32 [5, 4]"),
        (&[3], &[3], "BatchMatMulV2(a as [1, 3], b as [3, 1]) -> [1, 1]", "%0 as [1] float32 []"),
    ] {
        let network = product(a, b).network();
        assert_eq!(render::nodes(&network), [node]);
        assert_eq!(render::outputs(&network), [output]);
    }
    assert!(product(&[2, 3], &[2, 3]).why().contains("cannot be multiplied"));
    assert!(product(&[], &[2, 3]).why().contains("expected vectors or matrices"));
}

fn gemm(opset: u64, c: Option<&[i64]>, attrs: &[Vec<u8>]) -> Model {
    let model = Model::new(opset).input("a", &[2, 3]).input("b", &[3, 4]);
    match c {
        Some(shape) => model.input("c", shape).node("Gemm", &["a", "b", "c"], &["y"], attrs),
        None => model.node("Gemm", &["a", "b"], &["y"], attrs),
    }
    .outputs(&["y"])
}

#[test]
fn a_general_product_has_only_needed_operators() {
    assert_eq!(gemm(11, None, &[]).becomes(), ["MatMulV2(a, b) -> [2, 4]"]);
    assert_eq!(gemm(13, Some(&[4]), &[]).becomes(), ["MatMulV2(a, b) -> [2, 4]", "Add(%0, c) -> [2, 4]"]);
    // Alpha also counts without C.
    assert_eq!(
        gemm(11, None, &[float("alpha", 0.5)]).becomes(),
        ["MatMulV2(a, b) -> [2, 4]", "Muls(%0) value=0.5 -> [2, 4]"]
    );
    assert_eq!(
        gemm(9, Some(&[2, 1]), &[float("alpha", 0.5), float("beta", 2.0)]).becomes(),
        [
            "MatMulV2(a, b) -> [2, 4]",
            "Muls(%0) value=0.5 -> [2, 4]",
            "Muls(c) value=2 -> [2, 1]",
            "Add(%1, %2) -> [2, 4]",
        ]
    );
    assert_eq!(gemm(9, Some(&[2, 1]), &[float("beta", 0.0)]).becomes(), ["MatMulV2(a, b) -> [2, 4]"]);
    let turned = Model::new(13)
        .input("a", &[3, 2])
        .input("b", &[4, 3])
        .node("Gemm", &["a", "b"], &["y"], &[int("transA", 1), int("transB", 1)])
        .outputs(&["y"]);
    assert_eq!(turned.becomes(), ["MatMulV2(a, b) transpose_x1=true transpose_x2=true -> [2, 4]"]);
}

#[test]
fn the_last_operator_has_the_nodes_name() {
    let model = Model::new(13)
        .input("a", &[2, 3])
        .input("b", &[3, 4])
        .input("c", &[4])
        .node_of("", "Gemm", "dense", &["a", "b", "c"], &["y"], &[float("alpha", 3.0), float("beta", 2.0)])
        .outputs(&["y"]);
    let names: Vec<String> = model.network().graph.nodes().iter().map(|node| node.name.clone()).collect();
    assert_eq!(names, ["dense/product", "dense/alpha", "dense/beta", "dense"]);
}

#[test]
fn general_products_that_do_not_fit_are_refused() {
    assert!(gemm(10, None, &[]).why().contains("it has 2 inputs, expected 3"));
    assert!(gemm(11, Some(&[3]), &[]).why().contains("C has shape [3]"));
    assert!(gemm(11, Some(&[1, 2, 4]), &[]).why().contains("C has shape [1, 2, 4]"));
    assert!(gemm(11, None, &[int("transA", 2)]).why().contains("`transA` is 2"));
}

#[test]
fn fused_products_are_taken_apart() {
    let fused = |attrs: &[Vec<u8>]| {
        Model::new(13)
            .import("com.microsoft", 1)
            .input("a", &[2, 3, 4])
            .input("b", &[5, 4])
            .node_of("com.microsoft", "FusedMatMul", "", &["a", "b"], &["y"], attrs)
            .outputs(&["y"])
    };
    assert_eq!(
        fused(&[int("transB", 1), float("alpha", 0.5)]).becomes(),
        ["BatchMatMulV2(a, b) adj_x2=true -> [2, 3, 5]", "Muls(%0) value=0.5 -> [2, 3, 5]"]
    );
    assert!(fused(&[int("transBatchA", 1)]).why().contains("`transBatchA` is set"));
}

#[test]
fn reductions_name_their_axes() {
    let reduce = |opset, attrs: &[Vec<u8>]| unary(opset, "ReduceMean", &[2, 3, 4], attrs).becomes();
    let tail = "noop_with_empty_axes=false";
    assert_eq!(
        reduce(11, &[ints("axes", &[-1, 0])]),
        [format!("ReduceMean(x, int32[0, 2]) keep_dims=true {tail} -> [1, 3, 1]")]
    );
    assert_eq!(
        reduce(13, &[ints("axes", &[1]), int("keepdims", 0)]),
        [format!("ReduceMean(x, int32[1]) {tail} -> [2, 4]")]
    );
    assert_eq!(
        reduce(18, &[]),
        [format!("ReduceMean(x, int32[0, 1, 2]) keep_dims=true {tail} -> [1, 1, 1]")]
    );
    assert!(reduce(18, &[int("noop_with_empty_axes", 1)]).is_empty());
    assert!(unary(18, "ReduceMean", &[2], &[ints("axes", &[0])]).why().contains("an attribute `axes`"));
    assert!(unary(11, "ReduceMax", &[2, 3], &[ints("axes", &[0, -2])]).why().contains("twice"));
    assert!(unary(11, "ReduceMax", &[2, 3], &[ints("axes", &[2])]).why().contains("are not all those"));
}

#[test]
fn axes_are_an_input_of_sums_since_13_and_of_others_since_18() {
    for (op_type, opset) in [("ReduceSum", 13), ("ReduceMax", 18), ("ReduceMin", 18), ("ReduceProd", 18)] {
        let model = Model::new(opset)
            .input("x", &[2, 3])
            .ints("axes", &[-1])
            .node(op_type, &["x", "axes"], &["y"], &[int("keepdims", 0)])
            .outputs(&["y"]);
        assert_eq!(model.becomes(), [format!("{op_type}(x, int32[1]) noop_with_empty_axes=false -> [2]")]);
    }
}

#[test]
fn to_a_scalar_and_from_one() {
    let network = unary(11, "ReduceSum", &[2, 3], &[int("keepdims", 0)]).network();
    assert_eq!(render::outputs(&network), ["%0 float32 []"]);
    let network = unary(11, "ReduceSum", &[], &[]).network();
    assert_eq!(
        (render::nodes(&network).len(), render::outputs(&network)),
        (0, vec!["x float32 []".to_owned()])
    );
    let network = unary(11, "ReduceSum", &[2, 1], &[ints("axes", &[1]), int("keepdims", 0)]).network();
    assert_eq!(render::outputs(&network), ["x as [2] float32 [2]"]);
}

#[test]
fn other_reductions_are_composed() {
    let reduce =
        |op_type: &str| unary(13, op_type, &[2, 3], &[ints("axes", &[1]), int("keepdims", 0)]).becomes();
    let sum = "noop_with_empty_axes=false -> [2]";
    assert_eq!(reduce("ReduceL1"), ["Abs(x) -> [2, 3]".to_owned(), format!("ReduceSum(%0, int32[1]) {sum}")]);
    assert_eq!(
        reduce("ReduceL2"),
        [
            "Square(x) -> [2, 3]".to_owned(),
            format!("ReduceSum(%0, int32[1]) {sum}"),
            "Sqrt(%1) -> [2]".to_owned()
        ]
    );
    assert_eq!(
        reduce("ReduceSumSquare"),
        ["Square(x) -> [2, 3]".to_owned(), format!("ReduceSum(%0, int32[1]) {sum}")]
    );
    assert_eq!(
        reduce("ReduceLogSum"),
        [format!("ReduceSum(x, int32[1]) {sum}"), "Log(%0) -> [2]".to_owned()]
    );
    assert_eq!(
        reduce("ReduceLogSumExp"),
        [
            "ReduceMax(x, int32[1]) keep_dims=true noop_with_empty_axes=false -> [2, 1]".to_owned(),
            "IsFinite(%0) -> bool [2, 1]".to_owned(),
            "SelectV2(%1, %0, 0) -> [2, 1]".to_owned(),
            "Sub(x, %2) -> [2, 3]".to_owned(),
            "Exp(%3) -> [2, 3]".to_owned(),
            format!("ReduceSum(%4, int32[1]) {sum}"),
            "Log(%5) -> [2]".to_owned(),
            "Add(%6, %2 as [2]) -> [2]".to_owned(),
        ]
    );
}

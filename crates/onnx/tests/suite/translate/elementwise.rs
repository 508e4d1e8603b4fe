//! Operators that work element by element.

use super::model::{BOOL, DOUBLE, FLOAT, INT32, INT64, Model, STRING, float, int, unary, word};
use super::render;

#[test]
fn unary_operators_have_their_namesakes() {
    for (onnx, opset, ir) in [
        ("Abs", 7, "Abs"),
        ("Acos", 7, "Acos"),
        ("Acosh", 9, "Acosh"),
        ("Asin", 7, "Asin"),
        ("Asinh", 9, "Asinh"),
        ("Atan", 7, "Atan"),
        ("Atanh", 9, "Atanh"),
        ("Ceil", 13, "Ceil"),
        ("Cos", 7, "Cos"),
        ("Cosh", 9, "Cosh"),
        ("Elu", 7, "Elu"),
        ("Erf", 9, "Erf"),
        ("Exp", 7, "Exp"),
        ("Floor", 7, "Floor"),
        ("Gelu", 20, "GeluV2"),
        ("HardSwish", 14, "HardSwish"),
        ("Log", 7, "Log"),
        ("Mish", 18, "Mish"),
        ("Neg", 7, "Neg"),
        ("Reciprocal", 7, "Reciprocal"),
        ("Relu", 14, "Relu"),
        ("Round", 11, "Rint"),
        ("Selu", 7, "Selu"),
        ("Sigmoid", 7, "Sigmoid"),
        ("Sign", 9, "Sign"),
        ("Sin", 7, "Sin"),
        ("Sinh", 9, "Sinh"),
        ("Softplus", 7, "Softplus"),
        ("Softsign", 7, "Softsign"),
        ("Sqrt", 7, "Sqrt"),
        ("Tan", 7, "Tan"),
        ("Tanh", 25, "Tanh"),
    ] {
        assert_eq!(unary(opset, onnx, &[2, 3], &[]).becomes(), [format!("{ir}(x) -> [2, 3]")]);
        let scalar = unary(opset, onnx, &[], &[]).network();
        assert_eq!(render::outputs(&scalar), ["%0 float32 []"]);
    }
    let not = Model::new(9).typed("x", BOOL, &[2]).node("Not", &["x"], &["y"], &[]).outputs(&["y"]);
    assert_eq!(not.becomes(), ["LogicalNot(x) -> bool [2]"]);
    assert_eq!(unary(13, "IsNaN", &[2], &[]).becomes(), ["IsNan(x) -> bool [2]"]);
}

#[test]
fn attributes_have_onnx_defaults() {
    let y = |opset, op_type: &str, attrs: &[Vec<u8>]| unary(opset, op_type, &[2], attrs).becomes().concat();
    assert_eq!(y(16, "LeakyRelu", &[]), "LeakyRelu(x) negative_slope=0.01 -> [2]");
    assert_eq!(y(6 + 1, "LeakyRelu", &[float("alpha", 0.5)]), "LeakyRelu(x) negative_slope=0.5 -> [2]");
    assert_eq!(y(9, "Elu", &[float("alpha", 0.5)]), "Elu(x) alpha=0.5 -> [2]");
    assert_eq!(y(12, "Celu", &[float("alpha", 0.5)]), "CeluV2(x) alpha=0.5 -> [2]");
    assert_eq!(y(9, "Selu", &[float("gamma", 0.5)]), "Elu(x) alpha=1.6732632 scale=0.5 -> [2]");
    assert_eq!(y(9, "HardSigmoid", &[]), "HardSigmoid(x) alpha=0.2 -> [2]");
    assert_eq!(y(9, "HardSigmoid", &[float("beta", 0.25)]), "HardSigmoid(x) alpha=0.2 beta=0.25 -> [2]");
    assert_eq!(y(10, "ThresholdedRelu", &[float("alpha", 2.0)]), "ThresholdedRelu(x) alpha=2 -> [2]");
    assert_eq!(y(9, "Shrink", &[float("bias", 0.25)]), "Shrink(x) bias=0.25 -> [2]");
    assert_eq!(y(24, "Swish", &[float("alpha", 2.0)]), "Swish(x) scale=2 -> [2]");
    assert_eq!(y(20, "Gelu", &[word("approximate", "tanh")]), "GeluV2(x) approximate=tanh -> [2]");
    assert!(unary(20, "Gelu", &[2], &[word("approximate", "sin")]).why().contains("`approximate` is `sin`"));
}

#[test]
fn infinities_of_one_sign_take_a_comparison() {
    let (negative, positive) = (|on| int("detect_negative", on), |on| int("detect_positive", on));
    assert_eq!(unary(10, "IsInf", &[2], &[]).becomes(), ["IsInf(x) -> bool [2]"]);
    for (attrs, side) in [([negative(0), positive(1)], "Greater"), ([negative(1), positive(0)], "Less")] {
        assert_eq!(
            unary(10, "IsInf", &[2], &attrs).becomes(),
            [
                "IsInf(x) -> bool [2]".to_owned(),
                format!("{side}(x, 0) -> bool [2]"),
                "LogicalAnd(%0, %1) -> bool [2]".to_owned()
            ]
        );
    }
    let never = unary(10, "IsInf", &[2], &[negative(0), positive(0)]).network();
    assert_eq!(render::outputs(&never), ["bool:0 bool [2]"]);
}

#[test]
fn binary_operators_broadcast() {
    for (onnx, opset, ir, dtype) in [
        ("Add", 7, "Add", ""),
        ("Sub", 13, "Sub", ""),
        ("Mul", 14, "Mul", ""),
        ("Div", 7, "RealDiv", ""),
        ("Pow", 12, "Pow", ""),
        ("Equal", 11, "Equal", "bool "),
        ("Less", 9, "Less", "bool "),
        ("LessOrEqual", 12, "LessEqual", "bool "),
        ("Greater", 9, "Greater", "bool "),
        ("GreaterOrEqual", 16, "GreaterEqual", "bool "),
        ("Max", 8, "Maximum", ""),
        ("Min", 13, "Minimum", ""),
    ] {
        let model = Model::new(opset)
            .input("a", &[2, 1, 4])
            .input("b", &[3, 1])
            .node(onnx, &["a", "b"], &["y"], &[])
            .outputs(&["y"]);
        assert_eq!(model.becomes(), [format!("{ir}(a, b) -> {dtype}[2, 3, 4]")]);
    }
    for (onnx, ir) in [("And", "LogicalAnd"), ("Or", "LogicalOr"), ("Xor", "LogicalXor")] {
        let model = Model::new(9)
            .typed("a", BOOL, &[2])
            .typed("b", BOOL, &[])
            .node(onnx, &["a", "b"], &["y"], &[])
            .outputs(&["y"]);
        assert_eq!(model.becomes(), [format!("{ir}(a, b) -> bool [2]")]);
    }
    let misfit =
        Model::new(9).input("a", &[2]).input("b", &[3]).node("Add", &["a", "b"], &["y"], &[]).outputs(&["y"]);
    assert!(misfit.why().contains("shapes [[2], [3]] do not broadcast"));
}

#[test]
fn scalars_stay_scalars() {
    let model = Model::new(13)
        .input("a", &[])
        .input("b", &[])
        .node("Add", &["a", "b"], &["s"], &[])
        .input("c", &[1])
        .node("Add", &["s", "c"], &["v"], &[])
        .outputs(&["s", "v"]);
    let network = model.network();
    assert_eq!(render::outputs(&network), ["%0 float32 []", "%1 float32 [1]"]);
    assert_eq!(network.inputs[0].shape, Vec::<i64>::new());
    assert_eq!(network.graph.tensor(network.graph.inputs()[0].1).shape, [1]);
}

#[test]
fn remainders_have_a_sign() {
    let modulo = |dtype, attrs: &[Vec<u8>]| {
        Model::new(13)
            .typed("a", dtype, &[2])
            .typed("b", dtype, &[2])
            .node("Mod", &["a", "b"], &["y"], attrs)
            .outputs(&["y"])
    };
    assert_eq!(modulo(INT64, &[]).becomes(), ["FloorMod(a, b) -> int64 [2]"]);
    assert_eq!(modulo(INT64, &[int("fmod", 1)]).becomes(), ["Mod(a, b) -> int64 [2]"]);
    assert_eq!(modulo(FLOAT, &[int("fmod", 1)]).becomes(), ["Mod(a, b) -> [2]"]);
    assert!(modulo(FLOAT, &[]).why().contains("needs attribute `fmod`"));
}

#[test]
fn an_exponent_is_cast_to_the_bases_type() {
    let pow = |base, exponent| {
        Model::new(15)
            .typed("a", base, &[2])
            .typed("b", exponent, &[])
            .node("Pow", &["a", "b"], &["y"], &[])
            .outputs(&["y"])
            .becomes()
    };
    assert_eq!(pow(FLOAT, INT64), ["Cast(b) dst_type=0 -> [1]", "Pow(a, %0) -> [2]"]);
    assert_eq!(pow(INT64, INT32), ["Cast(b) dst_type=9 -> int64 [1]", "Pow(a, %0) -> int64 [2]"]);
    assert_eq!(
        pow(INT32, FLOAT),
        [
            "Cast(a) dst_type=11 -> float64 [2]",
            "Cast(b) dst_type=11 -> float64 [1]",
            "Pow(%0, %1) -> float64 [2]",
            "Cast(%2) dst_type=3 -> int32 [2]",
        ]
    );
}

#[test]
fn any_number_of_inputs() {
    let many = |op_type: &str, count: usize| {
        let names: Vec<String> = (0..count).map(|at| format!("x{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let model = names.iter().fold(Model::new(13), |model, name| model.input(name, &[2]));
        model.node(op_type, &names, &["y"], &[]).outputs(&["y"]).becomes()
    };
    assert_eq!(many("Sum", 3), ["AccumulateNV2(x0, x1, x2) N=3 -> [2]"]);
    assert_eq!(many("Mean", 4), ["AccumulateNV2(x0, x1, x2, x3) N=4 -> [2]", "Muls(%0) value=0.25 -> [2]"]);
    assert_eq!(many("Max", 3), ["Maximum(x0, x1) -> [2]", "Maximum(%0, x2) -> [2]"]);
    for op_type in ["Sum", "Mean", "Max", "Min", "Concat"] {
        if op_type != "Concat" {
            assert!(many(op_type, 1).is_empty());
        }
    }
}

#[test]
fn bounds_were_attributes_before_they_were_inputs() {
    let old = |attrs: &[Vec<u8>]| unary(10, "Clip", &[2], attrs).becomes();
    assert_eq!(old(&[float("min", 0.0), float("max", 6.0)]), ["ClipByValue(x, 0, 6) -> [2]"]);
    let most = f32::MAX;
    assert_eq!(old(&[float("min", -1.0)]), [format!("ClipByValue(x, -1, {most}) -> [2]")]);
    let new = |bounds: &[&str]| {
        let inputs = [&["x"], bounds].concat();
        Model::new(13)
            .input("x", &[2])
            .floats("lo", &[], &[-1.5])
            .input("hi", &[1])
            .node("Clip", &inputs, &["y"], &[])
            .outputs(&["y"])
            .becomes()
    };
    assert_eq!(new(&["lo", "hi"]), ["ClipByValue(x, const, hi) -> [2]"]);
    assert_eq!(new(&["lo", ""]), ["Maximum(x, const) -> [2]"]);
    assert_eq!(new(&["", "hi"]), ["Minimum(x, hi) -> [2]"]);
    assert!(new(&["", ""]).is_empty());
    assert!(new(&[]).is_empty());
}

#[test]
fn slopes_are_one_for_all_or_one_a_channel_or_take_three_kernels() {
    let prelu = |x: &[i64], slope: &[i64]| {
        Model::new(16).input("x", x).input("s", slope).node("PRelu", &["x", "s"], &["y"], &[]).outputs(&["y"])
    };
    assert_eq!(prelu(&[2, 3, 4], &[3, 1]).becomes(), ["PRelu(x, s as [3]) -> [2, 3, 4]"]);
    assert_eq!(prelu(&[2, 3, 4], &[1, 3, 1]).becomes(), ["PRelu(x, s as [3]) -> [2, 3, 4]"]);
    assert_eq!(prelu(&[2, 3, 4], &[1, 1]).becomes(), ["PRelu(x, s as [1]) -> [2, 3, 4]"]);
    assert_eq!(prelu(&[2, 3], &[3]).becomes(), ["PRelu(x, s) -> [2, 3]"]);
    // Aligned at the end, these are slopes of the last axis, and of the batch.
    for slope in [&[3][..], &[2, 1, 1]] {
        let shape = format!("{slope:?}");
        assert_eq!(
            prelu(&[2, 3, 3], slope).becomes(),
            ["Less(x, 0) -> bool [2, 3, 3]", "Mul(x, s) -> [2, 3, 3]", "SelectV2(%0, %1, x) -> [2, 3, 3]",],
            "{shape}"
        );
    }
    assert!(prelu(&[3], &[2, 3]).why().contains("does not fit"));
}

#[test]
fn choosing_takes_the_condition_first() {
    let model = Model::new(16)
        .typed("c", BOOL, &[3, 1])
        .input("a", &[2])
        .input("b", &[])
        .node("Where", &["c", "a", "b"], &["y"], &[])
        .outputs(&["y"]);
    assert_eq!(model.becomes(), ["SelectV2(c, a, b) -> [3, 2]"]);
}

#[test]
fn casts_are_numbered_as_in_the_ir() {
    let cast = |to: u64| unary(13, "Cast", &[2], &[int("to", to as i64)]);
    assert_eq!(cast(INT32).becomes(), ["Cast(x) dst_type=3 -> int32 [2]"]);
    assert_eq!(cast(BOOL).becomes(), ["Cast(x) dst_type=12 -> bool [2]"]);
    assert_eq!(cast(DOUBLE).becomes(), ["Cast(x) dst_type=11 -> float64 [2]"]);
    assert_eq!(cast(10).becomes(), ["Cast(x) dst_type=1 -> float16 [2]"]);
    assert!(cast(FLOAT).becomes().is_empty());
    assert!(cast(STRING).why().contains("casts to string"));
    assert!(cast(17).why().contains("casts to float8e4m3fn"));
    let like = Model::new(15)
        .input("x", &[2])
        .typed("like", INT32, &[])
        .node("CastLike", &["x", "like"], &["y"], &[])
        .outputs(&["y"]);
    assert_eq!(like.becomes(), ["Cast(x) dst_type=3 -> int32 [2]"]);
}

#[test]
fn dropout_does_nothing() {
    let dropout = |opset, inputs: &[&str], read: &[&str]| {
        Model::new(opset)
            .input("x", &[2])
            .floats("ratio", &[], &[0.5])
            .tensor("training", BOOL, &[], &[u8::from(inputs.contains(&"training"))])
            .node("Dropout", inputs, &["y", "mask"], &[])
            .outputs(read)
    };
    let network = dropout(13, &["x", "ratio"], &["y", "mask"]).network();
    assert_eq!(render::outputs(&network), ["x float32 [2]", "bool:1 bool [2]"]);
    assert_eq!(render::outputs(&dropout(10, &["x"], &["y"]).network()), ["x float32 [2]"]);
    assert!(dropout(13, &["x", "ratio", "training"], &["y"]).why().contains("training mode"));
    assert!(dropout(10, &["x"], &["mask"]).why().contains("its mask is used"));
}

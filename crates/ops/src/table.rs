//! The operator table.
//!
//! Signatures are those of the Ascend IR (CANN op protos and per-operator documentation, 6.x to 8.x), or of the 8.1.RC1
//! kernels if these state none.

use crate::{AttrDefault, AttrSpec, OpSpec, Port, PortKind, Rule};

/// The row for `op_type`.
pub fn find(op_type: &str) -> Option<&'static OpSpec> {
    TABLE.binary_search_by(|row| row.op_type.cmp(op_type)).ok().map(|at| &TABLE[at])
}

/// Every row, sorted by type.
pub fn all() -> &'static [OpSpec] {
    TABLE
}

const fn port(name: &'static str) -> Port {
    Port { name, kind: PortKind::Required }
}

const fn optional(name: &'static str) -> Port {
    Port { name, kind: PortKind::Optional }
}

const fn dynamic(name: &'static str) -> Port {
    Port { name, kind: PortKind::Dynamic }
}

/// An input whose value the compiler needs.
const fn known(name: &'static str) -> Port {
    Port { name, kind: PortKind::Value }
}

const fn optional_known(name: &'static str) -> Port {
    Port { name, kind: PortKind::OptionalValue }
}

const X: &[Port] = &[port("x")];
const Y: &[Port] = &[port("y")];
const X1_X2: &[Port] = &[port("x1"), port("x2")];
const X_AXES: &[Port] = &[port("x"), known("axes")];

const fn unary(op_type: &'static str, attrs: &'static [AttrSpec]) -> OpSpec {
    OpSpec { op_type, inputs: X, outputs: Y, attrs, rule: Rule::Elementwise }
}

/// A unary operator whose tensors the IR calls `input_x` and `output_y`.
const fn unary_xy(op_type: &'static str, attrs: &'static [AttrSpec]) -> OpSpec {
    const INPUT: &[Port] = &[port("input_x")];
    const OUTPUT: &[Port] = &[port("output_y")];
    OpSpec { op_type, inputs: INPUT, outputs: OUTPUT, attrs, rule: Rule::Elementwise }
}

const fn binary(op_type: &'static str, attrs: &'static [AttrSpec]) -> OpSpec {
    OpSpec { op_type, inputs: X1_X2, outputs: Y, attrs, rule: Rule::Elementwise }
}

const fn predicate(op_type: &'static str, inputs: &'static [Port], attrs: &'static [AttrSpec]) -> OpSpec {
    OpSpec { op_type, inputs, outputs: Y, attrs, rule: Rule::Predicate }
}

/// An operator with one output `y`.
const fn row(
    op_type: &'static str,
    inputs: &'static [Port],
    attrs: &'static [AttrSpec],
    rule: Rule,
) -> OpSpec {
    OpSpec { op_type, inputs, outputs: Y, attrs, rule }
}

/// A reduction. `noop_with_empty_axes`: whether an empty list of axes means no axis or all.
const fn reduce(op_type: &'static str) -> OpSpec {
    const ATTRS: &[AttrSpec] = &[boolean("keep_dims", false), boolean("noop_with_empty_axes", true)];
    row(op_type, X_AXES, ATTRS, Rule::Reduce)
}

const fn float(name: &'static str, default: f64) -> AttrSpec {
    AttrSpec { name, default: AttrDefault::Float(default) }
}

const fn required(name: &'static str) -> AttrSpec {
    AttrSpec { name, default: AttrDefault::RequiredFloat }
}

const fn int(name: &'static str, default: i64) -> AttrSpec {
    AttrSpec { name, default: AttrDefault::Int(default) }
}

const fn required_int(name: &'static str) -> AttrSpec {
    AttrSpec { name, default: AttrDefault::RequiredInt }
}

const fn ints(name: &'static str, default: &'static [i64]) -> AttrSpec {
    AttrSpec { name, default: AttrDefault::Ints(default) }
}

const fn required_ints(name: &'static str) -> AttrSpec {
    AttrSpec { name, default: AttrDefault::RequiredInts }
}

const fn boolean(name: &'static str, default: bool) -> AttrSpec {
    AttrSpec { name, default: AttrDefault::Bool(default) }
}

const fn text(name: &'static str, default: &'static str) -> AttrSpec {
    AttrSpec { name, default: AttrDefault::Str(default) }
}

const fn required_text(name: &'static str) -> AttrSpec {
    AttrSpec { name, default: AttrDefault::RequiredStr }
}

/// `Exp`, `Log`: base -1 is e; the argument is `scale * x + shift`.
const BASE_SCALE_SHIFT: &[AttrSpec] = &[float("base", -1.0), float("scale", 1.0), float("shift", 0.0)];

/// Sorted by type, for [`find`].
#[rustfmt::skip]
static TABLE: &[OpSpec] = &[
    unary("Abs", &[]),
    row("AccumulateNV2", &[dynamic("x")], &[required_int("N")], Rule::Accumulate),
    unary("Acos", &[]),
    unary("Acosh", &[]),
    binary("Add", &[]),
    binary("AddV2", &[]),
    unary("Adds", &[required("value")]),
    predicate("ApproximateEqual", X1_X2, &[float("tolerance", 1e-5)]),
    unary("Asin", &[]),
    unary("Asinh", &[]),
    unary("Atan", &[]),
    binary("Atan2", &[]),
    unary("Atanh", &[]),
    row("AvgPoolV2", X, &[
        required_ints("ksize"), required_ints("strides"), text("padding_mode", "CALCULATED"), ints("pads", &[0; 4]),
        text("data_format", "NCHW"), boolean("global_pooling", false), boolean("ceil_mode", false),
        boolean("exclusive", true), int("divisor_override", 0),
    ], Rule::Pool),
    binary("Axpy", &[required("alpha")]),
    row("BNInfer", &[port("x"), port("scale"), port("offset"), port("mean"), port("variance")], &[required("epsilon")],
        Rule::PerChannel),
    unary("BNLL", &[]),
    row("BatchMatMulV2", &[port("x1"), port("x2"), optional("bias"), optional("offset_w")],
        &[boolean("adj_x1", false), boolean("adj_x2", false), int("offset_x", 0)], Rule::MatMul),
    row("BroadcastTo", &[port("x"), known("shape")], &[], Rule::BroadcastTo),
    row("Cast", X, &[required_int("dst_type")], Rule::Cast),
    unary("Ceil", &[]),
    unary("Celu", &[float("alpha1", 1.0), float("alpha2", 1.0), float("alpha3", 1.0)]),
    unary("CeluV2", &[float("alpha", 1.0)]),
    row("ClipByValue", &[port("x"), port("clip_value_min"), port("clip_value_max")], &[], Rule::Clip),
    row("ConcatD", &[dynamic("x")], &[required_int("concat_dim"), int("N", 1)], Rule::Concat),
    row("Conv2D", &[port("x"), port("filter"), optional("bias"), optional("offset_w")], &[
        required_ints("strides"), required_ints("pads"), ints("dilations", &[1; 4]), int("groups", 1),
        text("data_format", "NHWC"), int("offset_x", 0),
    ], Rule::Conv2d),
    unary("Cos", &[]),
    unary("Cosh", &[]),
    binary("Div", &[]),
    binary("DivNoNan", &[]),
    unary("Elu", &[float("alpha", 1.0), float("scale", 1.0), float("input_scale", 1.0)]),
    predicate("Equal", X1_X2, &[]),
    unary("Erf", &[]),
    unary("Erfc", &[]),
    unary("Exp", BASE_SCALE_SHIFT),
    row("Expand", &[port("x"), known("shape")], &[], Rule::BroadcastTo),
    unary("Expm1", &[]),
    unary("FastGelu", &[]),
    unary("FastGeluV2", &[]),
    row("Fill", &[known("dims"), port("value")], &[], Rule::Fill),
    unary("Fills", &[required("value")]),
    unary("Floor", &[]),
    binary("FloorDiv", &[]),
    binary("FloorMod", &[]),
    row("GatherV2", &[port("x"), port("indices"), known("axis")], &[
        int("batch_dims", 0), boolean("is_preprocessed", false), boolean("negative_index_support", false),
    ], Rule::Gather),
    unary("Gelu", &[]),
    unary("GeluV2", &[text("approximate", "none")]),
    predicate("Greater", X1_X2, &[]),
    predicate("GreaterEqual", X1_X2, &[]),
    unary_xy("HardShrink", &[float("lambd", 0.5)]),
    unary_xy("HardSigmoid", &[float("alpha", 0.166_666_66), float("beta", 0.5)]),
    unary("HardSwish", &[]),
    unary("Inv", &[]),
    predicate("IsClose", X1_X2, &[
        float("rtol", 1e-5), float("atol", 1e-8), boolean("equal_nan", false),
    ]),
    predicate("IsFinite", X, &[]),
    predicate("IsInf", X, &[]),
    predicate("IsNan", X, &[]),
    row("LRN", X, &[
        int("depth_radius", 5), float("bias", 1.0), float("alpha", 1.0), float("beta", 0.5),
        text("norm_region", "ACROSS_CHANNELS"),
    ], Rule::Same),
    OpSpec {
        op_type: "LayerNorm",
        inputs: &[port("x"), port("gamma"), port("beta")],
        outputs: &[port("y"), port("mean"), port("variance")],
        attrs: &[int("begin_norm_axis", 0), int("begin_params_axis", 0), float("epsilon", 1e-7)],
        rule: Rule::LayerNorm,
    },
    unary("LeakyRelu", &[float("negative_slope", 0.0)]),
    predicate("Less", X1_X2, &[]),
    predicate("LessEqual", X1_X2, &[]),
    unary("Lgamma", &[]),
    unary("Log", BASE_SCALE_SHIFT),
    unary("Log1p", &[]),
    unary("LogSigmoid", &[]),
    OpSpec {
        op_type: "LogSoftmaxV2", inputs: &[port("logits")], outputs: &[port("logsoftmax")], attrs: &[ints("axes", &[-1])],
        rule: Rule::Same,
    },
    binary("LogicalAnd", &[]),
    unary("LogicalNot", &[]),
    binary("LogicalOr", &[]),
    binary("LogicalXor", &[]),
    row("MatMulV2", &[port("x1"), port("x2"), optional("bias"), optional("offset_w")],
        &[boolean("transpose_x1", false), boolean("transpose_x2", false), int("offset_x", 0)], Rule::MatMul),
    row("MaxPool3D", X, &[
        required_ints("ksize"), required_ints("strides"), required_text("padding"), ints("pads", &[0; 6]),
        ints("dilation", &[1; 5]), int("ceil_mode", 0), text("data_format", "NDHWC"),
    ], Rule::Pool),
    row("MaxPoolV3", X, &[
        required_ints("ksize"), required_ints("strides"), text("padding_mode", "CALCULATED"), ints("pads", &[0; 4]),
        text("data_format", "NCHW"), boolean("global_pooling", false), boolean("ceil_mode", false),
    ], Rule::Pool),
    binary("Maximum", &[]),
    binary("Minimum", &[]),
    row("MirrorPad", &[port("x"), known("paddings")], &[required_text("mode")], Rule::Pad),
    unary("Mish", &[]),
    binary("Mod", &[]),
    binary("Mul", &[]),
    binary("MulNoNan", &[]),
    unary("Muls", &[required("value")]),
    unary("Neg", &[]),
    OpSpec { op_type: "NextAfter", inputs: X1_X2, outputs: &[port("output")], attrs: &[], rule: Rule::Elementwise },
    predicate("NotEqual", X1_X2, &[]),
    unary("OnesLike", &[]),
    row("PRelu", &[port("x"), port("weight")], &[], Rule::PerChannel),
    row("PadV3", &[port("x"), known("paddings"), optional("constant_values")],
        &[text("mode", "constant"), boolean("paddings_contiguous", true)], Rule::Pad),
    binary("Pow", &[]),
    unary("Power", &[float("power", 1.0), float("scale", 1.0), float("shift", 0.0)]),
    binary("RealDiv", &[]),
    unary("Reciprocal", &[]),
    reduce("ReduceMax"),
    reduce("ReduceMean"),
    reduce("ReduceMin"),
    reduce("ReduceProd"),
    reduce("ReduceSum"),
    unary("Relu", &[]),
    unary("Relu6", &[]),
    unary("Rint", &[]),
    unary("Round", &[int("decimals", 0)]),
    unary("Rsqrt", &[]),
    OpSpec {
        op_type: "SelectV2", inputs: &[port("condition"), port("then"), port("else")], outputs: &[port("result")],
        attrs: &[], rule: Rule::Select,
    },
    unary("Selu", &[]),
    unary_xy("Shrink", &[float("lambd", 0.5), float("bias", 0.0)]),
    unary("Sigmoid", &[]),
    unary("Sign", &[]),
    unary("Sin", &[]),
    unary("Sinh", &[]),
    unary_xy("SoftShrink", &[float("lambd", 0.5)]),
    row("SoftmaxV2", X, &[ints("axes", &[-1]), boolean("half_to_float", false)], Rule::Same),
    unary("Softplus", &[]),
    unary("SoftplusV2", &[float("beta", 1.0), float("threshold", 20.0)]),
    unary("Softsign", &[]),
    OpSpec {
        op_type: "Split", inputs: &[known("split_dim"), port("x")], outputs: &[dynamic("y")],
        attrs: &[required_int("num_split")], rule: Rule::Split,
    },
    OpSpec {
        op_type: "SplitV", inputs: &[port("x"), known("size_splits"), known("split_dim")], outputs: &[dynamic("y")],
        attrs: &[required_int("num_split")], rule: Rule::SplitV,
    },
    unary("Sqrt", &[]),
    unary("Square", &[]),
    binary("SquaredDifference", &[]),
    row("StridedSliceV2", &[port("x"), known("begin"), known("end"), optional_known("axes"), optional_known("strides")], &[
        int("begin_mask", 0), int("end_mask", 0), int("ellipsis_mask", 0), int("new_axis_mask", 0),
        int("shrink_axis_mask", 0),
    ], Rule::Slice),
    binary("Sub", &[]),
    unary("Swish", &[float("scale", 1.0)]),
    unary("Tan", &[]),
    unary("Tanh", &[]),
    unary("TensorMove", &[]),
    unary("Threshold", &[float("threshold", 0.0)]),
    unary("ThresholdedRelu", &[float("alpha", 1.0)]),
    row("Tile", &[port("x"), known("multiples")], &[], Rule::Tile),
    OpSpec {
        op_type: "TransData", inputs: &[port("src")], outputs: &[port("dst")],
        attrs: &[required_text("src_format"), required_text("dst_format"), int("groups", 1)], rule: Rule::Same,
    },
    row("Transpose", &[port("x"), known("perm")], &[], Rule::Transpose),
    unary_xy("Trunc", &[]),
    binary("TruncateDiv", &[]),
    binary("TruncateMod", &[]),
    binary("Xdivy", &[]),
    OpSpec { op_type: "Xlog1py", inputs: &[port("x"), port("y")], outputs: &[port("z")], attrs: &[], rule: Rule::Elementwise },
    binary("Xlogy", &[]),
    unary("ZerosLike", &[]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted_and_every_row_is_found() {
        assert!(TABLE.windows(2).all(|pair| pair[0].op_type < pair[1].op_type));
        assert!(TABLE.iter().all(|row| std::ptr::eq(find(row.op_type).unwrap(), row)));
        assert_eq!(find("Conv9D"), None);
    }
}

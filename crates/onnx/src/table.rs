//! The table of ONNX operators.

use crate::mapping::{
    constants, conv, conv_transpose, elementwise as each, matrix, movement as moves, normalise, pool, reduce,
    resize, slice, views,
};
use crate::node::{Mapped, Node};

/// The oldest supported version of the default operators.
pub(crate) const OLDEST: i64 = 7;
/// The newest supported version.
pub(crate) const NEWEST: i64 = 25;

/// ONNX Runtime's own operators.
const MICROSOFT: &str = "com.microsoft";

/// A row of the table: an operator in some versions of its operator set.
#[derive(Debug)]
#[non_exhaustive]
pub struct Operator {
    /// Its name in ONNX.
    pub op_type: &'static str,
    /// Its domain; empty for the default one.
    pub domain: &'static str,
    /// The first version of the operator set that this row is for.
    pub since: i64,
    /// The last version that this row is for.
    pub until: i64,
    /// The least and the greatest number of its inputs.
    pub inputs: (usize, usize),
    /// Its attributes.
    pub attributes: &'static [&'static str],
    /// The operators that `map` adds, for people. A test checks that they exist, not that `map` adds them.
    pub becomes: &'static str,
    pub(crate) map: fn(&mut Node<'_>) -> Mapped,
}

/// The ONNX operators that can be translated, with the operators that they become.
pub fn operators() -> impl Iterator<Item = &'static Operator> {
    TABLE.iter().copied().flatten()
}

/// The row for an operator, or the reason why there is none.
pub(crate) fn find(domain: &str, op_type: &str, opset: i64) -> Result<&'static Operator, String> {
    let rows = operators().filter(|row| row.op_type == op_type && row.domain == domain);
    let rows: Vec<_> = rows.collect();
    match rows.iter().find(|row| (row.since..=row.until).contains(&opset)) {
        Some(row) => Ok(row),
        None if rows.is_empty() => Err(why_not(domain, op_type)),
        None => {
            let known: Vec<String> =
                rows.iter().map(|row| format!("{} to {}", row.since, row.until)).collect();
            Err(format!("it is known in the operator sets {} only", known.join(", ")))
        }
    }
}

/// The reason why an operator is not in the table.
fn why_not(domain: &str, op_type: &str) -> String {
    if !matches!(domain, "" | MICROSOFT) {
        return format!("its domain `{domain}` is not known");
    }
    let is_one_of = |names: &str| names.split(' ').any(|name| name == op_type);
    let kinds = [
        ("If Loop Scan SequenceMap", "what it runs is decided when the network runs"),
        (
            "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct \
             SequenceEmpty SequenceErase SequenceInsert SequenceLength SplitToSequence",
            "it is about sequences or optional values, and only tensors are supported",
        ),
        (
            "RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer ImageDecoder",
            "it is about text or files, and only numbers are supported",
        ),
        (
            "ConvInteger DequantizeLinear DynamicQuantizeLinear MatMulInteger QLinearConv QLinearMatMul \
             QuantizeLinear QLinearAdd QLinearMul QLinearConcat QLinearSigmoid QLinearLeakyRelu QGemm QAttention \
             MatMulNBits MatMulInteger16 DynamicQuantizeMatMul",
            "it is quantised, which is not supported",
        ),
        (
            "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
            "its results are random",
        ),
        ("Compress NonMaxSuppression Unique", "the shape of its output is known only when the network runs"),
    ];
    match kinds.iter().find(|(names, _)| is_one_of(names)) {
        Some((_, why)) => (*why).to_owned(),
        None => "there is no translation of this operator".to_owned(),
    }
}

const ANY: usize = usize::MAX;
const NONE: &[&str] = &[];

const fn row(
    op_type: &'static str,
    (since, until): (i64, i64),
    inputs: (usize, usize),
    attributes: &'static [&'static str],
    becomes: &'static str,
    map: fn(&mut Node<'_>) -> Mapped,
) -> Operator {
    Operator { op_type, domain: "", since, until, inputs, attributes, becomes, map }
}

/// An operator with one input and its equivalent in the IR, both without attributes.
macro_rules! unary {
    ($onnx:literal, $since:literal, $ir:literal) => {
        row($onnx, ($since, NEWEST), (1, 1), NONE, $ir, |node| each::unary(node, $ir))
    };
}

/// The same for two inputs.
macro_rules! binary {
    ($onnx:literal, $since:literal, $ir:literal) => {
        row($onnx, ($since, NEWEST), (2, 2), NONE, $ir, |node| each::binary(node, $ir))
    };
}

/// A reduction, with the version in which its axes became an input, and the operator that it becomes.
macro_rules! reduction {
    ($onnx:literal, $input:literal, $becomes:literal, $map:expr) => {
        &[
            row($onnx, (OLDEST, $input - 1), (1, 1), &["axes", "keepdims"], $becomes, $map),
            row($onnx, ($input, NEWEST), (1, 2), &["keepdims", "noop_with_empty_axes"], $becomes, $map),
        ]
    };
}

const fn microsoft(row: Operator) -> Operator {
    Operator { domain: MICROSOFT, since: 1, until: 1, ..row }
}

const AVERAGE_POOL: &[&str] =
    &["auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides"];
const MAX_POOL: &[&str] =
    &["auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order", "strides"];
const GEMM: &[&str] = &["alpha", "beta", "transA", "transB"];

/// Rows by family.
#[rustfmt::skip]
static TABLE: &[&[Operator]] = &[
    // Convolutions and pools.
    &[
        row("Conv", (OLDEST, NEWEST), (2, 3),
            &["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"],
            "Conv2D; over one axis, of images of height 1", conv::conv),
        row("ConvTranspose", (OLDEST, NEWEST), (2, 3),
            &["auto_pad", "dilations", "group", "kernel_shape", "output_padding", "output_shape", "pads", "strides"],
            "PadV3 between the elements, Conv2D with a filter turned by Transpose and StridedSliceV2",
            conv_transpose::conv_transpose),
        row("MaxPool", (OLDEST, NEWEST), (1, 1), MAX_POOL,
            "MaxPoolV3; with dilations or over three axes, MaxPool3D", pool::max_pool),
        row("AveragePool", (OLDEST, NEWEST), (1, 1), AVERAGE_POOL,
            "AvgPoolV2, after PadV3 if padding counts and windows reach over it; with dilations, Conv2D and RealDiv",
            pool::average_pool),
        row("GlobalAveragePool", (OLDEST, NEWEST), (1, 1), NONE, "ReduceMean", |node| pool::global(node, "ReduceMean")),
        row("GlobalMaxPool", (OLDEST, NEWEST), (1, 1), NONE, "ReduceMax", |node| pool::global(node, "ReduceMax")),
    ],
    // Matrix products.
    &[
        row("MatMul", (OLDEST, NEWEST), (2, 2), NONE, "BatchMatMulV2", matrix::mat_mul),
        row("Gemm", (OLDEST, 10), (3, 3), GEMM, "MatMulV2, Muls for alpha and beta, Add", matrix::gemm),
        row("Gemm", (11, NEWEST), (2, 3), GEMM, "MatMulV2, Muls for alpha and beta, Add", matrix::gemm),
        microsoft(row("FusedMatMul", (1, 1), (2, 2), &["alpha", "transA", "transB", "transBatchA", "transBatchB"],
            "BatchMatMulV2, Muls", matrix::fused_mat_mul)),
    ],
    // Normalisations and softmaxes.
    &[
        row("BatchNormalization", (OLDEST, 13), (5, 5), &["epsilon", "momentum", "spatial"], "BNInfer",
            normalise::batch_norm),
        row("BatchNormalization", (14, NEWEST), (5, 5), &["epsilon", "momentum", "training_mode"], "BNInfer",
            normalise::batch_norm),
        row("InstanceNormalization", (OLDEST, NEWEST), (3, 3), &["epsilon"], "LayerNorm of the channels, Mul, Add",
            normalise::instance_norm),
        row("GroupNormalization", (18, NEWEST), (3, 3), &["epsilon", "num_groups", "stash_type"],
            "LayerNorm of the groups, Mul, Add", normalise::group_norm),
        row("LayerNormalization", (17, NEWEST), (2, 3), &["axis", "epsilon", "stash_type"],
            "LayerNorm; its third output by Adds and Rsqrt", normalise::layer_norm),
        row("RMSNormalization", (23, NEWEST), (2, 2), &["axis", "epsilon", "stash_type"],
            "Square, ReduceMean, Adds, Rsqrt, Mul, Mul", normalise::rms_norm),
        row("LRN", (OLDEST, NEWEST), (1, 1), &["alpha", "beta", "bias", "size"], "LRN", normalise::lrn),
        row("Softmax", (OLDEST, NEWEST), (1, 1), &["axis"], "SoftmaxV2; before version 13 of two dimensions",
            |node| normalise::softmax(node, "SoftmaxV2")),
        row("LogSoftmax", (OLDEST, NEWEST), (1, 1), &["axis"], "LogSoftmaxV2; before version 13 of two dimensions",
            |node| normalise::softmax(node, "LogSoftmaxV2")),
    ],
    // Element by element, one input.
    &[
        unary!("Abs", 7, "Abs"),
        unary!("Acos", 7, "Acos"),
        unary!("Acosh", 9, "Acosh"),
        unary!("Asin", 7, "Asin"),
        unary!("Asinh", 9, "Asinh"),
        unary!("Atan", 7, "Atan"),
        unary!("Atanh", 9, "Atanh"),
        unary!("Ceil", 7, "Ceil"),
        unary!("Cos", 7, "Cos"),
        unary!("Cosh", 9, "Cosh"),
        unary!("Erf", 9, "Erf"),
        unary!("Exp", 7, "Exp"),
        unary!("Floor", 7, "Floor"),
        unary!("HardSwish", 14, "HardSwish"),
        unary!("IsNaN", 9, "IsNan"),
        unary!("Log", 7, "Log"),
        unary!("Mish", 18, "Mish"),
        unary!("Neg", 7, "Neg"),
        unary!("Not", 7, "LogicalNot"),
        unary!("Reciprocal", 7, "Reciprocal"),
        unary!("Relu", 7, "Relu"),
        unary!("Round", 11, "Rint"),
        unary!("Sigmoid", 7, "Sigmoid"),
        unary!("Sign", 9, "Sign"),
        unary!("Sin", 7, "Sin"),
        unary!("Sinh", 9, "Sinh"),
        unary!("Softplus", 7, "Softplus"),
        unary!("Softsign", 7, "Softsign"),
        unary!("Sqrt", 7, "Sqrt"),
        unary!("Tan", 7, "Tan"),
        unary!("Tanh", 7, "Tanh"),
        row("Cast", (OLDEST, NEWEST), (1, 1), &["round_mode", "saturate", "to"], "Cast", each::cast_to),
        row("CastLike", (15, NEWEST), (2, 2), &["round_mode", "saturate"], "Cast", each::cast_like),
        row("Celu", (12, NEWEST), (1, 1), &["alpha"], "CeluV2",
            |node| each::scaled(node, "CeluV2", "alpha", 1.0, "alpha")),
        row("Elu", (OLDEST, NEWEST), (1, 1), &["alpha"], "Elu", |node| each::scaled(node, "Elu", "alpha", 1.0, "alpha")),
        row("Gelu", (20, NEWEST), (1, 1), &["approximate"], "GeluV2", each::gelu),
        row("HardSigmoid", (OLDEST, NEWEST), (1, 1), &["alpha", "beta"], "HardSigmoid", each::hard_sigmoid),
        row("IsInf", (10, NEWEST), (1, 1), &["detect_negative", "detect_positive"],
            "IsInf; of one sign, and Less or Greater, LogicalAnd", each::is_inf),
        row("LeakyRelu", (OLDEST, NEWEST), (1, 1), &["alpha"], "LeakyRelu",
            |node| each::scaled(node, "LeakyRelu", "alpha", 0.01, "negative_slope")),
        row("Selu", (OLDEST, NEWEST), (1, 1), &["alpha", "gamma"], "Selu; with other numbers than its own, Elu",
            each::selu),
        row("Shrink", (9, NEWEST), (1, 1), &["bias", "lambd"], "Shrink", each::shrink),
        row("Swish", (24, NEWEST), (1, 1), &["alpha"], "Swish",
            |node| each::scaled(node, "Swish", "alpha", 1.0, "scale")),
        row("ThresholdedRelu", (10, NEWEST), (1, 1), &["alpha"], "ThresholdedRelu",
            |node| each::scaled(node, "ThresholdedRelu", "alpha", 1.0, "alpha")),
        microsoft(row("Gelu", (1, 1), (1, 1), NONE, "GeluV2", each::gelu)),
        microsoft(row("QuickGelu", (1, 1), (1, 1), &["alpha"], "Swish",
            |node| each::scaled(node, "Swish", "alpha", 1.702, "scale"))),
    ],
    // Element by element, more inputs.
    &[
        binary!("Add", 7, "Add"),
        binary!("And", 7, "LogicalAnd"),
        binary!("Div", 7, "RealDiv"),
        binary!("Equal", 7, "Equal"),
        binary!("Greater", 7, "Greater"),
        binary!("GreaterOrEqual", 12, "GreaterEqual"),
        binary!("Less", 7, "Less"),
        binary!("LessOrEqual", 12, "LessEqual"),
        binary!("Mul", 7, "Mul"),
        binary!("Or", 7, "LogicalOr"),
        binary!("Sub", 7, "Sub"),
        binary!("Xor", 7, "LogicalXor"),
        row("Clip", (OLDEST, 10), (1, 1), &["max", "min"], "ClipByValue", each::clip_between),
        row("Clip", (11, NEWEST), (1, 3), NONE, "ClipByValue, Maximum, Minimum, or nothing", each::clip),
        row("Max", (OLDEST, NEWEST), (1, ANY), NONE, "Maximum, one less than there are inputs",
            |node| each::chain(node, "Maximum")),
        row("Mean", (OLDEST, NEWEST), (1, ANY), NONE, "AccumulateNV2, Muls", each::mean),
        row("Min", (OLDEST, NEWEST), (1, ANY), NONE, "Minimum, one less than there are inputs",
            |node| each::chain(node, "Minimum")),
        row("Mod", (10, NEWEST), (2, 2), &["fmod"], "FloorMod; with fmod, Mod", each::modulo),
        row("PRelu", (OLDEST, NEWEST), (2, 2), NONE, "PRelu; with other slopes than one a channel, Less, Mul, SelectV2",
            each::prelu),
        row("Pow", (OLDEST, NEWEST), (2, 2), NONE, "Pow, after Cast if the exponent is of another type", each::pow),
        row("Sum", (OLDEST, NEWEST), (1, ANY), NONE, "AccumulateNV2", each::sum),
        row("Where", (9, NEWEST), (3, 3), NONE, "SelectV2", each::select),
        microsoft(row("BiasGelu", (1, 1), (2, 2), NONE, "Add, GeluV2", each::bias_gelu)),
    ],
    // Reductions.
    reduction!("ReduceMax", 18, "ReduceMax", |node| reduce::reduce(node, "ReduceMax", 18)),
    reduction!("ReduceMean", 18, "ReduceMean", |node| reduce::reduce(node, "ReduceMean", 18)),
    reduction!("ReduceMin", 18, "ReduceMin", |node| reduce::reduce(node, "ReduceMin", 18)),
    reduction!("ReduceProd", 18, "ReduceProd", |node| reduce::reduce(node, "ReduceProd", 18)),
    reduction!("ReduceSum", 13, "ReduceSum", |node| reduce::reduce(node, "ReduceSum", 13)),
    reduction!("ReduceL1", 18, "Abs, ReduceSum", |node| reduce::sum_of(node, Some("Abs"), None)),
    reduction!("ReduceL2", 18, "Square, ReduceSum, Sqrt", |node| reduce::sum_of(node, Some("Square"), Some("Sqrt"))),
    reduction!("ReduceSumSquare", 18, "Square, ReduceSum", |node| reduce::sum_of(node, Some("Square"), None)),
    reduction!("ReduceLogSum", 18, "ReduceSum, Log", |node| reduce::sum_of(node, None, Some("Log"))),
    reduction!("ReduceLogSumExp", 18, "ReduceMax, Sub, Exp, ReduceSum, Log, Add", reduce::log_sum_exp),
    &[
        row("ArgMax", (OLDEST, NEWEST), (1, 1), &["axis", "keepdims", "select_last_index"],
            "ReduceMax, Equal, SelectV2, ReduceMin", |node| reduce::place_of(node, "ReduceMax")),
        row("ArgMin", (OLDEST, NEWEST), (1, 1), &["axis", "keepdims", "select_last_index"],
            "ReduceMin, Equal, SelectV2, ReduceMin", |node| reduce::place_of(node, "ReduceMin")),
    ],
    // Images in another size.
    &[
        row("Resize", (10, 10), (2, 2), &["mode"], "GatherV2; linear, and Mul, Add", resize::upsample),
        row("Resize", (11, NEWEST), (1, 4),
            &["antialias", "axes", "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside",
                "extrapolation_value", "keep_aspect_ratio_policy", "mode", "nearest_mode"],
            "GatherV2; linear, and Mul, Add", resize::resize),
        row("Upsample", (OLDEST, 8), (1, 1), &["mode", "scales"], "GatherV2; linear, and Mul, Add", resize::upsample),
        row("Upsample", (9, 9), (2, 2), &["mode"], "GatherV2; linear, and Mul, Add", resize::upsample),
    ],
    // Views.
    &[
        row("Dropout", (OLDEST, 11), (1, 1), &["ratio"], "nothing", each::dropout),
        row("Dropout", (12, NEWEST), (1, 3), &["seed"], "nothing", each::dropout),
        row("Flatten", (OLDEST, NEWEST), (1, 1), &["axis"], "a view", views::flatten),
        row("Identity", (OLDEST, NEWEST), (1, 1), NONE, "nothing", views::identity),
        row("Reshape", (OLDEST, NEWEST), (2, 2), &["allowzero"], "a view", views::reshape),
        row("Squeeze", (OLDEST, 12), (1, 1), &["axes"], "a view", views::squeeze),
        row("Squeeze", (13, NEWEST), (1, 2), NONE, "a view", views::squeeze),
        row("Unsqueeze", (OLDEST, 12), (1, 1), &["axes"], "a view", views::unsqueeze),
        row("Unsqueeze", (13, NEWEST), (2, 2), NONE, "a view", views::unsqueeze),
    ],
    // Elements moved about.
    &[
        row("Concat", (OLDEST, NEWEST), (1, ANY), &["axis"], "ConcatD", moves::concat),
        row("DepthToSpace", (OLDEST, NEWEST), (1, 1), &["blocksize", "mode"], "Transpose", moves::depth_to_space),
        row("Expand", (8, NEWEST), (2, 2), NONE, "Expand", moves::expand),
        row("Gather", (OLDEST, NEWEST), (2, 2), &["axis"], "GatherV2", moves::gather),
        row("Pad", (OLDEST, 10), (1, 1), &["mode", "pads", "value"], "PadV3; a reflection, MirrorPad", moves::pad),
        row("Pad", (11, 17), (2, 3), &["mode"], "PadV3", moves::pad),
        row("Pad", (18, NEWEST), (2, 4), &["mode"], "PadV3", moves::pad),
        row("Slice", (OLDEST, 9), (1, 1), &["axes", "ends", "starts"], "StridedSliceV2", slice::slice),
        row("Slice", (10, NEWEST), (3, 5), NONE, "StridedSliceV2", slice::slice),
        row("SpaceToDepth", (OLDEST, NEWEST), (1, 1), &["blocksize"], "Transpose", moves::space_to_depth),
        row("Split", (OLDEST, 12), (1, 1), &["axis", "split"], "Split; with sizes, SplitV", moves::split),
        row("Split", (13, 17), (1, 2), &["axis"], "Split; with sizes, SplitV", moves::split),
        row("Split", (18, NEWEST), (1, 2), &["axis", "num_outputs"], "Split; with sizes or their number, SplitV",
            moves::split),
        row("Tile", (OLDEST, NEWEST), (2, 2), NONE, "Tile", moves::tile),
        row("Transpose", (OLDEST, NEWEST), (1, 1), &["perm"], "Transpose", moves::transpose),
        row("Trilu", (14, NEWEST), (1, 2), &["upper"], "SelectV2 with a mask", moves::triangle),
    ],
    // Known when the model is translated.
    &[
        row("Constant", (OLDEST, NEWEST), (0, 0),
            &["sparse_value", "value", "value_float", "value_floats", "value_int", "value_ints", "value_string",
                "value_strings"],
            "a constant", constants::constant),
        row("ConstantOfShape", (9, NEWEST), (1, 1), &["value"], "a constant of one value", constants::constant_of_shape),
        row("NonZero", (9, NEWEST), (1, 1), NONE, "a constant, if its input is one", constants::non_zero),
        row("Range", (11, NEWEST), (3, 3), NONE, "a constant, if its inputs are", constants::range),
        row("Shape", (OLDEST, 14), (1, 1), NONE, "a constant", constants::shape),
        row("Shape", (15, NEWEST), (1, 1), &["end", "start"], "a constant", constants::shape),
        row("Size", (OLDEST, NEWEST), (1, 1), NONE, "a constant", constants::size),
    ],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_of_an_operator_has_one_row_and_no_version_is_left_out_between() {
        for row in operators() {
            let mut rows: Vec<(i64, i64)> = operators()
                .filter(|other| (other.domain, other.op_type) == (row.domain, row.op_type))
                .map(|row| (row.since, row.until))
                .collect();
            rows.sort_unstable();
            let newest = if row.domain.is_empty() { NEWEST } else { 1 };
            let newest = if row.op_type == "Upsample" { 9 } else { newest };
            assert!(rows.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0), "{}", row.op_type);
            assert_eq!(rows.last().unwrap().1, newest, "{}", row.op_type);
            assert!(rows.iter().all(|(since, until)| since <= until));
        }
    }
    #[test]
    fn operators_become_rows_of_the_irs_table() {
        for row in operators() {
            let words = row.becomes.split(|letter: char| !letter.is_ascii_alphanumeric());
            for word in words.filter(|word| word.starts_with(|first: char| first.is_ascii_uppercase())) {
                assert!(opkeep_ops::find(word).is_some(), "{}: {word}", row.op_type);
            }
        }
    }
}

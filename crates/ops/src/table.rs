//! The operator table.
//!
//! Signatures are those of the Ascend IR (CANN op protos and per-operator documentation, 6.x to 8.x); where those are
//! silent, of the 8.1.RC1 kernels.

use opbuild_descriptor::{AttrValue, Float};

/// A row of the operator table.
#[derive(Debug, PartialEq)]
pub struct OpSpec {
    /// The IR type.
    pub op_type: &'static str,
    /// The inputs' names, in order.
    pub inputs: &'static [&'static str],
    /// The outputs' names, in order.
    pub outputs: &'static [&'static str],
    /// The attributes, in order.
    pub attrs: &'static [AttrSpec],
    /// How element types and shapes of outputs follow.
    pub rule: Rule,
}

/// How the outputs' element types and shapes follow from the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Inputs broadcast to the output, element by element; one element type for all.
    Elementwise,
    /// As [`Elementwise`](Self::Elementwise), but the output is `bool`.
    Predicate,
}

/// An attribute of an operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttrSpec {
    /// Its name.
    pub name: &'static str,
    /// Its type and default.
    pub default: AttrDefault,
}

/// Type and default of an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttrDefault {
    /// A float that must be given.
    RequiredFloat,
    /// A float.
    Float(f64),
    /// A whole number.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A text.
    Str(&'static str),
}

impl AttrSpec {
    /// The default, unless the attribute is required.
    pub fn default_value(&self) -> Option<AttrValue> {
        match self.default {
            AttrDefault::RequiredFloat => None,
            AttrDefault::Float(value) => Some(AttrValue::Float(Float::new(value))),
            AttrDefault::Int(value) => Some(AttrValue::Int(value)),
            AttrDefault::Bool(value) => Some(AttrValue::Bool(value)),
            AttrDefault::Str(text) => Some(AttrValue::Str(text.to_owned())),
        }
    }

    /// Whether `value` is of the attribute's type.
    pub(crate) fn takes(&self, value: &AttrValue) -> bool {
        matches!(
            (self.default, value),
            (AttrDefault::RequiredFloat | AttrDefault::Float(_), AttrValue::Float(_))
                | (AttrDefault::Int(_), AttrValue::Int(_))
                | (AttrDefault::Bool(_), AttrValue::Bool(_))
                | (AttrDefault::Str(_), AttrValue::Str(_))
        )
    }

    /// The attribute's type, for messages.
    pub(crate) fn type_name(&self) -> &'static str {
        match self.default {
            AttrDefault::RequiredFloat | AttrDefault::Float(_) => "a float",
            AttrDefault::Int(_) => "a whole number",
            AttrDefault::Bool(_) => "true or false",
            AttrDefault::Str(_) => "a text",
        }
    }
}

/// The row for `op_type`.
pub fn find(op_type: &str) -> Option<&'static OpSpec> {
    TABLE.binary_search_by(|row| row.op_type.cmp(op_type)).ok().map(|at| &TABLE[at])
}

/// Every row, sorted by type.
pub fn all() -> &'static [OpSpec] {
    TABLE
}

const fn unary(op_type: &'static str, attrs: &'static [AttrSpec]) -> OpSpec {
    OpSpec { op_type, inputs: &["x"], outputs: &["y"], attrs, rule: Rule::Elementwise }
}

/// A unary operator whose tensors the IR calls `input_x` and `output_y`.
const fn unary_xy(op_type: &'static str, attrs: &'static [AttrSpec]) -> OpSpec {
    OpSpec { op_type, inputs: &["input_x"], outputs: &["output_y"], attrs, rule: Rule::Elementwise }
}

const fn binary(op_type: &'static str, attrs: &'static [AttrSpec]) -> OpSpec {
    OpSpec { op_type, inputs: &["x1", "x2"], outputs: &["y"], attrs, rule: Rule::Elementwise }
}

const fn predicate(
    op_type: &'static str,
    inputs: &'static [&'static str],
    attrs: &'static [AttrSpec],
) -> OpSpec {
    OpSpec { op_type, inputs, outputs: &["y"], attrs, rule: Rule::Predicate }
}

const fn float(name: &'static str, default: f64) -> AttrSpec {
    AttrSpec { name, default: AttrDefault::Float(default) }
}

const fn required(name: &'static str) -> AttrSpec {
    AttrSpec { name, default: AttrDefault::RequiredFloat }
}

const ONE: &[&str] = &["x"];
const TWO: &[&str] = &["x1", "x2"];
/// `Exp`, `Log`: base -1 is e; the argument is `scale * x + shift`.
const BASE_SCALE_SHIFT: &[AttrSpec] = &[float("base", -1.0), float("scale", 1.0), float("shift", 0.0)];

/// Sorted by type, for [`find`].
#[rustfmt::skip]
static TABLE: &[OpSpec] = &[
    unary("Abs", &[]),
    unary("Acos", &[]),
    unary("Acosh", &[]),
    binary("Add", &[]),
    binary("AddV2", &[]),
    unary("Adds", &[required("value")]),
    predicate("ApproximateEqual", TWO, &[float("tolerance", 1e-5)]),
    unary("Asin", &[]),
    unary("Asinh", &[]),
    unary("Atan", &[]),
    binary("Atan2", &[]),
    unary("Atanh", &[]),
    binary("Axpy", &[required("alpha")]),
    unary("BNLL", &[]),
    unary("Ceil", &[]),
    unary("Celu", &[float("alpha1", 1.0), float("alpha2", 1.0), float("alpha3", 1.0)]),
    unary("CeluV2", &[float("alpha", 1.0)]),
    unary("Cos", &[]),
    unary("Cosh", &[]),
    binary("Div", &[]),
    binary("DivNoNan", &[]),
    unary("Elu", &[float("alpha", 1.0), float("scale", 1.0), float("input_scale", 1.0)]),
    predicate("Equal", TWO, &[]),
    unary("Erf", &[]),
    unary("Erfc", &[]),
    unary("Exp", BASE_SCALE_SHIFT),
    unary("Expm1", &[]),
    unary("FastGelu", &[]),
    unary("FastGeluV2", &[]),
    unary("Fills", &[required("value")]),
    unary("Floor", &[]),
    binary("FloorDiv", &[]),
    binary("FloorMod", &[]),
    unary("Gelu", &[]),
    unary("GeluV2", &[AttrSpec { name: "approximate", default: AttrDefault::Str("none") }]),
    predicate("Greater", TWO, &[]),
    predicate("GreaterEqual", TWO, &[]),
    unary_xy("HardShrink", &[float("lambd", 0.5)]),
    unary_xy("HardSigmoid", &[float("alpha", 0.166_666_66), float("beta", 0.5)]),
    unary("HardSwish", &[]),
    unary("Inv", &[]),
    predicate("IsClose", TWO, &[
        float("rtol", 1e-5), float("atol", 1e-8), AttrSpec { name: "equal_nan", default: AttrDefault::Bool(false) },
    ]),
    predicate("IsFinite", ONE, &[]),
    predicate("IsInf", ONE, &[]),
    predicate("IsNan", ONE, &[]),
    unary("LeakyRelu", &[float("negative_slope", 0.0)]),
    predicate("Less", TWO, &[]),
    predicate("LessEqual", TWO, &[]),
    unary("Lgamma", &[]),
    unary("Log", BASE_SCALE_SHIFT),
    unary("Log1p", &[]),
    unary("LogSigmoid", &[]),
    binary("Maximum", &[]),
    binary("Minimum", &[]),
    unary("Mish", &[]),
    binary("Mod", &[]),
    binary("Mul", &[]),
    binary("MulNoNan", &[]),
    unary("Muls", &[required("value")]),
    unary("Neg", &[]),
    OpSpec { op_type: "NextAfter", inputs: TWO, outputs: &["output"], attrs: &[], rule: Rule::Elementwise },
    predicate("NotEqual", TWO, &[]),
    unary("OnesLike", &[]),
    binary("Pow", &[]),
    unary("Power", &[float("power", 1.0), float("scale", 1.0), float("shift", 0.0)]),
    binary("RealDiv", &[]),
    unary("Reciprocal", &[]),
    unary("Relu", &[]),
    unary("Relu6", &[]),
    unary("Rint", &[]),
    unary("Round", &[AttrSpec { name: "decimals", default: AttrDefault::Int(0) }]),
    unary("Rsqrt", &[]),
    unary("Selu", &[]),
    unary_xy("Shrink", &[float("lambd", 0.5), float("bias", 0.0)]),
    unary("Sigmoid", &[]),
    unary("Sign", &[]),
    unary("Sin", &[]),
    unary("Sinh", &[]),
    unary_xy("SoftShrink", &[float("lambd", 0.5)]),
    unary("Softplus", &[]),
    unary("SoftplusV2", &[float("beta", 1.0), float("threshold", 20.0)]),
    unary("Softsign", &[]),
    unary("Sqrt", &[]),
    unary("Square", &[]),
    binary("SquaredDifference", &[]),
    binary("Sub", &[]),
    unary("Swish", &[float("scale", 1.0)]),
    unary("Tan", &[]),
    unary("Tanh", &[]),
    unary("TensorMove", &[]),
    unary("Threshold", &[float("threshold", 0.0)]),
    unary("ThresholdedRelu", &[float("alpha", 1.0)]),
    unary_xy("Trunc", &[]),
    binary("TruncateDiv", &[]),
    binary("TruncateMod", &[]),
    binary("Xdivy", &[]),
    OpSpec { op_type: "Xlog1py", inputs: &["x", "y"], outputs: &["z"], attrs: &[], rule: Rule::Elementwise },
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
        assert_eq!(find("Conv2D"), None);
    }
}

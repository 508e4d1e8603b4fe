//! The types of the operator table.

use opkeep_descriptor::{AttrValue, Float};

/// A row of the operator table.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub struct OpSpec {
    /// The IR type.
    pub op_type: &'static str,
    /// The inputs, in order.
    pub inputs: &'static [Port],
    /// The outputs, in order.
    pub outputs: &'static [Port],
    /// The attributes, in order.
    pub attrs: &'static [AttrSpec],
    /// The rule for element types and shapes of outputs.
    pub rule: Rule,
}

/// A position among an operator's inputs or outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Port {
    /// Its name.
    pub name: &'static str,
    /// The number of tensors there.
    pub kind: PortKind,
}

/// The number of tensors at a position, and whether the compiler needs their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortKind {
    /// One.
    Required,
    /// One or none.
    Optional,
    /// One or more.
    Dynamic,
    /// One whose value the compiler needs.
    Value,
    /// One whose value the compiler needs, or none.
    OptionalValue,
}

impl PortKind {
    /// The `param_type` of its tensors in a descriptor.
    pub const fn param_type(self) -> &'static str {
        match self {
            Self::Required | Self::Value => "required",
            Self::Optional | Self::OptionalValue => "optional",
            Self::Dynamic => "dynamic",
        }
    }

    /// Whether `count` tensors are allowed there.
    pub(crate) const fn takes(self, count: usize) -> bool {
        match self {
            Self::Required | Self::Value => count == 1,
            Self::Optional | Self::OptionalValue => count <= 1,
            Self::Dynamic => count >= 1,
        }
    }

    pub(crate) const fn expected(self) -> &'static str {
        match self {
            Self::Required | Self::Value => "one tensor",
            Self::Optional | Self::OptionalValue => "one tensor or none",
            Self::Dynamic => "one tensor or more",
        }
    }

    /// Whether the compiler needs the value.
    pub const fn is_value(self) -> bool {
        matches!(self, Self::Value | Self::OptionalValue)
    }
}

/// The rule that gives the outputs' element types and shapes from inputs and attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// Inputs broadcast to the output, element by element; one element type for all.
    Elementwise,
    /// As [`Elementwise`](Self::Elementwise), but the output is `bool`.
    Predicate,
    /// As [`Elementwise`](Self::Elementwise), but the first input is `bool` and chooses between the others.
    Select,
    /// Like the first input, to which the others broadcast.
    Clip,
    /// The first input's shape, with the element type of `dst_type`.
    Cast,
    /// The sum of any number of tensors.
    Accumulate,
    /// [`Conv2d`](crate::Conv2d).
    Conv2d,
    /// [`Pool`](crate::Pool).
    Pool,
    /// Like the first input; the others have one value for each channel.
    PerChannel,
    /// Like the only input.
    Same,
    /// [`LayerNorm`](crate::LayerNorm).
    LayerNorm,
    /// [`MatMul`](crate::MatMul).
    MatMul,
    /// [`Reduce`](crate::Reduce).
    Reduce,
    /// The dimensions in the order of `perm`.
    Transpose,
    /// The tensors joined along `concat_dim`.
    Concat,
    /// [`Gather`](crate::Gather).
    Gather,
    /// [`Slice`](crate::Slice).
    Slice,
    /// Equal pieces along `split_dim`.
    Split,
    /// Pieces of the sizes `size_splits` along `split_dim`.
    SplitV,
    /// [`Pad`](crate::Pad).
    Pad,
    /// The value of the second input in the shape given by the first.
    Fill,
    /// The first input broadcast to the shape given by the second.
    BroadcastTo,
    /// The first input repeated as often as the second states.
    Tile,
}

/// An attribute of an operator.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct AttrSpec {
    /// Its name.
    pub name: &'static str,
    /// Its type and default.
    pub default: AttrDefault,
}

/// Type and default of an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum AttrDefault {
    /// A float that must be given.
    RequiredFloat,
    /// A float.
    Float(f64),
    /// A whole number that must be given.
    RequiredInt,
    /// A whole number.
    Int(i64),
    /// Whole numbers that must be given.
    RequiredInts,
    /// Whole numbers.
    Ints(&'static [i64]),
    /// A truth value.
    Bool(bool),
    /// A text that must be given.
    RequiredStr,
    /// A text.
    Str(&'static str),
}

impl AttrSpec {
    /// The default, unless the attribute is required.
    pub fn default_value(&self) -> Option<AttrValue> {
        match self.default {
            AttrDefault::RequiredFloat
            | AttrDefault::RequiredInt
            | AttrDefault::RequiredInts
            | AttrDefault::RequiredStr => None,
            AttrDefault::Float(value) => Some(AttrValue::Float(Float::new(value))),
            AttrDefault::Int(value) => Some(AttrValue::Int(value)),
            AttrDefault::Ints(values) => Some(AttrValue::ints(values)),
            AttrDefault::Bool(value) => Some(AttrValue::Bool(value)),
            AttrDefault::Str(text) => Some(AttrValue::Str(text.to_owned())),
        }
    }

    /// The attribute's type in a descriptor.
    pub fn dtype(&self) -> &'static str {
        match self.default {
            AttrDefault::RequiredFloat | AttrDefault::Float(_) => "float32",
            AttrDefault::RequiredInt | AttrDefault::Int(_) => "int32",
            AttrDefault::RequiredInts | AttrDefault::Ints(_) => "list_int32",
            AttrDefault::Bool(_) => "bool",
            AttrDefault::RequiredStr | AttrDefault::Str(_) => "str",
        }
    }

    /// Whether `value` is of the attribute's type.
    pub(crate) fn takes(&self, value: &AttrValue) -> bool {
        match self.default {
            AttrDefault::RequiredFloat | AttrDefault::Float(_) => matches!(value, AttrValue::Float(_)),
            AttrDefault::RequiredInt | AttrDefault::Int(_) => matches!(value, AttrValue::Int(_)),
            AttrDefault::RequiredInts | AttrDefault::Ints(_) => value.to_ints().is_some(),
            AttrDefault::Bool(_) => matches!(value, AttrValue::Bool(_)),
            AttrDefault::RequiredStr | AttrDefault::Str(_) => matches!(value, AttrValue::Str(_)),
        }
    }

    /// The attribute's type, for messages.
    pub(crate) fn type_name(&self) -> &'static str {
        match self.default {
            AttrDefault::RequiredFloat | AttrDefault::Float(_) => "a float",
            AttrDefault::RequiredInt | AttrDefault::Int(_) => "a whole number",
            AttrDefault::RequiredInts | AttrDefault::Ints(_) => "a list of whole numbers",
            AttrDefault::Bool(_) => "true or false",
            AttrDefault::RequiredStr | AttrDefault::Str(_) => "a text",
        }
    }
}

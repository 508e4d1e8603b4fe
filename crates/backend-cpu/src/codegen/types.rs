//! Which element types there is code for, operator by operator.

use opkeep_backend::Unsupported;
use opkeep_ops::{Call, Rule};

use crate::codegen::cast;
use crate::codegen::code;
use crate::codegen::integer;

/// Sets of element types that an operator may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Types {
    Float,
    Number,
    NumberOrBool,
    Bool,
    /// Elements are moved and not looked at.
    Any,
    /// Both ends of a conversion.
    Convertible,
}

impl Types {
    fn of(call: &Call<'_>) -> Self {
        let op_type = call.spec().op_type;
        match call.spec().rule {
            Rule::Elementwise | Rule::Predicate => match op_type {
                "TensorMove" => Self::Any,
                "Equal" | "NotEqual" => Self::NumberOrBool,
                _ if integer::expression(op_type, "bool").is_some() => Self::Bool,
                _ if integer::expression(op_type, "int32").is_some() => Self::Number,
                _ => Self::Float,
            },
            Rule::Clip | Rule::Accumulate => Self::Number,
            Rule::Reduce if op_type != "ReduceMean" => Self::Number,
            Rule::Cast => Self::Convertible,
            Rule::Select
            | Rule::Transpose
            | Rule::Concat
            | Rule::Gather
            | Rule::Slice
            | Rule::Split
            | Rule::SplitV
            | Rule::Pad
            | Rule::Fill
            | Rule::BroadcastTo
            | Rule::Tile => Self::Any,
            _ => Self::Float,
        }
    }

    fn have(self, dtype: &str) -> bool {
        match (self, dtype) {
            (Self::Any, dtype) => code::word(dtype).is_some(),
            (Self::Convertible, dtype) => cast::knows(dtype),
            (Self::Bool | Self::NumberOrBool, "bool") => true,
            (Self::Bool, _) => false,
            (Self::Number | Self::NumberOrBool, "int32" | "int64") => true,
            (_, dtype) => dtype == "float32",
        }
    }

    const fn names(self) -> &'static str {
        match self {
            Self::Float => "float32",
            Self::Number => "float32, int32 and int64",
            Self::NumberOrBool => "float32, int32, int64 and bool",
            Self::Bool => "bool",
            Self::Any => "every type of 1, 2, 4 or 8 bytes",
            Self::Convertible => "float32, float64, bool and whole numbers",
        }
    }
}

/// Refuses element types that there is no code for. `made` is the output's.
pub(crate) fn check(call: &Call<'_>, made: &str) -> Result<(), Unsupported> {
    let types = Types::of(call);
    // The tensor whose elements are computed with; the others are of the same type, or of one that the rule fixes.
    let position = match call.spec().rule {
        Rule::Fill | Rule::Split | Rule::Select => 1,
        _ => 0,
    };
    let own = call.tensor(position)?.dtype.as_str();
    let other = if types == Types::Convertible { made } else { own };
    match [own, other].into_iter().find(|dtype| !types.have(dtype)) {
        None => Ok(()),
        Some(dtype) => Err(Unsupported::Dtype {
            backend: "cpu",
            op_type: call.spec().op_type.to_owned(),
            dtype: dtype.to_owned(),
            known: types.names(),
        }),
    }
}

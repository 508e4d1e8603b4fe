//! Values of jobs as text.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use crate::model::job::{Arg, AttrValue, Source, Tensor};
use crate::nlohmann::grisu;

/// The longest displayed value, in characters.
const SHOWN: usize = 200;

/// The number of common characters that are shown before the first difference of two long values.
const BEFORE: usize = 40;

/// A value, truncated if long.
pub(crate) fn truncate(text: &str) -> String {
    window(text, 0)
}

/// Two different values, truncated so that the first difference is visible.
pub(crate) fn truncate_pair(old: &str, new: &str) -> [String; 2] {
    let common = old.chars().zip(new.chars()).take_while(|(old, new)| old == new).count();
    // A window from the beginning must contain the difference.
    let start = if common + BEFORE <= SHOWN { 0 } else { common - BEFORE };
    [old, new].map(|text| window(text, start))
}

/// The characters from `start` on, with dots for omitted ones.
fn window(text: &str, start: usize) -> String {
    let mut rest = text.chars().skip(start);
    let shown: String = rest.by_ref().take(SHOWN).collect();
    let before = if start > 0 { "..." } else { "" };
    let after = if rest.next().is_some() { "..." } else { "" };
    format!("{before}{shown}{after}")
}

pub(crate) fn tensor_shown(tensor: &Tensor) -> String {
    format!("{} {} {:?}", tensor.dtype, tensor.format, tensor.shape)
}

pub(crate) fn args_shown(args: &[Arg<Tensor>]) -> String {
    args.iter().map(|arg| arg_shown(arg, tensor_shown)).collect::<Vec<_>>().join(", ")
}

pub(crate) fn arg_shown<T>(arg: &Arg<T>, show: impl Fn(&T) -> String) -> String {
    match arg {
        Arg::One(item) => show(item),
        Arg::Many(items) => format!("variadic [{}]", items.iter().map(show).collect::<Vec<_>>().join(", ")),
        Arg::Absent(_) => "not given".to_owned(),
    }
}

/// Strings are quoted, floats are printed as MindSpore prints them, and different values have different texts.
impl Display for AttrValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            // Only a program can make one that fits the other type; it counts as a different number.
            Self::UInt(value) if i64::try_from(*value).is_ok() => write!(f, "{value} (unsigned)"),
            Self::UInt(value) => write!(f, "{value}"),
            Self::Float(float) if float.value().is_finite() => f.write_str(&grisu::print(float.value())),
            Self::Float(float) if float.value().is_nan() => write!(f, "NaN {:#x}", float.value().to_bits()),
            Self::Float(float) => write!(f, "{}", float.value()),
            Self::Str(text) => write!(f, "{text:?}"),
            Self::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(f, "{comma}{item}")?;
                }
                f.write_str("]")
            }
        }
    }
}

pub(crate) fn source_shown(source: Source, free: &mut BTreeMap<usize, usize>) -> String {
    match source {
        Source::Data { data, tensor } => format!("data[{data}].outputs[{tensor}]"),
        Source::Op { op, output } => format!("ops[{op}].outputs[{output}]"),
        Source::Free(number) => {
            let next = free.len();
            format!("outside {}", free.entry(number).or_insert(next))
        }
    }
}

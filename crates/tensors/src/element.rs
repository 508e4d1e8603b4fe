//! Elements of tensors as numbers.

use std::fmt;

use opkeep_ops::{dtype_bytes, of_bfloat16, of_float16};

/// An element without loss of precision: whole numbers are compared as whole numbers.
///
/// Its text is the shortest that reads back as the same element.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Element {
    /// A `float32`.
    Float32(f32),
    /// A `float64`, or an element of a smaller type, which is exact as `float64`.
    Float64(f64),
    /// A whole number of any type.
    Int(i128),
    /// A truth value.
    Bool(bool),
}

impl Element {
    /// Returns the nearest number.
    pub fn number(self) -> f64 {
        match self {
            Self::Float32(value) => value.into(),
            Self::Float64(value) => value,
            Self::Int(value) => value as f64,
            Self::Bool(value) => u8::from(value).into(),
        }
    }

    /// Returns the distance of two elements: 0 for two NaN, infinite for a NaN and a number.
    pub(crate) fn distance(self, other: Self) -> f64 {
        if let (Self::Int(a), Self::Int(b)) = (self, other) {
            return (a - b).unsigned_abs() as f64;
        }
        let (a, b) = (self.number(), other.number());
        match (a.is_nan(), b.is_nan()) {
            (true, true) => 0.0,
            (true, false) | (false, true) => f64::INFINITY,
            // Infinities of one sign are equal, and their difference is not a number.
            _ if a == b => 0.0,
            _ => (a - b).abs(),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_short = is_short(self.number());
        match self {
            Self::Float32(value) if is_short => write!(f, "{value}"),
            Self::Float32(value) => write!(f, "{value:e}"),
            Self::Float64(value) if is_short => write!(f, "{value}"),
            Self::Float64(value) => write!(f, "{value:e}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Bool(value) => write!(f, "{value}"),
        }
    }
}

/// Returns a number with six significant digits, as text.
pub(crate) fn rounded(value: f64) -> String {
    if is_short(value) { format!("{value:.6}") } else { format!("{value:.6e}") }
}

/// Whether a number is short without a power of ten.
fn is_short(value: f64) -> bool {
    value == 0.0 || !value.is_finite() || (1e-5..1e16).contains(&value.abs())
}

/// Returns the elements of a tensor of `dtype`; none, if the type is not supported.
pub fn elements<'a>(dtype: &str, bytes: &'a [u8]) -> Box<dyn Iterator<Item = Element> + 'a> {
    fn each<'a, const N: usize>(
        bytes: &'a [u8],
        read: impl Fn([u8; N]) -> Element + 'a,
    ) -> Box<dyn Iterator<Item = Element> + 'a> {
        let (words, _) = bytes.as_chunks::<N>();
        Box::new(words.iter().map(move |word| read(*word)))
    }
    match dtype {
        "float32" => each(bytes, |word| Element::Float32(f32::from_ne_bytes(word))),
        "float64" => each(bytes, |word| Element::Float64(f64::from_ne_bytes(word))),
        "int8" => each(bytes, |word| Element::Int(i8::from_ne_bytes(word).into())),
        "int16" => each(bytes, |word| Element::Int(i16::from_ne_bytes(word).into())),
        "int32" => each(bytes, |word| Element::Int(i32::from_ne_bytes(word).into())),
        "int64" => each(bytes, |word| Element::Int(i64::from_ne_bytes(word).into())),
        "uint8" => each(bytes, |word| Element::Int(u8::from_ne_bytes(word).into())),
        "uint16" => each(bytes, |word| Element::Int(u16::from_ne_bytes(word).into())),
        "uint32" => each(bytes, |word| Element::Int(u32::from_ne_bytes(word).into())),
        "uint64" => each(bytes, |word| Element::Int(u64::from_ne_bytes(word).into())),
        "float16" => each(bytes, |word| Element::Float64(of_float16(u16::from_ne_bytes(word)))),
        "bfloat16" => each(bytes, |word| Element::Float64(of_bfloat16(u16::from_ne_bytes(word)))),
        "bool" => each(bytes, |[byte]: [u8; 1]| Element::Bool(byte != 0)),
        _ => Box::new(std::iter::empty()),
    }
}

/// Returns the bytes of `number` as an element of `dtype`; whole numbers are truncated to the size of the type. None, if
/// the type is not supported.
pub(crate) fn bytes_of(dtype: &str, number: f64) -> Option<Vec<u8>> {
    Some(match dtype {
        "float32" => (number as f32).to_ne_bytes().to_vec(),
        "float64" => number.to_ne_bytes().to_vec(),
        "int8" => (number as i8).to_ne_bytes().to_vec(),
        "int16" => (number as i16).to_ne_bytes().to_vec(),
        "int32" => (number as i32).to_ne_bytes().to_vec(),
        "int64" => (number as i64).to_ne_bytes().to_vec(),
        "uint8" => (number as u8).to_ne_bytes().to_vec(),
        "uint16" => (number as u16).to_ne_bytes().to_vec(),
        "uint32" => (number as u32).to_ne_bytes().to_vec(),
        "uint64" => (number as u64).to_ne_bytes().to_vec(),
        "bool" => vec![u8::from(number != 0.0)],
        _ => return None,
    })
}

/// Parses an element of `dtype`. None, if the text is no such element, or the type is not supported.
pub(crate) fn parse(dtype: &str, text: &str) -> Option<Vec<u8>> {
    match dtype {
        "float32" => text.parse::<f32>().ok().map(|value| value.to_ne_bytes().to_vec()),
        "float64" => text.parse::<f64>().ok().map(|value| value.to_ne_bytes().to_vec()),
        "int8" => text.parse::<i8>().ok().map(|value| value.to_ne_bytes().to_vec()),
        "int32" => text.parse::<i32>().ok().map(|value| value.to_ne_bytes().to_vec()),
        "int64" => text.parse::<i64>().ok().map(|value| value.to_ne_bytes().to_vec()),
        "uint8" => text.parse::<u8>().ok().map(|value| value.to_ne_bytes().to_vec()),
        "bool" => match text {
            "true" | "1" => Some(vec![1]),
            "false" | "0" => Some(vec![0]),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the number of elements of a tensor, and the number of its bytes. None, if the shape is dynamic, or the element
/// type has no size.
pub(crate) fn size(dtype: &str, shape: &[i64]) -> Option<(usize, usize)> {
    let count = usize::try_from(opkeep_ops::elements(shape)?).ok()?;
    Some((count, count.checked_mul(dtype_bytes(dtype)?)?))
}

#[cfg(test)]
mod tests;

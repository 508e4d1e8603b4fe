//! Elements of tensors as numbers.

use opkeep_ops::{dtype_bytes, of_bfloat16, of_float16};

/// An element without loss of precision: whole numbers are compared as whole numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Element {
    Float(f64),
    Int(i128),
    Bool(bool),
}

impl Element {
    pub(crate) fn number(self) -> f64 {
        match self {
            Self::Float(value) => value,
            Self::Int(value) => value as f64,
            Self::Bool(value) => f64::from(u8::from(value)),
        }
    }

    /// Returns the distance of two elements; infinite, if one is a number and the other is not.
    pub(crate) fn distance(self, other: Self) -> f64 {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => (a - b).unsigned_abs() as f64,
            _ => {
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
    }

    /// Returns the shortest text that reads back as the same element.
    pub(crate) fn shown(self, dtype: &str) -> String {
        match self {
            Self::Float(value) if dtype == "float32" && is_plain(value) => (value as f32).to_string(),
            Self::Float(value) if dtype == "float32" => format!("{:e}", value as f32),
            Self::Float(value) if is_plain(value) => value.to_string(),
            Self::Float(value) => format!("{value:e}"),
            Self::Int(value) => value.to_string(),
            Self::Bool(value) => value.to_string(),
        }
    }
}

/// Returns a number with six significant digits, as text.
pub(crate) fn rounded(value: f64) -> String {
    if is_plain(value) { format!("{value:.6}") } else { format!("{value:.6e}") }
}

/// Whether a number is short without a power of ten.
fn is_plain(value: f64) -> bool {
    value == 0.0 || !value.is_finite() || (1e-5..1e16).contains(&value.abs())
}

/// Returns the elements of a dense tensor of `dtype`; none, if the type is not supported.
pub(crate) fn elements<'a>(dtype: &str, bytes: &'a [u8]) -> Box<dyn Iterator<Item = Element> + 'a> {
    fn each<'a, const N: usize>(
        bytes: &'a [u8],
        read: impl Fn([u8; N]) -> Element + 'a,
    ) -> Box<dyn Iterator<Item = Element> + 'a> {
        let (words, _) = bytes.as_chunks::<N>();
        Box::new(words.iter().map(move |word| read(*word)))
    }
    match dtype {
        "float32" => each(bytes, |word| Element::Float(f64::from(f32::from_ne_bytes(word)))),
        "float64" => each(bytes, |word| Element::Float(f64::from_ne_bytes(word))),
        "int8" => each(bytes, |word| Element::Int(i8::from_ne_bytes(word).into())),
        "int16" => each(bytes, |word| Element::Int(i16::from_ne_bytes(word).into())),
        "int32" => each(bytes, |word| Element::Int(i32::from_ne_bytes(word).into())),
        "int64" => each(bytes, |word| Element::Int(i64::from_ne_bytes(word).into())),
        "uint8" => each(bytes, |word| Element::Int(u8::from_ne_bytes(word).into())),
        "uint16" => each(bytes, |word| Element::Int(u16::from_ne_bytes(word).into())),
        "uint32" => each(bytes, |word| Element::Int(u32::from_ne_bytes(word).into())),
        "uint64" => each(bytes, |word| Element::Int(u64::from_ne_bytes(word).into())),
        "float16" => each(bytes, |word| Element::Float(of_float16(u16::from_ne_bytes(word)))),
        "bfloat16" => each(bytes, |word| Element::Float(of_bfloat16(u16::from_ne_bytes(word)))),
        "bool" => each(bytes, |[byte]: [u8; 1]| Element::Bool(byte != 0)),
        _ => Box::new(std::iter::empty()),
    }
}

/// Returns the bytes of `number` as an element of `dtype`; whole numbers are truncated to the size of the type.
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

/// Returns the number of elements of a shape, and the number of their bytes.
pub(crate) fn size(dtype: &str, shape: &[i64]) -> Option<(usize, usize)> {
    let count = usize::try_from(opkeep_ops::elements(shape)?).ok()?;
    Some((count, count.checked_mul(dtype_bytes(dtype)?)?))
}

#[cfg(test)]
mod tests;

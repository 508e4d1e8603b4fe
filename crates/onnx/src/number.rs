//! Elements as numbers.

use opkeep_ops::{dtype_bytes, of_bfloat16, of_float16};

/// Elements of one type. Results are rounded, or wrap, when they are encoded as bytes again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Numbers {
    /// Elements of an integer type or `bool`.
    Ints(Vec<i64>),
    /// Elements of a float type. The sum, difference, product, quotient or root of two `float32`, rounded to `float64`
    /// and then to `float32`, equals the result of `float32` arithmetic.
    Floats(Vec<f64>),
}

impl Numbers {
    /// Decodes `bytes`; `None` for types with which nothing is computed during translation.
    pub(crate) fn decode(dtype: &str, bytes: &[u8]) -> Option<Self> {
        macro_rules! all {
            ($type:ty, $into:ty) => {
                bytes
                    .as_chunks::<{ size_of::<$type>() }>()
                    .0
                    .iter()
                    .map(|element| <$into>::from(<$type>::from_le_bytes(*element)))
                    .collect()
            };
        }
        Some(match dtype {
            "bool" => Self::Ints(bytes.iter().map(|byte| i64::from(*byte != 0)).collect()),
            "int8" => Self::Ints(all!(i8, i64)),
            "int16" => Self::Ints(all!(i16, i64)),
            "int32" => Self::Ints(all!(i32, i64)),
            "int64" => Self::Ints(all!(i64, i64)),
            "uint8" => Self::Ints(all!(u8, i64)),
            "uint16" => Self::Ints(all!(u16, i64)),
            "uint32" => Self::Ints(all!(u32, i64)),
            "float16" => Self::Floats(short(bytes, of_float16)),
            "bfloat16" => Self::Floats(short(bytes, of_bfloat16)),
            "float32" => Self::Floats(all!(f32, f64)),
            "float64" => Self::Floats(all!(f64, f64)),
            _ => return None,
        })
    }

    /// The elements as bytes of type `dtype`: integers wrap, floats are rounded, and conversions between them truncate.
    pub(crate) fn encode(&self, dtype: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        match self {
            Self::Ints(ints) => ints.iter().try_for_each(|int| put_int(&mut bytes, dtype, *int))?,
            Self::Floats(floats) => {
                floats.iter().try_for_each(|float| put_float(&mut bytes, dtype, *float))?
            }
        }
        Some(bytes)
    }
}

/// Elements of 16 bits, widened.
fn short(bytes: &[u8], widen: fn(u16) -> f64) -> Vec<f64> {
    bytes.as_chunks::<2>().0.iter().map(|word| widen(u16::from_le_bytes(*word))).collect()
}

/// The bytes of a number as an element of type `dtype`.
pub(crate) fn of_float(dtype: &str, float: f64) -> Option<Vec<u8>> {
    Numbers::Floats(vec![float]).encode(dtype)
}

fn put_int(bytes: &mut Vec<u8>, dtype: &str, int: i64) -> Option<()> {
    match dtype {
        "bool" => bytes.push(u8::from(int != 0)),
        "float32" => bytes.extend((int as f32).to_le_bytes()),
        "float16" | "bfloat16" | "float64" => put_float(bytes, dtype, int as f64)?,
        // The low bytes are those of every narrower type.
        _ if dtype.starts_with("int") || dtype.starts_with("uint") => {
            bytes.extend(int.to_le_bytes().get(..dtype_bytes(dtype)?)?);
        }
        _ => return None,
    }
    Some(())
}

fn put_float(bytes: &mut Vec<u8>, dtype: &str, float: f64) -> Option<()> {
    match dtype {
        "bool" => bytes.push(u8::from(float != 0.0)),
        "float32" => bytes.extend((float as f32).to_le_bytes()),
        "float64" => bytes.extend(float.to_le_bytes()),
        "float16" => bytes.extend(half(float, 5, 10).to_le_bytes()),
        "bfloat16" => bytes.extend(half(float, 8, 7).to_le_bytes()),
        _ => put_int(bytes, dtype, float as i64)?,
    }
    Some(())
}

/// A 16-bit float with the given bits of exponent and fraction; ties round to even.
fn half(float: f64, exponent_bits: u32, fraction_bits: u32) -> u16 {
    let sign = u16::from(float.is_sign_negative()) << 15;
    let infinity = ((1u16 << exponent_bits) - 1) << fraction_bits;
    if float.is_nan() {
        return sign | infinity | 1 << (fraction_bits - 1);
    }
    // The exponent of the smallest normal number; smaller numbers have the same distance to their neighbours.
    let least = 2 - (1 << (exponent_bits - 1));
    let exponent = (float.abs().to_bits() >> 52) as i32 - 1023;
    let exponent = exponent.max(least);
    // The number in units of the last place. Scaling by a power of two is exact, so only the rounding loses bits; it
    // carries into the exponent, up to infinity.
    let steps = (float.abs() / 2f64.powi(exponent - fraction_bits as i32)).round_ties_even();
    let bits = steps + f64::from((exponent - least) << fraction_bits);
    sign | if bits < f64::from(infinity) { bits as u16 } else { infinity }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_to_even() {
        for (float, half, brain) in [
            (0.0, 0x0000, 0x0000),
            (-0.0, 0x8000, 0x8000),
            (1.0, 0x3c00, 0x3f80),
            (-2.5, 0xc100, 0xc020),
            (65504.0, 0x7bff, 0x4780),
            (65520.0, 0x7c00, 0x4780),
            (1.0 + 1.0 / 2048.0, 0x3c00, 0x3f80),
            (1.0 + 3.0 / 2048.0, 0x3c02, 0x3f80),
            (1.0 + 3.0 / 256.0, 0x3c0c, 0x3f82),
            (5.960_464_477_539_063e-8, 0x0001, 0x3380),
            (2.9e-8, 0x0000, 0x32f9),
            (f64::INFINITY, 0x7c00, 0x7f80),
        ] {
            assert_eq!(of_float("float16", float), Some(u16::to_le_bytes(half).to_vec()), "{float}");
            assert_eq!(of_float("bfloat16", float), Some(u16::to_le_bytes(brain).to_vec()), "{float}");
        }
    }

    #[test]
    fn halves_come_back_as_they_are() {
        for dtype in ["float16", "bfloat16"] {
            let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
            let Some(Numbers::Floats(floats)) = Numbers::decode(dtype, &bytes) else { panic!("{dtype}") };
            for (bits, float) in (0..=u16::MAX).zip(&floats).filter(|(_, float)| !float.is_nan()) {
                assert_eq!(of_float(dtype, *float), Some(bits.to_le_bytes().to_vec()), "{dtype} {bits:#06x}");
            }
            let fraction = if dtype == "float16" { 10 } else { 7 };
            // Two signs, and every fraction except that of infinity.
            assert_eq!(floats.iter().filter(|float| float.is_nan()).count(), 2 * ((1 << fraction) - 1));
        }
    }

    #[test]
    fn integers_wrap_and_fractions_are_cut() {
        assert_eq!(Numbers::Ints(vec![-1, 258]).encode("uint8"), Some(vec![255, 2]));
        assert_eq!(Numbers::Ints(vec![65_537]).encode("int16"), Some(vec![1, 0]));
        assert_eq!(of_float("int8", -1.9), Some(vec![255]));
        assert_eq!(of_float("bool", 0.25), Some(vec![1]));
        assert_eq!(Numbers::Ints(vec![1]).encode("complex64"), None);
        assert_eq!(of_float("complex64", 1.0), None);
        let floats = Numbers::Floats(vec![0.1, 16_777_217.0]);
        let bytes = floats.encode("float32").unwrap();
        assert_eq!(
            Numbers::decode("float32", &bytes),
            Some(Numbers::Floats(vec![f64::from(0.1f32), 16_777_216.0]))
        );
    }
}

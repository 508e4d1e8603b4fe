//! Element types.

/// An element type: its name, the bytes of an element, and its number in CANN's graph engine (`ge::DataType`, as in
/// `Cast`'s `dst_type`).
const DTYPES: [(&str, usize, i64); 14] = [
    ("float32", 4, 0),
    ("float16", 2, 1),
    ("int8", 1, 2),
    ("int32", 4, 3),
    ("uint8", 1, 4),
    ("int16", 2, 6),
    ("uint16", 2, 7),
    ("uint32", 4, 8),
    ("int64", 8, 9),
    ("uint64", 8, 10),
    ("float64", 8, 11),
    ("bool", 1, 12),
    ("complex64", 8, 16),
    ("bfloat16", 2, 27),
];

/// Bytes of one element of type `dtype`.
///
/// ```
/// assert_eq!(opkeep_ops::dtype_bytes("int64"), Some(8));
/// assert_eq!(opkeep_ops::dtype_bytes("string"), None);
/// ```
pub fn dtype_bytes(dtype: &str) -> Option<usize> {
    DTYPES.iter().find(|(name, ..)| *name == dtype).map(|(_, bytes, _)| *bytes)
}

/// The value of a `float16`, exactly.
pub fn of_float16(bits: u16) -> f64 {
    widened(bits, 10)
}

/// The value of a `bfloat16`, exactly.
pub fn of_bfloat16(bits: u16) -> f64 {
    widened(bits, 7)
}

/// The value of a 16-bit float with `fraction_bits` bits of fraction.
fn widened(bits: u16, fraction_bits: u32) -> f64 {
    let infinite = (1u32 << (15 - fraction_bits)) - 1;
    let bias = (infinite >> 1) as i32;
    let size = u32::from(bits & 0x7fff);
    let (exponent, fraction) = (size >> fraction_bits, size & ((1 << fraction_bits) - 1));
    let scaled = |digits: u32, power: i32| f64::from(digits) * 2f64.powi(power - bias - fraction_bits as i32);
    let size = match exponent {
        0 => scaled(fraction, 1),
        _ if exponent < infinite => scaled(fraction | 1 << fraction_bits, exponent as i32),
        _ if fraction == 0 => f64::INFINITY,
        _ => f64::NAN,
    };
    if bits >> 15 == 0 { size } else { -size }
}

/// The number of `dtype` in CANN's graph engine.
pub fn ge_number(dtype: &str) -> Option<i64> {
    DTYPES.iter().find(|(name, ..)| *name == dtype).map(|(.., number)| *number)
}

/// The element type with that number.
pub(crate) fn of_ge_number(number: i64) -> Option<&'static str> {
    DTYPES.iter().find(|(.., known)| *known == number).map(|(name, ..)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_floats_have_their_values() {
        for (bits, value) in [(0x3c00, 1.0), (0xc000, -2.0), (0x7bff, 65504.0), (1, 2f64.powi(-24)), (0, 0.0)]
        {
            assert_eq!(of_float16(bits), value);
        }
        for (bits, value) in [(0x3f80, 1.0), (0xc2f7, -123.5), (0x7f80, f64::INFINITY), (1, 2f64.powi(-133))]
        {
            assert_eq!(of_bfloat16(bits), value);
        }
        assert!(of_float16(0x7e00).is_nan() && of_float16(0x8000).is_sign_negative());
    }
}

//! Conversions between element types, as C expressions.

/// Element types that can be converted, and for whole numbers their bits and whether there are negative ones.
const TYPES: [(&str, Option<(u32, bool)>); 11] = [
    ("bool", None),
    ("float32", None),
    ("float64", None),
    ("int8", Some((8, true))),
    ("int16", Some((16, true))),
    ("int32", Some((32, true))),
    ("int64", Some((64, true))),
    ("uint8", Some((8, false))),
    ("uint16", Some((16, false))),
    ("uint32", Some((32, false))),
    ("uint64", Some((64, false))),
];

/// Whether elements of type `dtype` can be converted.
pub(crate) fn knows(dtype: &str) -> bool {
    TYPES.iter().any(|(known, _)| *known == dtype)
}

/// The C expression that makes `x`, of type `from`, into `to`.
///
/// Floats lose their fraction; those beyond a whole number's range become its nearest end, NaN becomes 0. Whole numbers
/// keep their lowest bits. Truth is what is not 0.
pub(crate) fn expression(from: &str, to: &str) -> Option<String> {
    if !knows(from) {
        return None;
    }
    let (_, range) = TYPES.iter().find(|(known, _)| *known == to)?;
    Some(match (to, range) {
        _ if from == to => "x".to_owned(),
        ("bool", _) => "x != 0".to_owned(),
        (_, Some((bits, signed))) if from.starts_with("float") => {
            saturated(*bits, *signed, if from == "float32" { "f" } else { "" })
        }
        // As an assignment converts.
        _ => format!("({})x", crate::codegen::code::c_type(to)?),
    })
}

/// A float as a whole number of so many bits. The bounds are powers of two, which floats of either size hold exactly.
fn saturated(bits: u32, signed: bool, float: &str) -> String {
    let (name, least, most, above) = match (bits, signed) {
        (bits, true) => {
            let top = bits - 1;
            let most = (1u64 << top) - 1;
            (format!("int{bits}"), format!("-0x1p{top}"), most, format!("0x1p{top}"))
        }
        (bits, false) => {
            (format!("uint{bits}"), "0.0".to_owned(), u64::MAX >> (64 - bits), format!("0x1p{bits}"))
        }
    };
    let c_type = crate::codegen::code::c_type(&name).unwrap_or("long");
    let (suffix, lowest) = match (signed, most) {
        (true, most) => ("l", format!("-{most}l - 1")),
        (false, _) => ("ul", "0".to_owned()),
    };
    format!(
        "x != x ? 0 : x <= {least}{float} ? ({c_type})({lowest}) : x >= {above}{float} ? ({c_type}){most}{suffix} \
         : ({c_type})x"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_type() {
        assert_eq!(
            expression("float32", "int8").unwrap(),
            "x != x ? 0 : x <= -0x1p7f ? (signed char)(-127l - 1) : x >= 0x1p7f ? (signed char)127l : (signed char)x"
        );
        assert_eq!(
            expression("float64", "uint64").unwrap(),
            "x != x ? 0 : x <= 0.0 ? (unsigned long)(0) : x >= 0x1p64 ? (unsigned long)18446744073709551615ul \
             : (unsigned long)x"
        );
        assert_eq!(expression("int8", "bool").unwrap(), "x != 0");
        assert_eq!(expression("float16", "bool"), None);
        assert_eq!(expression("bool", "float16"), None);
    }
}

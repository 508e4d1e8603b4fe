//! Element types in which an operator may compute instead of the network's.

/// From this distance on, some values are lost.
const LOSSY: u32 = 100;

/// A descriptor's name for an element type of the operator information.
pub(crate) fn spelt(dtype: &str) -> &str {
    match dtype {
        "float" => "float32",
        "double" => "float64",
        dtype => dtype,
    }
}

/// The distance from `from` to `to`, a type to compute in: 0 for the same type, and not [lossy](is_lossy) if `to` has
/// every value of `from`. None if `to` cannot replace `from`: a number does not become a truth value, nor an integer a
/// fraction.
pub(crate) fn distance(from: &str, to: &str) -> Option<u32> {
    let exact = |bytes: u32| Some(bytes);
    let lossy = |rank: u32| Some(LOSSY + rank);
    match (from, to) {
        (from, to) if from == to => Some(0),
        ("float16" | "bfloat16", "float32") => exact(4),
        ("float16" | "bfloat16" | "float32", "float64") => exact(8),
        ("int8", "int16") | ("uint8", "int16" | "uint16") => exact(2),
        ("int8" | "int16" | "uint8" | "uint16", "int32") | ("uint8" | "uint16", "uint32") => exact(4),
        ("int8" | "int16" | "int32" | "uint8" | "uint16" | "uint32", "int64") => exact(8),
        ("float32", "float16") | ("float64", "float32") | ("int64", "int32") => lossy(0),
        ("float32", "bfloat16") | ("float16", "bfloat16") | ("bfloat16", "float16") => lossy(1),
        ("float64", "float16") => lossy(2),
        _ => None,
    }
}

/// Whether a type at this distance lacks some values.
pub(crate) fn is_lossy(distance: u32) -> bool {
    distance >= LOSSY
}

/// Whether all `values` are values of the integer type `dtype`.
pub(crate) fn holds(dtype: &str, values: &[i64]) -> bool {
    match dtype {
        "int64" => true,
        "int32" => values.iter().all(|value| i32::try_from(*value).is_ok()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_type_loses_nothing_if_it_can() {
        let nearest = |from: &str, to: &[&'static str]| {
            to.iter().copied().filter_map(|to| Some((distance(from, to)?, to))).min().map(|(_, to)| to)
        };
        assert_eq!(nearest("float32", &["float16", "bfloat16", "float32"]), Some("float32"));
        assert_eq!(nearest("float32", &["bfloat16", "float16", "int32"]), Some("float16"));
        assert_eq!(nearest("float16", &["bfloat16", "float32", "float64"]), Some("float32"));
        assert_eq!(nearest("int8", &["int64", "int32", "float16"]), Some("int32"));
        assert_eq!(nearest("int32", &["float32", "bool", "int8"]), None);
        assert!(is_lossy(distance("float32", "float16").unwrap()));
        assert!(is_lossy(distance("int64", "int32").unwrap()));
        assert!(!is_lossy(distance("bfloat16", "float32").unwrap()));
        assert_eq!(distance(spelt("float"), "float32"), Some(0));
        assert!(holds("int32", &[-1, 7]) && !holds("int32", &[1 << 40]) && !holds("float32", &[1]));
    }
}

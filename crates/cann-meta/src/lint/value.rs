//! nlohmann's conversions of JSON values to C++ types.

use crate::json::raw::{boolean, is_number, items, text, whole};

/// A C++ type that a JSON value is converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cpp {
    /// `std::string`.
    Text,
    /// `bool`.
    Bool,
    /// `int32_t`.
    Int32,
    /// `uint32_t`.
    Uint32,
    /// `int64_t`, `uint64_t`, `size_t`.
    Wide,
    /// A list of wide numbers.
    WideList,
    /// An object.
    Object,
    /// A list.
    List,
}

impl Cpp {
    /// The expected value, for a message.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Bool => "true or false",
            Self::Int32 | Self::Uint32 => "a whole number of 32 bits",
            Self::Wide => "a whole number",
            Self::WideList => "a list of whole numbers",
            Self::Object => "an object",
            Self::List => "a list",
        }
    }

    /// Whether the library converts `raw` to this type without an exception.
    pub(super) fn accepts(self, raw: &str) -> bool {
        match self {
            Self::Text => text(raw).is_some(),
            Self::Bool => boolean(raw).is_some(),
            Self::Int32 | Self::Uint32 => is_number(raw) || boolean(raw).is_some(),
            Self::Wide => is_number(raw),
            Self::WideList => items(raw).is_some_and(|items| items.into_iter().all(is_number)),
            Self::Object => raw.starts_with('{'),
            Self::List => raw.starts_with('['),
        }
    }
}

/// `raw` as an `int32_t`, with the intended value; `None` if the conversion is undefined.
pub(super) fn int32(raw: &str) -> Option<(i32, i128)> {
    wide(raw).map(|meant| (meant as i32, meant))
}

/// `raw` as a `uint32_t`, with the intended value; `None` if the conversion is undefined.
pub(super) fn uint32(raw: &str) -> Option<(u32, i128)> {
    wide(raw).map(|meant| (meant as u32, meant))
}

/// A number or boolean as a whole number, its fraction truncated; `None` for other values and for numbers above 64
/// bits.
pub(super) fn wide(raw: &str) -> Option<i128> {
    if let Some(value) = boolean(raw) {
        return Some(value.into());
    }
    let fraction = || {
        let value: f64 = raw.parse().ok().filter(|_| is_number(raw))?;
        (value.abs() < 9.2e18).then_some(value as i128)
    };
    whole(raw).or_else(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_lenient_with_numbers_only() {
        for (kind, accepts, refuses) in [
            (Cpp::Text, "\"1\"", &["1", "true", "null", "[]"][..]),
            (Cpp::Bool, "true", &["1", "\"true\"", "null"]),
            (Cpp::Int32, "true", &["\"1\"", "null", "[]", "{}"]),
            (Cpp::Int32, "1.5", &[]),
            (Cpp::Uint32, "-1", &["\"1\""]),
            (Cpp::Wide, "1.0", &["true", "\"1\"", "null"]),
            (Cpp::WideList, "[1, 2.0]", &["[null]", "[\"1\"]", "{}", "1"]),
            (Cpp::Object, "{}", &["[]", "null"]),
            (Cpp::List, "[{}]", &["{}", "null"]),
        ] {
            assert!(kind.accepts(accepts), "{kind:?} {accepts}");
            for raw in refuses {
                assert!(!kind.accepts(raw), "{kind:?} {raw}");
            }
        }
    }

    #[test]
    fn numbers_are_truncated() {
        assert_eq!(uint32("-1"), Some((4_294_967_295, -1)));
        assert_eq!(int32("4294967297"), Some((1, 4_294_967_297)));
        assert_eq!(int32("-1.9"), Some((-1, -1)));
        assert_eq!(int32("true"), Some((1, 1)));
        assert_eq!(int32("\"1\""), None);
        assert_eq!(wide("1e300"), None);
    }
}

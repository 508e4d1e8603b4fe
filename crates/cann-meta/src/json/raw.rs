//! JSON one level at a time: the members of an object or the items of a list, each value as its bytes.
//!
//! Values that are not read are not built, wrong types stay visible, and number tokens stay tokens. serde_json has
//! accepted the whole text before a part of it is read here.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of an object, sorted by name; the last of several with one name.
pub(crate) struct Members<'a> {
    list: Vec<(Cow<'a, str>, &'a str)>,
    /// The [`mark`] of each present name: most names that are looked up are missing.
    marks: u64,
    /// The repeated names.
    pub(crate) repeated: Vec<String>,
}

impl<'a> Members<'a> {
    /// Splits `raw`, which must be an object, into members.
    pub(crate) fn read(raw: &'a str) -> serde_json::Result<Self> {
        let Unsorted(mut list) = serde_json::from_str(raw)?;
        let mut repeated = Vec::new();
        if !list.is_sorted_by(|(one, _), (next, _)| one < next) {
            // The sort is stable: the last of one name stays last.
            list.sort_by(|(one, _), (other, _)| one.cmp(other));
            list.dedup_by(|next, kept| {
                let same = next.0 == kept.0;
                if same {
                    kept.1 = next.1;
                    if repeated.last().is_none_or(|last: &String| *last != kept.0) {
                        repeated.push(kept.0.clone().into_owned());
                    }
                }
                same
            });
        }
        let marks = list.iter().fold(0, |marks, (name, _)| marks | mark(name));
        Ok(Self { list, marks, repeated })
    }

    /// The value of the member `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        if self.marks & mark(name) == 0 {
            return None;
        }
        let at = self.list.binary_search_by(|(member, _)| (**member).cmp(name)).ok()?;
        self.list.get(at).map(|(_, raw)| *raw)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.list.iter().map(|(name, raw)| (&**name, *raw))
    }
}

/// A bit that few names have in common.
fn mark(name: &str) -> u64 {
    let last = name.as_bytes().last().copied().unwrap_or_default();
    1 << ((2 * name.len() + usize::from(last)) % 64)
}

/// The members of an object in the order of the text.
struct Unsorted<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'de> Deserialize<'de> for Unsorted<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Unsorted<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::with_capacity(32);
        while let Some(Text(name)) = map.next_key()? {
            list.push((name, map.next_value::<&'de RawValue>()?.get()));
        }
        Ok(Unsorted(list))
    }
}

/// A string, borrowed unless it has escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

/// The items of a list; `None` for other values.
pub(crate) fn items(raw: &str) -> Option<Vec<&str>> {
    let items: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
    Some(items.into_iter().map(RawValue::get).collect())
}

/// The text of a string; `None` for other values.
pub(crate) fn text(raw: &str) -> Option<Cow<'_, str>> {
    // A string without escapes is the bytes between its quotes.
    let plain = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    if let Some(plain) = plain.filter(|plain| !plain.contains(['\\', '"'])) {
        return Some(Cow::Borrowed(plain));
    }
    serde_json::from_str::<Text<'_>>(raw).ok().map(|Text(text)| text)
}

/// A whole number from -2^63 to 2^64 - 1; `None` for other values.
///
/// `32.0` counts as 32, as it does for the vendors' parsers: Python's `/` makes such numbers.
pub(crate) fn whole(raw: &str) -> Option<i128> {
    if let Ok(number) = raw.parse::<i64>() {
        return Some(number.into());
    }
    if let Ok(number) = raw.parse::<u64>() {
        return Some(number.into());
    }
    if !is_number(raw) {
        return None;
    }
    // Up to this limit, floats represent each whole number exactly.
    const LIMIT: f64 = 9_007_199_254_740_992.0;
    let number: f64 = raw.parse().ok()?;
    (number.fract() == 0.0 && number.abs() <= LIMIT).then_some(number as i128)
}

pub(crate) fn is_number(raw: &str) -> bool {
    raw.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

/// A boolean; `None` for other values.
pub(crate) fn boolean(raw: &str) -> Option<bool> {
    match raw {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_repeated_members_counts() {
        let members = Members::read(r#"{"b": 1, "a": 2, "\u0062": 3, "c": 4, "b": 5}"#).unwrap();
        assert_eq!(members.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "5"), ("c", "4")]);
        assert_eq!(members.repeated, ["b"]);
        assert_eq!((members.get("b"), members.get("d")), (Some("5"), None));
        assert!(Members::read(r#"{"a": 1, "b": 2}"#).unwrap().repeated.is_empty());
    }

    #[test]
    fn whole_numbers_may_be_written_as_floats() {
        for (raw, value) in [
            ("-1", Some(-1)),
            ("18446744073709551615", Some(18_446_744_073_709_551_615)),
            ("-9223372036854775808", Some(-9_223_372_036_854_775_808)),
            ("32.0", Some(32)),
            ("1e3", Some(1000)),
            ("-0.0", Some(0)),
            ("9007199254740992.0", Some(9_007_199_254_740_992)),
            ("9007199254740994.0", None),
            ("18446744073709551616", None),
            ("1.5", None),
            ("1e400", None),
            ("\"1\"", None),
            ("true", None),
            ("null", None),
        ] {
            assert_eq!(whole(raw), value, "{raw}");
        }
    }

    #[test]
    fn texts_lists_and_booleans_are_distinguished() {
        assert_eq!(text(r#""a\n""#).as_deref(), Some("a\n"));
        assert!(matches!(text("\"a\""), Some(Cow::Borrowed("a"))));
        for (raw, read) in [
            ("1", None),
            ("\"", None),
            ("\"\"", Some("")),
            (r#""\\""#, Some("\\")),
            (r#"" \" ""#, Some(" \" ")),
        ] {
            assert_eq!(text(raw).as_deref(), read, "{raw}");
        }
        assert_eq!(text(r#""\ud800""#), None, "an unpaired surrogate");
        assert_eq!(items("[1, [2, 3], {}]"), Some(vec!["1", "[2, 3]", "{}"]));
        assert_eq!(items("{}"), None);
        assert_eq!((boolean("true"), boolean("false"), boolean("1")), (Some(true), Some(false), None));
    }
}

//! Limits and reserved keys of a document.

use serde_json::Value;

use crate::info::fields::PathStep;

/// The largest accepted `.info`: 4 MiB. Real files have kilobytes, the largest fused ones some hundred.
///
/// In the worst case, a file of one-digit numbers, reading takes 41 times the file's size in memory, and reading,
/// hashing and writing 65 times: about 270 MB at this limit, in half a second and one second.
pub const MAX_INFO_BYTES: u64 = 4 << 20;

/// The deepest accepted nesting of lists and objects. The JSON library reads up to 127 levels, and the written form
/// must be readable.
pub(crate) const MAX_NESTING: usize = 64;

/// The additional levels of files since r1.5, whose form nests the contents of older files and of AKG's files deeper.
pub(crate) const NESTING_OF_FORM: usize = 8;

/// The prefix of keys that the JSON library uses internally: it may read an object with such a key as a number.
const RESERVED: &str = "$serde_json::private::";

/// The offset of a reserved key, if there is one.
pub(crate) fn reserved_key(json: &[u8]) -> Option<usize> {
    // A text without `$` and without escapes contains no reserved key.
    if !json.contains(&b'$') && !json.contains(&b'\\') {
        return None;
    }
    let mut at = 0;
    while let Some(begin) = json[at..].iter().position(|byte| *byte == b'"').map(|quote| at + quote) {
        at = end_of_text(json, begin);
        let mut rest = json[at..].iter();
        let is_key = rest.find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
        if is_key && is_reserved(&json[begin..at]) {
            return Some(begin);
        }
    }
    None
}

/// The offset after the closing quote of the string that begins at `begin`.
fn end_of_text(json: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(byte) = json.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    json.len()
}

fn is_reserved(text: &[u8]) -> bool {
    let may_be = text.get(1) == Some(&b'$') || text.contains(&b'\\');
    may_be && serde_json::from_slice::<String>(text).is_ok_and(|key| key.starts_with(RESERVED))
}

/// The path of the first list or object that is nested deeper than `limit`.
pub(crate) fn too_deep(document: &Value, limit: usize) -> Option<Vec<PathStep>> {
    fn search(value: &Value, left: usize) -> Option<Vec<PathStep>> {
        match value {
            Value::Array(_) | Value::Object(_) if left == 0 => Some(Vec::new()),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .find_map(|(index, item)| prefixed(search(item, left - 1), || PathStep::Item(index))),
            Value::Object(map) => map.iter().find_map(|(name, value)| {
                prefixed(search(value, left - 1), || PathStep::Field(name.clone()))
            }),
            _ => None,
        }
    }
    fn prefixed(steps: Option<Vec<PathStep>>, step: impl FnOnce() -> PathStep) -> Option<Vec<PathStep>> {
        let mut steps = steps?;
        steps.push(step());
        Some(steps)
    }
    let mut steps = search(document, limit)?;
    steps.reverse();
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_keys_are_found_however_they_are_spelled() {
        for (json, found) in [
            (r#"{"$serde_json::private::Number":"12"}"#, Some(1)),
            (r#"{"a" : [ {"\u0024serde_json::private::Number" : 1}]}"#, Some(10)),
            (r#"{"$serde\u005fjson::private::RawValue":1}"#, Some(1)),
            (r#"{"a\\":1,"$serde_json::private::x":1}"#, Some(9)),
            (r#"{"a\"":"$","$serde_json::private::":1}"#, Some(11)),
            // As a value it is an ordinary string.
            (r#"{"a":"$serde_json::private::Number"}"#, None),
            (r#"{"$":1,"$serde_json":"\u0024"}"#, None),
            (r#"{"a":"\"$serde_json::private::Number\":1"}"#, None),
            ("\"$", None),
            ("\"\\", None),
        ] {
            assert_eq!(reserved_key(json.as_bytes()), found, "{json}");
        }
    }

    #[test]
    fn nesting_is_counted_in_lists_and_objects() {
        let document: Value = serde_json::from_str(r#"{"a":[1,[]],"b":[{"c":[2]}]}"#).unwrap();
        assert_eq!(too_deep(&document, 4), None);
        let field = |name: &str| PathStep::Field(name.to_owned());
        assert_eq!(too_deep(&document, 3), Some(vec![field("b"), PathStep::Item(0), field("c")]));
        assert_eq!(too_deep(&document, 2), Some(vec![field("a"), PathStep::Item(1)]));
        assert_eq!(too_deep(&document, 0), Some(vec![]));
    }
}

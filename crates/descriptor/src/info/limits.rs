//! What is refused whatever it stands in.

use serde_json::Value;

use crate::info::fields::PathStep;

/// The largest `.info` that is read: 4 MiB. Real ones have kilobytes; the largest fused ones some hundred.
///
/// A file of nothing but one-digit numbers takes 33 times its size in memory to be read, and 49 times to be read, hashed
/// and written, some 200 MB at this limit; a quarter and half of a second.
pub const MAX_INFO_BYTES: u64 = 4 << 20;

/// The deepest nesting of lists and objects that is read. The JSON library reads up to 127 levels, and what was read
/// has to be readable when it is written.
pub(crate) const MAX_NESTING: usize = 64;

/// By how much deeper files since r1.5 may be: in their form, what older ones and AKG's say stands deeper.
pub(crate) const NESTING_OF_FORM: usize = 8;

/// How keys begin by which the JSON library tells itself what a value is: an object with such a key may be read as a
/// number.
const RESERVED: &str = "$serde_json::private::";

/// Where a key begins that is reserved, if there is one.
pub(crate) fn reserved_key(json: &[u8]) -> Option<usize> {
    // Without the sign, and without a way to spell it otherwise, there is none.
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

/// Behind the quote that ends the text that begins at `begin`.
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

/// The way to the first list or object that is nested deeper than `limit`.
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
            // As a value it is but a text.
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

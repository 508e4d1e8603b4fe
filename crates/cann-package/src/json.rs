//! JSON of packages: reading, and the first difference of two values.

use serde_json::Value;

/// The largest number of characters of a value in a message.
const SHOWN: usize = 120;

/// The first difference of two values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Where it is: `inputs[0].dtype`.
    pub(crate) field: String,
    pub(crate) expected: String,
    pub(crate) found: String,
}

/// Returns the first difference, by the fields of `expected` and then by those that only `found` has.
pub(crate) fn difference(field: &str, expected: Option<&Value>, found: Option<&Value>) -> Option<Difference> {
    match (expected, found) {
        (Some(Value::Object(expected)), Some(Value::Object(found))) => {
            let names = expected.keys().chain(found.keys().filter(|name| !expected.contains_key(*name)));
            names.into_iter().find_map(|name| {
                let inner = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
                difference(&inner, expected.get(name), found.get(name))
            })
        }
        (Some(Value::Array(expected)), Some(Value::Array(found))) => (0..expected.len().max(found.len()))
            .find_map(|at| difference(&format!("{field}[{at}]"), expected.get(at), found.get(at))),
        (expected, found) if is_same(expected, found) => None,
        (expected, found) => {
            Some(Difference { field: field.to_owned(), expected: shown(expected), found: shown(found) })
        }
    }
}

/// Whether two values without parts are equal. Numbers are compared by value: writers spell them differently.
fn is_same(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one, other) {
        (Some(Value::Number(one)), Some(Value::Number(other))) => {
            one == other || one.as_f64().is_some_and(|value| Some(value) == other.as_f64())
        }
        _ => one == other,
    }
}

/// A value for a message.
pub(crate) fn shown(value: Option<&Value>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(Value::String(text)) => shortened(&format!("`{}`", text.replace('`', "'"))),
        Some(value) => shortened(&value.to_string()),
    }
}

/// A text of a file for a message.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Reads JSON. The error is for a message.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

/// The texts in a list; `None` if there is no list, or something else in it.
pub(crate) fn texts(value: Option<&Value>) -> Option<Vec<&str>> {
    value?.as_array()?.iter().map(Value::as_str).collect()
}

/// Inputs or outputs, those of a list one by one.
pub(crate) fn ports(value: Option<&Value>) -> Vec<&Value> {
    let list = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter()
        .flat_map(|port| match port {
            Value::Array(list) => list.as_slice(),
            port => std::slice::from_ref(port),
        })
        .filter(|port| !port.is_null())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_difference_is_named_by_its_place() {
        let of = |one: Value, other: Value| {
            difference("", Some(&one), Some(&other)).map(|it| (it.field, it.expected, it.found))
        };
        let some = |field: &str, expected: &str, found: &str| {
            Some((field.to_owned(), expected.to_owned(), found.to_owned()))
        };
        let ports = |dtype: &str| json!({"inputs": [{"name": "x", "dtype": dtype}], "n": 1.0});
        assert_eq!(of(ports("a"), ports("a")), None);
        assert_eq!(of(ports("a"), ports("b")), some("inputs[0].dtype", "`a`", "`b`"));
        assert_eq!(of(json!({"n": 1}), json!({"n": 1.0})), None);
        assert_eq!(of(json!({"a": [1, 2]}), json!({"a": [1]})), some("a[1]", "2", "nothing"));
        assert_eq!(of(json!({}), json!({"b": null})), some("b", "nothing", "null"));
        assert_eq!(of(json!([]), json!({"b": null})), some("", "[]", "{\"b\":null}"));
        let long = of(json!("x".repeat(1000)), json!("é".repeat(1000))).unwrap();
        assert!(long.1.len() < 200 && long.2.ends_with("..."), "{long:?}");
    }
}

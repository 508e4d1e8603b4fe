//! The documents that the tests start from, and ways to change them.

use opkeep_descriptor::{Descriptor, InfoError, read_info};
use serde_json::Value;

/// MindSpore's own example.
pub(crate) const EXAMPLE: &str =
    include_str!("../../../../fixtures/mindspore/square_12484080525657478220_2.info");

/// Ours: a fused job with everything that newer versions write of tensors and attributes, single operators' included,
/// and unknown fields at every level. One file, in three parts.
pub(crate) const RICH: &str =
    concat!(include_str!("rich/1.info"), include_str!("rich/2.info"), include_str!("rich/3.info"));

/// Ours: two fused operators, with the fields that MindSpore writes of fused ones and no others.
pub(crate) const FUSED: &str = include_str!("fused.info");

/// Ours, in the words of r1.2: variadic, absent and dynamic inputs, every field that is ignored, and unknown ones.
pub(crate) const OLDER: &str = include_str!("older.info");

/// The same in the words of r1.0.
pub(crate) const OLDEST: &str = include_str!("oldest.info");

/// Ours, in the words of AKG.
pub(crate) const COMPOSITE: &str = include_str!("composite.info");

pub(crate) fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

pub(crate) fn read(text: &str) -> Descriptor {
    read_info(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn read_value(document: &Value) -> Result<Descriptor, InfoError> {
    read_info(document.to_string().as_bytes())
}

/// `document` with the value at the JSON pointer `at` replaced.
pub(crate) fn with(document: &Value, at: &str, value: Value) -> Value {
    let mut changed = document.clone();
    *changed.pointer_mut(at).unwrap_or_else(|| panic!("no {at}")) = value;
    changed
}

/// `document` without the member at the JSON pointer `at`; `None` if it is no member of an object.
pub(crate) fn without(document: &Value, at: &str) -> Option<Value> {
    let (parent, name) = at.rsplit_once('/')?;
    let mut changed = document.clone();
    changed.pointer_mut(parent)?.as_object_mut()?.remove(name)?;
    Some(changed)
}

/// JSON pointers of every value in `document` but itself, parents first.
pub(crate) fn paths(document: &Value) -> Vec<String> {
    fn walk(value: &Value, at: &str, paths: &mut Vec<String>) {
        let children: Vec<(String, &Value)> = match value {
            Value::Object(map) => map.iter().map(|(name, value)| (format!("{at}/{name}"), value)).collect(),
            Value::Array(items) => {
                items.iter().enumerate().map(|(index, value)| (format!("{at}/{index}"), value)).collect()
            }
            _ => return,
        };
        for (at, value) in children {
            walk(value, &at, {
                paths.push(at.clone());
                paths
            });
        }
    }
    let mut paths = Vec::new();
    walk(document, "", &mut paths);
    paths
}

/// A path without its indices: `op_list` with the kind of op; lists in lists count as one.
pub(crate) fn pattern(document: &Value, at: &str) -> String {
    let mut pattern = String::new();
    let mut here = String::new();
    for step in at.split('/').skip(1) {
        let list = document.pointer(&here).is_some_and(Value::is_array);
        here = format!("{here}/{step}");
        if !list {
            pattern.push_str(if pattern.is_empty() { "" } else { "." });
            pattern.push_str(step);
        } else if pattern.ends_with("op_list") {
            let data = document.pointer(&here).is_some_and(|op| op["type"] == "Data");
            pattern.push_str(if data { "[data]" } else { "[op]" });
        } else if !pattern.ends_with("[]") {
            pattern.push_str("[]");
        }
    }
    pattern
}

/// Applies `change` to every string in `document` that stands under one of the field names `names`.
pub(crate) fn each_named(value: &mut Value, names: &[&str], change: &mut impl FnMut(&mut String)) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                match value {
                    Value::String(text) if names.contains(&name.as_str()) => change(text),
                    value => each_named(value, names, change),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| each_named(item, names, change)),
        _ => {}
    }
}

//! Texts in JSON.

use std::collections::BTreeMap;

use serde_json::Value;

/// The members of an object, which all are texts.
pub(crate) fn texts(object: &Value) -> Option<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    for (name, value) in object.as_object()? {
        texts.insert(name.clone(), value.as_str()?.to_owned());
    }
    Some(texts)
}

//! The comparison of kernels' `.json` files by content.

use opkeep_digest::Digest;
use serde_json::{Map, Value};

/// The maximum size of a `.json` or a descriptor, in bytes.
pub const MAX_TEXT: u64 = 64 << 20;
/// The member that MindSpore adds to the `.json` of a kernel with dynamic shapes by rewriting the file in place.
const BUILD_RESULT: &str = "build_result";

/// Returns whether the `.json` on disk has the content of the given one.
///
/// The layout may differ, and `build_result` may have been added or changed, because MindSpore parses the file and
/// writes it again. Files that are not JSON objects must be identical.
pub(crate) fn same_json(disk: &[u8], given: &[u8]) -> bool {
    if disk == given {
        return true;
    }
    let (Some(mut disk), Some(mut given)) = (object(disk), object(given)) else {
        return false;
    };
    let added = disk.remove(BUILD_RESULT).is_some();
    let expected = given.remove(BUILD_RESULT).is_some();
    (added || !expected) && same_members(&disk, &given)
}

/// Returns whether MindSpore added `build_result` to the `.json`.
pub(crate) fn is_extended(json: &[u8]) -> bool {
    object(json).is_some_and(|members| members.contains_key(BUILD_RESULT))
}

/// Returns whether `json` states this digest of its object file.
pub fn describes(json: &[u8], digest: &Digest) -> bool {
    described(json).as_ref() == Some(digest)
}

/// Returns the digest of the object file that `json` states, if any.
pub fn described(json: &[u8]) -> Option<Digest> {
    object(json)?.get("sha256")?.as_str()?.parse().ok()
}

fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(members)) => Some(members),
        _ => None,
    }
}

fn same_members(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    a.len() == b.len()
        && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same_value(value, other)))
}

fn same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => same_members(a, b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b))
        }
        // Another library may write 1e-5 as 1e-05, which is the same number. Integers must not be converted to floats:
        // tiling keys need all 64 bits.
        (Value::Number(a), Value::Number(b)) => {
            a == b || (a.is_f64() && b.is_f64() && a.as_f64() == b.as_f64())
        }
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &[u8] =
        br#"{"blockDim": 1, "sha256": "00", "scale": 1e-05, "keys": [10000000000000000000]}"#;

    #[test]
    fn layout_and_build_result_do_not_count() {
        for same in [
            r#"{"blockDim":1,"sha256":"00","scale":0.00001,"keys":[10000000000000000000]}"#,
            r#"{"keys":[10000000000000000000],"build_result":"{}","scale":1e-5,"sha256":"00","blockDim":1}"#,
        ] {
            assert!(same_json(same.as_bytes(), GIVEN), "{same}");
        }
        assert!(same_json(br#"{"build_result": "new", "a": 1}"#, br#"{"build_result": "old", "a": 1}"#));
        assert!(same_json(b"not json", b"not json"));
    }

    #[test]
    fn everything_else_counts() {
        for other in [
            r#"{"blockDim":2,"sha256":"00","scale":1e-05,"keys":[10000000000000000000]}"#,
            r#"{"blockDim":1,"sha256":"01","scale":1e-05,"keys":[10000000000000000000]}"#,
            r#"{"blockDim":1,"sha256":"00","scale":1e-06,"keys":[10000000000000000000]}"#,
            r#"{"blockDim":1,"sha256":"00","scale":1e-05,"keys":[10000000000000000001]}"#,
            r#"{"blockDim":1,"sha256":"00","scale":1e-05,"keys":[]}"#,
            r#"{"blockDim":1,"sha256":"00","scale":1e-05}"#,
            r#"{"blockDim":1,"sha256":"00","scale":1e-05,"keys":[10000000000000000000],"x":0}"#,
            r#"{"blockDim":1,"sha256":"00","scale":1e-05,"keys":[10000000000000000000]"#,
            "[]",
            "",
        ] {
            assert!(!same_json(other.as_bytes(), GIVEN), "{other}");
        }
        // MindSpore adds the member and never removes it, so a file without it is a damaged one.
        assert!(!same_json(br#"{"a": 1}"#, br#"{"build_result": "old", "a": 1}"#));
    }

    #[test]
    fn a_description_names_its_object() {
        let digest = Digest::of(b"object");
        assert!(describes(format!(r#"{{"sha256": "{digest}"}}"#).as_bytes(), &digest));
        for not in [
            format!(r#"{{"sha256": "{}"}}"#, Digest::of(b"")),
            "{}".into(),
            "{\"sha256\": 1}".into(),
            String::new(),
        ] {
            assert!(!describes(not.as_bytes(), &digest), "{not}");
        }
    }
}

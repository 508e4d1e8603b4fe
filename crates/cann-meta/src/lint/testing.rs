//! Helpers for the tests of both readers.

use crate::lint::{Lint, Vendor, fe_lints, mindspore_lints};

/// A document without lints from either reader.
const GOOD: [(&str, &str); 9] = [
    ("binFileName", "\"add_1\""),
    ("binFileSuffix", "\".o\""),
    ("blockDim", "2"),
    ("kernelName", "\"add_1__kernel0\""),
    ("magic", "\"RT_DEV_BINARY_MAGIC_ELF\""),
    ("opParaSize", "24"),
    ("parameters", "[0, 1, 0]"),
    ("sha256", "\"00\""),
    ("workspace", r#"{"num": 2, "size": [64, 32], "type": [0, 1]}"#),
];

/// The good document with other fields; an empty value removes a field.
fn changed(change: Change<'_>) -> String {
    let kept = GOOD.iter().filter(|(name, _)| change.iter().all(|(other, _)| other != name));
    let fields = kept.chain(change.iter().filter(|(_, value)| !value.is_empty()));
    let fields: Vec<String> = fields.map(|(name, value)| format!("\"{name}\": {value}")).collect();
    format!("{{{}}}", fields.join(", "))
}

/// A reader's lints for the good document with other fields.
pub(super) fn messages(lints: fn(&[u8]) -> Vec<Lint>, change: Change<'_>) -> Vec<String> {
    lints(changed(change).as_bytes()).iter().map(ToString::to_string).collect()
}

/// Fields that replace those of the good document.
pub(super) type Change<'a> = &'a [(&'a str, &'a str)];

/// A change, and the lints that it causes, after "would".
pub(super) type ExpectedLints<'a> = (Change<'a>, &'a [&'a str]);

/// One row of a reader's table: changes without a lint, and changes with one.
pub(super) fn row(vendor: Vendor, without_lints: &[Change<'_>], with_lints: &[ExpectedLints<'_>]) {
    let lints = match vendor {
        Vendor::Fe => fe_lints,
        Vendor::MindSpore => mindspore_lints,
    };
    for change in without_lints {
        assert_eq!(messages(lints, change), [""; 0], "{change:?}");
    }
    for (change, expected) in with_lints {
        let expected: Vec<String> = expected.iter().map(|text| format!("{vendor} would {text}")).collect();
        assert_eq!(messages(lints, change), expected, "{change:?}");
    }
}

//! The body of the fuzz target.

use crate::{KernelMeta, Lint, MetaError, fe_lints, mindspore_lints};

/// Parses `bytes` as a kernel's `.json` and calls every function on the result.
///
/// # Panics
/// If parsing and writing do not round-trip, or another invariant does not hold.
pub fn fuzz(bytes: &[u8]) {
    let lints: Vec<Lint> = [fe_lints(bytes), mindspore_lints(bytes)].concat();
    for lint in &lints {
        harmless(&lint.to_string());
    }
    let (meta, mindspore) = KernelMeta::parse_linted(bytes);
    assert_eq!((&meta, &mindspore), (&KernelMeta::parse(bytes), &mindspore_lints(bytes)));
    let mut meta = match meta {
        Ok(meta) => meta,
        Err(error) => {
            harmless(&error.to_string());
            let unreadable = matches!(error, MetaError::Json { .. });
            assert!(!unreadable || lints.len() == 2, "a vendor reads text that is not JSON: {lints:?}");
            return;
        }
    };
    meta.repeated.iter().for_each(|place| harmless(place));
    // Only the last of repeated fields is written.
    meta.repeated.clear();
    match KernelMeta::parse(meta.to_json().as_bytes()) {
        // White space may make the written form exceed the size limit.
        Err(MetaError::TooLarge { .. }) => {}
        again => assert_eq!(again.as_ref(), Ok(&meta), "the written form reads back differently"),
    }
    let listed = meta.listed().map(<[_]>::len);
    assert_eq!(meta.entry_names().len(), listed.unwrap_or(usize::from(meta.kernel_name.is_some())));
}

/// Text from the file must not contain control characters in a message.
fn harmless(message: &str) {
    assert!(!message.contains(char::is_control), "{message:?}");
}

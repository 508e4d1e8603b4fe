//! What the fuzzer calls.

use crate::{KernelMeta, Lint, MetaError, fe_lints, mindspore_lints};

/// Reads `bytes` as a kernel's `.json`, and does with it all that can be done.
///
/// # Panics
/// What was read does not come back, or there is another mistake.
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
            assert!(!unreadable || lints.len() == 2, "a vendor reads what is not JSON: {lints:?}");
            return;
        }
    };
    meta.repeated.iter().for_each(|place| harmless(place));
    // Of fields that occurred more than once, only the last is written.
    meta.repeated.clear();
    match KernelMeta::parse(meta.to_json().as_bytes()) {
        // With its white space, it may be larger than before.
        Err(MetaError::TooLarge { .. }) => {}
        again => assert_eq!(again.as_ref(), Ok(&meta), "what was read does not come back"),
    }
    let listed = meta.listed().map(<[_]>::len);
    assert_eq!(meta.entry_names().len(), listed.unwrap_or(usize::from(meta.kernel_name.is_some())));
}

/// Nothing from the file may move the cursor of whoever reads the message.
fn harmless(message: &str) {
    assert!(!message.contains(char::is_control), "{message:?}");
}

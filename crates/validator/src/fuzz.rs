//! The body of a fuzz target.

use opkeep_cann_meta::targets;

use crate::judge::{validate_full, validate_object};

/// Validates any bytes as an object, and as a `.json` followed by an object: the body of a fuzz target.
///
/// # Panics
/// If an invariant for arbitrary bytes does not hold, which is a bug in this crate.
pub fn fuzz(bytes: &[u8]) {
    let alone = validate_object(bytes, None);
    let (json, object) = match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[][..]),
    };
    let expect =
        [targets::host("cpu", targets::X86_64), targets::ascend("Ascend910B1"), targets::aicpu("AI CPU")];
    for report in expect.iter().map(|expect| validate_full(json, object, expect)).chain([alone]) {
        assert!(report.findings.is_sorted_by(|a, b| a.severity() >= b.severity()));
        assert_eq!(report.is_valid(), report.errors().next().is_none());
        for finding in &report.findings {
            let text = finding.to_string();
            assert!(text.starts_with("OPV") && !text.contains(|letter: char| letter.is_control()));
        }
    }
}

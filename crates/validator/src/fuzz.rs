//! The body of a fuzz target.

use opkeep_artifact::Artifact;
use opkeep_cann_meta::targets;

use crate::device_formats::{self, device_kernels};
use crate::elf::outline::ObjectOutline;
use crate::judge::{validate_full, validate_object};
use crate::validator::Validator;

/// Validates any bytes as an object, and as a `.json` followed by an object, of each format: the body of a fuzz target.
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
    let kernel = Artifact { metadata: json.to_vec(), object: object.to_vec(), extra: Vec::new() };
    let devices = [device_formats::cubin("sm_90"), device_formats::hsaco("gfx942")]
        .map(|expect| Validator::builtin().validate(&kernel, &expect));
    assert!(device_kernels(object).len() <= object.len());
    if let Some(outline) = ObjectOutline::of(object) {
        outline.assert_linear(object);
    }
    for report in
        expect.iter().map(|expect| validate_full(json, object, expect)).chain([alone]).chain(devices)
    {
        assert!(report.findings.is_sorted_by(|a, b| a.severity() >= b.severity()));
        assert_eq!(report.is_valid(), report.errors().next().is_none());
        for finding in &report.findings {
            let text = finding.to_string();
            assert!(text.starts_with("OPV") && !text.contains(|letter: char| letter.is_control()));
        }
    }
}

//! Kernels that are made here, whole and broken.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are not themselves marked as tests")]

mod ascend;
mod hostile;
mod layout;
mod made;
mod metadata;
mod refusals;

use opkeep_validator::{Code, Report};

/// The codes of all findings, the gravest first.
pub(crate) fn codes(report: &Report) -> Vec<Code> {
    report.findings.iter().map(|finding| finding.code()).collect()
}

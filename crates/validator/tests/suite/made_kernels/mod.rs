//! Kernels that are made here, whole and broken.

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

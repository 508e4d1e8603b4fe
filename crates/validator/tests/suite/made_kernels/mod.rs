//! Generated kernels, valid and damaged.

mod ascend;
mod hostile;
mod layout;
mod made;
mod metadata;
mod refusals;

use opkeep_validator::{Code, Report};

/// The codes of all findings, the most severe first.
pub(crate) fn codes(report: &Report) -> Vec<Code> {
    report.findings.iter().map(|finding| finding.code()).collect()
}

//! Findings of the validator as text and as JSON.

use opkeep_validator::{Finding, Report, Severity};
use serde::Serialize;

use crate::ui::text::Text;
use crate::ui::wrap::headed;

/// Returns the line for a finding.
pub(crate) fn line(finding: &Finding) -> Text {
    headed(&format!("  {:<8} ", finding.severity()), finding)
}

/// Whether a finding is a note about something that does no harm, as the list of findings says.
pub(crate) fn is_benign(finding: &Finding) -> bool {
    finding.severity() == Severity::Note && finding.rule().remedy.starts_with("no harm")
}

/// A finding as JSON: a code for the kind, a message about the file, and a hint.
#[derive(Serialize)]
pub(crate) struct FindingOutput {
    code: String,
    severity: &'static str,
    message: String,
    hint: &'static str,
    more: usize,
}

pub(crate) fn finding_outputs(report: &Report) -> Vec<FindingOutput> {
    let one = |finding: &Finding| FindingOutput {
        code: finding.code().to_string(),
        severity: finding.severity().name(),
        message: finding.message(),
        hint: finding.rule().remedy,
        more: finding.more,
    };
    report.findings.iter().map(one).collect()
}

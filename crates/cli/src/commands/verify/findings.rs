//! Findings of the validator.

use opkeep_validator::{Finding, Report};
use serde_json::{Value, json};

use crate::ui::text::Text;

/// A line for each finding.
pub(crate) fn findings_text(report: &Report) -> Text {
    report.findings.iter().map(line).collect()
}

pub(crate) fn line(finding: &Finding) -> Text {
    Text::of(format_args!("  {:<8} {finding}", finding.severity()))
}

/// The findings for programs: the code says what it is, the message what was found, the hint what to do.
pub(crate) fn findings_json(report: &Report) -> Value {
    let one = |finding: &Finding| {
        json!({
            "code": finding.code().to_string(),
            "severity": finding.severity().name(),
            "message": finding.message(),
            "hint": finding.rule().remedy,
            "more": finding.more,
        })
    };
    report.findings.iter().map(one).collect()
}

//! The validation of a kernel in memory.

use std::ffi::CString;

use opkeep_artifact::{Artifact, Expectations};
use opkeep_cann_meta::targets;
use opkeep_validator::{Finding, Validator, device_formats};

use crate::code::{Code, Format, Severity};
use crate::error::Error;
use crate::handles::Object;
use crate::last_error::c_text;

/// The findings of a validation.
pub(crate) struct Report {
    pub(crate) findings: Vec<ReportFinding>,
    pub(crate) errors: usize,
}

/// A finding, with the texts that C needs.
pub(crate) struct ReportFinding {
    pub(crate) severity: Severity,
    pub(crate) code: CString,
    pub(crate) text: CString,
}

impl Object for Report {
    const KIND: &'static str = "report";
}

/// The rules for kernels of a format and an architecture, under the name that the target has in the store.
pub(crate) fn rules_of(format: u32, architecture: &str, target: &str) -> Result<CString, Error> {
    let mut rules = match format {
        _ if format == Format::Cann as u32 => rules_of_target(architecture)?,
        _ if format == Format::Cubin as u32 => device_formats::cubin(architecture),
        _ if format == Format::Hsaco as u32 => device_formats::hsaco(architecture),
        _ => {
            return Err(Error::argument(format!(
                "`format` is {format}, expected an `opkeep_format`: 0 to 2"
            )));
        }
    };
    target.clone_into(&mut rules.target);
    Ok(c_text(rules.encode()))
}

/// The rules in the text of the argument called `argument`.
pub(crate) fn decode_rules(text: &str, argument: &str) -> Result<Expectations, Error> {
    Expectations::decode(text.as_bytes())
        .map_err(|error| Error::new(Code::Rules, format!("`{argument}`: {error}")))
}

/// The rules of a built-in target.
pub(crate) fn rules_of_target(target: &str) -> Result<Expectations, Error> {
    targets::named(target).ok_or_else(|| {
        Error::new(Code::Rules, format!(
            "there are no built-in rules for the target `{target}`: state rules, such as those that `opkeep_rules` returns"
        ))
    })
}

impl Report {
    /// Validates an object and its metadata.
    pub(crate) fn of(object: &[u8], metadata: &[u8], rules: &Expectations) -> Self {
        let artifact = Artifact { metadata: metadata.to_vec(), object: object.to_vec(), extra: Vec::new() };
        let report = Validator::builtin().validate(&artifact, rules);
        let errors = report.errors().count();
        Self { findings: report.findings.iter().map(ReportFinding::new).collect(), errors }
    }
}

impl ReportFinding {
    fn new(finding: &Finding) -> Self {
        let severity = match finding.severity() {
            opkeep_artifact::Severity::Note => Severity::Note,
            opkeep_artifact::Severity::Warning => Severity::Warning,
            opkeep_artifact::Severity::Error => Severity::Error,
        };
        Self { severity, code: c_text(finding.code().to_string()), text: c_text(finding.to_string()) }
    }
}

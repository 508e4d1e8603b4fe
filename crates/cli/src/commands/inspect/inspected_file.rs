//! The fields of an inspected file.

use std::collections::BTreeMap;
use std::path::Path;

use opkeep_validator::{ObjectOutline, Report};
use serde::Serialize;
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::outline::{self, FieldKind, OutlineOutput};
use crate::commands::verify::findings::{FindingOutput, finding_outputs, line};
use crate::ui::json;
use crate::ui::text::{Text, padding};

/// The fields of a file with their values, and its problems.
pub(crate) struct InspectedFile {
    kind: &'static str,
    fields: Vec<(String, String)>,
    /// The problems because of which the file cannot be read.
    pub(crate) problems: Vec<String>,
    /// The validator's report, if the file belongs to a kernel.
    pub(crate) report: Option<Report>,
    /// The sections and symbols, if the file is an ELF object.
    outline: Option<ObjectOutline>,
    /// Objects of the JSON result that only some kinds have, by name.
    details: BTreeMap<&'static str, Value>,
}

impl InspectedFile {
    pub(crate) fn new(kind: &'static str) -> Self {
        let (fields, problems, details) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { kind, fields, problems, report: None, outline: None, details }
    }

    pub(crate) fn field(&mut self, name: impl Into<String>, value: impl ToString) {
        self.fields.push((name.into(), value.to_string()));
    }

    /// Returns all fields, and one for each section and each symbol of an object.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (FieldKind, String, String)> {
        let own = self.fields.iter().map(|(name, value)| (FieldKind::Other, name.clone(), value.clone()));
        own.chain(self.outline.iter().flat_map(outline::fields))
    }

    /// Adds the sections and symbols of `bytes`, if they are an ELF object.
    pub(super) fn outline(&mut self, bytes: &[u8]) {
        self.outline = ObjectOutline::of(bytes);
    }

    /// Adds an object that only this kind has to the JSON result.
    pub(super) fn detail(&mut self, name: &'static str, detail: &impl Serialize) {
        self.details.insert(name, serde_json::to_value(detail).unwrap_or_default());
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.problems.is_empty() && self.report.as_ref().is_none_or(Report::is_valid)
    }
}

pub(crate) fn file_text(path: &Path, file: &InspectedFile) -> Text {
    let width = file.fields.iter().map(|(name, _)| name.width()).max().unwrap_or(0).min(28);
    let mut text = Text::of(format_args!("{}: {}", path.display(), file.kind));
    for (name, value) in &file.fields {
        text.line(format_args!("  {name}{}  {value}", padding(name, width)));
    }
    text.extend(file.outline.iter().map(outline::text));
    for problem in &file.problems {
        text.line(format_args!("  problem: {problem}"));
    }
    text.extend(file.report.iter().flat_map(|report| &report.findings).map(line));
    text
}

/// A file as JSON.
#[derive(Serialize)]
pub(crate) struct FileOutput {
    file: String,
    kind: &'static str,
    valid: bool,
    fields: BTreeMap<String, String>,
    problems: Vec<String>,
    findings: Vec<FindingOutput>,
    #[serde(flatten)]
    details: BTreeMap<&'static str, Value>,
}

impl FileOutput {
    pub(crate) fn new(path: &Path, mut file: InspectedFile) -> Self {
        if let Some(outline) = file.outline.take() {
            file.detail("object", &OutlineOutput::from(&outline));
        }
        Self {
            file: json::path(path),
            kind: file.kind,
            valid: file.is_valid(),
            findings: file.report.as_ref().map(finding_outputs).unwrap_or_default(),
            fields: file.fields.into_iter().collect(),
            problems: file.problems,
            details: file.details,
        }
    }
}

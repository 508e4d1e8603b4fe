//! `opkeep inspect`.

mod info;
mod kernel;

use std::path::{Path, PathBuf};

use anyhow::bail;
use opkeep_descriptor::{MAX_INFO_BYTES, read_info};
use opkeep_digest::Digest;
use opkeep_validator::{Code, Report};
use serde_json::{Value, json};

use crate::args::InspectArgs;
use crate::commands::verify::{findings_json, findings_text};
use crate::input::entry::{self, Stored};
use crate::input::pairs::{CheckOutcome, CheckedKernel, judge, judge_alone};
use crate::input::read_file;
use crate::ui::output::{Output, Verdict, chain};
use crate::ui::text::Text;

/// What was found in a file: lines of (field, value), and what is wrong with it.
pub(crate) struct Found {
    kind: &'static str,
    fields: Vec<(String, String)>,
    /// What keeps it from being read.
    pub(crate) problems: Vec<String>,
    /// What the validator says, if it is a kernel.
    report: Option<Report>,
}

impl Found {
    pub(crate) fn new(kind: &'static str) -> Self {
        Self { kind, fields: Vec::new(), problems: Vec::new(), report: None }
    }

    pub(crate) fn field(&mut self, name: impl Into<String>, value: impl ToString) {
        self.fields.push((name.into(), value.to_string()));
    }

    fn is_valid(&self) -> bool {
        self.problems.is_empty() && self.report.as_ref().is_none_or(Report::is_valid)
    }

    /// What the validator saw and says.
    pub(crate) fn judged(mut self, judged: CheckedKernel) -> Self {
        kernel::describe(&mut self, &judged);
        self.report = Some(judged.report);
        self
    }
}

pub(crate) fn inspect(args: &InspectArgs, output: &Output) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::Good;
    let (mut text, mut json_files) = (Text::default(), Vec::new());
    for path in &args.files {
        match look(path) {
            Ok(all) => {
                for (path, found) in all {
                    text.append(&found_text(&path, &found));
                    json_files.push(found_json(&path, &found));
                    if !found.is_valid() && verdict == Verdict::Good {
                        verdict = Verdict::Problems;
                    }
                }
            }
            Err(error) => {
                output.error(&error);
                json_files.push(json!({ "file": path.to_string_lossy(), "error": chain(&error) }));
                verdict = Verdict::Unusable;
            }
        }
    }
    if !text.is_empty() || !output.is_text() {
        output.result(&text, &json!({ "files": json_files }))?;
    }
    Ok(verdict)
}

/// What a file is, and the files that belong to it: the parts of a master, both objects of AKG.
fn look(path: &Path) -> anyhow::Result<Vec<(PathBuf, Found)>> {
    let one = |found| vec![(path.to_owned(), found)];
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    match extension.as_ref() {
        "info" => {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            Ok(one(info::info(&read_file(path, MAX_INFO_BYTES)?, &stem)))
        }
        "json" => match judge(path, None)? {
            CheckOutcome::Other(other) => bail!(other),
            CheckOutcome::Kernels(all) => Ok(all.into_iter().map(description).collect()),
        },
        "o" | "so" => {
            let judged = judge_alone(path, None)?;
            Ok(one(Found::new("kernel object").judged(judged)))
        }
        "kern" => Ok(one(entry(path, entry::judge(path, None)?))),
        _ => bail!(
            "`{}` is none of the files that inspect knows: .info, .json, .o, .so or .kern",
            path.display()
        ),
    }
}

fn description(mut judged: CheckedKernel) -> (PathBuf, Found) {
    // To look at a description alone is no mistake.
    judged.report.findings.retain(|finding| finding.code() != Code::NO_OBJECT);
    (judged.file.clone(), Found::new("kernel description").judged(judged))
}

/// A store entry, checked against the key that its name says.
fn entry(path: &Path, stored: Stored) -> Found {
    let mut found = Found::new("store entry");
    found.field("entry bytes", stored.bytes);
    let header = stored.header();
    let Stored { entry, target, problems, unverifiable, report, .. } = stored;
    found.problems.extend(problems);
    let Some(entry) = entry else { return found };
    found.field("key", entry.key());
    found.field("validated by rules", entry.validation());
    for name in entry.names() {
        let digest = entry.member_digest(name).map(Digest::to_string).unwrap_or_default();
        found.field(format!("member {name}"), format!("sha256 {digest}"));
    }
    if let Some(why) = unverifiable {
        found.field("not judged", why);
    }
    describe_header(&mut found, header);
    if let Ok(Some(text)) = entry.lazy_member("info")
        && let Ok(descriptor) = read_info(text)
    {
        info::describe(&mut found, &descriptor);
    }
    match report {
        Some(report) => found.judged(CheckedKernel {
            file: path.to_owned(),
            object: Some(path.to_owned()),
            target,
            report,
        }),
        None => found,
    }
}

fn describe_header(found: &mut Found, header: Value) {
    for name in ["name", "target", "backend", "compile_us", "made_by", "provenance"] {
        if let Some(value) = header.get(name).filter(|value| !value.is_null()) {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            found.field(format!("entry {name}"), value);
        }
    }
    if let Some(imported) = header.get("imported") {
        for (name, value) in imported.as_object().into_iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            found.field(format!("imported {name}"), value);
        }
        for part in ["toolchain", "op_sources"] {
            found.field(part, "not known: somebody else compiled it");
        }
    }
    for part in ["toolchain", "op_sources"] {
        let parts = header.get("parts").and_then(|parts| parts.get(part)?.get("parts")?.as_array());
        for item in parts.into_iter().flatten() {
            let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
            let note: String = text("note").chars().take(120).collect();
            found.field(format!("{part}: {}", text("name")), note);
        }
    }
}

fn found_text(path: &Path, found: &Found) -> Text {
    let width = found.fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0).min(28);
    let mut text = Text::of(format_args!("{}: {}", path.display(), found.kind));
    for (name, value) in &found.fields {
        text.line(format_args!("  {name:width$}  {value}"));
    }
    for problem in &found.problems {
        text.line(format_args!("  problem: {problem}"));
    }
    text.extend(found.report.as_ref().map(findings_text));
    text
}

fn found_json(path: &Path, found: &Found) -> Value {
    let fields: serde_json::Map<String, Value> =
        found.fields.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    json!({
        "file": path.to_string_lossy(),
        "kind": found.kind,
        "valid": found.is_valid(),
        "fields": fields,
        "problems": found.problems,
        "findings": found.report.as_ref().map(findings_json).unwrap_or_else(|| json!([])),
    })
}

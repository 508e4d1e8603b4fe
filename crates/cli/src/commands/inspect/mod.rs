//! `opkeep inspect`: describes files field by field.

mod found;
mod info;
mod kernel;

use std::path::{Path, PathBuf};

use anyhow::bail;
use opkeep_descriptor::{MAX_INFO_BYTES, read_info};
use opkeep_digest::Digest;
use opkeep_kernel_entry::EntryFile;
use opkeep_store::MAX_ENTRY_BYTES;
use opkeep_validator::Code;
use serde::Serialize;
use serde_json::Value;

use crate::input::pairs::{CheckOutcome, CheckedKernel, judge, judge_alone};
use crate::input::read_file;
use crate::ui::json::{FileError, OrError};
use crate::ui::output::{ExitStatus, Output, chain};
use crate::ui::text::Text;
use found::{FileOutput, Found, found_text};

/// Describe a .info, .json, .o, .so or .kern file field by field, and check it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Operator descriptors (.info), kernel descriptions (.json), objects (.o, .so) or store entries (.kern)
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// The result as JSON.
#[derive(Serialize)]
struct InspectOutput {
    files: Vec<OrError<FileOutput>>,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let mut exit_status = ExitStatus::Success;
    let (mut text, mut files) = (Text::default(), Vec::new());
    for path in &args.files {
        match look(path) {
            Ok(all) => {
                for (path, found) in all {
                    text.append(&found_text(&path, &found));
                    files.push(OrError::Done(FileOutput::new(&path, &found)));
                    if !found.is_valid() && exit_status == ExitStatus::Success {
                        exit_status = ExitStatus::Problems;
                    }
                }
            }
            Err(error) => {
                output.print_error(&error);
                files.push(OrError::Failed(FileError::new(path, chain(&error))));
                exit_status = ExitStatus::Failed;
            }
        }
    }
    if !text.is_empty() || !output.is_text() {
        output.print_result(&text, &InspectOutput { files })?;
    }
    Ok(exit_status)
}

/// Returns the fields of a file and of the files that belong to it: the parts of a master, both objects of AKG.
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
            Ok(one(kernel::judged(Found::new("kernel object"), judged)))
        }
        "kern" => Ok(one(entry(path, EntryFile::judge(path, read_file(path, MAX_ENTRY_BYTES)?, None)))),
        _ => bail!(
            "`{}` is none of the files that inspect knows: .info, .json, .o, .so or .kern",
            path.display()
        ),
    }
}

fn description(mut judged: CheckedKernel) -> (PathBuf, Found) {
    // A description may be inspected alone.
    judged.report.findings.retain(|finding| finding.code() != Code::NO_OBJECT);
    (judged.file.clone(), kernel::judged(Found::new("kernel description"), judged))
}

/// Returns the fields of a store entry, checked against the key in its name.
fn entry(path: &Path, stored: EntryFile) -> Found {
    let mut found = Found::new("store entry");
    found.field("entry bytes", stored.bytes);
    let header = stored.header();
    let EntryFile { entry, target, problems, unverifiable, report, .. } = stored;
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
        Some(report) => kernel::judged(
            found,
            CheckedKernel { file: path.to_owned(), object: Some(path.to_owned()), target, report },
        ),
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
            found.field(part, "not known: a framework compiled it");
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

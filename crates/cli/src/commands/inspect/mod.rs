//! `opkeep inspect`: describes files field by field.

mod directory;
mod group;
mod info;
mod inspected_file;
mod kernel;
mod model;
mod outline;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anyhow::bail;
use opkeep_descriptor::{MAX_INFO_BYTES, read_info};
use opkeep_digest::Digest;
use opkeep_fs::Fs;
use opkeep_kernel_entry::member::{EXTRA_PREFIX, HEADER};
use opkeep_kernel_entry::{EntryFile, GroupRecord};
use opkeep_store::{Entry as StoreEntry, MAX_ENTRY_BYTES};
use opkeep_validator::Code;
use serde::Serialize;
use serde_json::Value;

use crate::config::Settings;
use crate::flags::compile::dim;
use crate::input::dims::Dims;
use crate::input::pairs::{CheckOutcome, CheckedKernel, check_kernels, check_object_bytes};
use crate::input::{can_read, read_file};
use crate::ui::json::{FileError, OrError};
use crate::ui::output::{ExitStatus, Output, chain};
use crate::ui::text::Text;
use inspected_file::{FileOutput, InspectedFile, file_text};
pub(crate) use outline::FieldKind;

/// The details of inspect.
const DETAILS: &str = "\
Only `opkeep verify` compares bytes.

A model is not built, and no compiler is run: the report has what a build would compile for
--target, and what it would refuse. Of a directory, the report has what it is, the number, size and
age of its kernels, their states, and the command that comes next.

Exit code 0: all is valid; 1: a file is not, or a model has nodes that cannot be built; 2: a path
cannot be read, or is of no known kind.

Examples:
  opkeep inspect model.onnx --dim batch=1
    shows inputs, outputs and operators, and the kernels of a build
  opkeep inspect run
    shows all stores and caches below a directory
  opkeep inspect rank_0/kernel_meta/square_1.info
    shows each field of a descriptor, and the names that frameworks give its kernel
  opkeep inspect rank_0/kernel_meta/square_1.o
    shows the sections and the symbols of a kernel, and what is wrong with it";

/// Show what is in models, kernel files, descriptors, store entries and directories
///
/// A file is read only. Where a kernel has its .json, or is an entry, the report also has the findings if it is
/// not valid.
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// Models (.onnx), descriptors (.info), kernel files, entries (.kern), or directories
    ///
    /// Kernel files are .json, .o, .so, .cubin and .hsaco. A directory is a store, one of its targets, a framework's cache, Triton's
    /// directory, or one above them.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) files: Vec<PathBuf>,
    /// The target for which a model's kernels are counted
    #[arg(long, visible_alias = "soc_version", value_name = "TARGET", default_value = "cpu")]
    target: String,
    /// The size of a dimension that a model leaves open, as for `opkeep build`
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = dim)]
    dims: Vec<(String, i64)>,
    #[command(flatten)]
    config: Settings,
}

/// The result as JSON.
#[derive(Serialize)]
struct InspectOutput {
    files: Vec<OrError<FileOutput>>,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let mut exit_status = ExitStatus::Success;
    let (mut text, mut files) = (Text::default(), Vec::new());
    let mut dims = Dims::of(&args.dims)?;
    for path in &args.files {
        match inspect(path, args, &mut dims, output) {
            Ok(all) => {
                for (path, file) in all {
                    text.append(&file_text(&path, &file));
                    if !file.is_valid() && exit_status == ExitStatus::Success {
                        exit_status = ExitStatus::Problems;
                    }
                    files.push(OrError::Done(FileOutput::new(&path, file)));
                }
            }
            Err(error) => {
                output.print_error(&error);
                files.push(OrError::Failed(FileError::new(path, chain(&error))));
                exit_status = ExitStatus::Failed;
            }
        }
    }
    dims.check()?;
    output.print_result(&text, &InspectOutput { files })?;
    Ok(exit_status)
}

/// Returns the fields of one file, with its problems and findings, for a comparison.
pub(crate) fn fields_of(path: &Path) -> anyhow::Result<BTreeMap<String, (FieldKind, String)>> {
    if path.extension().is_some_and(|extension| extension == "onnx") {
        return Ok(comparable(&[(path.to_owned(), model::compared(path)?)]));
    }
    Ok(comparable(&inspect_file(path)?))
}

/// Returns all that is said of the parts of a file, by names. The second field with a name and the following ones have numbers.
fn comparable(parts: &[(PathBuf, InspectedFile)]) -> BTreeMap<String, (FieldKind, String)> {
    let mut fields = BTreeMap::new();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut add = |kind: FieldKind, name: String, value: String| {
        let number = numbers.entry(name.clone()).or_default();
        loop {
            *number += 1;
            let numbered = if *number == 1 { name.clone() } else { format!("{name} ({number})") };
            // A field may have such a name of its own.
            if let Entry::Vacant(place) = fields.entry(numbered) {
                place.insert((kind, value));
                return;
            }
        }
    };
    for (at, (_, file)) in parts.iter().enumerate() {
        let place = |name: &str| if at == 0 { name.to_owned() } else { format!("part {at}: {name}") };
        file.fields().for_each(|(kind, name, value)| add(kind, place(&name), value));
        file.problems.iter().for_each(|problem| add(FieldKind::Other, place("problem"), problem.clone()));
        for finding in file.report.iter().flat_map(|report| &report.findings) {
            add(FieldKind::Other, place(&format!("finding {}", finding.code())), finding.to_string());
        }
    }
    fields
}

/// Returns the fields of a file and of the files that belong to it: the parts of a master, both objects of AKG.
fn inspect(
    path: &Path,
    args: &Args,
    dims: &mut Dims,
    output: &Output,
) -> anyhow::Result<Vec<(PathBuf, InspectedFile)>> {
    can_read(path)?;
    if Fs::new().is_dir(path) {
        return directory::directory(path, &args.config, output);
    }
    match path.extension().is_some_and(|extension| extension == "onnx") {
        true => {
            model::model(path, &args.target, &args.config, dims).map(|file| vec![(path.to_owned(), file)])
        }
        false => inspect_file(path),
    }
}

fn inspect_file(path: &Path) -> anyhow::Result<Vec<(PathBuf, InspectedFile)>> {
    let one = |file| vec![(path.to_owned(), file)];
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    match extension.as_ref() {
        "info" => {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            Ok(one(info::info(&read_file(path, MAX_INFO_BYTES)?, &stem)))
        }
        "json" => match group::metadata(path)? {
            Some(file) => Ok(one(file)),
            None => match check_kernels(path, None)? {
                CheckOutcome::Other(other) => bail!(other),
                CheckOutcome::Kernels(all) => Ok(all.into_iter().map(description).collect()),
            },
        },
        "o" | "so" => {
            let bytes = read_file(path, MAX_ENTRY_BYTES)?;
            let kernel = check_object_bytes(path, &bytes, None);
            let mut file = InspectedFile::new("kernel object");
            file.outline(&bytes);
            Ok(one(kernel::with_report(file, kernel)))
        }
        "cubin" | "hsaco" => group::device_object(path).map(one),
        "kern" => Ok(one(entry(path, EntryFile::judge(path, read_file(path, MAX_ENTRY_BYTES)?, None)))),
        _ => bail!(
            "`{}` is none of the files that inspect knows: .onnx, .info, .json, .o, .so, .cubin, .hsaco or .kern",
            path.display()
        ),
    }
}

fn description(mut kernel: CheckedKernel) -> (PathBuf, InspectedFile) {
    // A description may be inspected alone.
    kernel.report.findings.retain(|finding| finding.code() != Code::NO_OBJECT);
    (kernel.file.clone(), kernel::with_report(InspectedFile::new("kernel description"), kernel))
}

/// Returns the fields of a store entry, checked against the key in its name.
fn entry(path: &Path, stored: EntryFile) -> InspectedFile {
    let mut file = InspectedFile::new("store entry");
    file.field("entry bytes", stored.bytes);
    let header = stored.header();
    let EntryFile { entry, target, problems, unverifiable, report, .. } = stored;
    file.problems.extend(problems);
    let Some(entry) = entry else {
        describe_damaged(&mut file, path);
        return file;
    };
    file.field("key", entry.key());
    file.field("validated by version of the rules", entry.validation());
    // Those of a framework's group are listed as its files.
    let is_group = GroupRecord::is_in(&entry);
    for name in entry.names().filter(|name| !(is_group && name.starts_with(EXTRA_PREFIX))) {
        let digest = entry.member_digest(name).map(Digest::to_string).unwrap_or_default();
        file.field(format!("member {name}"), format!("sha256 {digest}"));
    }
    if let Some(why) = unverifiable {
        file.field("not judged", why);
    }
    if is_group {
        group::describe(&mut file, &entry);
        file.report = report;
        return file;
    }
    describe_header(&mut file, header);
    if let Ok(Some(text)) = entry.lazy_member("info")
        && let Ok(descriptor) = read_info(text)
    {
        info::describe(&mut file, &descriptor);
    }
    match report {
        Some(report) => kernel::with_report(
            file,
            CheckedKernel { file: path.to_owned(), object: Some(path.to_owned()), target, report },
        ),
        None => file,
    }
}

/// Adds what is known of an entry of which some bytes are damaged: its key, and its header if that is intact.
fn describe_damaged(file: &mut InspectedFile, path: &Path) {
    let parts =
        read_file(path, MAX_ENTRY_BYTES).ok().and_then(|bytes| StoreEntry::intact_parts(bytes, HEADER));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let in_name = stem.split('-').next().and_then(|key| key.parse::<Digest>().ok());
    if let Some((key, header)) = parts {
        file.field("key", key);
        if let Some(header) = header.and_then(|header| serde_json::from_slice(&header).ok()) {
            describe_header(file, header);
        }
    } else if let Some(key) = in_name {
        file.field("key", format_args!("{key}, by the name of the file"));
    }
}

fn describe_header(file: &mut InspectedFile, header: Value) {
    for name in ["name", "target", "backend", "compile_us", "made_by", "provenance"] {
        if let Some(value) = header.get(name).filter(|value| !value.is_null()) {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            file.field(format!("entry {name}"), value);
        }
    }
    if let Some(imported) = header.get("imported") {
        for (name, value) in imported.as_object().into_iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            file.field(format!("imported {name}"), value);
        }
        for part in ["toolchain", "op_sources"] {
            file.field(part, "not known: a framework compiled it");
        }
    }
    for part in ["toolchain", "op_sources"] {
        let parts = header.get("parts").and_then(|parts| parts.get(part)?.get("parts")?.as_array());
        for item in parts.into_iter().flatten() {
            let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
            let note: String = text("note").chars().take(120).collect();
            file.field(format!("{part}: {}", text("name")), note);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests make files")]

    use super::*;

    #[test]
    fn each_field_problem_and_finding_is_compared() {
        let with = |problems: &[&str]| {
            let mut file = InspectedFile::new("file");
            file.field("part", 1);
            file.field("part (2)", 2);
            file.field("part", 3);
            file.problems.extend(problems.iter().map(|problem| (*problem).to_owned()));
            comparable(&[(PathBuf::new(), file)])
        };
        let fields: Vec<_> = with(&["a", "b"]).into_iter().collect();
        let expected =
            [("part", "1"), ("part (2)", "2"), ("part (3)", "3"), ("problem", "a"), ("problem (2)", "b")];
        assert_eq!(
            fields,
            expected.map(|(name, value)| (name.to_owned(), (FieldKind::Other, value.to_owned())))
        );
        assert_ne!(with(&["a", "b"]), with(&["c", "b"]));

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.o");
        std::fs::write(&path, "no object").unwrap();
        let fields = fields_of(&path).unwrap();
        assert!(fields.keys().any(|name| name.starts_with("finding ")), "{fields:?}");
    }
}

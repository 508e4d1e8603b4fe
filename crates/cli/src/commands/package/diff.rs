//! `opkeep package diff`: how two packages differ.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use opkeep_cann_package::{
    FieldDiff, FileDiff, KernelChange, KernelDiff, PackageDiff, PackageDir, PackageError, PackagesDiff,
    Presence, SharedObjects, UnitDiff, diff,
};
use opkeep_fs::CancelToken;
use serde::Serialize;

use super::paths::path_in;
use crate::input::store::threads;
use crate::ui::json::{self, FileError};
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, counted, first_names};
use crate::ui::wrap::headed;

/// The details of diff.
const DETAILS: &str = "\
Kernels are compared by the name that indexes have: by the bytes of the object, and by the values in
the .json, whatever its layout. If the objects differ, the change is `code`; if only the .json differs,
it is `metadata`, with the field. Indexes and operator information are compared by value, without the
order of kernels; generated Python by its bytes. If A and B have several packages, those with the same
name are compared.

Units of one package with equal objects, as 910B and 910_93 may have, are listed, too: they are no
difference.

Exit code 0: they are the same; 1: they differ; 2: one cannot be read, or has no package.

Examples:
  opkeep package diff old/vendors/customize csrc/build
    shows what a new build changes";

/// Show how two packages differ: operators, kernels, metadata, indexes
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// The first directory
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The second directory
    #[arg(value_name = "B")]
    b: PathBuf,
    /// The number of kernels that are read at once [default: one per processor]
    #[arg(long, short, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// The maximum number of lines of one unit in text.
const MAX_LISTED: usize = 50;

/// The result as JSON.
#[derive(Serialize)]
struct PackageDiffOutput {
    a: String,
    b: String,
    same: bool,
    only_a: Vec<String>,
    only_b: Vec<String>,
    packages: Vec<PairOutput>,
    unlisted: Vec<FileError>,
}

#[derive(Serialize)]
struct PairOutput {
    a: String,
    b: String,
    same: bool,
    units: Vec<UnitOutput>,
    python: Vec<PythonOutput>,
    shared_a: Vec<SharedOutput>,
    shared_b: Vec<SharedOutput>,
}

#[derive(Serialize)]
struct UnitOutput {
    unit: String,
    presence: &'static str,
    removed_operators: Vec<String>,
    added_operators: Vec<String>,
    equal: usize,
    kernels: Vec<KernelOutput>,
    files: Vec<FileOutput>,
}

#[derive(Serialize)]
struct KernelOutput {
    kernel: String,
    change: &'static str,
    field: Option<FieldOutput>,
    problem: Option<String>,
}

#[derive(Serialize)]
struct FileOutput {
    file: String,
    presence: &'static str,
    field: Option<FieldOutput>,
}

#[derive(Serialize)]
struct PythonOutput {
    file: String,
    presence: &'static str,
}

#[derive(Serialize)]
struct FieldOutput {
    field: String,
    a: String,
    b: String,
}

#[derive(Serialize)]
struct SharedOutput {
    units: [String; 2],
    kernels: usize,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let cancel = output.cancel_on_signal();
    let (found, unlisted) = match compared(args, &cancel) {
        Err(PackageError::Cancelled) => {
            output.print_interrupted(false);
            return Ok(ExitStatus::Interrupted);
        }
        compared => compared?,
    };
    for (path, why) in &unlisted {
        output.print_error(&anyhow::anyhow!("cannot read `{}`: {why}", path.display()));
    }
    // What could not be listed may differ.
    let same = found.is_empty() && unlisted.is_empty();
    let mut text = text_of(args, &found);
    if same {
        text.line("they are the same");
    }
    let unlisted: Vec<FileError> = unlisted.iter().map(|(path, why)| FileError::new(path, why)).collect();
    let status = match () {
        () if !unlisted.is_empty() => ExitStatus::Failed,
        () if !same => ExitStatus::Problems,
        () => ExitStatus::Success,
    };
    output.print_result(&text, &output_of(args, &found, same, unlisted))?;
    Ok(status)
}

/// The differences, and the directories that could not be listed.
fn compared(
    args: &Args,
    cancel: &CancelToken,
) -> Result<(PackagesDiff, Vec<(PathBuf, String)>), PackageError> {
    let (one, other) = (PackageDir::open(&args.a, cancel)?, PackageDir::open(&args.b, cancel)?);
    let sides = [(&args.a, &one), (&args.b, &other)];
    let unlisted = sides.into_iter().flat_map(|(dir, opened)| {
        opened.unreadable().iter().map(|(path, why)| (path_in(dir, path), why.clone()))
    });
    let unlisted = unlisted.collect();
    Ok((diff(&one, &other, threads(args.jobs), cancel)?, unlisted))
}

fn text_of(args: &Args, found: &PackagesDiff) -> Text {
    let mut text = Text::default();
    for (paths, dir, name) in [(&found.removed, &args.a, "A"), (&found.added, &args.b, "B")] {
        for path in paths {
            text.line(format_args!("only in {name}: package {}", path_in(dir, path).display()));
        }
    }
    for pair in &found.pairs {
        text.append(&pair_text(args, pair));
    }
    text
}

fn pair_text(args: &Args, pair: &PackageDiff) -> Text {
    let mut text = Text::default();
    let (one, other) = (path_in(&args.a, &pair.one), path_in(&args.b, &pair.other));
    if !pair.is_empty() {
        text.line(format_args!("{} and {}", one.display(), other.display()));
    }
    for unit in pair.units.iter().filter(|unit| !unit.is_empty()) {
        text.append(&unit_text(unit));
    }
    for file in &pair.python {
        text.line(format_args!("generated Python: {} {}", word(file.presence), file.file));
    }
    for (shared, path) in pair.shared.iter().zip([one, other]) {
        for SharedObjects { units: [first, second], kernels, .. } in shared {
            text.line(format_args!(
                "{first} and {second} of {} share the objects of {}",
                path.display(),
                counted(kernels, "kernel")
            ));
        }
    }
    text
}

fn unit_text(unit: &UnitDiff) -> Text {
    let count =
        |is_it: fn(&KernelChange) -> bool| unit.kernels.iter().filter(|kernel| is_it(&kernel.change)).count();
    let numbers = [
        ("added", count(|change| matches!(change, KernelChange::Added))),
        ("removed", count(|change| matches!(change, KernelChange::Removed))),
        ("other code", count(|change| matches!(change, KernelChange::Code(_)))),
        ("other metadata", count(|change| matches!(change, KernelChange::Metadata(_)))),
        ("unreadable", count(|change| matches!(change, KernelChange::Unreadable(_)))),
    ];
    let numbers: Vec<String> = numbers
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    let numbers = if numbers.is_empty() { "none differs".to_owned() } else { numbers.join(", ") };
    let presence = match unit.presence {
        Presence::Both => String::new(),
        presence => format!(" ({})", presence.name()),
    };
    let mut text =
        Text::of(format_args!("{}{presence}: kernels: {numbers}, {} equal", unit.name, unit.unchanged));
    for (names, word) in [(&unit.removed_operators, "removed"), (&unit.added_operators, "added")] {
        if !names.is_empty() {
            text.line(format_args!(
                "  {word:<10} {}: {}",
                counted(names.len(), "operator"),
                first_names(names.iter().cloned(), 10)
            ));
        }
    }
    for kernel in unit.kernels.iter().take(MAX_LISTED) {
        text.append(&kernel_text(kernel));
    }
    if unit.kernels.len() > MAX_LISTED {
        text.line(format_args!("  and {} more: --format json lists all", unit.kernels.len() - MAX_LISTED));
    }
    for file in &unit.files {
        let field = file.field.as_ref().map(field_text).unwrap_or_default();
        text.append(&headed(
            &format!("  {:<10} ", word(file.presence)),
            format_args!("{}{field}", file.file),
        ));
    }
    text
}

fn word(presence: Presence) -> &'static str {
    if presence == Presence::Both { "changed" } else { presence.name() }
}

fn kernel_text(kernel: &KernelDiff) -> Text {
    let (field, problem) = details(&kernel.change);
    let more =
        field.map(field_text).or_else(|| problem.map(|problem| format!(": {problem}"))).unwrap_or_default();
    headed(&format!("  {:<10} ", change_name(&kernel.change)), format_args!("{}{more}", kernel.kernel))
}

fn field_text(field: &FieldDiff) -> String {
    format!(": field `{}`: {} in A, {} in B", field.field, field.one, field.other)
}

fn change_name(change: &KernelChange) -> &'static str {
    match change {
        KernelChange::Removed => "removed",
        KernelChange::Added => "added",
        KernelChange::Code(_) => "code",
        KernelChange::Metadata(_) => "metadata",
        _ => "unreadable",
    }
}

fn details(change: &KernelChange) -> (Option<&FieldDiff>, Option<&String>) {
    match change {
        KernelChange::Code(field) => (field.as_ref(), None),
        KernelChange::Metadata(field) => (Some(field), None),
        KernelChange::Unreadable(problem) => (None, Some(problem)),
        _ => (None, None),
    }
}

fn output_of(args: &Args, found: &PackagesDiff, same: bool, unlisted: Vec<FileError>) -> PackageDiffOutput {
    let paths =
        |dir: &Path, paths: &[PathBuf]| paths.iter().map(|path| json::path(&path_in(dir, path))).collect();
    PackageDiffOutput {
        a: json::path(&args.a),
        b: json::path(&args.b),
        same,
        only_a: paths(&args.a, &found.removed),
        only_b: paths(&args.b, &found.added),
        packages: found.pairs.iter().map(|pair| pair_output(args, pair)).collect(),
        unlisted,
    }
}

fn pair_output(args: &Args, pair: &PackageDiff) -> PairOutput {
    let shared = |list: &[SharedObjects]| {
        list.iter().map(|it| SharedOutput { units: it.units.clone(), kernels: it.kernels }).collect()
    };
    let python = |it: &FileDiff| PythonOutput { file: it.file.clone(), presence: it.presence.name() };
    let [shared_a, shared_b] = pair.shared.each_ref().map(|list| shared(list));
    PairOutput {
        a: json::path(&path_in(&args.a, &pair.one)),
        b: json::path(&path_in(&args.b, &pair.other)),
        same: pair.is_empty(),
        units: pair.units.iter().map(unit_output).collect(),
        python: pair.python.iter().map(python).collect(),
        shared_a,
        shared_b,
    }
}

fn unit_output(unit: &UnitDiff) -> UnitOutput {
    let kernel = |kernel: &KernelDiff| {
        let (field, problem) = details(&kernel.change);
        KernelOutput {
            kernel: kernel.kernel.clone(),
            change: change_name(&kernel.change),
            field: field.map(field_output),
            problem: problem.cloned(),
        }
    };
    UnitOutput {
        unit: unit.name.clone(),
        presence: unit.presence.name(),
        removed_operators: unit.removed_operators.clone(),
        added_operators: unit.added_operators.clone(),
        equal: unit.unchanged,
        kernels: unit.kernels.iter().map(kernel).collect(),
        files: unit.files.iter().map(file_output).collect(),
    }
}

fn file_output(file: &FileDiff) -> FileOutput {
    FileOutput {
        file: file.file.clone(),
        presence: file.presence.name(),
        field: file.field.as_ref().map(field_output),
    }
}

fn field_output(field: &FieldDiff) -> FieldOutput {
    FieldOutput { field: field.field.clone(), a: field.one.clone(), b: field.other.clone() }
}

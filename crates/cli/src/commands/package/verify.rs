//! `opkeep package verify`: checks each file of a package against the others.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use opkeep_cann_package::{Finding, PackageDir, PackageError, VerifiedPackage, VerifiedUnit, VerifyOptions};
use opkeep_validator::Severity;
use serde::Serialize;

use super::paths::path_in;
use crate::input::store::threads;
use crate::ui::config::Verbosity;
use crate::ui::json::{self, FileError};
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, columns, counted};
use crate::ui::wrap::headed;

/// The details of verify.
const DETAILS: &str = "\
Each kernel is valid or refused, as by opkeep verify, for the chips of its directory. Then each file is
compared with the others: the .json of a kernel with its object and its file name; the index of each
operator (kernel/config/UNIT/OP.json) and binary_info_config.json with the kernels: paths, inputs,
outputs, attributes, simplified keys, kinds of core; kernels that no index names; equal keys of two
kernels; operator information (aic-UNIT-ops-info.json) with kernels; generated Python with operators.
Links that leave DIR, pipes and devices are reported and not read.

An error is certain: files are missing or damaged, or contradict each other. A warning is unusual. A
note (-v) is information: genuine packages have some, such as operators without kernels.

Exit code 0: no error; 1: errors; 2: DIR cannot be read, or has no package.

Examples:
  opkeep package verify vendors/customize
    checks an installed package
  opkeep package verify csrc/build
    checks what a build made";

/// Check whether the files of a package agree with each other
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// A vendor's directory, a directory with several, or the tree of a build
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The number of kernels that are checked at once [default: one per processor]
    #[arg(long, short, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// The maximum number of findings of a package that are listed in text.
const MAX_LISTED: usize = 50;

/// The result as JSON.
#[derive(Serialize)]
struct PackageVerifyOutput {
    kernels: usize,
    valid: usize,
    refused: usize,
    counts: Counts,
    packages: Vec<PackageOutput>,
    unlisted: Vec<FileError>,
    interrupted: bool,
}

#[derive(Serialize)]
struct PackageOutput {
    package: String,
    kind: &'static str,
    consistent: bool,
    units: Vec<UnitOutput>,
    findings: Vec<PackageFindingOutput>,
    more: usize,
}

#[derive(Serialize)]
struct UnitOutput {
    unit: String,
    kernels: usize,
    valid: usize,
    relocatable: usize,
    operators: usize,
    indexes: usize,
}

#[derive(Serialize)]
struct PackageFindingOutput {
    file: String,
    unit: String,
    severity: &'static str,
    code: String,
    message: String,
    expected: Option<String>,
    found: Option<String>,
    hint: &'static str,
}

/// The numbers of findings.
#[derive(Default, Serialize)]
struct Counts {
    error: usize,
    warning: usize,
    note: usize,
}

impl Counts {
    fn of<'a>(findings: impl Iterator<Item = &'a Finding>) -> Self {
        let mut counts = Self::default();
        for finding in findings {
            match finding.severity() {
                Severity::Error => counts.error += 1,
                Severity::Warning => counts.warning += 1,
                _ => counts.note += 1,
            }
        }
        counts
    }
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let cancel = output.cancel_on_signal();
    let dir = match PackageDir::open(&args.dir, &cancel) {
        Err(PackageError::Cancelled) => {
            output.print_interrupted(false);
            return Ok(ExitStatus::Interrupted);
        }
        opened => opened?,
    };
    let progress = output.progress();
    progress.start(&args.dir.to_string_lossy());
    let update = |done, total| progress.update(done, total);
    let mut options = VerifyOptions::new(threads(args.jobs), &cancel);
    options.progress = &update;
    let packages = dir.verify(&options);
    progress.done();
    for (path, why) in dir.unreadable() {
        let path = path_in(&args.dir, path);
        output.print_error(&anyhow::anyhow!("cannot read `{}`: {why}", path.display()));
    }
    report(&args.dir, &packages, dir.unreadable(), output)
}

fn report(
    dir: &Path,
    packages: &[VerifiedPackage],
    unreadable: &[(PathBuf, String)],
    output: &Output,
) -> anyhow::Result<ExitStatus> {
    let shows_notes = output.verbosity() > Verbosity::Normal;
    let mut text: Text = packages.iter().map(|package| findings_text(dir, package, shows_notes)).collect();
    text.append(&table(dir, packages));
    let units = || packages.iter().flat_map(|package| &package.units);
    let counts = Counts::of(packages.iter().flat_map(|package| &package.findings));
    let kernels: usize = units().map(|unit| unit.kernels).sum();
    let valid: usize = units().map(|unit| unit.valid).sum();
    let refused = kernels - valid;
    if counts.note > 0 && !shows_notes {
        text.line(format_args!("{}: -v shows them", counted(counts.note, "note")));
    }
    text.line(format_args!(
        "{} in {}: {valid} valid, {refused} refused; {}, {}",
        counted(kernels, "kernel"),
        counted(packages.len(), "package"),
        counted(counts.error, "error"),
        counted(counts.warning, "warning")
    ));
    let interrupted = packages.iter().any(|package| package.cancelled);
    if interrupted {
        text.line("interrupted before everything was checked");
    }
    let json = PackageVerifyOutput {
        kernels,
        valid,
        refused,
        counts,
        packages: packages.iter().map(|package| package_output(dir, package)).collect(),
        unlisted: unreadable.iter().map(|(path, why)| FileError::new(&path_in(dir, path), why)).collect(),
        interrupted,
    };
    output.print_result(&text, &json)?;
    Ok(match () {
        () if interrupted => ExitStatus::Interrupted,
        () if !unreadable.is_empty() => ExitStatus::Failed,
        () if !packages.iter().all(VerifiedPackage::is_consistent) => ExitStatus::Problems,
        () => ExitStatus::Success,
    })
}

/// Returns a line for each finding. The first one of a kind says what to do.
fn findings_text(dir: &Path, package: &VerifiedPackage, shows_notes: bool) -> Text {
    let mut text = Text::default();
    let mut advised: HashSet<&'static str> = HashSet::new();
    let is_shown = |finding: &&Finding| shows_notes || finding.severity() > Severity::Note;
    let mut shown = package.findings.iter().filter(is_shown);
    for finding in shown.by_ref().take(MAX_LISTED) {
        let file = path_in(dir, &finding.file);
        let help = finding.problem.help();
        let advice = if advised.insert(help) { format!("; {help}") } else { String::new() };
        let line = format_args!("{}: {}{advice}", file.display(), finding.problem).to_string();
        text.append(&headed(&format!("{:<8} ", finding.severity()), line));
    }
    let rest = shown.count();
    if rest + package.more > 0 {
        let path = path_in(dir, &package.path);
        text.line(format_args!(
            "and {} more in {}: --format json lists {rest} of them",
            rest + package.more,
            path.display()
        ));
    }
    text
}

fn table(dir: &Path, packages: &[VerifiedPackage]) -> Text {
    let head = ["package", "unit", "kernels", "valid", "relocatable", "operators", "indexes"];
    let row = |package: &VerifiedPackage, unit: &VerifiedUnit| {
        let VerifiedUnit { name, kernels, valid, relocatable, operators, indexes, .. } = unit;
        let numbers = [kernels, valid, relocatable, operators, indexes].map(|number| number.to_string());
        let path = path_in(dir, &package.path).display().to_string();
        [path, name.clone()].into_iter().chain(numbers).collect::<Vec<_>>()
    };
    let rows = packages.iter().flat_map(|package| package.units.iter().map(move |unit| row(package, unit)));
    let lines: Vec<Vec<String>> = std::iter::once(head.map(str::to_owned).to_vec()).chain(rows).collect();
    columns("", &lines)
}

fn package_output(dir: &Path, package: &VerifiedPackage) -> PackageOutput {
    let unit = |unit: &VerifiedUnit| UnitOutput {
        unit: unit.name.clone(),
        kernels: unit.kernels,
        valid: unit.valid,
        relocatable: unit.relocatable,
        operators: unit.operators,
        indexes: unit.indexes,
    };
    let finding = |finding: &Finding| {
        let (expected, found) = finding.problem.expected_and_found();
        PackageFindingOutput {
            file: json::path(&path_in(dir, &finding.file)),
            unit: finding.unit.clone(),
            severity: finding.severity().name(),
            code: finding.problem.kind(),
            message: finding.problem.to_string(),
            expected: expected.map(str::to_owned),
            found: found.map(str::to_owned),
            hint: finding.problem.help(),
        }
    };
    PackageOutput {
        package: json::path(&path_in(dir, &package.path)),
        kind: package.kind.name(),
        consistent: package.is_consistent(),
        units: package.units.iter().map(unit).collect(),
        findings: package.findings.iter().map(finding).collect(),
        more: package.more,
    }
}

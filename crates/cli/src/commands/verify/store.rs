//! The check of a store, or of one target in a store.

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use opkeep_cann_meta::{known_target, targets, unjudged};
use opkeep_digest::Digest;
use opkeep_fs::CancelToken;
use opkeep_kernel_entry::{EntryVerdict, GroupRecord, verify_entry};
use opkeep_store::{
    Access, Entry, OtherFile, OtherFileKind, ProblemKind, StoreProblem, VerifyOptions, VerifyReport,
};
use opkeep_validator::Validator;
use serde::Serialize;

use crate::flags::store::StoreArgs;
use crate::input::store::StorePath;
use crate::ui::json::{self, OrError};
use crate::ui::output::{Output, chain};
use crate::ui::progress::Progress;
use crate::ui::text::{Text, by_reason, bytes, columns, counted, first_names};
use crate::ui::wrap::headed;

/// An entry that is valid as far as it can be checked, but cannot be checked completely.
#[derive(Serialize)]
pub(crate) struct Unverifiable {
    #[serde(serialize_with = "json::as_text")]
    key: Digest,
    /// The framework that made it, and the name of the kernel. Unset if opkeep compiled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    why: String,
}

/// The result of checking the entries of a target.
pub(crate) struct KernelCheck<T> {
    pub(crate) done: T,
    /// The entries that could not be checked completely, in the order of their keys.
    pub(crate) unverifiable: Vec<Unverifiable>,
    /// The number of entries without a problem that frameworks made, by framework.
    pub(crate) frameworks: BTreeMap<String, usize>,
}

/// Calls `work` with options that check entries as kernels of `target`, and shows `progress`.
pub(crate) fn with_kernel_check<T>(
    target: &str,
    threads: NonZeroUsize,
    progress: &Progress,
    cancel: &CancelToken,
    work: impl FnOnce(VerifyOptions<'_>) -> T,
) -> KernelCheck<T> {
    let validator = Validator::builtin();
    // By key, since an entry that changes meanwhile is judged again.
    let (unverifiable, frameworks) = (Mutex::new(BTreeMap::new()), Mutex::new(BTreeMap::new()));
    let judge = |entry: &Entry| {
        let record = GroupRecord::of(entry);
        let group = record.as_ref().map(ToString::to_string);
        let why = match verify_entry(entry, target, &validator) {
            EntryVerdict::Valid => None,
            EntryVerdict::Unverifiable { why } => Some(why),
            EntryVerdict::Invalid(error) => {
                return Err(group.map_or_else(|| error.to_string(), |group| format!("{group}: {error}")));
            }
        };
        let key = *entry.key();
        if let Some(record) = record {
            let mut frameworks = frameworks.lock().unwrap_or_else(PoisonError::into_inner);
            frameworks.insert(key, record.key.framework);
        }
        if let Some(why) = why {
            let mut unverifiable = unverifiable.lock().unwrap_or_else(PoisonError::into_inner);
            unverifiable.insert(key, Unverifiable { key, group, why });
        }
        Ok(())
    };
    progress.start(target);
    let done = work(
        VerifyOptions::default()
            .with_threads(threads)
            .with_check(&judge)
            .with_progress(&|now| progress.update(now.checked, now.total))
            .with_cancelled(&|| cancel.is_cancelled()),
    );
    let unverifiable = unverifiable.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut counts = BTreeMap::new();
    for framework in frameworks.into_inner().unwrap_or_else(PoisonError::into_inner).into_values() {
        *counts.entry(framework).or_default() += 1;
    }
    KernelCheck { done, unverifiable: unverifiable.into_values().collect(), frameworks: counts }
}

/// The stores that were checked.
#[derive(Default)]
pub(crate) struct CheckedStores {
    pub(crate) text: Text,
    pub(crate) stores: Vec<StoreOutput>,
    pub(crate) valid: usize,
    /// The number of entries that are not valid kernels of their keys.
    pub(crate) refused: usize,
    /// The number of problems of a store that do not belong to an entry.
    pub(crate) faults: usize,
    pub(crate) unusable: usize,
    pub(crate) cancelled: bool,
    /// Stores that `repair` would change.
    pub(crate) repairable: Vec<PathBuf>,
    /// The files that were reported, since some belong to several targets.
    seen: HashSet<PathBuf>,
}

impl CheckedStores {
    /// Checks the store at `store_path`, and changes nothing.
    pub(crate) fn add(
        &mut self,
        store_path: &StorePath,
        args: &StoreArgs,
        threads: NonZeroUsize,
        cancel: &CancelToken,
        output: &Output,
    ) -> anyhow::Result<()> {
        let root = store_path.root.to_string_lossy();
        let Some(store) = store_path.open(Access::ReadOnly, args, output)? else {
            self.text.line(format_args!("there is no store at {root}; the first build creates it"));
            self.stores.push(StoreOutput { root: json::path(&store_path.root), targets: Vec::new() });
            return Ok(());
        };
        let progress = output.progress();
        let (mut rows, mut details, mut targets) = (Vec::new(), Text::default(), Vec::new());
        let mut repairable = false;
        for (name, target_store) in store_path.target_stores(&store)? {
            let target_store = match target_store {
                Ok(target_store) => target_store,
                Err(error) => {
                    let error = error.into();
                    output.print_error(&error);
                    self.unusable += 1;
                    targets.push(OrError::Failed(TargetError { target: name, error: chain(&error) }));
                    continue;
                }
            };
            let KernelCheck { done: report, unverifiable, frameworks } =
                with_kernel_check(&name, threads, &progress, cancel, |options| target_store.verify(&options));
            let counts = Counts::of(&report, unverifiable.len());
            self.valid += counts.valid;
            self.refused += counts.refused;
            self.faults += counts.faults;
            self.unusable += counts.unreadable;
            self.cancelled |= report.cancelled;
            repairable |= report.problems.iter().any(|problem| is_repairable(&problem.kind));
            let other_files: Vec<&OtherFile> =
                report.other_files.iter().filter(|file| self.seen.insert(file.path.clone())).collect();
            details.extend(report.problems.iter().map(problem_line));
            details.append(&unverifiable_text(&name, &unverifiable));
            for (framework, count) in &frameworks {
                details.line(format_args!("{framework} made {} of {name}", counted(*count, "kernel")));
            }
            details.append(&other_files_text(&name, &other_files));
            if targets::named(&name).is_some() && known_target(&name).is_none() {
                details.line(format_args!("note       kernels of {name}: {}", unjudged(&name)));
            }
            rows.push(counts.row(&name, &report));
            let target = target_output(&name, &report, unverifiable, frameworks, &other_files);
            targets.push(OrError::Done(target));
        }
        progress.done();
        if repairable {
            self.repairable.push(store_path.root.clone());
        }
        self.text.line(format_args!("store {root}"));
        self.text.append(&if rows.is_empty() { Text::of("  it is empty") } else { table(rows) });
        self.text.append(&details);
        self.stores.push(StoreOutput { root: json::path(&store_path.root), targets });
        Ok(())
    }
}

/// Whether `repair` acts on a problem. The text of every other problem has a hint for the owner.
fn is_repairable(kind: &ProblemKind) -> bool {
    kind.calls_for_quarantine() || matches!(kind, ProblemKind::CorruptCounters)
}

/// The number of problems of each kind.
#[derive(Default)]
struct Counts {
    valid: usize,
    refused: usize,
    faults: usize,
    unreadable: usize,
}

impl Counts {
    fn of(report: &VerifyReport, unverifiable: usize) -> Self {
        let whole = usize::try_from(report.valid.files).unwrap_or(usize::MAX);
        let valid = whole.saturating_sub(unverifiable);
        let mut counts = Self { valid, ..Self::default() };
        for problem in &report.problems {
            *match (&problem.kind, problem.key) {
                (ProblemKind::Io(_) | ProblemKind::Changing, _) => &mut counts.unreadable,
                (_, Some(_)) => &mut counts.refused,
                (_, None) => &mut counts.faults,
            } += 1;
        }
        counts
    }

    fn row(&self, target: &str, report: &VerifyReport) -> Vec<String> {
        let Self { valid, refused, faults, unreadable } = self;
        let size = bytes(report.checked.bytes);
        let numbers = [*valid, *refused, *unreadable, *faults].map(|number| number.to_string());
        let [valid, refused, unreadable, faults] = numbers;
        vec![target.to_owned(), size, valid, refused, unreadable, faults]
    }
}

/// Returns a line for each reason why kernels cannot be judged in full, with the first of them.
fn unverifiable_text(target: &str, unverifiable: &[Unverifiable]) -> Text {
    let named = |one: &Unverifiable| match &one.group {
        Some(group) => format!("{} ({group})", one.key),
        None => one.key.to_string(),
    };
    let reasons = by_reason(unverifiable.iter().map(|one| (&one.why, named(one))));
    let line = |(why, names): (&String, Vec<String>)| {
        let kernels = match names.len() {
            1 => String::new(),
            count => counted(count, "kernel") + ": ",
        };
        let names = first_names(names.into_iter(), 2);
        headed("note       ", format_args!("{kernels}{names} of {target} cannot be judged in full: {why}"))
    };
    reasons.into_iter().map(line).collect()
}

/// Returns a table with a line for each target.
fn table(rows: Vec<Vec<String>>) -> Text {
    let head = ["target", "read", "valid", "refused", "unreadable", "faults"].map(str::to_owned).to_vec();
    columns("  ", &std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

/// Returns the line for a problem.
pub(crate) fn problem_line(problem: &StoreProblem) -> Text {
    headed(&format!("{:<16} ", problem.kind.name()), problem_text(&problem.path, &problem.kind))
}

/// Returns the text of a problem, with its path unless the text contains the path.
pub(crate) fn problem_text(path: &Path, kind: &ProblemKind) -> String {
    let (path, kind) = (path.to_string_lossy(), kind.to_string());
    if kind.contains(&*path) { kind } else { format!("{path}: {kind}") }
}

/// Returns the number of other files of each kind, and the paths of those that do not belong to the store.
fn other_files_text(target: &str, other_files: &[&OtherFile]) -> Text {
    /// The maximum number of files that are listed.
    const MAX_LISTED: usize = 20;
    let mut kinds: BTreeMap<OtherFileKind, usize> = BTreeMap::new();
    other_files.iter().for_each(|file| *kinds.entry(file.kind).or_default() += 1);
    if kinds.is_empty() {
        return Text::default();
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, number)| format!("{number} {}", kind.name())).collect();
    let mut text = Text::of(format_args!("other files in {target}: {}", kinds.join(", ")));
    let foreign = other_files.iter().filter(|file| file.kind.is_foreign());
    let line = |file: &&OtherFile| format!("  {:<14} {}", file.kind.name(), file.path.display());
    let has_foreign = foreign.clone().next().is_some();
    text.list(foreign.map(line), MAX_LISTED, |more| format!("  and {} more", counted(more, "other")));
    if has_foreign {
        text.line("  opkeep did not write these files, and leaves them: delete them if you do not need them");
    }
    text
}

/// A store as JSON.
#[derive(Serialize)]
pub(crate) struct StoreOutput {
    root: String,
    targets: Vec<OrError<TargetOutput, TargetError>>,
}

/// A target of a store that could not be opened or repaired, as JSON.
#[derive(Serialize)]
pub(crate) struct TargetError {
    pub(crate) target: String,
    pub(crate) error: String,
}

#[derive(Serialize)]
struct TargetOutput {
    target: String,
    kernels: u64,
    bytes: u64,
    valid: u64,
    unverifiable: Vec<Unverifiable>,
    frameworks: BTreeMap<String, usize>,
    flaws: Vec<ProblemOutput>,
    besides: Vec<OtherFileOutput>,
    missing_folders: usize,
    interrupted: bool,
}

/// A problem of a file in a store, as JSON.
#[derive(Serialize)]
pub(crate) struct ProblemOutput {
    file: String,
    key: Option<String>,
    kind: &'static str,
    problem: String,
}

impl From<&StoreProblem> for ProblemOutput {
    fn from(problem: &StoreProblem) -> Self {
        Self {
            file: json::path(&problem.path),
            key: problem.key.map(|key| key.to_string()),
            kind: problem.kind.name(),
            problem: problem.kind.to_string(),
        }
    }
}

/// A file in a store that is not an entry, as JSON.
#[derive(Serialize)]
pub(crate) struct OtherFileOutput {
    file: String,
    kind: &'static str,
    bytes: u64,
}

impl From<&OtherFile> for OtherFileOutput {
    fn from(file: &OtherFile) -> Self {
        Self { file: json::path(&file.path), kind: file.kind.name(), bytes: file.bytes }
    }
}

fn target_output(
    target: &str,
    report: &VerifyReport,
    unverifiable: Vec<Unverifiable>,
    frameworks: BTreeMap<String, usize>,
    other_files: &[&OtherFile],
) -> TargetOutput {
    TargetOutput {
        target: target.to_owned(),
        kernels: report.checked.files,
        bytes: report.checked.bytes,
        valid: report.valid.files.saturating_sub(unverifiable.len() as u64),
        unverifiable,
        frameworks,
        flaws: report.problems.iter().map(ProblemOutput::from).collect(),
        besides: other_files.iter().map(|file| OtherFileOutput::from(*file)).collect(),
        missing_folders: report.missing.len(),
        interrupted: report.cancelled,
    }
}

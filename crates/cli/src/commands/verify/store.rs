//! A store, or its folder for one target: which one is meant, and whether it is in order.

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use opkeep_cann_meta::{targets, unjudged};
use opkeep_digest::Digest;
use opkeep_fs::CancelToken;
use opkeep_kernel_entry::{EntryVerdict, verify_entry};
use opkeep_store::{
    Access, Entry, OtherFile, OtherFileKind, ProblemKind, StoreProblem, VerifyOptions, VerifyReport,
};
use opkeep_validator::Validator;
use serde::Serialize;

use crate::flags::store::StoreArgs;
use crate::input::pairs::of_known_chip;
use crate::input::store::Place;
use crate::ui::json::{self, OrError};
use crate::ui::output::{Output, chain};
use crate::ui::progress::Progress;
use crate::ui::text::{Text, bytes, columns, counted};

/// An entry that is valid as far as it can be judged, and of which not everything can be.
#[derive(Serialize)]
pub(crate) struct Unverifiable {
    #[serde(serialize_with = "json::as_text")]
    key: Digest,
    why: String,
}

/// Has `work` done with entries judged as kernels of `target`, while `progress` is shown. Gives the entries that could not
/// be judged in full as well, in the order of their keys.
pub(crate) fn judged_as<T>(
    target: &str,
    threads: NonZeroUsize,
    progress: &Progress,
    cancel: &CancelToken,
    work: impl FnOnce(VerifyOptions<'_>) -> T,
) -> (T, Vec<Unverifiable>) {
    let (validator, unverifiable) = (Validator::builtin(), Mutex::new(Vec::new()));
    let judge = |entry: &Entry| match verify_entry(entry, target, &validator) {
        EntryVerdict::Valid => Ok(()),
        EntryVerdict::Unverifiable { why } => {
            let key = *entry.key();
            unverifiable.lock().unwrap_or_else(PoisonError::into_inner).push(Unverifiable { key, why });
            Ok(())
        }
        EntryVerdict::Invalid(error) => Err(error.to_string()),
    };
    progress.about(target);
    let done = work(VerifyOptions {
        threads,
        check: &judge,
        progress: &|now| progress.at(now.checked, now.total),
        cancelled: &|| cancel.is_cancelled(),
    });
    let mut unverifiable = unverifiable.into_inner().unwrap_or_else(PoisonError::into_inner);
    unverifiable.sort_by_key(|entry| entry.key);
    unverifiable.dedup_by_key(|entry| entry.key);
    (done, unverifiable)
}

/// What came of checking stores.
#[derive(Default)]
pub(crate) struct Verified {
    pub(crate) text: Text,
    pub(crate) stores: Vec<StoreOutput>,
    pub(crate) valid: usize,
    /// Entries that are not the kernels they should be.
    pub(crate) refused: usize,
    /// What is wrong with a store, and no entry.
    pub(crate) faults: usize,
    pub(crate) unusable: usize,
    pub(crate) cancelled: bool,
    /// Stores in which there is something that repair mends.
    pub(crate) mendable: Vec<String>,
    /// Some are of several targets.
    seen: HashSet<PathBuf>,
}

impl Verified {
    /// Checks the store at `place`, and changes nothing.
    pub(crate) fn add(
        &mut self,
        place: &Place,
        args: &StoreArgs,
        threads: NonZeroUsize,
        cancel: &CancelToken,
        output: &Output,
    ) -> anyhow::Result<()> {
        let root = place.root.to_string_lossy();
        let Some(store) = place.open(Access::ReadOnly, args, output)? else {
            self.text.line(format_args!("there is no store at {root}"));
            self.stores.push(StoreOutput { root: json::path(&place.root), targets: Vec::new() });
            return Ok(());
        };
        let progress = Progress::new(output.is_text());
        let (mut rows, mut details, mut targets) = (Vec::new(), Text::default(), Vec::new());
        let mut mendable = false;
        for (name, target_store) in place.target_stores(&store)? {
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
            let (report, unverifiable) =
                judged_as(&name, threads, &progress, cancel, |options| target_store.verify(&options));
            let counts = Counts::of(&report, unverifiable.len());
            self.valid += counts.valid;
            self.refused += counts.refused;
            self.faults += counts.faults;
            self.unusable += counts.unreadable;
            self.cancelled |= report.cancelled;
            mendable |= report.problems.iter().any(|flawed| is_mended(&flawed.kind));
            let besides: Vec<&OtherFile> =
                report.other_files.iter().filter(|beside| self.seen.insert(beside.path.clone())).collect();
            details.extend(report.problems.iter().map(flaw_line));
            for Unverifiable { key, why } in &unverifiable {
                details.line(format_args!("note       {key} of {name} cannot be judged in full: {why}"));
            }
            details.append(&besides_text(&name, &besides));
            if targets::named(&name).is_some() && of_known_chip(&name).is_none() {
                details.line(format_args!("note       kernels of {name}: {}", unjudged(&name)));
            }
            rows.push(counts.row(&name, &report));
            targets.push(OrError::Done(target_output(&name, &report, unverifiable, &besides)));
        }
        progress.done();
        if mendable {
            self.mendable.push(root.to_string());
        }
        self.text.line(format_args!("store {root}"));
        self.text.append(&if rows.is_empty() { Text::of("  it is empty") } else { table(rows) });
        self.text.append(&details);
        self.stores.push(StoreOutput { root: json::path(&place.root), targets });
        Ok(())
    }
}

/// Whether repair does something about it. Anything else is for its owner, and says what.
fn is_mended(flaw: &ProblemKind) -> bool {
    flaw.calls_for_quarantine() || matches!(flaw, ProblemKind::CorruptCounters)
}

/// Flaws, counted by what they are about.
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
        for flawed in &report.problems {
            *match (&flawed.kind, flawed.key) {
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

/// A line for each target, under a line that says what the numbers are.
fn table(rows: Vec<Vec<String>>) -> Text {
    let head = ["target", "read", "valid", "refused", "unreadable", "faults"].map(str::to_owned).to_vec();
    columns("  ", &std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

/// What is wrong, and where.
pub(crate) fn flaw_line(flawed: &StoreProblem) -> Text {
    Text::of(format_args!("{:<10} {}", flawed.kind.name(), flaw_text(&flawed.path, &flawed.kind)))
}

/// What is wrong with what; an error may say what it is about.
pub(crate) fn flaw_text(path: &Path, flaw: &ProblemKind) -> String {
    let (path, flaw) = (path.to_string_lossy(), flaw.to_string());
    if flaw.contains(&*path) { flaw } else { format!("{path}: {flaw}") }
}

/// What is there besides: how much of each kind, and where what is not ours is.
fn besides_text(target: &str, besides: &[&OtherFile]) -> Text {
    /// So many are named.
    const NAMED: usize = 20;
    let mut kinds: BTreeMap<OtherFileKind, usize> = BTreeMap::new();
    besides.iter().for_each(|beside| *kinds.entry(beside.kind).or_default() += 1);
    if kinds.is_empty() {
        return Text::default();
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, number)| format!("{number} {}", kind.name())).collect();
    let mut text = Text::of(format_args!("other files in {target}: {}", kinds.join(", ")));
    let foreign = || besides.iter().filter(|beside| beside.kind.is_foreign());
    for beside in foreign().take(NAMED) {
        text.line(format_args!("  {:<14} {}", beside.kind.name(), beside.path.display()));
    }
    match foreign().count().saturating_sub(NAMED) {
        0 => {}
        more => text.line(format_args!("  and {} more", counted(more, "other"))),
    }
    text
}

/// A store, for programs.
#[derive(Serialize)]
pub(crate) struct StoreOutput {
    root: String,
    targets: Vec<OrError<TargetOutput, TargetError>>,
}

/// A target of a store that could not be opened, or not be repaired.
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
    flaws: Vec<ProblemOutput>,
    besides: Vec<OtherFileOutput>,
    missing_folders: usize,
    interrupted: bool,
}

/// What is wrong with a file of a store.
#[derive(Serialize)]
pub(crate) struct ProblemOutput {
    file: String,
    key: Option<String>,
    kind: &'static str,
    problem: String,
}

impl From<&StoreProblem> for ProblemOutput {
    fn from(flawed: &StoreProblem) -> Self {
        Self {
            file: json::path(&flawed.path),
            key: flawed.key.map(|key| key.to_string()),
            kind: flawed.kind.name(),
            problem: flawed.kind.to_string(),
        }
    }
}

/// A file in a store that is no entry.
#[derive(Serialize)]
pub(crate) struct OtherFileOutput {
    file: String,
    kind: &'static str,
    bytes: u64,
}

impl From<&OtherFile> for OtherFileOutput {
    fn from(beside: &OtherFile) -> Self {
        Self { file: json::path(&beside.path), kind: beside.kind.name(), bytes: beside.bytes }
    }
}

fn target_output(
    target: &str,
    report: &VerifyReport,
    unverifiable: Vec<Unverifiable>,
    besides: &[&OtherFile],
) -> TargetOutput {
    TargetOutput {
        target: target.to_owned(),
        kernels: report.checked.files,
        bytes: report.checked.bytes,
        valid: report.valid.files.saturating_sub(unverifiable.len() as u64),
        unverifiable,
        flaws: report.problems.iter().map(ProblemOutput::from).collect(),
        besides: besides.iter().map(|beside| OtherFileOutput::from(*beside)).collect(),
        missing_folders: report.missing.len(),
        interrupted: report.cancelled,
    }
}

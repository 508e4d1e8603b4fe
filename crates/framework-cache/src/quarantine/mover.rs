//! Moves the files of damaged items to a quarantine.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::PathBuf;

use crate::quarantine::RepairError;
use crate::quarantine::dir::Quarantine;
use crate::quarantine::journal::{Created, Entry, Role};
use crate::quarantine::locked_cache::LockedCache;
use crate::quarantine::locks::Locks;
use crate::quarantine::partners::{is_pair, partners};
use crate::quarantine::plan::{Plan, Set, plan};
use crate::quarantine::progress::QuarantineProgress;
use crate::quarantine::skipped::{SkipCause, SkippedItem};
use crate::scan::{CacheScan, Item, ItemKind};
use opkeep_fs::OpenFiles;
use opkeep_fs::{Dir, FileState};
use opkeep_kernel_meta::{InUse, RunId, rename_new};

/// The options of [`quarantine`](quarantine()).
#[non_exhaustive]
pub struct QuarantineOptions<'a> {
    /// The run of repair.
    pub run: &'a RunId,
    /// Whether to move also files that are open or recently written, which a build may be writing. Locked kernels stay
    /// even then.
    pub force: bool,
    /// Whether to change nothing, and to report the items that would be moved.
    pub dry_run: bool,
    /// Called before and after each step.
    pub progress: &'a dyn Fn(QuarantineProgress),
    /// Called before each kernel. The quarantine stops if this returns true.
    pub is_cancelled: &'a dyn Fn() -> bool,
}

impl<'a> QuarantineOptions<'a> {
    /// Returns the options of a quarantine in the run `run`.
    pub fn new(run: &'a RunId) -> Self {
        Self { run, force: false, dry_run: false, progress: &|_| {}, is_cancelled: &|| false }
    }
}

/// The result of [`quarantine`](quarantine()).
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct QuarantineReport {
    /// The directory with the moved files, if any was moved.
    pub quarantine: Option<PathBuf>,
    /// The items that were moved; in a dry run, those that would be.
    pub moved: Vec<QuarantinedItem>,
    /// The items that are, or may be, damaged, and stay.
    pub skipped: Vec<SkippedItem>,
    /// Whether the file system has no locks, so that other programs were not excluded.
    pub without_locks: bool,
    /// Whether the quarantine was cancelled.
    pub cancelled: bool,
}

/// An item, of which at least one file was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuarantinedItem {
    /// The kind of the item.
    pub kind: ItemKind,
    /// The stem of the kernel, or the name of the file.
    pub name: String,
    /// The subdirectory of the cache with the item, if any.
    pub below: Option<&'static str>,
    /// The moved files, in the order of the moves.
    pub files: Vec<String>,
    /// The problem of the item.
    pub reason: String,
}

/// Moves the damaged kernels and the orphans of the scanned cache to a quarantine beside it.
///
/// # Errors
/// [`RepairError`]: nothing was changed.
pub fn quarantine(
    scan: &CacheScan,
    options: &QuarantineOptions<'_>,
) -> Result<QuarantineReport, RepairError> {
    let Plan { mut sets, skipped } = plan(scan, options.force);
    let mut report = QuarantineReport { skipped, ..QuarantineReport::default() };
    if sets.is_empty() {
        return Ok(report);
    }
    let locked_cache = LockedCache::enter(&scan.cache.path)?;
    report.without_locks = locked_cache.locks.unsupported;
    if !options.force {
        skip_open(&mut sets, &mut report.skipped);
    }
    if options.dry_run {
        report.moved = sets.iter().map(Set::quarantined).collect();
        return Ok(report);
    }
    if sets.is_empty() {
        return Ok(report);
    }
    let moved_files: HashSet<(Option<&str>, String)> = sets
        .iter()
        .flat_map(|set| set.files.iter().map(|(file, _)| (set.item.below, file.clone())))
        .collect();
    sets.iter_mut().for_each(|set| set.record_staying(&locked_cache.dir, &moved_files));
    let quarantine = Quarantine::open(&locked_cache, options.run, &entries(&sets), Created::default())?;
    (options.progress)(QuarantineProgress::Recorded);
    let mut mover = Mover {
        locked_cache: &locked_cache,
        quarantine: &quarantine,
        options,
        subdirs: HashMap::new(),
        number: 0,
        report,
    };
    let mut done = Vec::new();
    for set in &sets {
        if (options.is_cancelled)() {
            mover.report.cancelled = true;
            break;
        }
        done.push((set, mover.move_set(set)));
    }
    (options.progress)(QuarantineProgress::Checking);
    mover.recheck(&mut done);
    let mut report = mover.report;
    for (set, files) in done {
        if !files.is_empty() {
            report.moved.push(QuarantinedItem {
                files: files.into_iter().map(|(file, _)| file).collect(),
                ..set.quarantined()
            });
        }
    }
    report.quarantine = quarantine.close(&locked_cache);
    Ok(report)
}

/// Returns the lines of the journal for `sets`.
fn entries(sets: &[Set<'_>]) -> Vec<Entry> {
    let numbered = (0..).zip(sets);
    let of = |(number, set): (u64, &Set<'_>)| {
        let entry = |(file, seen): &(String, FileState)| {
            let entry = Entry::new(number, file, set.item.below, seen, &set.why);
            let is_taken = set.files.iter().any(|(moved, _)| moved == file);
            Entry { role: if is_taken { Role::Taken } else { Role::Stays { sha256: None } }, ..entry }
        };
        set.judged.iter().map(entry).collect::<Vec<_>>()
    };
    numbered.flat_map(of).collect()
}

/// Skips the sets with a file that a process has opened since the scan.
fn skip_open(sets: &mut Vec<Set<'_>>, skipped: &mut Vec<SkippedItem>) {
    let open = OpenFiles::of_others();
    sets.retain(|set| {
        let holder = set.files.iter().find_map(|(_, file)| open.holder(file));
        skipped.extend(holder.map(|process| set.skipped(SkipCause::InProgress(InUse::Open { process }))));
        holder.is_none()
    });
}

/// The moved files with their judged states, in the order of the moves.
pub(crate) type MovedFiles = Vec<(String, FileState)>;

struct Mover<'a> {
    locked_cache: &'a LockedCache,
    quarantine: &'a Quarantine,
    options: &'a QuarantineOptions<'a>,
    /// The subdirectories of the cache that are open, by name.
    subdirs: HashMap<&'static str, Dir>,
    /// The number of files whose move was attempted so far.
    number: u64,
    report: QuarantineReport,
}

impl Mover<'_> {
    /// Moves the files of a set if all are as they were judged; if not, reports the reason. Returns the moved files.
    fn move_set(&mut self, set: &Set<'_>) -> MovedFiles {
        let mut moved_files = Vec::new();
        if let Err(why) = self.try_move_set(set, &mut moved_files) {
            self.report.skipped.push(set.skipped(why));
        }
        moved_files
    }

    fn try_move_set(&mut self, set: &Set<'_>, moved_files: &mut MovedFiles) -> Result<(), SkipCause> {
        if let Some(below) = set.item.below
            && !self.subdirs.contains_key(below)
        {
            let dir = self.locked_cache.dir.below(OsStr::new(below));
            let dir = dir
                .map_err(|error| SkipCause::Failed { file: below.to_owned(), problem: error.to_string() })?;
            self.subdirs.insert(below, dir);
        }
        let from = set.item.below.and_then(|below| self.subdirs.get(below)).unwrap_or(&self.locked_cache.dir);
        let to = self.quarantine.dir(set.item.below);
        // The locks are held until the last file is moved: that is the lock file itself.
        let locks =
            Locks::of_kernel(from, &set.locks).map_err(|error| SkipCause::Lock(lock_message(&error)))?;
        self.report.without_locks |= locks.unsupported;
        set.check(from)?;
        let mut failed = None;
        for (file, judged) in &set.files {
            let moved = move_judged(from, to, file, judged, || {
                (self.options.progress)(QuarantineProgress::Moving(self.number))
            });
            match moved {
                Ok(()) => moved_files.push((file.clone(), *judged)),
                // If a file changed since it was judged, another program may be completing the kernel.
                Err(why @ (SkipCause::Changed { .. } | SkipCause::Displaced { .. })) => {
                    return Err(restore_moved(from, to, moved_files, &set.judged).unwrap_or(why));
                }
                // If the description stays, the other files have to stay, too.
                Err(why) if file.ends_with(".json") => return Err(why),
                Err(why) => failed = Some(why),
            }
            (self.options.progress)(QuarantineProgress::Moved(self.number));
            self.number += 1;
        }
        // Another program may have written a missing file meanwhile.
        if let Some(file) = set.absent.iter().find(|file| from.may_exist(file)).cloned() {
            let displaced = restore_moved(from, to, moved_files, &set.judged);
            return Err(displaced.unwrap_or(SkipCause::Changed { file }));
        }
        failed.map_or(Ok(()), Err)
    }

    /// Checks the moved files once more, and restores those that a process has open or has written to meanwhile.
    fn recheck(&mut self, done: &mut [(&Set<'_>, MovedFiles)]) {
        let open = if self.options.force { OpenFiles::default() } else { OpenFiles::of_others() };
        for (set, moved_files) in done.iter_mut().filter(|(_, moved_files)| !moved_files.is_empty()) {
            let to = self.quarantine.dir(set.item.below);
            let Some(why) = disturbed(to, moved_files, &open) else { continue };
            let from =
                set.item.below.and_then(|below| self.subdirs.get(below)).unwrap_or(&self.locked_cache.dir);
            let displaced = restore_moved(from, to, moved_files, &set.judged);
            self.report.skipped.push(set.skipped(displaced.unwrap_or(why)));
        }
    }
}

/// Returns the reason why moved files, which are in `to`, have to be restored: a process changed one of them meanwhile,
/// or has one open.
pub(crate) fn disturbed(to: &Dir, moved_files: &MovedFiles, open: &OpenFiles) -> Option<SkipCause> {
    let is_changed = |(file, judged): &&(String, FileState)| {
        !to.file_state(file).is_some_and(|found| found.is_same_content(judged))
    };
    if let Some((file, _)) = moved_files.iter().find(is_changed) {
        return Some(SkipCause::Changed { file: file.clone() });
    }
    let holder = moved_files.iter().find_map(|(_, file)| open.holder(file));
    holder.map(|process| SkipCause::InProgress(InUse::Open { process }))
}

/// Returns the message about a kernel's lock.
pub(crate) fn lock_message(error: &RepairError) -> String {
    match error {
        RepairError::Locked { lock } => {
            format!(
                "`{}` is held by another process: run it again when that process has finished",
                lock.display()
            )
        }
        other => other.to_string(),
    }
}

/// Moves the file called `file` if it is in the judged state.
pub(crate) fn move_judged(
    from: &Dir,
    to: &Dir,
    file: &str,
    judged: &FileState,
    observe: impl Fn(),
) -> Result<(), SkipCause> {
    let named = || file.to_owned();
    if from.file_state(file) != Some(*judged) {
        return Err(SkipCause::Changed { file: named() });
    }
    observe();
    rename_new(from, file, to, file).map_err(|error| match error.kind() {
        ErrorKind::NotFound => SkipCause::Changed { file: named() },
        ErrorKind::CrossesDevices => SkipCause::Failed {
            file: named(),
            problem: "its directory is a mount point, so no file can be moved beside the cache".to_owned(),
        },
        _ => SkipCause::Failed { file: named(), problem: error.to_string() },
    })?;
    if to.file_state(file).is_some_and(|found| found.is_same_content(judged)) {
        return Ok(());
    }
    // Between the check and the rename, another file was given the name.
    let changed = SkipCause::Changed { file: named() };
    match rename_new(to, file, from, file) {
        Ok(()) => Err(changed),
        Err(_) => Err(SkipCause::Displaced { file: named(), path: to.path().join(file) }),
    }
}

/// Restores the files in `moved_files`, the last one first, and removes them from it. A file stays in quarantine if its
/// name was taken meanwhile, or if it does not fit an object or a description that another program wrote since, which
/// is not in `judged`. Returns a file that stays and is not as it was judged.
pub(crate) fn restore_moved(
    from: &Dir,
    to: &Dir,
    moved_files: &mut MovedFiles,
    judged: &[(String, FileState)],
) -> Option<SkipCause> {
    let is_judged = |name: &str, found: &FileState| {
        judged.iter().any(|(file, seen)| file == name && found.is_same_content(seen))
    };
    // Whether `file`, which is in `dir`, does not fit a file of another kernel with its stem.
    let is_misfit = |dir: &Dir, file: &str| {
        partners(file).iter().any(|partner| {
            from.file_state(partner).is_some_and(|found| !is_judged(partner, &found))
                && !is_pair((dir, file), (from, partner))
        })
    };
    let (mut stay, mut displaced) = (Vec::new(), None);
    while let Some((file, seen)) = moved_files.pop() {
        let mut is_restored = !is_misfit(to, &file) && rename_new(to, &file, from, &file).is_ok();
        // Between the check and the rename, another program may have written the other file.
        if is_restored
            && is_misfit(from, &file)
            && from.file_state(&file).is_some_and(|it| it.is_same_content(&seen))
        {
            is_restored = rename_new(from, &file, to, &file).is_err();
        }
        if !is_restored {
            if !to.file_state(&file).is_some_and(|found| found.is_same_content(&seen)) {
                displaced = Some(SkipCause::Displaced { file: file.clone(), path: to.path().join(&file) });
            }
            stay.push((file, seen));
        }
    }
    moved_files.extend(stay.into_iter().rev());
    displaced
}

impl Set<'_> {
    /// Adds the files that stay, with their current states, to the judged ones.
    fn record_staying(&mut self, dir: &Dir, moved_files: &HashSet<(Option<&str>, String)>) {
        let below = self.item.below.map(|below| dir.below(OsStr::new(below)));
        let Some(dir) = below.as_ref().map_or(Some(dir), |below| below.as_ref().ok()) else { return };
        let stay = self.stay.iter().filter(|file| !moved_files.contains(&(self.item.below, (*file).clone())));
        let stay = stay.filter_map(|file| Some((file.clone(), dir.file_state(file)?)));
        self.judged.extend(stay);
    }

    fn quarantined(&self) -> QuarantinedItem {
        let Item { kind, name, below, .. } = self.item;
        let files = self.files.iter().map(|(file, _)| file.clone()).collect();
        QuarantinedItem { kind: *kind, name: name.clone(), below: *below, files, reason: self.why.clone() }
    }

    fn skipped(&self, why: SkipCause) -> SkippedItem {
        SkippedItem::of(self.item, why)
    }

    /// Checks that all files of the set are as they were judged, and that none of the missing ones exists.
    fn check(&self, dir: &Dir) -> Result<(), SkipCause> {
        let changed = |file: &String| Err(SkipCause::Changed { file: file.clone() });
        if let Some((file, _)) =
            self.files.iter().find(|(file, judged)| dir.file_state(file) != Some(*judged))
        {
            return changed(file);
        }
        self.absent.iter().find(|file| dir.may_exist(file)).map_or(Ok(()), changed)
    }
}

//! Restores quarantined files.

mod find;
mod location;
mod manifest;
mod report;
mod restorer;

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;

pub use find::{QuarantineRun, newest, quarantines};
pub use report::{RestoreOptions, RestoreReport, UnrestoredFile};

use crate::quarantine::RepairError;
use crate::quarantine::journal::{self, Created, Entry, Role};
use crate::quarantine::locked_cache::LockedCache;
use crate::scan::cache_dir::SUBDIRS;
use manifest::{read_manifest, restore_lines};
use opkeep_fs::{Dir, FileKind};
use opkeep_kernel_meta::displace::STAYS_DISPLACED;
use opkeep_kernel_meta::manifest::{Manifest, NAME as MANIFEST};
use opkeep_kernel_meta::view_dir::LOCK;
use restorer::{Restorer, Settled, left_displaced, settle_known, would_settle};

/// Restores the files that a run quarantined, kernel by kernel, if all names of a kernel are free. Other files are
/// reported, and stay in quarantine for a later call.
///
/// # Errors
/// [`RepairError`]: nothing was changed.
pub fn restore(
    quarantined: &QuarantineRun,
    options: &RestoreOptions<'_>,
) -> Result<RestoreReport, RepairError> {
    let path = quarantined.path();
    let locked_cache = LockedCache::enter(&quarantined.cache)?;
    let open =
        |dir: &Dir, name: &OsStr| dir.below(name).map_err(|source| RepairError::io("open", &path, source));
    let top = open(&locked_cache.parent, &locked_cache.quarantine)?;
    let run = open(&top, &quarantined.run)?;
    let Journal { entries, bad, created } = read_journal(&run)?;
    let text = read_manifest(&locked_cache.dir)?;
    let mut manifest = Manifest::parse(&text);
    let mut report = RestoreReport::default();
    let unreadable = |line: usize| UnrestoredFile {
        file: format!("{}:{line}", journal::NAME),
        reason: "this line of the journal is damaged; restore its file by hand".to_owned(),
    };
    report.unrestored.extend(bad.into_iter().map(unreadable));
    report.unrestored.extend(unlisted_files(&run, &entries));

    let known = entries.iter().map(Entry::path).collect();
    let Settled { returning, staying } = match options.dry_run {
        true => would_settle(&locked_cache, &manifest, &known, &entries),
        false => {
            settle_known(&locked_cache, &manifest, &known, &entries);
            Settled::default()
        }
    };
    manifest.resolve(|name| locked_cache.dir.file_state(name));
    let mut restorer = Restorer {
        locked_cache: &locked_cache,
        run: &run,
        options,
        manifest: &manifest,
        known,
        returning,
        moved: 0,
        report,
    };
    let mut sets: BTreeMap<u64, Vec<Entry>> = BTreeMap::new();
    entries.into_iter().for_each(|entry| sets.entry(entry.set).or_default().push(entry));
    let mut restored = Vec::new();
    for entries in sets.values().rev() {
        match entries.first().map(|entry| &entry.role) {
            Some(Role::Added { .. }) => restorer.delete_added(entries),
            _ if restorer.restore(entries) => restored.push(entries),
            _ => {}
        }
    }
    let Restorer { mut report, known, .. } = restorer;
    let left = if options.dry_run {
        staying
    } else {
        left_displaced(&locked_cache, &known).into_iter().map(|(old, _)| old).collect()
    };
    for file in left {
        if !report.unrestored.iter().any(|unrestored| unrestored.file == file) {
            report.unrestored.push(UnrestoredFile { file, reason: STAYS_DISPLACED.to_owned() });
        }
    }
    if !options.dry_run {
        if let Err(error) = restore_lines(&locked_cache.dir, &manifest, restored.into_iter().flatten()) {
            report.unrestored.push(UnrestoredFile { file: MANIFEST.to_owned(), reason: error.to_string() });
        }
        let _ = locked_cache.dir.sync();
        report.removed = report.unrestored.is_empty() && clear(&locked_cache, &top, &run, &quarantined.run);
        if report.removed {
            remove_created(&locked_cache, created);
        }
    }
    Ok(report)
}

/// Removes the other files and directories that a run created, unless they have other content by now.
fn remove_created(locked_cache: &LockedCache, created: Created) {
    let names = locked_cache.dir.entries().unwrap_or_default();
    // A build that keeps its manifest there uses the lock, too.
    if created.lock && !names.iter().any(|name| name.name == MANIFEST) {
        let _ = locked_cache.dir.remove(LOCK);
    }
    let is_empty = locked_cache.dir.entries().is_ok_and(|names| names.iter().all(|name| name.name == LOCK));
    if let (true, true, Some(name)) = (created.directory, is_empty, locked_cache.dir.path().file_name()) {
        let _ = locked_cache.parent.remove_dir(name);
    }
    let above = locked_cache.parent.path();
    if let (true, Some(name), Some(parent)) = (created.above, above.file_name(), above.parent())
        && let Ok(parent) = Dir::open_quietly(parent)
    {
        let _ = parent.remove_dir(name);
    }
}

/// The names of the files in a run's directory that are not the cache's.
const OWN: [&str; 2] = [journal::NAME, journal::UNFINISHED];

/// The content of a run's journal.
#[derive(Default)]
struct Journal {
    entries: Vec<Entry>,
    /// The numbers of lines that cannot be used.
    bad: Vec<usize>,
    created: Created,
}

/// The journal; empty if there is none, since then nothing was moved.
fn read_journal(run: &Dir) -> Result<Journal, RepairError> {
    let mut bytes = Vec::new();
    match run.read(journal::NAME, journal::MAX_BYTES, &mut bytes).complete() {
        Ok(None) => Ok(Journal::default()),
        Ok(Some(_)) => {
            let (entries, bad) = journal::parse(&bytes);
            Ok(Journal { entries, bad, created: journal::created(&bytes) })
        }
        Err(problem) => Err(RepairError::io("read", run.path().join(journal::NAME), problem)),
    }
}

/// Files in the run's directory that the journal does not list: another program edited the journal, or wrote them.
fn unlisted_files(run: &Dir, entries: &[Entry]) -> Vec<UnrestoredFile> {
    let known: HashSet<String> = entries.iter().map(Entry::path).collect();
    let mut found = Vec::new();
    for name in run.entries().unwrap_or_default() {
        let text = name.name.to_string_lossy().into_owned();
        match run.below(&name.name) {
            Ok(below) if SUBDIRS.contains(&text.as_str()) => {
                let names = below.entries().unwrap_or_default().into_iter();
                found.extend(names.map(|name| format!("{text}/{}", name.name.to_string_lossy())));
            }
            _ if OWN.contains(&text.as_str()) => {}
            _ => found.push(text),
        }
    }
    found.retain(|path| !known.contains(path));
    opkeep_order::sort(&mut found);
    let why = "the journal does not list it: move it by hand if it belongs in the cache";
    found.into_iter().map(|file| UnrestoredFile { file, reason: why.to_owned() }).collect()
}

/// Removes the run's directory if it has no file of the cache. Returns whether it did.
fn clear(locked_cache: &LockedCache, top: &Dir, run: &Dir, name: &OsStr) -> bool {
    let Ok(names) = run.entries() else { return false };
    for subdir in names.iter().filter(|name| name.kind == FileKind::Dir) {
        let _ = run.remove_dir(&subdir.name);
    }
    let is_own = |name: &OsStr| OWN.iter().any(|own| name == *own);
    if !run.entries().is_ok_and(|names| names.iter().all(|name| is_own(&name.name))) {
        return false;
    }
    for name in OWN {
        let _ = run.remove(name);
    }
    let removed = top.remove_dir(name).is_ok();
    let _ = locked_cache.parent.remove_dir(&locked_cache.quarantine);
    let _ = locked_cache.parent.sync();
    removed
}

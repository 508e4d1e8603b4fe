//! Quarantines the files that a build is about to replace, in a run of its own.
//!
//! If a build replaces a foreign file of a kernel, all replaced files of the kernel are quarantined together. The
//! journal records the role of each file in the build, and the kernel's line in the manifest. A restore removes the
//! files that builds wrote, by the manifest, leaves the files that the build left, and restores that line. A kernel of
//! which a file has changed since the build is not restored. A repair also records the object of a damaged description
//! if another kernel needs the object.

use std::ffi::OsStr;
use std::path::Path;

use opkeep_digest::Digest;

use crate::quarantine::dir::Quarantine;
use crate::quarantine::journal::{Created, Entry, Role};
use crate::quarantine::locked_cache::LockedCache;
use crate::quarantine::mover::{MovedFiles, disturbed, move_judged, restore_moved};
use crate::quarantine::partners::partners;
use crate::quarantine::{RepairError, SkipCause};
use opkeep_fs::OpenFiles;
use opkeep_fs::{Dir, FileState, Fs};
use opkeep_kernel_meta::{LeftReason, QuarantineOutcome, Replaced, RunId};

/// The files of one kernel that a view is about to replace.
#[derive(Clone, Copy, Debug)]
struct Set<'a>(&'a Replaced);

impl Set<'_> {
    /// Returns the lines of the journal for the set, whose files are in `dir`.
    fn entries(&self, number: u64, dir: &Dir) -> Vec<Entry> {
        let replaced = move |(file, seen): &(String, FileState)| {
            let role = Role::Replaced { listed: self.0.listed.clone() };
            Entry { role, ..Entry::new(number, file, None, seen, &self.0.why) }
        };
        let unseen = move |file: &str, role| Entry::unseen(number, file, role, &self.0.why);
        let made = move |file: &String| unseen(file, Role::Made);
        let stays =
            move |(file, it): &(String, Digest)| unseen(file, Role::Stays { sha256: Some(it.to_string()) });
        let beside = self.beside(dir).into_iter().map(|(file, seen)| {
            let entry = Entry::new(number, &file, None, &seen, &self.0.why);
            Entry { role: Role::Stays { sha256: None }, ..entry }
        });
        let own = self.0.files.iter().map(replaced).chain(self.0.made.iter().map(made));
        own.chain(self.0.stays.iter().map(stays)).chain(beside).collect()
    }

    /// Returns the libraries with the kernel's name, which the build does not touch.
    fn beside(&self, dir: &Dir) -> Vec<(String, FileState)> {
        let json = self.0.files.iter().map(|(file, _)| file).find(|file| file.ends_with(".json"));
        let libraries = json.into_iter().flat_map(|json| partners(json)).filter(|file| !file.ends_with(".o"));
        libraries.filter_map(|file| dir.file_state(&file).map(|seen| (file, seen))).collect()
    }

    /// Returns the files in the states in which they were judged, and the files that stay in their current states.
    fn judged(&self, dir: &Dir) -> Vec<(String, FileState)> {
        let stays = self.0.stays.as_ref().filter(|(file, digest)| {
            dir.open_file(OsStr::new(file)).and_then(Digest::of_reader).is_ok_and(|found| found == *digest)
        });
        let stays = stays.and_then(|(file, _)| Some((file.clone(), dir.file_state(file)?)));
        let own = self.0.files.iter().cloned().chain(stays);
        own.chain(self.beside(dir)).collect()
    }

    /// Returns whether a file of the set is in quarantine.
    fn is_in(&self, quarantine: &Dir) -> bool {
        self.0.files.iter().any(|(file, _)| quarantine.may_exist(file))
    }
}

/// Moves the files of `replaced` out of the cache at `path`, whose build lock the caller holds. The outcome of a set is
/// an error unless all its files were moved; in that case, the moved ones are restored.
///
/// Unless `force`, files that a process has open are restored, since it may still write to them.
///
/// # Errors
/// [`RepairError`]: nothing was moved.
pub(crate) fn quarantine_replaced(
    fs: &Fs,
    path: &Path,
    run: &RunId,
    replaced: &[Replaced],
    force: bool,
) -> Result<QuarantineOutcome, RepairError> {
    let sets: Vec<Set<'_>> = replaced.iter().map(Set).collect();
    let locked_cache = LockedCache::enter_without_build_lock(fs, path)?;
    let entries: Vec<Entry> =
        (0..).zip(&sets).flat_map(|(number, set)| set.entries(number, &locked_cache.dir)).collect();
    let quarantine = Quarantine::open(&locked_cache, run, &entries, Created::default())?;
    let mut done: Vec<Result<MovedFiles, SkipCause>> =
        sets.iter().map(|set| move_set(&locked_cache, &quarantine, set)).collect();
    let open = if force { OpenFiles::default() } else { OpenFiles::of_others() };
    for (moved, set) in done.iter_mut().zip(&sets) {
        let Ok(moved_files) = moved else { continue };
        let Some(why) = disturbed(quarantine.dir(None), moved_files, &open) else { continue };
        let displaced = restore_moved(
            &locked_cache.dir,
            quarantine.dir(None),
            moved_files,
            &set.judged(&locked_cache.dir),
        );
        *moved = Err(displaced.unwrap_or(why));
    }
    // Restored files are not in the run. If the journal cannot be rewritten, an undo finds these files in the cache.
    let in_run = |number: u64| sets.get(number as usize).is_some_and(|set| set.is_in(quarantine.dir(None)));
    let moved: Vec<Entry> = entries.iter().filter(|entry| in_run(entry.set)).cloned().collect();
    if !moved.is_empty() && moved.len() < entries.len() {
        let _ = quarantine.rewrite_journal(&moved, Created::default());
    }
    let outcomes = done.into_iter().map(|moved| moved.map(drop).map_err(left_reason)).collect();
    Ok(QuarantineOutcome { outcomes, dir: quarantine.close(&locked_cache) })
}

/// Returns the reason why a view leaves files that could not be moved.
fn left_reason(why: SkipCause) -> LeftReason {
    match why {
        SkipCause::InProgress(in_use) => LeftReason::InProgress(in_use),
        SkipCause::Changed { file } => LeftReason::Changed { file },
        other => LeftReason::NotQuarantined { problem: other.to_string() },
    }
}

fn move_set(
    locked_cache: &LockedCache,
    quarantine: &Quarantine,
    set: &Set<'_>,
) -> Result<MovedFiles, SkipCause> {
    let (from, to) = (&locked_cache.dir, quarantine.dir(None));
    let mut moved_files = Vec::new();
    for (file, judged) in &set.0.files {
        if let Err(why) = move_judged(from, to, file, judged, || ()) {
            return Err(restore_moved(from, to, &mut moved_files, &set.judged(from)).unwrap_or(why));
        }
        moved_files.push((file.clone(), *judged));
    }
    Ok(moved_files)
}

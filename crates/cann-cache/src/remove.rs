//! The deletion of file groups.
//!
//! A group is deleted under its locks, which CANN holds while it writes, and only if all files of the group are as they
//! were listed and no process has one of them open. If this process is killed, the remaining files are an orphan that
//! the next collection deletes.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use opkeep_fs::{Dir, OpenFiles};

use crate::disk::{self, ListedState, LockAttempt, idle};
use crate::file_group::{FileGroup, GroupFile};
use crate::progress::{GcProgress, IDLE_FOR, InUseCounts};
use crate::usage::{FileTotals, Usage};

/// The age at which the list of open files is read again.
const OPEN_FILES_AGE: Duration = Duration::from_secs(2);

/// Deletes file groups.
pub(crate) struct Remover<'a> {
    pub(crate) root: &'a Dir,
    /// The directories of the listing, relative to the root.
    pub(crate) dirs: &'a [PathBuf],
    pub(crate) now: SystemTime,
    pub(crate) dry_run: bool,
    pub(crate) progress: &'a dyn Fn(GcProgress<'_>),
    /// The open directory of the last group, with its index in `dirs`.
    open_dir: Option<(usize, Dir)>,
    /// The files that other processes have open, and the time at which this list was read.
    open_files: Option<(OpenFiles, Instant)>,
    pub(crate) removed: Usage,
    pub(crate) in_use: InUseCounts,
    /// The number of groups that could not be deleted. `failure` has the first file and its error.
    pub(crate) failed: u64,
    pub(crate) failure: Option<(PathBuf, io::Error)>,
}

/// The reason why a group stays.
enum StayReason {
    /// A process has a file of the group open.
    Open,
    /// A process holds a lock of the group.
    Locked,
    /// A file of the group changed after the listing.
    Changed,
    /// The file could not be deleted or locked.
    Failed(String, io::Error),
}

impl<'a> Remover<'a> {
    pub(crate) fn new(
        root: &'a Dir,
        dirs: &'a [PathBuf],
        now: SystemTime,
        dry_run: bool,
        progress: &'a dyn Fn(GcProgress<'_>),
    ) -> Self {
        Self {
            root,
            dirs,
            now,
            dry_run,
            progress,
            open_dir: None,
            open_files: None,
            removed: Usage::default(),
            in_use: InUseCounts::default(),
            failed: 0,
            failure: None,
        }
    }

    /// Deletes a group, or counts the reason why it stays.
    pub(crate) fn remove(&mut self, group: &FileGroup) {
        let mut deleted = FileTotals::default();
        let outcome = self.try_remove(group, &mut deleted);
        self.removed.add_files(group.kind, deleted.files, deleted.bytes);
        match outcome {
            Ok(()) => self.removed.add(group.kind, 0, 0),
            Err(StayReason::Open) => self.in_use.open += 1,
            Err(StayReason::Locked) => self.in_use.locked += 1,
            Err(StayReason::Changed) => self.in_use.changed += 1,
            Err(StayReason::Failed(file, error)) => {
                self.failed += 1;
                if self.failure.is_none() {
                    let path = self.root.path().join(&self.dirs[group.dir]).join(file);
                    self.failure = Some((path, error));
                }
            }
        }
    }

    fn try_remove(&mut self, group: &FileGroup, deleted: &mut FileTotals) -> Result<(), StayReason> {
        let dir = match self.open_dir.take() {
            Some((index, dir)) if index == group.dir => dir,
            _ => open_below(self.root, &self.dirs[group.dir])
                .map_err(|error| StayReason::Failed(String::new(), error))?,
        };
        let open_files = match self.open_files.take() {
            Some((files, read)) if read.elapsed() <= OPEN_FILES_AGE => (files, read),
            _ => (OpenFiles::of_others(), Instant::now()),
        };
        let outcome = self.remove_in(&dir, &open_files.0, group, deleted);
        (self.open_dir, self.open_files) = (Some((group.dir, dir)), Some(open_files));
        outcome
    }

    fn remove_in(
        &self,
        dir: &Dir,
        open_files: &OpenFiles,
        group: &FileGroup,
        deleted: &mut FileTotals,
    ) -> Result<(), StayReason> {
        let removal = Removal { dir, group, open_files };
        let held = removal.lock(self.dry_run)?;
        // CANN may have written the group before it was locked here.
        removal.check_all()?;
        // A new lock file belongs to a process that is about to lock it.
        let is_idle = |lock: &&(GroupFile, ListedState)| idle(lock.1.mtime, self.now) >= IDLE_FOR;
        for (file, state) in group.files.iter().chain(group.locks.iter().filter(is_idle)) {
            if self.dry_run {
                deleted.add(1, state.size);
                continue;
            }
            removal.delete(file, state, deleted)?;
            (self.progress)(GcProgress::Removed { dir: dir.path(), file: &file.name(&group.stem) });
        }
        drop(held);
        Ok(())
    }
}

/// Opens the directory at `path`, relative to the root.
pub(crate) fn open_below(root: &Dir, path: &Path) -> io::Result<Dir> {
    let mut dir = root.below(OsStr::new("."))?;
    for name in path {
        dir = dir.below(name)?;
    }
    Ok(dir)
}

/// The group that is being removed, with its directory and the list of open files.
struct Removal<'a> {
    dir: &'a Dir,
    group: &'a FileGroup,
    open_files: &'a OpenFiles,
}

impl Removal<'_> {
    /// Checks that every file of the group is as it was listed, may be deleted, and is not open.
    fn check_all(&self) -> Result<(), StayReason> {
        let is_missing = |file: &GroupFile| disk::is_missing(self.dir, &file.name(&self.group.stem));
        if !self.group.missing.iter().all(is_missing) {
            return Err(StayReason::Changed);
        }
        for (file, state) in self.group.files.iter().chain(&self.group.locks) {
            self.check(file, state)?;
        }
        Ok(())
    }

    fn check(&self, file: &GroupFile, state: &ListedState) -> Result<(), StayReason> {
        let name = file.name(&self.group.stem);
        let now = match disk::current_file(self.dir, &name) {
            Ok(Some(now)) if now.listed == *state => now,
            Ok(_) => return Err(StayReason::Changed),
            Err(error) => return Err(StayReason::Failed(name, error)),
        };
        if self.open_files.holder(&now.state).is_some() {
            return Err(StayReason::Open);
        }
        disk::may_delete(self.dir, &now).map_err(|error| StayReason::Failed(name, error))
    }

    /// Takes all locks of the group; in a dry run, checks that they are free.
    fn lock(&self, dry_run: bool) -> Result<Vec<File>, StayReason> {
        let mut held = Vec::new();
        for (file, _) in &self.group.locks {
            let name = file.name(&self.group.stem);
            let attempt = if dry_run {
                disk::is_locked(self.dir, &name).map(|locked| locked.then_some(LockAttempt::Busy))
            } else {
                disk::try_lock(self.dir, &name, false).map(Some)
            };
            match attempt {
                Ok(Some(LockAttempt::Held(lock))) => held.push(lock),
                Ok(None) => {}
                Ok(Some(LockAttempt::Busy)) => return Err(StayReason::Locked),
                Ok(Some(LockAttempt::Missing)) => return Err(StayReason::Changed),
                Err(error) => return Err(StayReason::Failed(name, error)),
            }
        }
        Ok(held)
    }

    /// Deletes a file if it is as it was listed.
    fn delete(
        &self,
        file: &GroupFile,
        state: &ListedState,
        deleted: &mut FileTotals,
    ) -> Result<(), StayReason> {
        self.check(file, state)?;
        let name = file.name(&self.group.stem);
        self.dir.remove(&name).map_err(|error| StayReason::Failed(name, error))?;
        deleted.add(1, state.size);
        Ok(())
    }
}

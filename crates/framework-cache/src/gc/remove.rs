//! Deleting one thing without harm to anybody.
//!
//! It goes only if it is still what was listed, if nobody has one of its files open, and under its locks, which CANN
//! holds while it writes. Whoever is killed here leaves what the next gc takes for an orphan.

use std::ffi::OsStr;
use std::fs::File as OpenFile;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::gc::disk::{self, Stamp, Tried, idle};
use crate::gc::file_group::{File, FileGroup};
use crate::gc::progress::{GcProgress, IDLE_FOR, InUseCounts};
use crate::gc::usage::{Amount, FileGroupKind, Usage};
use crate::open_files::OpenFiles;
use opkeep_fs::Dir;

/// How long it is believed which files are open.
const BELIEVED: Duration = Duration::from_secs(2);

/// Deletes things.
pub(crate) struct Remover<'a> {
    pub(crate) root: &'a Dir,
    /// The folders of the listing, below the root.
    pub(crate) folders: &'a [PathBuf],
    pub(crate) now: SystemTime,
    pub(crate) dry_run: bool,
    pub(crate) watch: &'a dyn Fn(GcProgress<'_>),
    /// The folder that was last at work in.
    open_folder: Option<(usize, Dir)>,
    open_files: OpenFiles,
    /// When the system was asked for them.
    asked: Option<Instant>,
    /// What went.
    pub(crate) removed: Usage,
    pub(crate) kept: InUseCounts,
    /// What should have gone and could not be deleted, and why the first of it could not.
    pub(crate) failed: u64,
    pub(crate) failure: Option<(PathBuf, io::Error)>,
}

/// Why a thing stays.
enum Stays {
    /// A process has a file of it open.
    Open,
    /// A process holds a lock of it.
    Locked,
    /// It is not what was listed.
    Changed,
    /// This file could not be deleted or locked.
    Failed(String, io::Error),
}

impl<'a> Remover<'a> {
    pub(crate) fn new(
        root: &'a Dir,
        folders: &'a [PathBuf],
        now: SystemTime,
        dry_run: bool,
        watch: &'a dyn Fn(GcProgress<'_>),
    ) -> Self {
        Self {
            root,
            folders,
            now,
            dry_run,
            watch,
            open_folder: None,
            open_files: OpenFiles::default(),
            asked: None,
            removed: Usage::default(),
            kept: InUseCounts::default(),
            failed: 0,
            failure: None,
        }
    }

    /// Deletes a thing, or says in `kept` or `failure` why it stays.
    pub(crate) fn remove(&mut self, thing: &FileGroup) {
        let mut gone = Amount::default();
        let came = self.try_remove(thing, &mut gone);
        self.removed.add_files(thing.what, gone.files, gone.bytes);
        match came {
            Ok(()) => self.removed.add(thing.what, 0, 0),
            Err(Stays::Open) => self.kept.open += 1,
            Err(Stays::Locked) => self.kept.locked += 1,
            Err(Stays::Changed) => self.kept.changed += 1,
            Err(Stays::Failed(file, error)) => {
                self.failed += 1;
                let path = || self.root.path().join(&self.folders[thing.shelf]).join(file);
                if self.failure.is_none() {
                    self.failure = Some((path(), error));
                }
            }
        }
    }

    fn try_remove(&mut self, thing: &FileGroup, gone: &mut Amount) -> Result<(), Stays> {
        if self.asked.is_none_or(|at| at.elapsed() > BELIEVED) {
            (self.open_files, self.asked) = (OpenFiles::look(), Some(Instant::now()));
        }
        let dir = match self.open_folder.take() {
            Some((index, dir)) if index == thing.shelf => dir,
            _ => {
                let below = &self.folders[thing.shelf];
                descend(self.root, below).map_err(|error| Stays::Failed(String::new(), error))?
            }
        };
        let came = self.remove_in(&dir, thing, gone);
        self.open_folder = Some((thing.shelf, dir));
        came
    }

    fn remove_in(&self, dir: &Dir, thing: &FileGroup, gone: &mut Amount) -> Result<(), Stays> {
        let job = Job { dir, thing, open: &self.open_files };
        let held = job.lock(self.dry_run)?;
        // It may have been written until it was locked.
        job.check_all()?;
        // A lock that was just made is somebody's who is about to take it.
        let is_idle = |lock: &&(File, Stamp)| idle(lock.1.mtime, self.now) >= IDLE_FOR;
        for (file, stamp) in thing.files.iter().chain(thing.locks.iter().filter(is_idle)) {
            if self.dry_run {
                gone.add(1, stamp.size);
                continue;
            }
            job.delete(file, stamp, gone)?;
            (self.watch)(GcProgress::Removed { folder: dir.path(), file: &file.name(&thing.stem) });
        }
        drop(held);
        Ok(())
    }
}

/// The folder `below` the root.
pub(crate) fn descend(root: &Dir, below: &Path) -> io::Result<Dir> {
    let mut dir = root.below(OsStr::new("."))?;
    for name in below {
        dir = dir.below(name)?;
    }
    Ok(dir)
}

/// A thing that is about to go.
struct Job<'a> {
    dir: &'a Dir,
    thing: &'a FileGroup,
    open: &'a OpenFiles,
}

impl Job<'_> {
    /// Whether every file is as it was listed, ours to delete, and not open.
    fn check_all(&self) -> Result<(), Stays> {
        let is_missing = |file: &File| disk::is_gone(self.dir, &file.name(&self.thing.stem));
        if !self.thing.missing.iter().all(is_missing) {
            return Err(Stays::Changed);
        }
        for (file, stamp) in self.thing.files.iter().chain(&self.thing.locks) {
            self.check(file, stamp)?;
        }
        Ok(())
    }

    fn check(&self, file: &File, stamp: &Stamp) -> Result<(), Stays> {
        let name = file.name(&self.thing.stem);
        let now = match disk::look(self.dir, &name) {
            Ok(Some(now)) if now.stamp == *stamp => now,
            Ok(_) => return Err(Stays::Changed),
            Err(error) => return Err(Stays::Failed(name, error)),
        };
        if self.open.holder(&now.state).is_some() {
            return Err(Stays::Open);
        }
        disk::may_delete(self.dir, &now).map_err(|error| Stays::Failed(name, error))
    }

    /// Takes all locks of the thing; in a dry run only asks whether they are free.
    fn lock(&self, dry_run: bool) -> Result<Vec<OpenFile>, Stays> {
        let mut held = Vec::new();
        for (file, _) in &self.thing.locks {
            let name = file.name(&self.thing.stem);
            let tried = if dry_run {
                disk::is_locked(self.dir, &name).map(|locked| locked.then_some(Tried::Busy))
            } else {
                disk::try_lock(self.dir, &name, false).map(Some)
            };
            match tried {
                Ok(Some(Tried::Held(lock))) => held.push(lock),
                Ok(None) => {}
                Ok(Some(Tried::Busy)) => return Err(Stays::Locked),
                Ok(Some(Tried::Gone)) => return Err(Stays::Changed),
                Err(error) => return Err(Stays::Failed(name, error)),
            }
        }
        Ok(held)
    }

    /// Deletes a file, if it is still what was listed.
    fn delete(&self, file: &File, stamp: &Stamp, gone: &mut Amount) -> Result<(), Stays> {
        self.check(file, stamp)?;
        let name = file.name(&self.thing.stem);
        disk::unlink(self.dir, &name).map_err(|error| Stays::Failed(name, error))?;
        gone.add(1, stamp.size);
        Ok(())
    }
}

/// Whether a thing is rather to go than a kernel, when there is no room.
pub(crate) fn is_cheap(thing: &FileGroup) -> bool {
    thing.what == FileGroupKind::Trial
}

//! What the programs create and rename.

use std::io;
use std::path::{Path, PathBuf};

use opkeep_fs::{FileId, Fs};

use super::Watch;
use crate::ffi::Waiting;
use crate::sandbox::Found;
use crate::sandbox::listing::all_below;
use crate::sandbox::own::state;
use crate::sandbox::paths::{named, resolved};

/// The largest number of files in a directory that the programs move out of the work directory.
const MAX_MOVED: usize = 10_000;

impl Watch {
    /// Records a path that the programs create, unless it is in the work directory.
    pub(super) fn add_created(&mut self, waiting: &Waiting, path: &Path) {
        if !self.is_in_work_dir(path) {
            self.own.create(waiting.thread, resolved(path));
        }
    }

    /// Records that the programs truncate a file, so that none of the old content remains.
    pub(super) fn add_truncated(&mut self, path: &Path) {
        let path = resolved(path);
        if let Some(found) = state(&path) {
            self.own.give(path, found.id);
        }
    }

    /// Records a link, a pipe or a device that the programs make.
    pub(super) fn add_special(&mut self, waiting: &Waiting, path: &Path) {
        if !self.has_name_in_work_dir(path) {
            self.own.create(waiting.thread, named(path));
        }
    }

    /// Whether the programs created the file or the directory that a path leads to; or it is missing in a directory that they created.
    pub(super) fn is_created(&self, path: &Path) -> bool {
        !self.own.is_empty() && self.is_own(&resolved(path))
    }

    /// The same of the name itself, which may be that of a link.
    pub(super) fn is_created_name(&self, path: &Path) -> bool {
        !self.own.is_empty() && self.is_own(&named(path))
    }

    fn is_own(&self, path: &Path) -> bool {
        let is_missing = || state(path).is_none();
        let is_in_own_dir = || {
            let above = path.ancestors().skip(1).find(|dir| state(dir).is_some());
            above.is_some_and(|dir| self.own.has(dir, self.since))
        };
        self.own.has(path, self.since) || is_missing() && is_in_own_dir()
    }

    /// Whether each name in a directory of the programs is their own.
    pub(super) fn has_own_names_alone(&self, dir: &Path) -> io::Result<bool> {
        let dir = resolved(dir);
        let names = Fs::new().list(&dir)?;
        Ok(names.iter().all(|(name, _)| self.own.has(&dir.join(name), self.since)))
    }

    /// Records the new name of a file: `old`, or an open file.
    pub(super) fn rename(&mut self, waiting: &Waiting, old: Option<&Path>) -> io::Result<()> {
        let (dir, name) = waiting.new_name()?;
        let Some(new) = self.resolve(waiting, dir, name)? else { return Ok(()) };
        self.note_rename(waiting, old, &new);
        let is_own = old.is_some_and(|old| self.is_in_work_dir(old) || self.is_created(old));
        let is_whole = |path: &Path| self.is_in_work_dir(path) || self.writes.is_whole(path);
        let is_whole = old.is_some_and(|old| is_whole(old) && !Found::at(old).is_directory());
        self.add_written(&new, is_whole && !waiting.is_exchange());
        if let Some(old) = old.filter(|_| waiting.is_exchange()) {
            self.add_written(old, false);
        }
        // The call may fail: then the new name does not lead to the programs' file.
        if let Some(old) = old.filter(|_| is_own) {
            self.give(old, &new)?;
        }
        Ok(())
    }

    /// Records that a path is about to be the name of the programs' own file or directory `old`.
    fn give(&mut self, old: &Path, new: &Path) -> io::Result<()> {
        let (old, new) = (named(old), named(new));
        let Some(found) = state(&old) else { return Ok(()) };
        let mut below: Vec<(PathBuf, FileId)> = vec![(new.clone(), found.id)];
        if Found::at(&old).is_directory() {
            let moved = |path: &Path| Some(new.join(path.strip_prefix(&old).ok()?));
            match self.is_in_work_dir(&old) {
                true => {
                    let (files, dirs) = all_below(&old, MAX_MOVED)?;
                    let all = files.iter().chain(&dirs);
                    below.extend(all.filter_map(|path| Some((moved(path)?, state(path)?.id))));
                }
                // The call that created one may have been the last one of its thread.
                false => below.extend(self.own.paths().filter_map(|path| {
                    let new = moved(path)?;
                    self.own.has(path, self.since).then_some((new, state(path)?.id))
                })),
            }
        }
        let outside: Vec<_> = below.into_iter().filter(|(path, _)| !self.is_in_work_dir(path)).collect();
        outside.into_iter().for_each(|(path, file)| self.own.give(path, file));
        Ok(())
    }
}

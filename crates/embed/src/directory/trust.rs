//! The owners whose directories and files may be used: this user and root.
//!
//! No other user may be able to write there. There are two exceptions, both by the mode of the base directory: with the
//! set-group-id bit it is shared with its group; with the sticky bit, such as `/tmp`, others cannot replace what is not theirs.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use opkeep_fs::{Dir, FileStat};

use super::error::{DirectoryError, failed};

const STICKY: u32 = 0o1000;
const SET_GROUP_ID: u32 = 0o2000;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// The mode of new directories, if they are not shared with a group.
pub(super) const DIR_MODE: u32 = 0o755;

/// The owners that are trusted below a base directory.
pub(super) struct Trust {
    user: u32,
    /// The group with which the base directory is shared.
    group: Option<u32>,
}

impl Trust {
    /// The trust that the state of the base directory allows.
    pub(super) fn below(base: &Dir) -> Result<Self, DirectoryError> {
        let stat = base.stat().map_err(failed(base.path(), "read"))?;
        let user = rustix::process::geteuid().as_raw();
        let trust = Self { user, group: (stat.mode & SET_GROUP_ID != 0).then_some(stat.group) };
        let FileStat { user, group, mode, .. } = stat;
        let writable = if mode & STICKY == 0 { mode } else { mode & !(GROUP_WRITES | OTHERS_WRITE) };
        // Its owner decides whether it is shared, so the group's trust is no help here.
        trust.check(|| base.path().to_owned(), user, None, writable & !shared(&trust, group))?;
        Ok(trust)
    }

    pub(super) fn check_dir(&self, dir: &Dir) -> Result<(), DirectoryError> {
        let stat = dir.stat().map_err(failed(dir.path(), "read"))?;
        let FileStat { user, group, mode, .. } = stat;
        self.check(|| dir.path().to_owned(), user, Some(group), mode & !shared(self, group))
    }

    pub(super) fn check_file(
        &self,
        path: &dyn Fn() -> PathBuf,
        found: &Metadata,
    ) -> Result<(), DirectoryError> {
        let group = found.gid();
        self.check(path, found.uid(), Some(group), found.mode() & !shared(self, group))
    }

    /// This user.
    pub(super) fn user(&self) -> u32 {
        self.user
    }

    pub(super) fn dir_mode(&self) -> u32 {
        if self.group.is_some() { 0o2775 } else { DIR_MODE }
    }

    pub(super) fn file_mode(&self) -> u32 {
        if self.group.is_some() { 0o664 } else { 0o644 }
    }

    /// Checks the owner and the bits of `mode` that let others write. Files of `group` are trusted if it is the shared one.
    fn check(
        &self,
        path: impl Fn() -> PathBuf,
        user: u32,
        group: Option<u32>,
        mode: u32,
    ) -> Result<(), DirectoryError> {
        let is_shared = group.is_some() && group == self.group;
        let (problem, help) = if user != self.user && user != 0 && !is_shared {
            (
                format!("its owner is user {user}, expected {} or root", self.user),
                "Name a directory of this user, or change the owner".to_owned(),
            )
        } else if mode & (GROUP_WRITES | OTHERS_WRITE) != 0 {
            (
                format!("other users can write to it (mode {:04o})", mode & 0o7777),
                format!("Close it: chmod go-w {}", quoted(&path())),
            )
        } else {
            return Ok(());
        };
        Err(DirectoryError::Untrusted { path: path(), problem, help })
    }
}

/// The bit of a mode that is no danger, since the directory is shared with the group.
fn shared(trust: &Trust, group: u32) -> u32 {
    if trust.group == Some(group) { GROUP_WRITES } else { 0 }
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display())
}

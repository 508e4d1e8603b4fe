//! The result of observing a program and all that it started.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opkeep_digest::Digest;
use opkeep_fs::{FileKind, Fs};
use serde::{Deserialize, Serialize};

use super::Peer;

/// The files outside their work directory that a program and all that it started looked at.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// The programs in the order of their start. A process that executes another program counts as two.
    pub programs: Vec<Program>,
    /// The state of each path that was opened for reading, or executed.
    pub read: BTreeMap<PathBuf, Found>,
    /// Directories that were listed, with a digest of their names.
    pub listed: BTreeMap<PathBuf, Digest>,
    /// The state of each path that was looked at in another way: its properties were read, it was not found, or it is a
    /// link.
    pub looked_at: BTreeMap<PathBuf, Found>,
    /// Directories that became the working directory of a process.
    pub entered: BTreeSet<PathBuf>,
    /// Paths that were missing until the programs created something there, and removed it again: temporary files, or
    /// locks.
    pub temporary: BTreeSet<PathBuf>,
    /// Files outside the work directory that the programs created and opened for reading. A [`Domain`](super::Domain)
    /// denies that unless it covers them.
    pub own: BTreeSet<PathBuf>,
    /// The names in each listed directory at its first listing, sorted, each with its kind.
    pub names: BTreeMap<PathBuf, Vec<(OsString, FileKind)>>,
    /// Files, links and directories outside the work directory that the programs created or wrote, and that exist at the end, by
    /// the paths that the programs used.
    pub written: BTreeMap<PathBuf, Written>,
    /// Paths outside the work directory that the programs were about to change, create or remove, with their states before the first such
    /// call, whether or not it succeeded. Paths in directories that the programs created are not among them.
    pub before: BTreeMap<PathBuf, Before>,
    /// Files outside the work directory that existed before, and that the programs removed.
    pub removed: BTreeSet<PathBuf>,
    /// Paths that were looked at or opened for reading twice, and were in another state the second time, without a write of the
    /// programs.
    pub changed: BTreeSet<PathBuf>,
    /// What the programs exchanged data with, beside files and each other. What they only read is in [`read`](Self::read).
    pub peers: BTreeSet<Peer>,
    /// Whether a process still ran when the observation ended.
    pub outlived: bool,
    /// The reason why the observation may be incomplete.
    pub incomplete: Option<Arc<io::Error>>,
    /// A program that made a call which observed programs are refused, such as `mount`, or that would have had another user's rights:
    /// without an observer it might not fail.
    pub refused: Option<PathBuf>,
    /// A program whose system calls are of another architecture, such as 32-bit programs: they cannot be observed, and
    /// were denied.
    pub foreign: Option<PathBuf>,
}

/// A path that the programs wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Whether all of it is the programs' own: they created it, or truncated it before they wrote. If not, a part may be older. A
    /// directory that was moved there is not known as a whole.
    pub is_whole: bool,
    /// Whether it is a link that the programs made. A link that was there before leads to the file that they wrote.
    pub is_own_link: bool,
}

/// The state of a path before the programs changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Before {
    /// The state.
    pub found: Found,
    /// What they learned of it by the calls that were to change it, beside other looks.
    pub learned: Learned,
}

/// What a program learns of a path by a call that changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Learned {
    /// Whether it can be replaced: a file and a missing path are the same to it.
    IsReplaceable,
    /// The same. An old file keeps its mode; a new file has this one.
    Mode(u32),
    /// All of its state: the call fails, or does something else, in another state.
    State,
}

/// One program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Its file; empty for a process that was forked and executed nothing.
    pub path: PathBuf,
    /// Its arguments, with its name.
    pub args: Vec<OsString>,
    /// The words of files that its arguments name by `@`.
    pub file_args: Vec<OsString>,
    /// Files that it read, in the order of their first use: itself, its interpreters, and those that it opened.
    pub read: Vec<PathBuf>,
    /// Digests of the files in the work directory that it read, as of their opening.
    pub intermediate: Vec<Digest>,
    /// Paths that it looked at without reading.
    pub looked_at: BTreeSet<PathBuf>,
    /// Directories that it listed.
    pub listed: BTreeSet<PathBuf>,
    /// Whether it is a script.
    pub is_script: bool,
    /// Whether it was executed by another program in the same process, which ended that program.
    pub replaces_program: bool,
}

/// The state of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Observations on disk have this name.
    #[serde(rename = "what")]
    kind: PathKind,
    /// The link's target, if it is a symbolic link.
    link: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum PathKind {
    Nothing,
    File(FileState),
    /// A file of which only the existence matters.
    AnyFile,
    /// A file whose content counts elsewhere.
    Permissions {
        mode: u32,
        user: u32,
        group: u32,
    },
    Directory {
        mode: u32,
        user: u32,
        group: u32,
    },
    /// A pipe, a socket or a device, with the bits of its kind and its permissions.
    Other {
        mode: u32,
    },
}

/// The identity of an unchanged file, and the properties that a program can see without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileState {
    dev: u64,
    ino: u64,
    size: u64,
    /// In nanoseconds since 1970.
    modified: i64,
    changed: i64,
    /// The bits of its permissions.
    mode: u32,
    user: u32,
    group: u32,
}

impl FileState {
    fn of(found: &Metadata) -> Self {
        let state = opkeep_fs::FileState::of(found);
        Self {
            dev: state.id.dev,
            ino: state.id.ino,
            size: state.len,
            modified: state.mtime,
            changed: state.ctime,
            mode: found.mode() & 0o7777,
            user: found.uid(),
            group: found.gid(),
        }
    }
}

impl Found {
    /// The state of a missing path.
    pub const fn nothing() -> Self {
        Self { kind: PathKind::Nothing, link: None }
    }

    /// The state of something that is no file.
    pub(super) const fn unknown() -> Self {
        Self { kind: PathKind::Other { mode: 0 }, link: None }
    }

    /// Looks at `path` now.
    pub fn at(path: &Path) -> Self {
        let (found, link) = metadata_and_link(path);
        let kind = match found {
            None => PathKind::Nothing,
            Some(found) if found.is_file() => PathKind::File(FileState::of(&found)),
            Some(found) if found.is_dir() => {
                let FileState { mode, user, group, .. } = FileState::of(&found);
                PathKind::Directory { mode, user, group }
            }
            Some(found) => PathKind::Other { mode: found.mode() },
        };
        Self { kind, link }
    }

    /// Whether the path is missing.
    pub fn is_nothing(&self) -> bool {
        self.kind == PathKind::Nothing
    }

    /// Whether it is a file.
    pub fn is_file(&self) -> bool {
        matches!(self.kind, PathKind::File(_))
    }

    /// Whether a program in it would have the rights of another user or group.
    pub(crate) fn gives_rights(&self) -> bool {
        const SET_USER_AND_GROUP: u32 = 0o6000;
        matches!(&self.kind, PathKind::File(state) if state.mode & SET_USER_AND_GROUP != 0)
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        matches!(self.kind, PathKind::Directory { .. })
    }

    /// The target of the link, if it is one.
    pub fn link(&self) -> Option<&Path> {
        self.link.as_deref()
    }

    /// Whether it is a pipe, a socket or a device.
    pub fn is_special(&self) -> bool {
        matches!(self.kind, PathKind::Other { .. })
    }

    /// The bits of the mode of a file or a directory.
    pub fn mode(&self) -> Option<u32> {
        match &self.kind {
            PathKind::File(state) => Some(state.mode),
            PathKind::Permissions { mode, .. } | PathKind::Directory { mode, .. } => Some(*mode),
            PathKind::Nothing | PathKind::AnyFile | PathKind::Other { .. } => None,
        }
    }

    /// Whether it is a symbolic link.
    pub fn is_link(&self) -> bool {
        self.link.is_some()
    }

    /// In words, the properties that a program can see without reading: whether it is missing, or its kind, permissions
    /// and owner; the size of a file that no program reads; and a link's target.
    pub fn in_words(&self) -> String {
        let kind = match &self.kind {
            PathKind::Nothing => "nothing".to_owned(),
            // Records of probes are compared by these words, so they are the same for every size.
            PathKind::File(FileState { size, mode, user, group, .. }) => {
                format!("{size} {}, {mode:o} of {user}:{group}", "bytes")
            }
            PathKind::AnyFile => "a file".to_owned(),
            PathKind::Permissions { mode, user, group } => format!("{mode:o} of {user}:{group}"),
            PathKind::Directory { mode, user, group } => format!("directory, {mode:o} of {user}:{group}"),
            PathKind::Other { mode } => format!("no file, {mode:o}"),
        };
        match &self.link {
            Some(link) => format!("{kind} by {}", link.display()),
            None => kind,
        }
    }

    /// Whether the same file is there, unchanged.
    pub fn is_same(&self, path: &Path) -> bool {
        Self::at(path) == *self
    }

    /// Whether a program that looks at `path` without reading sees the same: that it is missing, a directory, or a file
    /// with the same size, date, permissions and owner.
    pub fn still_holds(&self, path: &Path) -> bool {
        let (now, link) = metadata_and_link(path);
        let same = match (&self.kind, now) {
            (PathKind::Nothing, now) => now.is_none(),
            (PathKind::File(then), Some(now)) => {
                let state = FileState::of(&now);
                let seen = |it: &FileState| (it.size, it.modified, it.mode, it.user, it.group);
                now.is_file() && seen(&state) == seen(then)
            }
            (PathKind::AnyFile, Some(now)) => now.is_file(),
            (PathKind::Permissions { mode, user, group }, Some(now)) => {
                let state = FileState::of(&now);
                now.is_file() && (state.mode, state.user, state.group) == (*mode, *user, *group)
            }
            (PathKind::Directory { mode, user, group }, Some(now)) => {
                let state = FileState::of(&now);
                now.is_dir() && (state.mode, state.user, state.group) == (*mode, *user, *group)
            }
            (PathKind::Other { mode }, Some(now)) => now.mode() == *mode,
            (_, None) => false,
        };
        same && link == self.link
    }

    /// The same state; of a file, only that it exists, since the toolchain itself writes it.
    pub(crate) fn by_presence(self) -> Self {
        match self.kind {
            PathKind::File(_) | PathKind::Permissions { .. } => Self { kind: PathKind::AnyFile, ..self },
            _ => self,
        }
    }

    /// The same state; of a file, only its mode and owner, since its content counts elsewhere.
    pub(crate) fn by_permissions(self) -> Self {
        match self.kind {
            PathKind::File(FileState { mode, user, group, .. }) => {
                Self { kind: PathKind::Permissions { mode, user, group }, ..self }
            }
            _ => self,
        }
    }

    pub(crate) fn is_by_permissions(&self) -> bool {
        matches!(self.kind, PathKind::Permissions { .. })
    }
}

impl Observation {
    /// The reason why the observation may be incomplete, with the system's error number if there is one.
    pub fn error(&self) -> Option<io::Error> {
        let why = self.incomplete.as_ref()?;
        let numbered = why.raw_os_error().map(io::Error::from_raw_os_error);
        Some(numbered.unwrap_or_else(|| io::Error::other(Arc::clone(why))))
    }

    /// Whether a signal interrupted a call before it was observed: another run may be observed completely.
    pub fn is_interrupted(&self) -> bool {
        self.error().is_some_and(|why| why.kind() == io::ErrorKind::Interrupted)
    }

    /// The paths that only one of two runs of the same program looked at, and did not find: names of temporary files,
    /// which differ in each run.
    pub fn made_up(&self, other: &Self) -> BTreeSet<PathBuf> {
        let only_in = |one: &Self, other: &Self| -> Vec<PathBuf> {
            let missing = one.looked_at.iter().filter(|(_, found)| found.is_nothing()).map(|(path, _)| path);
            let knows = |path: &PathBuf| {
                other.looked_at.contains_key(path)
                    || other.read.contains_key(path)
                    || other.temporary.contains(path)
            };
            missing.chain(&one.temporary).filter(|path| !knows(path)).cloned().collect()
        };
        opkeep_order::set(only_in(self, other).into_iter().chain(only_in(other, self)))
    }
}

/// Programs with the number of the process of each, sorted by these numbers: those that run at the same time have an order that does
/// not depend on their speed. Process numbers wrap around.
pub(super) fn in_order(began: Vec<i32>, programs: Vec<Program>) -> Vec<Program> {
    const MOST_PROCESSES: i32 = 1 << 22;
    let first = began.first().copied().unwrap_or_default();
    let since = began.into_iter().map(|process| (process - first).rem_euclid(MOST_PROCESSES));
    let mut programs: Vec<(i32, Program)> = since.zip(programs).collect();
    opkeep_order::by_key(&mut programs, |(since, _)| *since);
    programs.into_iter().map(|(_, program)| program).collect()
}

/// The properties of `path` with links followed, and the link's target if `path` itself is one. Without a link it is
/// one system call, because each compile ends with a look at all these paths of its toolchain.
fn metadata_and_link(path: &Path) -> (Option<Metadata>, Option<PathBuf>) {
    let fs = Fs::new();
    match fs.symlink_metadata(path) {
        Err(_) => (None, None),
        Ok(found) if found.is_symlink() => (fs.metadata(path).ok(), fs.read_link(path).ok()),
        Ok(found) => (Some(found), None),
    }
}

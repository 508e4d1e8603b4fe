//! What was seen of a program and all that it started.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opkeep_digest::Digest;
use opkeep_fs::Fs;
use serde::{Deserialize, Serialize};

/// What a program and all that it started looked at, outside their work directory.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// The programs in the order in which they were started. One that executes another is two.
    pub programs: Vec<Program>,
    /// What was found at each path that was opened for reading, or executed.
    pub read: BTreeMap<PathBuf, Found>,
    /// Directories whose entries were listed, with a digest of their names.
    pub listed: BTreeMap<PathBuf, Digest>,
    /// What was found at each path that was looked at otherwise: properties asked for, looked for in vain, or where a
    /// link leads.
    pub looked_at: BTreeMap<PathBuf, Found>,
    /// Paths at which the programs looked in vain before they made something there, and removed it: temporary files, or
    /// locks.
    pub temporary: BTreeSet<PathBuf>,
    /// Files outside the work directory that the programs made, and opened to be read. A [`Domain`](super::Domain) denies
    /// that unless it covers them.
    pub own: BTreeSet<PathBuf>,
    /// Why something may have been missed.
    pub incomplete: Option<Arc<io::Error>>,
    /// A program whose system calls are of another architecture, as those of 32-bit programs: these cannot be observed,
    /// and were denied.
    pub foreign: Option<PathBuf>,
}

/// One program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Its file; empty for a process that was forked and executed nothing.
    pub path: PathBuf,
    /// Its arguments, its name included.
    pub args: Vec<OsString>,
    /// Files that it read: itself, its interpreters, and what it opened, in the order of the first time.
    pub read: Vec<PathBuf>,
    /// Digests of the files in the work directory that it read, as they were when it opened them.
    pub intermediate: Vec<Digest>,
    /// Paths that it looked at without reading.
    pub looked_at: BTreeSet<PathBuf>,
    /// Directories that it listed.
    pub listed: BTreeSet<PathBuf>,
    /// Whether it is a script.
    pub is_script: bool,
    /// Whether another program executed it in its own process, and so ended.
    pub replaces_program: bool,
}

/// What was found at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    what: What,
    /// Where it leads, if it is a symbolic link.
    link: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum What {
    Nothing,
    File(FileState),
    /// A file of which nothing else matters.
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
    /// A pipe, a socket or a device: the bits of its kind and of its permissions.
    Other {
        mode: u32,
    },
}

/// What must be the same for a file to be the same, and what programs ask of one that they do not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileState {
    dev: u64,
    ino: u64,
    size: u64,
    /// Since 1970, in nanoseconds.
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
    /// What is found where nothing is.
    pub const fn nothing() -> Self {
        Self { what: What::Nothing, link: None }
    }

    /// Looks at `path` now.
    pub fn at(path: &Path) -> Self {
        let (found, link) = metadata_and_link(path);
        let what = match found {
            None => What::Nothing,
            Some(found) if found.is_file() => What::File(FileState::of(&found)),
            Some(found) if found.is_dir() => {
                let FileState { mode, user, group, .. } = FileState::of(&found);
                What::Directory { mode, user, group }
            }
            Some(found) => What::Other { mode: found.mode() },
        };
        Self { what, link }
    }

    /// Whether nothing is there.
    pub fn is_nothing(&self) -> bool {
        self.what == What::Nothing
    }

    /// Whether a file is there.
    pub fn is_file(&self) -> bool {
        matches!(self.what, What::File(_))
    }

    /// Whether a directory is there.
    pub fn is_directory(&self) -> bool {
        matches!(self.what, What::Directory { .. })
    }

    /// Whether it is a symbolic link.
    pub fn is_link(&self) -> bool {
        self.link.is_some()
    }

    /// What decides for a program that looks, in words: nothing, or the kind, permissions and owner; of a file that no
    /// program reads the size; and where a link leads.
    pub fn in_words(&self) -> String {
        let what = match &self.what {
            What::Nothing => "nothing".to_owned(),
            What::File(FileState { size, mode, user, group, .. }) => {
                format!("{size} bytes, {mode:o} of {user}:{group}")
            }
            What::AnyFile => "a file".to_owned(),
            What::Permissions { mode, user, group } => format!("{mode:o} of {user}:{group}"),
            What::Directory { mode, user, group } => format!("directory, {mode:o} of {user}:{group}"),
            What::Other { mode } => format!("no file, {mode:o}"),
        };
        match &self.link {
            Some(link) => format!("{what} by {}", link.display()),
            None => what,
        }
    }

    /// Whether the same file is there, unchanged.
    pub(crate) fn is_same(&self, path: &Path) -> bool {
        Self::at(path) == *self
    }

    /// Whether a program that looks, and does not read, finds the same: nothing, a directory, or a file of the same size,
    /// date, permissions and owner.
    pub(crate) fn still_holds(&self, path: &Path) -> bool {
        let (now, link) = metadata_and_link(path);
        let same = match (&self.what, now) {
            (What::Nothing, now) => now.is_none(),
            (What::File(then), Some(now)) => {
                let state = FileState::of(&now);
                let seen = |it: &FileState| (it.size, it.modified, it.mode, it.user, it.group);
                now.is_file() && seen(&state) == seen(then)
            }
            (What::AnyFile, Some(now)) => now.is_file(),
            (What::Permissions { mode, user, group }, Some(now)) => {
                let state = FileState::of(&now);
                now.is_file() && (state.mode, state.user, state.group) == (*mode, *user, *group)
            }
            (What::Directory { mode, user, group }, Some(now)) => {
                let state = FileState::of(&now);
                now.is_dir() && (state.mode, state.user, state.group) == (*mode, *user, *group)
            }
            (What::Other { mode }, Some(now)) => now.mode() == *mode,
            (_, None) => false,
        };
        same && link == self.link
    }

    /// The same, but of a file only that it is there: it is the toolchain's own doing.
    pub(crate) fn by_presence(self) -> Self {
        match self.what {
            What::File(_) | What::Permissions { .. } => Self { what: What::AnyFile, ..self },
            _ => self,
        }
    }

    /// The same, but of a file only its mode and owner: its content counts elsewhere.
    pub(crate) fn by_permissions(self) -> Self {
        match self.what {
            What::File(FileState { mode, user, group, .. }) => {
                Self { what: What::Permissions { mode, user, group }, ..self }
            }
            _ => self,
        }
    }

    pub(crate) fn is_by_permissions(&self) -> bool {
        matches!(self.what, What::Permissions { .. })
    }
}

impl Observation {
    /// Why something may have been missed: with the number of the system's error, where it has one.
    pub fn error(&self) -> Option<io::Error> {
        let why = self.incomplete.as_ref()?;
        let numbered = why.raw_os_error().map(io::Error::from_raw_os_error);
        Some(numbered.unwrap_or_else(|| io::Error::other(Arc::clone(why))))
    }

    /// The paths at which one of two runs of the same program found nothing, and the other did not look: names that it makes
    /// up, for temporary files, in each run others.
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
        only_in(self, other).into_iter().chain(only_in(other, self)).collect()
    }
}

/// What is at `path`, links followed, and where the link leads that is at `path` itself. Where there is no link this is one
/// call: after each compile all paths that its toolchain looked at are looked at.
fn metadata_and_link(path: &Path) -> (Option<Metadata>, Option<PathBuf>) {
    let fs = Fs::new();
    match fs.symlink_metadata(path) {
        Err(_) => (None, None),
        Ok(found) if found.is_symlink() => (fs.metadata(path).ok(), fs.read_link(path).ok()),
        Ok(found) => (Some(found), None),
    }
}

//! Calls to the file system, and the hook that watches them.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FsOp {
    /// Open a file to read it.
    Open,
    /// Open a directory.
    OpenDir,
    /// Open a file to lock or to change it, created if missing.
    OpenLock,
    /// Create a file, which must be missing.
    Create,
    /// Create a directory.
    CreateDir,
    /// Read the state of an open file.
    Stat,
    /// Read the state of a path.
    Look,
    /// List a directory.
    List,
    /// Read.
    Read,
    /// Write.
    Write,
    /// Truncate or extend a file.
    SetLength,
    /// Change a mode.
    SetMode,
    /// Change times.
    SetTime,
    /// Sync a file's data.
    SyncData,
    /// Sync a directory.
    SyncDir,
    /// Rename.
    Rename,
    /// Give a file a second name.
    Link,
    /// Remove a file.
    Remove,
    /// Remove an empty directory.
    RemoveDir,
    /// Remove a directory with its content.
    RemoveTree,
    /// Copy a file.
    Copy,
    /// Try to lock.
    Lock,
    /// Unlock.
    Unlock,
}

/// A call that is about to be made.
#[derive(Clone, Copy, Debug)]
pub struct FsCall<'a> {
    /// The operation.
    pub op: FsOp,
    /// The file or directory.
    pub path: &'a Path,
    /// The new name, for [`FsOp::Rename`] and [`FsOp::Link`].
    pub to: Option<&'a Path>,
    /// How many bytes, for [`FsOp::Write`] and [`FsOp::Read`].
    pub bytes: usize,
}

/// The decision of a [`Watcher`] about an [`FsCall`].
#[derive(Debug)]
pub enum Permit {
    /// The call is made.
    Go,
    /// The call is not made, and fails with this error.
    Fail(io::Error),
    /// Only so many bytes are read or written; a write then fails as on a full disk.
    Short(usize),
}

/// A hook that is called before each file operation. For tests.
pub trait Watcher: Send + Sync {
    /// Decides what happens to `call`.
    fn before(&self, call: &FsCall<'_>) -> Permit;
}

/// The watcher, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Watch(Option<Arc<dyn Watcher>>);

impl Watch {
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    pub(crate) fn new(watcher: Option<Arc<dyn Watcher>>) -> Self {
        Self(watcher)
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    /// Asks the watcher whether a call may be made.
    pub(crate) fn may(&self, op: FsOp, path: &Path) -> io::Result<()> {
        self.permit(op, path, None, 0).map(drop)
    }

    /// The same for a name in a directory. The path is joined only if there is a watcher.
    pub(crate) fn may_in(&self, op: FsOp, dir: &Path, name: impl AsRef<Path>) -> io::Result<()> {
        if self.is_watched() { self.may(op, &dir.join(name)) } else { Ok(()) }
    }

    /// Asks the watcher whether a call may be made; `Some` if it limits the number of bytes.
    pub(crate) fn permit(
        &self,
        op: FsOp,
        path: &Path,
        to: Option<&Path>,
        bytes: usize,
    ) -> io::Result<Option<usize>> {
        let Some(watcher) = &self.0 else { return Ok(None) };
        match watcher.before(&FsCall { op, path, to, bytes }) {
            Permit::Go => Ok(None),
            Permit::Fail(error) => Err(error),
            Permit::Short(bytes) => Ok(Some(bytes)),
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.is_watched()).finish()
    }
}

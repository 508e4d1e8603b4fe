//! Who hears of every access to the disk.

use std::io;
use std::path::Path;

/// A kind of access to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Op {
    /// Open a file to read it.
    Open,
    /// Open a folder.
    OpenFolder,
    /// Open a file to lock or to change it, made if need be.
    OpenLock,
    /// Create a file that must not be there.
    Create,
    /// Create a folder.
    CreateFolder,
    /// Look at an open file.
    Stat,
    /// Look at a path.
    Look,
    /// List a folder.
    List,
    /// Read.
    Read,
    /// Write.
    Write,
    /// Cut a file to a length.
    SetLength,
    /// Set who may do what.
    SetMode,
    /// Set when a file was last used.
    SetTime,
    /// Sync a file's data.
    SyncData,
    /// Sync a folder.
    SyncFolder,
    /// Rename.
    Rename,
    /// Give a file a second name.
    Link,
    /// Remove a file.
    Remove,
    /// Remove an empty folder.
    RemoveFolder,
    /// Try to lock.
    Lock,
    /// Unlock.
    Unlock,
}

/// An access to the disk that is about to be made.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// What is done.
    pub op: Op,
    /// To what.
    pub path: &'a Path,
    /// The new name, for [`Op::Rename`] and [`Op::Link`].
    pub to: Option<&'a Path>,
    /// How many bytes, for [`Op::Write`] and [`Op::Read`].
    pub bytes: usize,
}

/// What becomes of a [`Call`].
#[derive(Debug)]
pub enum Permit {
    /// It is made.
    Go,
    /// It is not made, and fails so.
    Fail(io::Error),
    /// Only so many bytes are read or written; a write then fails for want of space.
    Short(usize),
}

/// Hears of every access to the disk before it is made. For tests.
pub trait Watcher: Send + Sync {
    /// Says what becomes of `call`.
    fn before(&self, call: &Call<'_>) -> Permit;
}

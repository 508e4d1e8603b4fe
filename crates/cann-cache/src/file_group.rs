//! Groups of files that are deleted together, and the order of the deletion.

use opkeep_cann_meta::file_names::{FileSet, NameClass};

use crate::disk::ListedState;
use crate::usage::{FileGroupKind, Usage};

/// A group of files that are deleted together, such as the files of one kernel.
#[derive(Debug)]
pub(crate) struct FileGroup {
    pub(crate) kind: FileGroupKind,
    /// The index of the group's directory in the listing.
    pub(crate) dir: usize,
    pub(crate) stem: Box<str>,
    /// The files other than locks; after [`order`](Self::order), in the order of deletion.
    pub(crate) files: Vec<(GroupFile, ListedState)>,
    /// The lock files, which are locked while the group is deleted.
    pub(crate) locks: Vec<(GroupFile, ListedState)>,
    /// Files whose absence makes the group an orphan or a stale lock. If one of them exists when the group is to be
    /// deleted, the group stays.
    pub(crate) missing: Vec<GroupFile>,
}

/// The name of a file of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupFile {
    /// The stem of the group with a suffix.
    Own(FileSet),
    /// Another name, in full.
    Other(Box<str>),
}

impl GroupFile {
    pub(crate) fn name(&self, stem: &str) -> String {
        match self {
            Self::Own(member) => member.name(stem),
            Self::Other(name) => name.to_string(),
        }
    }
}

impl FileGroup {
    pub(crate) fn new(kind: FileGroupKind, dir: usize, stem: &str) -> Self {
        let (files, locks, missing) = (Vec::new(), Vec::new(), Vec::new());
        Self { kind, dir, stem: stem.into(), files, locks, missing }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().chain(&self.locks).map(|(_, state)| state.size).sum()
    }

    /// Returns the time of the last use of the group, in nanoseconds since 1970. For a kernel's description and a
    /// precompile, that is the access time, which CANN sets, or a later write; for all other files, the last write.
    /// Locks count only in a group without other files.
    pub(crate) fn used(&self) -> i64 {
        let time = |(file, state): &(GroupFile, ListedState)| match (self.kind, file) {
            (FileGroupKind::Kernel, GroupFile::Own(FileSet::JSON)) | (FileGroupKind::Precompile, _) => {
                state.used()
            }
            _ => state.mtime,
        };
        let locked = || self.locks.iter().map(|(_, state)| state.mtime).max();
        self.files.iter().map(time).max().or_else(locked).unwrap_or(i64::MAX)
    }

    pub(crate) fn count(&self, usage: &mut Usage) {
        usage.add(self.kind, (self.files.len() + self.locks.len()) as u64, self.bytes());
    }

    /// Sorts the files into the order of deletion.
    ///
    /// The description is first, since CANN treats a kernel without one as missing. The object is last: while the
    /// object exists, CANN stores no kernel under its name, so a new kernel cannot be deleted instead of the old one.
    /// If the process is killed between the two, the remaining files are an orphan or a precompile, which the next
    /// collection deletes.
    pub(crate) fn order(&mut self) {
        opkeep_order::by_key(&mut self.files, |(file, _)| match file {
            GroupFile::Own(member) => position(*member),
            GroupFile::Other(name) => match NameClass::in_cann_cache(name) {
                NameClass::Kernel(_, FileSet::JSON) => 1,
                NameClass::Kernel(_, member) => position(member),
                _ => position(FileSet::O),
            },
        });
        self.files.shrink_to_fit();
    }
}

fn position(member: FileSet) -> u8 {
    match member {
        FileSet::JSON => 0,
        FileSet::HEADER => 2,
        FileSet::PRE => 3,
        _ => 4,
    }
}

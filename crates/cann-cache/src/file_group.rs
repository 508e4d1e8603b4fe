//! Files that are deleted together, and their order.

use opkeep_cann_meta::file_names::{FileSet, NameClass};

use crate::disk::Stamp;
use crate::usage::{FileGroupKind, Usage};

/// A kernel with all its files, or the remains of one.
#[derive(Debug)]
pub(crate) struct FileGroup {
    pub(crate) kind: FileGroupKind,
    /// The index of its directory in the listing.
    pub(crate) dir: usize,
    pub(crate) stem: Box<str>,
    /// Its files, in the order in which they are deleted.
    pub(crate) files: Vec<(GroupFile, Stamp)>,
    /// Its locks, which are held meanwhile.
    pub(crate) locks: Vec<(GroupFile, Stamp)>,
    /// Files whose absence makes this an orphan. If one of them exists by now, it is none.
    pub(crate) missing: Vec<GroupFile>,
}

/// The name of a file of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupFile {
    /// A name made of the stem.
    Own(FileSet),
    /// Another name.
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
        self.files.iter().chain(&self.locks).map(|(_, stamp)| stamp.size).sum()
    }

    /// The time of its last use, in nanoseconds since 1970: the access time of a kernel's description, which CANN sets, and
    /// of a precompile; the time of writing of everything else.
    pub(crate) fn used(&self) -> i64 {
        let time = |(file, stamp): &(GroupFile, Stamp)| match (self.kind, file) {
            (FileGroupKind::Kernel, GroupFile::Own(FileSet::JSON)) | (FileGroupKind::Precompile, _) => {
                stamp.used()
            }
            _ => stamp.mtime,
        };
        let locked = || self.locks.iter().map(|(_, stamp)| stamp.mtime).max();
        self.files.iter().map(time).max().or_else(locked).unwrap_or(i64::MAX)
    }

    pub(crate) fn count(&self, usage: &mut Usage) {
        usage.add(self.kind, (self.files.len() + self.locks.len()) as u64, self.bytes());
    }

    /// Orders the files for deletion.
    ///
    /// The description is first: without it the kernel is missing for CANN. The object is last: while it exists, CANN
    /// stores nothing under its name, so no new kernel is deleted instead of the old one. If the process is killed between
    /// the two, the remaining files are an orphan or a precompile, which the next collection deletes.
    pub(crate) fn order(&mut self) {
        self.files.sort_by_cached_key(|(file, _)| match file {
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

//! What goes as a whole, or stays: its files, and in which order they go.

use crate::gc::disk::Stamp;
use crate::gc::usage::{FileGroupKind, Usage};
use crate::scan::cache_dir::Kind;
use crate::scan::file_set::{FileSet, NameClass, class};

/// A kernel with all that belongs to it, or what is left of one.
#[derive(Debug)]
pub(crate) struct FileGroup {
    pub(crate) what: FileGroupKind,
    /// In which folder, by its place in the listing.
    pub(crate) shelf: usize,
    pub(crate) stem: Box<str>,
    /// Its files, in the order in which they go.
    pub(crate) files: Vec<(File, Stamp)>,
    /// Its locks, which are held meanwhile.
    pub(crate) locks: Vec<(File, Stamp)>,
    /// Files that were missing, so that this is a rest; should one be there now, it is none.
    pub(crate) missing: Vec<File>,
}

/// The name of a file of a thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum File {
    /// The stem with what is put before and behind it.
    Own(FileSet),
    /// Another.
    Other(Box<str>),
}

impl File {
    pub(crate) fn name(&self, stem: &str) -> String {
        match self {
            Self::Own(member) => member.files(stem, None).pop().unwrap_or_default(),
            Self::Other(name) => name.to_string(),
        }
    }
}

impl FileGroup {
    pub(crate) fn new(what: FileGroupKind, shelf: usize, stem: &str) -> Self {
        let (files, locks, missing) = (Vec::new(), Vec::new(), Vec::new());
        Self { what, shelf, stem: stem.into(), files, locks, missing }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().chain(&self.locks).map(|(_, stamp)| stamp.size).sum()
    }

    /// When it was last used, in nanoseconds since 1970. Of a kernel the time of access counts that CANN sets, that of
    /// its description; of what nobody uses, only when it was written.
    pub(crate) fn used(&self) -> i64 {
        let time = |(file, stamp): &(File, Stamp)| match (self.what, file) {
            (FileGroupKind::Kernel, File::Own(FileSet::JSON)) | (FileGroupKind::Trial, _) => stamp.used(),
            _ => stamp.mtime,
        };
        let locked = || self.locks.iter().map(|(_, stamp)| stamp.mtime).max();
        self.files.iter().map(time).max().or_else(locked).unwrap_or(i64::MAX)
    }

    pub(crate) fn count(&self, usage: &mut Usage) {
        usage.add(self.what, (self.files.len() + self.locks.len()) as u64, self.bytes());
    }

    /// Puts the files into the order in which they go. The description is first: from then on CANN takes the kernel for
    /// missing. The object is last: while it is there, CANN stores nothing under that name, so nothing new is deleted in
    /// place of the old. Whatever is left if we are killed in between is an orphan or a trial compile, and goes the next
    /// time.
    pub(crate) fn order(&mut self) {
        self.files.sort_by_cached_key(|(file, _)| match file {
            File::Own(member) => rank(*member),
            File::Other(name) => match class(name, Kind::Cann) {
                NameClass::Of(_, FileSet::JSON) => 1,
                NameClass::Of(_, member) => rank(member),
                _ => rank(FileSet::O),
            },
        });
        self.files.shrink_to_fit();
    }
}

fn rank(member: FileSet) -> u8 {
    match member {
        FileSet::JSON => 0,
        FileSet::HEADER => 2,
        FileSet::PRE => 3,
        _ => 4,
    }
}

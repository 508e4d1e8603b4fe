//! The number and size of the files in a cache, by kind.

/// The number of some files, and their total size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileTotals {
    /// The number of files.
    pub files: u64,
    /// The total length of the files in bytes, as CANN counts it: not the size of the blocks that they occupy.
    pub bytes: u64,
}

impl FileTotals {
    pub(crate) fn add(&mut self, files: u64, bytes: u64) {
        self.files += files;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn plus(self, other: Self) -> Self {
        Self { files: self.files + other.files, bytes: self.bytes.saturating_add(other.bytes) }
    }

    fn without(self, other: Self) -> Self {
        Self { files: self.files.saturating_sub(other.files), bytes: self.bytes.saturating_sub(other.bytes) }
    }
}

/// The kinds of file groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FileGroupKind {
    /// A kernel with all its files: description, object, header, parts, precompile, locks.
    Kernel,
    /// The description of a precompile, `_pre.json`, whose kernel is missing.
    Precompile,
    /// The remains of a kernel: an object, header or part without its description, or a description without its object.
    Orphan,
    /// A temporary file.
    Temp,
    /// The lock of a missing file.
    Lock,
}

impl FileGroupKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Kernel, Self::Precompile, Self::Orphan, Self::Temp, Self::Lock];

    /// Returns the name of the kind in JSON output, in the plural.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernels",
            Self::Precompile => "trials",
            Self::Orphan => "orphans",
            Self::Temp => "temps",
            Self::Lock => "locks",
        }
    }
}

/// The numbers of groups and files in a cache, or in a part of it, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    counts: [(u64, FileTotals); FileGroupKind::ALL.len()],
    /// Files that are in no group, and stay.
    pub other: FileTotals,
}

impl Usage {
    /// Returns the number of groups of a kind.
    pub fn count(&self, kind: FileGroupKind) -> u64 {
        self.counts[kind as usize].0
    }

    /// Returns the number and size of the files of a kind.
    pub fn totals(&self, kind: FileGroupKind) -> FileTotals {
        self.counts[kind as usize].1
    }

    /// Returns the number and size of all files.
    pub fn total(&self) -> FileTotals {
        self.counts.iter().fold(self.other, |sum, (_, totals)| sum.plus(*totals))
    }

    /// Counts a group and its files.
    pub(crate) fn add(&mut self, kind: FileGroupKind, files: u64, bytes: u64) {
        self.add_files(kind, files, bytes);
        self.counts[kind as usize].0 += 1;
    }

    /// Counts files without a group.
    pub(crate) fn add_files(&mut self, kind: FileGroupKind, files: u64, bytes: u64) {
        self.counts[kind as usize].1.add(files, bytes);
    }

    pub(crate) fn without(&self, removed: &Self) -> Self {
        let mut left = *self;
        for (left, removed) in left.counts.iter_mut().zip(removed.counts) {
            *left = (left.0.saturating_sub(removed.0), left.1.without(removed.1));
        }
        left.other = left.other.without(removed.other);
        left
    }
}

//! What there is in a cache, by what it is.

/// Some files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many.
    pub files: u64,
    /// Their bytes, as CANN counts them: what they hold, not what they take on the disk.
    pub bytes: u64,
}

impl Amount {
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

/// What making room tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FileGroupKind {
    /// A kernel with all that belongs to it: description, object, header, parts, trial compile, locks.
    Kernel,
    /// What a trial compile said of a kernel that is not there: `_pre.json`.
    Trial,
    /// What is left of a kernel: an object, header or part without its description, a description without its object.
    Orphan,
    /// A file that was to be renamed.
    Temp,
    /// The lock of something that is not there.
    Lock,
}

impl FileGroupKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Kernel, Self::Trial, Self::Orphan, Self::Temp, Self::Lock];

    /// A word for programs, in the plural.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernels",
            Self::Trial => "trials",
            Self::Orphan => "orphans",
            Self::Temp => "temps",
            Self::Lock => "locks",
        }
    }
}

/// What there is of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    counts: [(u64, Amount); FileGroupKind::ALL.len()],
    /// Files that are none of these, and stay.
    pub other: Amount,
}

impl Usage {
    /// How many there are of `what`.
    pub fn count(&self, what: FileGroupKind) -> u64 {
        self.counts[what as usize].0
    }

    /// Their files.
    pub fn amount(&self, what: FileGroupKind) -> Amount {
        self.counts[what as usize].1
    }

    /// All files.
    pub fn total(&self) -> Amount {
        self.counts.iter().fold(self.other, |sum, (_, amount)| sum.plus(*amount))
    }

    /// Adds one of `what`, with so many files and bytes.
    pub(crate) fn add(&mut self, what: FileGroupKind, files: u64, bytes: u64) {
        self.add_files(what, files, bytes);
        self.counts[what as usize].0 += 1;
    }

    /// Adds files of `what`, which itself stays or was counted.
    pub(crate) fn add_files(&mut self, what: FileGroupKind, files: u64, bytes: u64) {
        self.counts[what as usize].1.add(files, bytes);
    }

    pub(crate) fn without(&self, removed: &Self) -> Self {
        let mut left = *self;
        for (left, gone) in left.counts.iter_mut().zip(removed.counts) {
            *left = (left.0.saturating_sub(gone.0), left.1.without(gone.1));
        }
        left.other = left.other.without(removed.other);
        left
    }
}

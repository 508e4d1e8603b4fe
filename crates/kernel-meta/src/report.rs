//! The outcome of writing a view.

use std::path::PathBuf;

use crate::left::{DirectoryRisk, LeftKernel};

/// What [`View::materialise`](crate::View::materialise) did. Kernels are counted by stem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ViewReport {
    /// Kernels of which at least one file was written.
    pub written: usize,
    /// Kernels of which every file was as it should be.
    pub intact: usize,
    /// Superseded and withdrawn kernels that were removed.
    pub removed: usize,
    /// Files that were read to be compared. Those that the manifest vouches for are not.
    pub read: usize,
    /// Whether other writers were kept out. False on a file system without locks: names are still replaced whole.
    pub locked: bool,
    /// Whether the manifest could be kept. If not, the next call reads every file, and may not know what is ours.
    pub recorded: bool,
    /// Kernels that were not written, because of what stands under their names or beside them.
    pub left: Vec<LeftKernel>,
    /// Where what was replaced is kept, if anything that is not ours was.
    pub quarantine: Option<PathBuf>,
    /// Files that had a kernel's name and could not get it back, by their names now: the name is taken, or the kernel's other
    /// file does not fit. They stay in the directory, and no call removes them.
    pub displaced: Vec<String>,
    /// Why the directory cannot be relied on.
    pub risk: Option<DirectoryRisk>,
}

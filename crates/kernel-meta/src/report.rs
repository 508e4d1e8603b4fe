//! The report of a write to a view.

use std::path::PathBuf;

use crate::left::{DirectoryRisk, LeftKernel};

/// The result of [`View::materialise`](crate::View::materialise). Kernels are counted by stem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ViewReport {
    /// Kernels of which at least one file was written.
    pub written: usize,
    /// Kernels whose files all were intact.
    pub intact: usize,
    /// Superseded and withdrawn kernels that were removed.
    pub removed: usize,
    /// Files that were read for a comparison. The manifest makes that unnecessary for most.
    pub read: usize,
    /// Whether other writers were kept out. False on a file system without locks: names are still replaced whole.
    pub locked: bool,
    /// Whether the manifest could be kept. If not, the next call reads every file, and may not know what is ours.
    pub recorded: bool,
    /// Kernels that were not written, because of files with their names or beside them.
    pub left: Vec<LeftKernel>,
    /// The quarantine of the replaced foreign files, if there are any.
    pub quarantine: Option<PathBuf>,
    /// Displaced files that could not be restored, by their current names: the name is taken, or the kernel's other file
    /// does not fit. They stay in the directory, and no call removes them.
    pub displaced: Vec<String>,
    /// Why the directory cannot be relied on.
    pub risk: Option<DirectoryRisk>,
}

//! The report of a write to a view.

use std::path::PathBuf;

use crate::left::{DirectoryRisk, LeftKernel};

/// The result of [`View::materialise`](crate::View::materialise). Kernels are counted by stem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ViewReport {
    /// The number of kernels of which at least one file was written.
    pub written: usize,
    /// The number of kernels whose files were all intact.
    pub intact: usize,
    /// The number of superseded or withdrawn kernels that were removed.
    pub removed: usize,
    /// The number of files that were read for a comparison. Most files need no reading, since the manifest has their
    /// states.
    pub read: usize,
    /// Whether this process held the directory's lock. False on a file system without locks: even then, each file is
    /// replaced as a whole.
    pub locked: bool,
    /// Whether the manifest could be written. If not, the next call reads every file, and may not know which files are
    /// ours.
    pub recorded: bool,
    /// Kernels that were not written, because of existing files with their names or in their directory.
    pub left: Vec<LeftKernel>,
    /// The quarantine of the replaced foreign files, if there are any.
    pub quarantine: Option<PathBuf>,
    /// The current names of displaced files that could not be restored: the former name is taken, or the kernel's other
    /// file does not fit. Also the files of outdated kernels of ours that this call displaced because they could not be
    /// quarantined. No call removes the last file with its content.
    pub displaced: Vec<String>,
    /// The directory in which another user may write, if there is one: the kernels cannot be relied on.
    pub risk: Option<DirectoryRisk>,
}

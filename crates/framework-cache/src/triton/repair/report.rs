//! The options and the outcome of a repair.

use std::path::PathBuf;

use opkeep_digest::Digest;
use opkeep_kernel_meta::RunId;
use opkeep_store::Entry;

use crate::quarantine::SkipCause;
use crate::triton::find::KeyDir;
use crate::triton::stored::StoredGroup;

/// The options of [`repair`](super::repair()).
#[non_exhaustive]
pub struct TritonRepairOptions<'a> {
    /// The run of repair.
    pub run: &'a RunId,
    /// Returns the entry of a group, if it is the valid one of its key.
    pub entry: &'a dyn Fn(&StoredGroup) -> Option<Entry>,
    /// Whether to quarantine also damaged kernels that a process may be compiling again: without a list that can be read, and
    /// written within half an hour.
    pub force: bool,
    /// Whether to change nothing, and to report what would be done.
    pub dry_run: bool,
}

impl<'a> TritonRepairOptions<'a> {
    /// Returns the options of a repair in the run `run`, with the entries that `entry` returns.
    pub fn new(run: &'a RunId, entry: &'a dyn Fn(&StoredGroup) -> Option<Entry>) -> Self {
        Self { run, entry, force: false, dry_run: false }
    }
}

/// What was done in one directory of a key.
#[derive(Debug)]
#[non_exhaustive]
pub struct RepairedDir {
    /// The directory.
    pub dir: KeyDir,
    /// How many kernels, launchers and the like it has.
    pub groups: usize,
    /// How many of them needed no repair.
    pub intact: usize,
    /// Those that are as in the store now; in a dry run, those that would be.
    pub written: Vec<WrittenGroup>,
    /// Those that are quarantined now; in a dry run, those that would be.
    pub quarantined: Vec<QuarantinedGroup>,
    /// Those that need a repair, and stay.
    pub skipped: Vec<SkippedGroup>,
    /// The directory with the files that were moved or replaced, if there are any.
    pub quarantine: Option<PathBuf>,
}

/// A group whose files were written again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenGroup {
    /// The name of the group.
    pub name: String,
    /// The files that were written, in order.
    pub files: Vec<String>,
    /// The key of the entry that has them.
    pub entry: Digest,
}

/// A group that was quarantined.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuarantinedGroup {
    /// The name of the group.
    pub name: String,
    /// The files that were moved, in the order of the moves.
    pub files: Vec<String>,
    /// Its problem.
    pub reason: String,
}

/// A group that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedGroup {
    /// The name of the group.
    pub name: String,
    /// Its problem.
    pub reason: String,
    /// Why it stays.
    pub cause: SkipCause,
}

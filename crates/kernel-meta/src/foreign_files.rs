//! The judgement of files that a view did not write.

use std::fmt;
use std::path::{Path, PathBuf};

use opkeep_digest::Digest;
use opkeep_fs::{Dir, FileState, Fs};

use crate::{ForeignKernel, KernelFiles, LeftReason, RunId};

/// Judges files that a [`View`](crate::View) did not write, and keeps those that it replaces.
pub trait ForeignFiles: fmt::Debug + Send + Sync {
    /// Judges the files of the kernel's name in `dir`. `is_ours` says whether one of them is ours, by the manifest.
    /// Returns what is wrong with them if they are structurally damaged, so that `kernel` may replace them.
    ///
    /// # Errors
    /// The reason for which they are left as they are.
    fn judge(&self, dir: &Dir, kernel: &KernelFiles<'_>, is_ours: bool) -> Result<String, LeftReason>;

    /// The problem of a descriptor (`.info`), if it is damaged.
    fn descriptor_problem(&self, descriptor: &[u8]) -> Option<String>;

    /// Moves the files of `sets` out of the directory at `path`, whose build lock the caller holds, so that they can be
    /// restored. Unless `force`, files that a process has open are left: it may still write to them.
    ///
    /// # Errors
    /// Nothing was moved, for this reason.
    fn quarantine(
        &self,
        fs: &Fs,
        path: &Path,
        run: &RunId,
        sets: &[Replaced],
        force: bool,
    ) -> Result<QuarantineOutcome, String>;
}

/// The outcome of [`ForeignFiles::quarantine`].
#[derive(Debug, Default)]
pub struct QuarantineOutcome {
    /// For each set, in the order given, why none of its files was moved, if so.
    pub outcomes: Vec<Result<(), LeftReason>>,
    /// The directory of the files that were moved, if any was.
    pub dir: Option<PathBuf>,
}

/// The files of one kernel that a view is about to replace.
#[derive(Debug)]
pub struct Replaced {
    /// The files to quarantine, in the state in which they were judged and in this order: the description first.
    pub files: Vec<(String, FileState)>,
    /// Files that the view writes under free names.
    pub made: Vec<String>,
    /// The object and its digest, if it stays.
    pub stays: Option<(String, Digest)>,
    /// The kernel's line in the manifest until now.
    pub listed: Option<String>,
    /// Why they are replaced.
    pub why: String,
}

/// Leaves all files that a view did not write.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeaveForeign;

impl ForeignFiles for LeaveForeign {
    fn judge(&self, _: &Dir, _: &KernelFiles<'_>, _: bool) -> Result<String, LeftReason> {
        Err(LeftReason::Foreign(ForeignKernel::default()))
    }

    fn descriptor_problem(&self, _: &[u8]) -> Option<String> {
        None
    }

    fn quarantine(
        &self,
        _: &Fs,
        _: &Path,
        _: &RunId,
        _: &[Replaced],
        _: bool,
    ) -> Result<QuarantineOutcome, String> {
        Err("this view has no quarantine".to_owned())
    }
}

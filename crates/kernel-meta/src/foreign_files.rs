//! The judgement and the quarantine of files that a view did not write.

use std::fmt;
use std::path::{Path, PathBuf};

use opkeep_digest::Digest;
use opkeep_fs::{Dir, FileState, Fs};

use crate::{ForeignKernel, KernelFiles, LeftReason, RunId};

/// Judges files that a [`View`](crate::View) did not write, and quarantines those that the view replaces.
pub trait ForeignFiles: fmt::Debug + Send + Sync {
    /// Judges the files with the kernel's name in `dir`. `is_ours` states whether one of them is ours, by the manifest.
    /// If they are structurally damaged, so that `kernel` may replace them, returns their problem.
    ///
    /// # Errors
    /// The reason why the files must stay.
    fn judge(&self, dir: &Dir, kernel: &KernelFiles<'_>, is_ours: bool) -> Result<String, LeftReason>;

    /// Returns the problem of a descriptor (`.info`) if it is damaged.
    fn descriptor_problem(&self, descriptor: &[u8]) -> Option<String>;

    /// Moves the files of `sets` out of the directory at `path`, whose build lock the caller holds, so that they can be
    /// restored. Unless `force`, files that a process has open are left, since it may still write to them.
    ///
    /// # Errors
    /// The reason why no file was moved.
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
    /// The outcome of each set, in the given order: an error is the reason why none of its files was moved.
    pub outcomes: Vec<Result<(), LeftReason>>,
    /// The directory to which files were moved, if any were.
    pub dir: Option<PathBuf>,
}

/// The files of one kernel that a view is about to replace.
#[derive(Debug)]
pub struct Replaced {
    /// The files to quarantine with the states in which they were judged, in the order of the moves: the description
    /// first.
    pub files: Vec<(String, FileState)>,
    /// The names of files that the view writes where none exist.
    pub made: Vec<String>,
    /// The name and digest of the object, if it stays.
    pub stays: Option<(String, Digest)>,
    /// The kernel's current line in the manifest.
    pub listed: Option<String>,
    /// The reason for the replacement.
    pub why: String,
}

/// An implementation that leaves all foreign files.
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

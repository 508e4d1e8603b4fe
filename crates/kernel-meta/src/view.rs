//! The directory from which a framework's rank reads its kernels.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use opkeep_artifact::is_safe_file_name;

use crate::checked::Checked;
use crate::content::{KernelFiles, RetiredKernel};
use crate::decide;
use crate::error::ViewError;
use crate::foreign_files::{ForeignFiles, LeaveForeign};
use crate::manifest;
use crate::materialise;
use crate::occupant::Policy;
use crate::report::ViewReport;
use crate::run_id::RunId;
use crate::stored::{NoStore, StoredKernels, stored_digests};
use crate::view_dir::ViewDir;
use opkeep_fs::Fs;

/// The maximum time that a writer waits for another one, unless [`View::with_lock_timeout`] sets another.
pub const DEFAULT_LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// The directory from which a framework's rank reads its kernels.
#[derive(Clone, Debug)]
pub struct View {
    dir: PathBuf,
    lock_timeout: Duration,
    policy: Policy,
    foreign: Arc<dyn ForeignFiles>,
    run: RunId,
    fs: Fs,
}

impl View {
    /// Returns the view of the rank `rank` under `base`, and creates its directories.
    ///
    /// A relative `base` is resolved against the current working directory.
    ///
    /// # Errors
    /// [`ViewError`], if `rank` cannot be a part of a directory's name, or if the directory cannot be created and
    /// written.
    pub fn open(base: &Path, rank: &str) -> Result<Self, ViewError> {
        let view = Self::of(base, rank)?;
        ViewDir::open(&view.fs, &view.dir)?;
        Ok(view)
    }

    /// Returns the view of the rank `rank` under `base`. Nothing is created before kernels are written.
    ///
    /// # Errors
    /// [`ViewError`], if `rank` cannot be a part of a directory's name.
    pub fn of(base: &Path, rank: &str) -> Result<Self, ViewError> {
        if !is_safe_file_name(rank) {
            return Err(ViewError::Rank { rank: rank.chars().take(80).collect() });
        }
        Self::at(&base.join(format!("rank_{rank}")).join("kernel_meta"))
    }

    /// Returns the view in the directory `dir`. Nothing is created before kernels are written.
    ///
    /// # Errors
    /// [`ViewError`], if a relative `dir` cannot be resolved.
    pub fn at(dir: &Path) -> Result<Self, ViewError> {
        let dir = std::path::absolute(dir).map_err(|source| ViewError::io("locate", dir, source))?;
        let (policy, run, fs) = (Policy::default(), RunId::now(), Fs::new());
        Ok(Self { dir, lock_timeout: DEFAULT_LOCK_TIMEOUT, policy, foreign: Arc::new(LeaveForeign), run, fs })
    }

    /// Sets the maximum time to wait for other writers.
    #[must_use]
    pub fn with_lock_timeout(self, lock_timeout: Duration) -> Self {
        Self { lock_timeout, ..self }
    }

    /// Sets whether foreign kernels are replaced, too. The replaced files go to quarantine.
    #[must_use]
    pub fn with_replace(mut self, replace: bool) -> Self {
        self.policy.replace = replace;
        self
    }

    /// Sets whether the target of the kernels was guessed, not chosen by the user: then, in a directory with foreign
    /// kernels, only kernels for the chips that their descriptors name are written.
    #[must_use]
    pub fn with_guessed_target(mut self, guessed: bool) -> Self {
        self.policy.guessed = guessed;
        self
    }

    /// Sets the judge and keeper of files that the view did not write. By default, all such files are left.
    #[must_use]
    pub fn with_foreign_files(mut self, foreign: Arc<dyn ForeignFiles>) -> Self {
        self.foreign = foreign;
        self
    }

    /// Sets the run under which replaced files are quarantined, so that one undo restores all files of the run.
    #[must_use]
    pub fn with_run(mut self, run: RunId) -> Self {
        self.run = run;
        self
    }

    /// Sets the file system through which the view makes changes: a test can watch each call, and fail it.
    #[must_use]
    pub fn with_fs(self, fs: Fs) -> Self {
        Self { fs, ..self }
    }

    /// Returns the directory, as an absolute path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes those files of `kernels` to the directory that are missing or damaged, or of which an older version of
    /// ours exists. Removes superseded kernels. Foreign files are left and reported.
    ///
    /// The kernels are written under one lock. Any number of processes may call this repeatedly; a deleted directory is
    /// created again. A stem may be given more than once, for several slots, with the same files.
    ///
    /// # Errors
    /// [`ViewError`]. Kernels before the failed one may have been written.
    pub fn materialise(&self, kernels: &[KernelFiles<'_>]) -> Result<ViewReport, ViewError> {
        self.replace(kernels, &[])
    }

    /// Does the same as [`materialise`](Self::materialise), and removes our files under the names of `withdrawn`:
    /// kernels that could not be built, so that no older kernel is found in their place. The kernel that belongs under
    /// such a name stays if it exists, and so do foreign files.
    ///
    /// # Errors
    /// As [`materialise`](Self::materialise).
    pub fn replace(
        &self,
        kernels: &[KernelFiles<'_>],
        withdrawn: &[RetiredKernel<'_>],
    ) -> Result<ViewReport, ViewError> {
        self.replace_adopting(kernels, withdrawn, &NoStore)
    }

    /// Does the same as [`replace`](Self::replace), and treats kernels that are in `stored` as ours even if the
    /// manifest does not list them: it may be lost. Such kernels go to quarantine when they are replaced.
    ///
    /// # Errors
    /// As [`materialise`](Self::materialise).
    pub fn replace_adopting(
        &self,
        kernels: &[KernelFiles<'_>],
        withdrawn: &[RetiredKernel<'_>],
        stored: &dyn StoredKernels,
    ) -> Result<ViewReport, ViewError> {
        let kernels = Checked::new(kernels)?;
        if kernels.is_empty() && !self.may_have(withdrawn, stored)? {
            return Ok(ViewReport { recorded: true, ..ViewReport::default() });
        }
        if let Some(report) = self.leave_all(&kernels, stored)? {
            return Ok(report);
        }
        let dir = ViewDir::enter(&self.fs, &self.dir, self.lock_timeout)?;
        let (policy, run, now) = (self.policy, &self.run, dir.now());
        let foreign = &*self.foreign;
        let order = materialise::Order { withdrawn, policy, stored, foreign, run, now };
        materialise::materialise(&dir, &kernels, &order)
    }

    /// Returns whether the directory may hold kernels of ours under these names.
    fn may_have(
        &self,
        withdrawn: &[RetiredKernel<'_>],
        stored: &dyn StoredKernels,
    ) -> Result<bool, ViewError> {
        if withdrawn.is_empty() {
            return Ok(false);
        }
        let Some(dir) = ViewDir::look(&self.dir)? else { return Ok(false) };
        // If that cannot be known, the directory is locked, and looked at again.
        let may_be = |kernel: &RetiredKernel<'_>| stored_digests(&dir, kernel.stem, stored) != Ok(None);
        Ok(dir.exists(manifest::NAME) || withdrawn.iter().any(may_be))
    }

    /// Returns the report if all `kernels` are left because of foreign kernels in the directory. Then not even a lock
    /// file is created.
    fn leave_all(
        &self,
        kernels: &Checked<'_>,
        stored: &dyn StoredKernels,
    ) -> Result<Option<ViewReport>, ViewError> {
        if !self.policy.guessed || self.policy.replace || !kernels.are_all_for_other_chips() {
            return Ok(None);
        }
        let Some(dir) = ViewDir::look(&self.dir)? else { return Ok(None) };
        decide::leave_all(&dir, kernels, self.policy, stored, &*self.foreign)
    }
}

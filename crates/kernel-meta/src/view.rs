//! The directory where a framework's rank reads its kernels.

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
use crate::stored::{NoStore, StoredKernels};
use crate::view_dir::ViewDir;
use opkeep_fs::Fs;

/// How long a writer waits for another one, unless [`View::with_lock_timeout`] says otherwise.
pub const DEFAULT_LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// The directory where a framework's rank reads its kernels.
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
    /// The view of the rank `rank` under `base`, with its directories created.
    ///
    /// A relative `base` is resolved now.
    ///
    /// # Errors
    /// [`ViewError`], if `rank` cannot be part of a directory's name, or if the directory cannot be created and written.
    pub fn open(base: &Path, rank: &str) -> Result<Self, ViewError> {
        let view = Self::of(base, rank)?;
        ViewDir::open(&view.fs, &view.dir)?;
        Ok(view)
    }

    /// The view of the rank `rank` under `base`. Nothing is made before kernels are placed there.
    ///
    /// # Errors
    /// [`ViewError`], if `rank` cannot be part of a directory's name.
    pub fn of(base: &Path, rank: &str) -> Result<Self, ViewError> {
        if !is_safe_file_name(rank) {
            return Err(ViewError::Rank { rank: rank.chars().take(80).collect() });
        }
        Self::at(&base.join(format!("rank_{rank}")).join("kernel_meta"))
    }

    /// The view that is the directory `dir`. Nothing is made before kernels are placed there.
    ///
    /// # Errors
    /// [`ViewError`], if a relative `dir` cannot be located.
    pub fn at(dir: &Path) -> Result<Self, ViewError> {
        let dir = std::path::absolute(dir).map_err(|source| ViewError::io("locate", dir, source))?;
        let (policy, run, fs) = (Policy::default(), RunId::now(), Fs::new());
        Ok(Self { dir, lock_timeout: DEFAULT_LOCK_TIMEOUT, policy, foreign: Arc::new(LeaveForeign), run, fs })
    }

    /// The same view, waiting at most `lock_timeout` for other writers.
    #[must_use]
    pub fn with_lock_timeout(self, lock_timeout: Duration) -> Self {
        Self { lock_timeout, ..self }
    }

    /// The same view, in which kernels that are not ours are replaced, too. What is replaced goes to quarantine.
    #[must_use]
    pub fn with_replace(mut self, replace: bool) -> Self {
        self.policy.replace = replace;
        self
    }

    /// The same view, for kernels whose target the user did not choose: a directory that holds a kernel that is not ours is
    /// left as it is, unless the kernels are for the chips that their descriptors name.
    #[must_use]
    pub fn with_guessed_target(mut self, guessed: bool) -> Self {
        self.policy.guessed = guessed;
        self
    }

    /// The same view, with files that it did not write judged and kept by `foreign`. By default, they are all left.
    #[must_use]
    pub fn with_foreign_files(mut self, foreign: Arc<dyn ForeignFiles>) -> Self {
        self.foreign = foreign;
        self
    }

    /// The same view, with what is replaced kept under `run`: one undo restores all of a run.
    #[must_use]
    pub fn with_run(mut self, run: RunId) -> Self {
        self.run = run;
        self
    }

    /// The same view, changed through `fs`: a test watches each call, and may refuse it.
    #[must_use]
    pub fn with_fs(self, fs: Fs) -> Self {
        Self { fs, ..self }
    }

    /// The directory, as an absolute path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes `kernels` to the directory: files that are missing, damaged or older ones of ours. Removes superseded kernels.
    /// Foreign files are left and reported.
    ///
    /// All kernels of a network are written under one lock. Any number of processes may call this repeatedly; a deleted
    /// directory is created again. A stem may be given more than once, for several slots, with the same files.
    ///
    /// # Errors
    /// [`ViewError`]. Kernels before the failed one may have been written.
    pub fn materialise(&self, kernels: &[KernelFiles<'_>]) -> Result<ViewReport, ViewError> {
        self.replace(kernels, &[])
    }

    /// As [`materialise`](Self::materialise), and takes away what we once put under the names of `withdrawn`: kernels
    /// that should be there and could not be made. An older one must not be found in their place. The kernel that
    /// should be there stays if it is, and so do others' files.
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

    /// As [`replace`](Self::replace), and takes kernels that are in `stored` for ours, whether or not the manifest lists
    /// them: it may be lost. Those that are replaced go to quarantine.
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
        if kernels.is_empty() && (withdrawn.is_empty() || !self.has_ours()?) {
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

    /// Whether the directory may hold something of ours.
    fn has_ours(&self) -> Result<bool, ViewError> {
        let dir = ViewDir::look(&self.dir)?;
        Ok(dir.is_some_and(|dir| dir.exists(manifest::NAME)))
    }

    /// The report if all `kernels` are left because of the directory's owner. Then not even a lock file is created.
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

//! The folders that frameworks read their kernels from, kept equal to what was built.
//!
//! MindSpore and its kin look for compiled operators in a folder of their own for each rank. A [`View`] is that
//! folder. [`View::materialise`] puts kernels there, restores the files that are missing or damaged, and leaves the
//! others alone:
//!
//! ```text
//! <base>/                          MS_COMPILER_CACHE_PATH, else the working folder
//!   rank_<RANK_ID>/
//!     kernel_meta/
//!       <stem>.o                   the kernel object
//!       <stem>.json                how to launch it, with the SHA-256 of the .o
//!       <stem>.info                what was compiled, for this rank
//!       .opkeep.lock               flock: one writer at a time; readers need none
//!       .opkeep-manifest           what we wrote, see below
//!       .opkeep-tmp-<pid>-<n>      a file being written
//!       .opkeep-old-<pid>-<n>-...  a file being replaced, until its content shows that it is ours
//! ```
//!
//! # What holds
//!
//! - **A `.json` is never beside an unfinished `.o`**, whenever a process is killed. A kernel is replaced by removing
//!   its `.json`, renaming a complete `.o` and `.info` into place, and the new `.json` last. Frameworks take a kernel
//!   without a `.json` for one that is not there.
//! - **A kernel that is not ours is never replaced.** A file is written only where there is nothing, where what is there is
//!   ours, or where what is there is structurally damaged and the kernel is for the chip that its descriptor names. Ours is
//!   what the manifest lists by its digest, not what looks like ours, and where that was lost what is in the caller's
//!   [store](View::replace_adopting); the manifest is written before the files, with the
//!   digests of the old and the new, so that this holds after a kill at any instant. All else is left, and the
//!   [report](ViewReport::left) says what it is: valid kernels, whole objects of other chips, what may be in progress, links,
//!   and descriptors (`.info`) that can be read. One function decides, and nothing else writes.
//! - **What is replaced and not ours is kept**: damage, and with [`View::with_replace`] anything, goes to
//!   [`quarantine`], and undoing that removes our kernel and restores what was there. So are kernels *adopted*: those that
//!   were right before we wrote them.
//! - **Nothing is written over what came meanwhile.** Files get their names only where those are free. What is to go is
//!   renamed first, and removed only if its digest is that of what we wrote.
//! - **Intact means equal to what was given**, not consistent in itself. The one liberty is `build_result` in the `.json`,
//!   which MindSpore adds by rewriting the file; a `.json` that carries it is kept as it is.
//! - **An intact file costs one stat.** The manifest records which file was read and found intact. A file whose
//!   device, inode, size and times are still those is not read again, and its bytes are not asked for. A file that
//!   changed within two seconds of being recorded is not trusted, because its times could hide another change.
//! - **Only our own files are removed**: kernels in the manifest whose slots (see [`KernelFiles::slot`]) have all
//!   gone to other kernels, older than 30 minutes, still what we wrote, and not adopted. Nothing else is touched, and no
//!   link is followed. A kernel for debugging takes no slot from one that is not, and no place of it.
//! - **Files are as readable as frameworks make them**: 0640, folders 0750, less what the umask takes.
//!
//! The price of the first promise: while a kernel is being replaced, a reader may find it missing.
//!
//! A view knows the folder and the order of writing. It does not know where kernels come from, whether they are valid, or
//! what a network is. It never reads the environment: the caller says which base and which rank.
//!
//! Caches that are there already, MindSpore's, AKG's and CANN's own, are what [`survey`] looks into: which kernels are
//! whole, which are damaged or left over, and what the framework would make of each. [`quarantine`] takes away what is
//! wrong there, so that it can be put back; [`fill`] gives ranks what other ranks have. [`kernel_cache`]
//! makes room in CANN's.
//!
//! ```
//! use opkeep_digest::Digest;
//! use opkeep_kernel_meta::{Content, KernelFiles, View};
//!
//! let base = tempfile::tempdir()?;
//! let view = View::open(base.path(), "0")?;
//! assert!(view.dir().ends_with("rank_0/kernel_meta"));
//!
//! let object = b"the kernel";
//! let json = format!(r#"{{"kernelName": "square_1__kernel0", "sha256": "{}"}}"#, Digest::of(object));
//! let kernel = KernelFiles {
//!     slot: "Default/Square-op1",
//!     stem: "square_1",
//!     object: Content::of(object),
//!     json: Content::of(json.as_bytes()),
//!     info: Content::of(b"{}"),
//!     for_chip: true,
//!     debug: false,
//! };
//! assert_eq!(view.materialise(&[kernel])?.written, 1);
//! assert_eq!(view.materialise(&[kernel])?.intact, 1);
//! assert!(view.dir().join("square_1.json").exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod compare;
mod content;
pub mod displace;
mod error;
mod foreign;
mod foreign_files;
mod left;
pub mod manifest;
mod materialise;
mod occupant;
mod own_name;
pub mod publish;
mod rename;
mod retire;
mod run_id;
mod stored;
pub mod view_dir;

pub use content::{Content, KernelFiles, Part, Withdrawn};
pub use displace::STAYS_DISPLACED;
pub use error::{IoCause, ViewError};
pub use foreign_files::{ForeignFiles, LeaveForeign, Quarantined, Replaced};
pub use left::{Busy, DirectoryRisk, ForeignKernel, LeftKernel, LeftReason};
pub use materialise::ViewReport;
pub use own_name::{MAX_DEPTH, QUARANTINE, is_quarantine};
pub use rename::rename_new;
pub use run_id::RunId;
pub use stored::{StoredKernel, StoredKernels};

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use opkeep_artifact::is_safe_file_name;

use occupant::Policy;
use opkeep_fs::Fs;
use stored::NoStore;
use view_dir::ViewDir;

/// How long a writer waits for another one, unless [`View::with_patience`] says otherwise.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);

/// The folder where a framework's rank reads its kernels.
#[derive(Clone, Debug)]
pub struct View {
    dir: PathBuf,
    patience: Duration,
    policy: Policy,
    foreign: Arc<dyn ForeignFiles>,
    run: RunId,
    fs: Fs,
}

impl View {
    /// The view of the rank `rank` under `base`, with its folders made.
    ///
    /// A relative `base` is taken from the working folder now.
    ///
    /// # Errors
    /// [`ViewError`], if `rank` cannot be part of a folder's name, or if the folder cannot be made and written.
    pub fn open(base: &Path, rank: &str) -> Result<Self, ViewError> {
        let view = Self::of(base, rank)?;
        ViewDir::open(&view.fs, &view.dir)?;
        Ok(view)
    }

    /// The view of the rank `rank` under `base`. Nothing is made before kernels are placed there.
    ///
    /// # Errors
    /// [`ViewError`], if `rank` cannot be part of a folder's name.
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
        Ok(Self { dir, patience: DEFAULT_PATIENCE, policy, foreign: Arc::new(LeaveForeign), run, fs })
    }

    /// The same view, waiting at most `patience` for other writers.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
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

    /// The folder, as an absolute path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the folder hold `kernels`: writes what is missing, damaged or an older one of ours, and removes what they
    /// supersede. What is not ours is left, and the report says so.
    ///
    /// Takes all kernels of a network at once, under one lock. May be called as often as wanted, by any number of
    /// processes; a folder that was deleted since is made again. A stem may be given more than once, for several
    /// slots, with the same files.
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
        withdrawn: &[Withdrawn<'_>],
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
        withdrawn: &[Withdrawn<'_>],
        stored: &dyn StoredKernels,
    ) -> Result<ViewReport, ViewError> {
        let kernels = materialise::Checked::new(kernels)?;
        if kernels.is_empty() && (withdrawn.is_empty() || !self.has_ours()?) {
            return Ok(ViewReport { recorded: true, ..ViewReport::default() });
        }
        if let Some(report) = self.leave_all(&kernels, stored)? {
            return Ok(report);
        }
        let folder = ViewDir::enter(&self.fs, &self.dir, self.patience)?;
        let (policy, run, now) = (self.policy, &self.run, folder.now());
        let foreign = &*self.foreign;
        let order = materialise::Order { withdrawn, policy, stored, foreign, run, now };
        materialise::materialise(&folder, &kernels, &order)
    }

    /// Whether the directory may hold something of ours.
    fn has_ours(&self) -> Result<bool, ViewError> {
        let folder = ViewDir::look(&self.dir)?;
        Ok(folder.is_some_and(|folder| folder.exists(manifest::NAME)))
    }

    /// What there is to say if all of `kernels` are left because of whose the directory is: then not even a lock is made
    /// there.
    fn leave_all(
        &self,
        kernels: &materialise::Checked<'_>,
        stored: &dyn StoredKernels,
    ) -> Result<Option<ViewReport>, ViewError> {
        if !self.policy.guessed || self.policy.replace || !kernels.are_all_for_other_chips() {
            return Ok(None);
        }
        let Some(folder) = ViewDir::look(&self.dir)? else { return Ok(None) };
        materialise::leave_all(&folder, kernels, self.policy, stored, &*self.foreign)
    }
}

/// Refuses what cannot be the stem of files in a view.
fn check_stem(stem: &str) -> Result<(), ViewError> {
    // Names of ours begin like this, and a kernel must not take one.
    if is_safe_file_name(stem) && !stem.starts_with(".opkeep") {
        return Ok(());
    }
    Err(ViewError::Stem { stem: stem.chars().take(80).collect() })
}

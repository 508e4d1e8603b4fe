//! Work directories for compilers.
//!
//! ```text
//! <base>/opkeep-<uid>/        this user's; no other user can write to it
//!   digests                   digests of files, see `file_digests`
//!   answers/                  answers of compilers, see `file_digests`
//!   costs                     compile times, see `schedule::compile_times`
//!   slots/                    job tokens, see `schedule::job_tokens`
//!   groups/                   builds that replace entries of a store, see `schedule::force_group`
//!   probe-<pid>-<n>/          a probe of a toolchain, made by `opkeep_process::ProbeDir`, with a lock as below
//!   work-<pid>-<n>/           one compile's directory, empty when it begins
//!   work-<pid>-<n>.lock       locked while its owner runs; later processes remove a stale lock and its directory
//!   failed/<kernel>-<pid>/    source and output of compiles that failed, the latest 32
//! ```
//!
//! These directories are not in the store: with a store on a full or read-only disk, a build only stores no kernels.
//! The digests of files, job tokens and compile times are here, too, since they belong to one machine.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use opkeep_fs::{FileLock, FileStat, Fs, NotPrivate, TempDir, private_dir, private_user_dir};

use crate::file_digests;
use crate::schedule::force_group;

/// The age from which unlocked directories are stale: a younger one may be created and not locked yet.
const SETTLED: Duration = Duration::from_secs(60);
const GROUPS: &str = "groups";
const KEPT_FAILURES: usize = 32;
/// The maximum number of bytes kept of a failed compile. The smallest files are kept: the source and the log, and not a
/// file that filled the disk.
const KEPT_BYTES: u64 = 4 << 20;

/// The directories in which compilers work.
#[derive(Debug)]
pub(crate) struct WorkDirs {
    dir: PathBuf,
    /// The directory in use if this user's directory cannot be used; removed when dropped.
    temporary: Option<TempDir>,
    /// The reason why this user's directory cannot be used.
    refused: Option<NotPrivate>,
}

impl WorkDirs {
    /// Opens this user's directory in `base`; if it cannot be used, creates one for this process alone.
    pub(crate) fn open(base: &Path) -> io::Result<Self> {
        let refused = match private_user_dir(base) {
            Ok(dir) => {
                let root = Self { dir, temporary: None, refused: None };
                root.prune();
                return Ok(root);
            }
            Err(refused) => Some(refused),
        };
        let temporary = TempDir::create_in(base, "opkeep-work-")?;
        Ok(Self { dir: temporary.path().to_owned(), temporary: Some(temporary), refused })
    }

    /// Returns the warning that this user's directory cannot be used, with the consequences.
    pub(crate) fn warning(&self) -> Option<String> {
        let why = self.refused.as_ref()?;
        Some(format!(
            "{why}, or choose another work directory: without it this build remembers neither digests of files nor \
             compile times, keeps nothing of compiles that fail, and does not count the compilers of other builds"
        ))
    }

    /// The file of digests.
    pub(crate) fn file_digests(&self) -> PathBuf {
        file_digests::file_in(&self.dir)
    }

    /// The file of compile times.
    pub(crate) fn compile_times(&self) -> PathBuf {
        self.dir.join("costs")
    }

    /// The directory of job tokens.
    pub(crate) fn job_tokens(&self) -> Result<PathBuf, NotPrivate> {
        self.private_subdir("slots")
    }

    /// The directory of backends' answers.
    pub(crate) fn answers(&self) -> Option<PathBuf> {
        self.private_subdir("answers").ok()
    }

    /// The directory of [`ForceGroup`](crate::schedule::force_group::ForceGroup).
    pub(crate) fn groups(&self) -> Result<PathBuf, NotPrivate> {
        self.private_subdir(GROUPS)
    }

    fn private_subdir(&self, name: &str) -> Result<PathBuf, NotPrivate> {
        let dir = self.dir.join(name);
        private_dir(&dir).map(|()| dir)
    }

    /// Creates a new, empty directory.
    pub(crate) fn create(&self) -> io::Result<WorkDir> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut made_anew = false;
        loop {
            let name = format!("work-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let lock = self.dir.join(format!("{name}.lock"));
            match Fs::new().create_locked(&lock, 0o600) {
                Ok(held) => {
                    let dir = self.dir.join(name);
                    let _ = Fs::new().remove_tree(&dir);
                    Fs::new().create_dir(&dir, 0o700)?;
                    return Ok(WorkDir { dir, lock, held });
                }
                // An earlier process with the same id left the lock file.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // The directory may have been deleted since it was opened.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !made_anew => {
                    private_dir(&self.dir)?;
                    made_anew = true;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Keeps the files of a failed compile, and returns their directory. Keeps nothing in a temporary directory.
    pub(crate) fn keep_failed(&self, work_dir: &WorkDir, kernel: &str) -> Option<PathBuf> {
        if self.temporary.is_some() || Fs::new().list(&work_dir.dir).unwrap_or_default().is_empty() {
            return None;
        }
        Fs::new().shrink_tree(&work_dir.dir, KEPT_BYTES);
        let failed = self.dir.join("failed");
        private_dir(&failed).ok()?;
        let own = format!("-{}", std::process::id());
        let mut kept = Fs::new().list_stats(&failed).unwrap_or_default();
        opkeep_order::by_key(&mut kept, |(_, found)| found.state.mtime);
        let (ours, others): (Vec<_>, Vec<_>) =
            kept.into_iter().partition(|(path, _)| path.to_string_lossy().ends_with(&own));
        // The files of this process stay, since its messages name them.
        if ours.len() >= KEPT_FAILURES {
            return None;
        }
        for (old, _) in others.iter().take((ours.len() + others.len() + 1).saturating_sub(KEPT_FAILURES)) {
            let _ = Fs::new().remove_tree(old);
        }
        let place = failed.join(format!("{kernel}{own}"));
        let _ = Fs::new().remove_tree(&place);
        Fs::new().rename(&work_dir.dir, &place).ok()?;
        Some(place)
    }

    /// Removes the stale files of processes that have ended.
    fn prune(&self) {
        let fs = Fs::new();
        let is_old = |found: &FileStat| found.state.written_before(SystemTime::now(), SETTLED);
        force_group::prune(&self.dir.join(GROUPS), is_old);
        for (path, found) in fs.list_stats(&self.dir).unwrap_or_default() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !is_old(&found) {
                continue;
            }
            if Fs::is_temporary(&name) {
                let _ = fs.remove(&path);
            } else if name.ends_with(".lock")
                && let Some(_held) = fs.try_lock_existing(&path)
            {
                let _ = fs.remove_tree(&path.with_extension(""));
                let _ = fs.remove(&path);
            }
        }
    }
}

/// One compile's directory, removed when dropped, but not by a forked child.
#[derive(Debug)]
pub(crate) struct WorkDir {
    dir: PathBuf,
    lock: PathBuf,
    held: FileLock,
}

impl WorkDir {
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if self.held.is_own() {
            let _ = Fs::new().remove_tree(&self.dir);
            let _ = Fs::new().remove(&self.lock);
        }
    }
}

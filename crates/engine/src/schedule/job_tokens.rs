//! The limit of the number of compilers that run at once on this machine, for any number of builds.
//!
//! ```text
//! <base>/opkeep-<uid>/slots/0 1 2 ...     one file for each token; a process that runs a compiler holds a file's lock
//! ```
//!
//! A process requests a token while it holds a kernel's lock, and a process with a token never waits for a kernel's lock. So
//! processes never wait for each other in a circle. The process that takes a token sets the file's modification time. If a
//! token is held for longer than a compile may take, its holder is stale, and a waiter replaces the file. Tokens only limit
//! the load: without them, each process only limits its own compilers.
//!
//! The files are in this user's work directory and not in the runtime directory of a session, which services and containers
//! do not have: the limit is that of a machine, not of a session.

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant, SystemTime};

use opkeep_fs::{FileLock, Fs, TryLock, is_out_of_files, private_dir};

/// The longest pause between two polls: 200 us for each token, within these bounds. A poll makes a few system calls for each
/// token, so polling takes a hundredth of a processor for any number of tokens.
const LONGEST_PER_TOKEN: Duration = Duration::from_micros(200);
const LONGEST: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(20));
/// The interval at which a waiter checks whether the holders of tokens are stale.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The tokens of this machine, up to the number that this process allows. Processes that allow more use further files.
#[derive(Debug)]
pub(crate) struct JobTokens {
    /// The directory of the files; `None` if there is none, and thus no limit.
    dir: Option<PathBuf>,
    count: NonZeroUsize,
    /// Held by the one thread of this process that polls: a poll makes a few system calls for each token.
    polling: Mutex<()>,
}

/// The permission to run one compiler. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct JobToken {
    /// The locked file; `None` if there is no limit.
    _lock: Option<FileLock>,
}

impl JobTokens {
    pub(crate) fn new(dir: Option<PathBuf>, count: NonZeroUsize) -> Self {
        Self { dir, count, polling: Mutex::new(()) }
    }

    /// Returns the number of compilers that may run.
    pub(crate) fn count(&self) -> NonZeroUsize {
        self.count
    }

    /// Takes a token. Polls until one is free, or until `ensure_running` returns false. A process that holds a token for longer
    /// than `stale_after` is stale.
    pub(crate) fn take(
        &self,
        stale_after: Option<Duration>,
        mut ensure_running: impl FnMut() -> bool,
    ) -> Option<JobToken> {
        let count = u32::try_from(self.count.get()).unwrap_or(u32::MAX);
        let longest = LONGEST_PER_TOKEN.saturating_mul(count).clamp(LONGEST.0, LONGEST.1);
        let mut pause = Duration::from_millis(1);
        let (mut seen, mut checked) = (Vec::new(), Instant::now());
        let mut polling = None;
        loop {
            polling = polling.or_else(|| self.try_poll());
            if let Some(token) = polling.as_ref().and_then(|_| self.try_take()) {
                return Some(token);
            }
            if !ensure_running() {
                return None;
            }
            if let Some(stale_after) = stale_after.filter(|_| polling.is_some())
                && (seen.is_empty() || checked.elapsed() >= CHECK_INTERVAL)
            {
                self.remove_stale(&mut seen, stale_after);
                checked = Instant::now();
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(longest);
        }
    }

    /// Returns the right to poll, unless another thread has it. After a panic of that thread, another thread gets the right;
    /// otherwise all others would wait for ever.
    fn try_poll(&self) -> Option<MutexGuard<'_, ()>> {
        match self.polling.try_lock() {
            Ok(polling) => Some(polling),
            Err(TryLockError::Poisoned(polling)) => Some(polling.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn try_take(&self) -> Option<JobToken> {
        let Some(dir) = &self.dir else { return Some(JobToken { _lock: None }) };
        // Processes begin at different tokens.
        let (count, first) = (self.count.get(), std::process::id() as usize);
        for at in (0..count).map(|step| (first + step) % count) {
            match self.try_lock(dir, &dir.join(at.to_string())) {
                Ok(TryLock::Held(lock)) => {
                    heartbeat(&lock);
                    return Some(JobToken { _lock: Some(lock) });
                }
                Ok(TryLock::Busy(_)) => {}
                // Compiles in progress will close files.
                Err(error) if is_out_of_files(&error) => return None,
                Ok(TryLock::Unsupported(_)) | Err(_) => return Some(JobToken { _lock: None }),
            }
        }
        None
    }

    /// Tries to lock one token's file. If the directory was deleted meanwhile, it is created again. Holders of deleted files
    /// are not counted.
    fn try_lock(&self, dir: &Path, file: &Path) -> io::Result<TryLock> {
        match Fs::new().try_lock(file, 0o600) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                private_dir(dir.parent().ok_or(error)?)?;
                private_dir(dir)?;
                Fs::new().try_lock(file, 0o600)
            }
            tried => tried,
        }
    }

    /// Removes the files of tokens that no process took for `stale_after`, by the time at which each file was first `seen`
    /// unchanged. The next poll creates them again.
    fn remove_stale(&self, seen: &mut Vec<(Option<Heartbeat>, Instant)>, stale_after: Duration) {
        let Some(dir) = &self.dir else { return };
        seen.resize(self.count.get(), (None, Instant::now()));
        for (at, (known, since)) in seen.iter_mut().enumerate() {
            let path = dir.join(at.to_string());
            let now = heartbeat_at(&path);
            if now != *known {
                (*known, *since) = (now, Instant::now());
            } else if since.elapsed() >= stale_after {
                // If another waiter has just replaced the file, the new file is removed, and one compiler too many runs once.
                let _ = Fs::new().remove(&path);
            }
        }
    }
}

/// The inode number and the modification time of a lock's file. At least one of them changes when another process takes the
/// lock.
pub(crate) type Heartbeat = (u64, i64);

/// Sets the modification time of a lock's file to the current time. Best effort.
fn heartbeat(lock: &FileLock) {
    let _ = lock.file().and_then(|file| file.set_modified(SystemTime::now()));
}

/// Returns the last heartbeat of the lock at `path`.
pub(crate) fn heartbeat_at(path: &Path) -> Option<Heartbeat> {
    let found = Fs::new().look(path).ok()?.state;
    Some((found.id.ino, found.mtime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_whose_holder_is_stale_is_replaced_and_the_limit_stays() {
        let temp = tempfile::tempdir().unwrap();
        let tokens = JobTokens::new(Some(temp.path().to_owned()), NonZeroUsize::MIN);
        let is_free = || tokens.take(None, || false).is_some();
        let stale = tokens.take(None, || true).unwrap();
        assert!(!is_free());
        let second = tokens.take(Some(Duration::ZERO), || true).unwrap();
        assert!(!is_free());
        // A stale holder has nothing left to release.
        drop(stale);
        assert!(!is_free());
        drop(second);
        assert!(is_free());
    }

    #[test]
    fn a_deleted_directory_is_created_again_and_the_limit_stays() {
        let temp = tempfile::tempdir().unwrap();
        let own = temp.path().join("opkeep");
        let dir = own.join("slots");
        private_dir(&own).unwrap();
        private_dir(&dir).unwrap();
        let tokens = JobTokens::new(Some(dir.clone()), NonZeroUsize::new(2).unwrap());
        let take = || tokens.take(None, || false);
        for lost in [&dir, &own] {
            Fs::new().remove_tree(lost).unwrap();
            let held = [take(), take()];
            assert!(held.iter().all(Option::is_some) && take().is_none(), "{held:?}");
            assert_eq!(Fs::new().list(&dir).unwrap().len(), 2);
        }
        // If the directory cannot be made, there is no limit.
        let nowhere = JobTokens::new(Some(temp.path().join("no/such/slots")), NonZeroUsize::MIN);
        let held = [nowhere.take(None, || false), nowhere.take(None, || false)];
        assert!(held.iter().all(Option::is_some));
    }

    #[test]
    fn a_panic_of_the_polling_thread_leaves_polling_to_others() {
        let temp = tempfile::tempdir().unwrap();
        let tokens = JobTokens::new(Some(temp.path().to_owned()), NonZeroUsize::MIN);
        let held = tokens.take(None, || true);
        let polling = || drop(tokens.take(None, || panic!("on purpose")));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(polling)).is_err());
        drop(held);
        assert!(tokens.take(None, || false).is_some());
    }

    #[test]
    fn a_token_that_goes_from_hand_to_hand_is_waited_for() {
        let temp = tempfile::tempdir().unwrap();
        let tokens = JobTokens::new(Some(temp.path().to_owned()), NonZeroUsize::MIN);
        let file = temp.path().join("0");
        let held = tokens.take(None, || true).unwrap();
        let (mut seen, began) = (Vec::new(), Instant::now());
        // Longer than the limit, and each time another process took it.
        while began.elapsed() < Duration::from_millis(300) {
            held._lock.iter().for_each(heartbeat);
            tokens.remove_stale(&mut seen, Duration::from_millis(200));
            std::thread::sleep(Duration::from_millis(10));
            assert!(heartbeat_at(&file).is_some());
        }
    }
}

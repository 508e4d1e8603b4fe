//! How many compilers run at once on this machine, however many processes build.
//!
//! ```text
//! <base>/opkeep-<uid>/slots/0 1 2 ...     one file for each; its lock is held by a process that runs a compiler
//! ```
//!
//! A token is requested while a kernel's lock is held, and a process with a token never waits for a kernel's lock: so waiting
//! processes form no ring. Taking a token updates the file's time. A token that is held for longer than a compile may take
//! belongs to a stopped process, and the waiters make another in its place. Tokens only limit the load: without them each
//! process keeps to its own number of compilers.
//!
//! Tokens are in the work directory of this user and not in the runtime directory of a session, which services and containers
//! do not have: they belong to a machine, not to a session.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant, SystemTime};

use opkeep_fs::{FileLock, Fs, TryLock, is_out_of_files, private_dir};

/// The longest pause between two polls: 200 us for each slot, within these bounds. A poll costs a few calls for each slot: so
/// polling takes a hundredth of a processor, however many slots there are.
const LONGEST_EACH: Duration = Duration::from_micros(200);
const LONGEST: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(20));
/// How often a waiter checks whether the holders of tokens are alive.
const LOOK: Duration = Duration::from_millis(500);

/// The machine's tokens, as one process counts them: those that allow more have the others' and some of their own.
#[derive(Debug)]
pub(crate) struct JobTokens {
    /// `None` without a directory for them: then there is no limit.
    dir: Option<PathBuf>,
    count: NonZeroUsize,
    /// Held by the one thread that polls for all waiters: a poll costs a few calls for each slot.
    asking: Mutex<()>,
}

/// The permission to run one compiler, until dropped.
#[derive(Debug)]
pub(crate) struct JobToken {
    /// The locked slot; `None` without a limit.
    _lock: Option<FileLock>,
}

impl JobTokens {
    pub(crate) fn new(dir: Option<PathBuf>, count: NonZeroUsize) -> Self {
        Self { dir, count, asking: Mutex::new(()) }
    }

    /// How many compilers may run.
    pub(crate) fn count(&self) -> NonZeroUsize {
        self.count
    }

    /// Takes a token, polling until there is one, while `ensure_running` returns true. A holder for longer than `stale_after` is
    /// stale.
    pub(crate) fn take(
        &self,
        stale_after: Option<Duration>,
        mut ensure_running: impl FnMut() -> bool,
    ) -> Option<JobToken> {
        let slots = u32::try_from(self.count.get()).unwrap_or(u32::MAX);
        let longest = LONGEST_EACH.saturating_mul(slots).clamp(LONGEST.0, LONGEST.1);
        let mut pause = Duration::from_millis(1);
        let (mut seen, mut looked) = (Vec::new(), Instant::now());
        let mut asking = None;
        loop {
            asking = asking.or_else(|| self.try_ask());
            if let Some(token) = asking.as_ref().and_then(|_| self.try_take()) {
                return Some(token);
            }
            if !ensure_running() {
                return None;
            }
            if let Some(stale_after) = stale_after.filter(|_| asking.is_some())
                && (seen.is_empty() || looked.elapsed() >= LOOK)
            {
                self.replace_stale(&mut seen, stale_after);
                looked = Instant::now();
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(longest);
        }
    }

    /// The right to poll, if no thread has it. A panic of its holder does not keep it, or all others would wait for ever.
    fn try_ask(&self) -> Option<MutexGuard<'_, ()>> {
        match self.asking.try_lock() {
            Ok(asking) => Some(asking),
            Err(TryLockError::Poisoned(asking)) => Some(asking.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn try_take(&self) -> Option<JobToken> {
        let Some(dir) = &self.dir else { return Some(JobToken { _lock: None }) };
        // Processes begin at different ones.
        let (count, first) = (self.count.get(), std::process::id() as usize);
        for at in (0..count).map(|step| (first + step) % count) {
            match self.try_slot(dir, &dir.join(at.to_string())) {
                Ok(TryLock::Held(lock)) => {
                    heartbeat(lock.file());
                    return Some(JobToken { _lock: Some(lock) });
                }
                Ok(TryLock::Busy(_)) => {}
                // Compiles in progress release theirs.
                Err(error) if is_out_of_files(&error) => return None,
                Ok(TryLock::Unsupported(_)) | Err(_) => return Some(JobToken { _lock: None }),
            }
        }
        None
    }

    /// Tries one slot. If the directory was deleted meanwhile, it is made anew. Holders of deleted slots are not counted.
    fn try_slot(&self, dir: &Path, slot: &Path) -> io::Result<TryLock> {
        match Fs::new().try_lock(slot, 0o600) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                private_dir(dir.parent().ok_or(error)?)?;
                private_dir(dir)?;
                Fs::new().try_lock(slot, 0o600)
            }
            tried => tried,
        }
    }

    /// Removes slots that were not taken for as long as `stale_after`, by the time at which each was first `seen` unchanged. The
    /// next poll makes them anew.
    fn replace_stale(&self, seen: &mut Vec<(Option<Heartbeat>, Instant)>, stale_after: Duration) {
        let Some(dir) = &self.dir else { return };
        seen.resize(self.count.get(), (None, Instant::now()));
        for (at, (known, since)) in seen.iter_mut().enumerate() {
            let path = dir.join(at.to_string());
            let now = heartbeat_at(&path);
            if now != *known {
                (*known, *since) = (now, Instant::now());
            } else if since.elapsed() >= stale_after {
                // Another waiter may just have replaced it: then the new file is removed, and one more compiler runs once.
                let _ = Fs::new().remove(&path);
            }
        }
    }
}

/// The inode number and the time of a lock's file: other ones once another process has taken the lock.
pub(crate) type Heartbeat = (u64, i64);

/// Writes into the time of a lock's file that it was taken now. Best effort.
fn heartbeat(file: &File) {
    let _ = file.set_modified(SystemTime::now());
}

/// The last heartbeat at `path`.
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
        let silent = tokens.take(None, || true).unwrap();
        assert!(!is_free());
        let second = tokens.take(Some(Duration::ZERO), || true).unwrap();
        assert!(!is_free());
        // A stale holder has nothing left to release.
        drop(silent);
        assert!(!is_free());
        drop(second);
        assert!(is_free());
    }

    #[test]
    fn a_folder_that_was_removed_is_made_anew_and_the_limit_stays() {
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
        let asking = || drop(tokens.take(None, || panic!("on purpose")));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(asking)).is_err());
        drop(held);
        assert!(tokens.take(None, || false).is_some());
    }

    #[test]
    fn a_token_that_goes_from_hand_to_hand_is_waited_for() {
        let temp = tempfile::tempdir().unwrap();
        let tokens = JobTokens::new(Some(temp.path().to_owned()), NonZeroUsize::MIN);
        let slot = temp.path().join("0");
        let held = tokens.take(None, || true).unwrap();
        let (mut seen, began) = (Vec::new(), Instant::now());
        // Longer than the limit, and each time another process took it.
        while began.elapsed() < Duration::from_millis(300) {
            held._lock.iter().for_each(|lock| heartbeat(lock.file()));
            tokens.replace_stale(&mut seen, Duration::from_millis(200));
            std::thread::sleep(Duration::from_millis(10));
            assert!(heartbeat_at(&slot).is_some());
        }
    }
}

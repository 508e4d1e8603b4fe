//! How many compilers run at once on this machine, however many processes build.
//!
//! ```text
//! <base>/opkeep-<uid>/slots/0 1 2 ...     one file for each; whoever holds its lock runs a compiler
//! ```
//!
//! A token is asked for while a kernel's lock is held, and no kernel's lock is waited for by whoever holds a token: so
//! processes that wait for each other never form a ring. Whoever takes a token writes that into the file's time; one that
//! is held for longer than a compile may take is held by a process that was stopped, and those who wait make another in
//! its place. Tokens save time, and nothing else rests on them: where they cannot be had, each process keeps to its own
//! number of compilers.
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

/// The longest pause between two times of asking: so much for each slot, between these bounds. A slot is nobody's for that
/// long, and asking costs a few calls for each: so it takes a hundredth of a processor, however many there are.
const LONGEST_EACH: Duration = Duration::from_micros(200);
const LONGEST: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(20));
/// Who waits looks so often whether those who hold tokens live.
const LOOK: Duration = Duration::from_millis(500);

/// The machine's tokens, as one process counts them: those that allow more have the others' and some of their own.
#[derive(Debug)]
pub(crate) struct JobTokens {
    /// None where there is no folder for them: then there is no limit.
    dir: Option<PathBuf>,
    count: NonZeroUsize,
    /// Held by the one thread that asks for all that wait: asking costs a few calls for each slot.
    asking: Mutex<()>,
}

/// Leave to run one compiler, until dropped.
#[derive(Debug)]
pub(crate) struct JobToken {
    /// The locked slot; none where there is no limit.
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

    /// Takes a token, asking until there is one, as long as `ensure_running` says so. Nobody holds one for longer than
    /// `patience`.
    pub(crate) fn take(
        &self,
        patience: Option<Duration>,
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
            if let Some(patience) = patience.filter(|_| asking.is_some())
                && (seen.is_empty() || looked.elapsed() >= LOOK)
            {
                self.replace_silent(&mut seen, patience);
                looked = Instant::now();
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(longest);
        }
    }

    /// The leave to ask, if nobody has it; also after a panic of whoever had it, or all others would wait for ever.
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
                // Those who compile give back theirs.
                Err(error) if is_out_of_files(&error) => return None,
                Ok(TryLock::Unsupported(_)) | Err(_) => return Some(JobToken { _lock: None }),
            }
        }
        None
    }

    /// Asks for one slot. Somebody may have tidied up where it was, and a process may live for long: then the folder is
    /// made anew. Those who hold slots that are gone are not counted until they are done.
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

    /// Removes the slots that nobody took for as long as `patience`, going by when each was first `seen` as it is: the
    /// next who asks makes them anew.
    fn replace_silent(&self, seen: &mut Vec<(Option<Heartbeat>, Instant)>, patience: Duration) {
        let Some(dir) = &self.dir else { return };
        seen.resize(self.count.get(), (None, Instant::now()));
        for (at, (known, since)) in seen.iter_mut().enumerate() {
            let path = dir.join(at.to_string());
            let now = heartbeat_at(&path);
            if now != *known {
                (*known, *since) = (now, Instant::now());
            } else if since.elapsed() >= patience {
                // Another who waits may just have replaced it: then that one's goes, and one compiler more runs for once.
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
    fn a_token_whose_holder_is_silent_is_replaced_and_the_limit_stays() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = JobTokens::new(Some(folder.path().to_owned()), NonZeroUsize::MIN);
        let is_free = || tokens.take(None, || false).is_some();
        let silent = tokens.take(None, || true).unwrap();
        assert!(!is_free());
        let second = tokens.take(Some(Duration::ZERO), || true).unwrap();
        assert!(!is_free());
        // Who was silent has nothing to give back any more.
        drop(silent);
        assert!(!is_free());
        drop(second);
        assert!(is_free());
    }

    #[test]
    fn a_folder_that_was_removed_is_made_anew_and_the_limit_stays() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("opkeep");
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
        // Where it cannot be made there is no limit, as where there never was a folder.
        let nowhere = JobTokens::new(Some(folder.path().join("no/such/slots")), NonZeroUsize::MIN);
        let held = [nowhere.take(None, || false), nowhere.take(None, || false)];
        assert!(held.iter().all(Option::is_some));
    }

    #[test]
    fn who_panics_while_it_asks_leaves_asking_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = JobTokens::new(Some(folder.path().to_owned()), NonZeroUsize::MIN);
        let held = tokens.take(None, || true);
        let asking = || drop(tokens.take(None, || panic!("on purpose")));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(asking)).is_err());
        drop(held);
        assert!(tokens.take(None, || false).is_some());
    }

    #[test]
    fn a_token_that_goes_from_hand_to_hand_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = JobTokens::new(Some(folder.path().to_owned()), NonZeroUsize::MIN);
        let slot = folder.path().join("0");
        let held = tokens.take(None, || true).unwrap();
        let (mut seen, began) = (Vec::new(), Instant::now());
        // Longer than anybody's patience, and each time another took it.
        while began.elapsed() < Duration::from_millis(300) {
            held._lock.iter().for_each(|lock| heartbeat(lock.file()));
            tokens.replace_silent(&mut seen, Duration::from_millis(200));
            std::thread::sleep(Duration::from_millis(10));
            assert!(heartbeat_at(&slot).is_some());
        }
    }
}

//! The lock of a key that another host has leased. It is kept while its caller resumes the key, and released soon after: so a
//! caller that resumes many keys in turn, or none any more, keeps no other caller of its host waiting.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opkeep_store::{KeyLock, OpenFilePermit};

use crate::timer::{Timed, Timer};

/// How long a lock is kept for a caller that does not resume the key. The other callers on the host let a lock be without a
/// heartbeat for longer than that.
const LONGEST_IDLE: Duration = Duration::from_secs(1);

/// The locks of all pending keys of a cache.
pub(crate) type KeptLocks = Arc<Timer<KeptLock>>;

pub(crate) fn kept_locks() -> KeptLocks {
    Timer::new(LONGEST_IDLE)
}

/// The lock of one pending key, until it is released.
pub(crate) struct KeptLock {
    state: Mutex<State>,
    /// In a forked child the state may be locked for ever, and the lock is the parent's.
    process: u32,
}

struct State {
    /// The permit counts the lock's open file.
    lock: Option<(KeyLock, OpenFilePermit)>,
    resumed: Instant,
}

impl KeptLock {
    /// Keeps `lock`. None, and it is released, if the process may have no more files open.
    pub(crate) fn new(lock: KeyLock, locks: &KeptLocks) -> Option<Arc<Self>> {
        let (lock, resumed) = (Some((lock, OpenFilePermit::take()?)), Instant::now());
        let kept = Arc::new(Self { state: Mutex::new(State { lock, resumed }), process: std::process::id() });
        locks.add(resumed + LONGEST_IDLE, &kept);
        Some(kept)
    }

    /// Notes that the caller resumed the key.
    pub(crate) fn resumed(&self) {
        if let Some(mut state) = self.locked() {
            state.resumed = Instant::now();
        }
    }

    /// The lock, unless it was released.
    pub(crate) fn take(&self) -> Option<KeyLock> {
        self.locked()?.lock.take().map(|(lock, _)| lock)
    }

    fn locked(&self) -> Option<MutexGuard<'_, State>> {
        let is_own = self.process == std::process::id();
        is_own.then(|| self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Timed for KeptLock {
    const THREAD: &'static str = "lock-release";

    fn visit(&self, _: Duration) -> Option<Instant> {
        let mut state = self.locked()?;
        let due = state.resumed + LONGEST_IDLE;
        if state.lock.is_some() && Instant::now() < due {
            return Some(due);
        }
        let released = state.lock.take();
        drop(state);
        drop(released);
        None
    }
}

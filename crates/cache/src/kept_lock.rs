//! The lock of a key that another host has leased. It is kept while its caller resumes the key, and is released soon after. So
//! a caller that resumes many keys in turn, or stops resuming them, keeps no other caller on its host waiting.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opkeep_fs::ProcessId;
use opkeep_store::{KeyLock, OpenFilePermit};

use crate::timer::{Timed, Timer};

/// The time for which a lock is kept if its caller does not resume the key. For the other callers on the host, a lock becomes
/// stale later than that.
const LONGEST_IDLE: Duration = Duration::from_secs(1);

/// The time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_millis(250);

/// The locks of all pending keys of a cache.
pub(crate) type KeptLocks = Arc<Timer<KeptLock>>;

pub(crate) fn kept_locks() -> KeptLocks {
    Timer::new(LONGEST_IDLE)
}

/// The lock of one pending key, until it is released.
pub(crate) struct KeptLock {
    state: Mutex<State>,
    /// The process that holds the lock. A forked child does not use its copy: the state may be locked for ever.
    process: ProcessId,
}

struct State {
    /// The permit counts the lock's open file.
    lock: Option<(KeyLock, OpenFilePermit)>,
    resumed: Instant,
    heartbeat: Instant,
}

impl KeptLock {
    /// Keeps `lock`. Returns `None`, and releases the lock, if the process may have no more files open, or if no thread could
    /// release the lock later.
    pub(crate) fn new(lock: KeyLock, locks: &KeptLocks) -> Option<Arc<Self>> {
        let (lock, resumed) = (Some((lock, OpenFilePermit::take()?)), Instant::now());
        let kept = Arc::new(Self {
            state: Mutex::new(State { lock, resumed, heartbeat: resumed }),
            process: ProcessId::current(),
        });
        locks.add(resumed + LONGEST_IDLE, &kept).then_some(kept)
    }

    /// Records that the caller resumed the key, and gives the other waiters on this host a heartbeat.
    pub(crate) fn resumed(&self) {
        if let Some(mut state) = self.locked() {
            let now = Instant::now();
            state.resumed = now;
            if now >= state.heartbeat + HEARTBEAT {
                state.heartbeat = now;
                state.lock.iter().for_each(|(lock, _)| lock.heartbeat());
            }
        }
    }

    /// Whether the lock is still held.
    pub(crate) fn is_held(&self) -> bool {
        self.locked().is_some_and(|state| state.lock.is_some())
    }

    /// Takes the lock, unless it was released.
    pub(crate) fn take(&self) -> Option<KeyLock> {
        self.locked()?.lock.take().map(|(lock, _)| lock)
    }

    fn locked(&self) -> Option<MutexGuard<'_, State>> {
        self.process.is_current().then(|| self.state.lock().unwrap_or_else(PoisonError::into_inner))
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

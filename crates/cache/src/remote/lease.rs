//! Leases that are held, and the thread that renews them.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::call::{deadline_after, guarded};
use super::tier::{LeaseGuard, RemoteConfig, RemoteContext};

/// A function that is called with the cause of a renewal that failed.
pub(crate) type OnFailure = Box<dyn Fn(&str) + Send + Sync>;

/// The longest time between two renewals.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);
/// How long a release may take. A cancelled build should end soon, and a lease that is not released ends after its time.
const LONGEST_RELEASE: Duration = Duration::from_secs(1);

/// A lease that this process holds. It is released when it is dropped; the copy in a forked child releases nothing.
pub(crate) struct HeldLease {
    lease: Arc<HeldGuard>,
    config: RemoteConfig,
    process: u32,
}

struct HeldGuard {
    guard: Mutex<Guard>,
    /// Until when it is renewed, if not for ever: a caller may never drop its ticket.
    until: Option<Instant>,
    on_failure: OnFailure,
}

enum Guard {
    Idle(Box<dyn LeaseGuard>),
    /// The thread that renews it has it, so that no caller waits for the tier's answer.
    InRenewal,
    /// Released or lost. If it is in renewal, the thread that renews it releases it.
    Ended,
}

/// The leases of a cache. A thread renews them while there are any.
pub(crate) struct Renewals {
    config: RemoteConfig,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    leases: Vec<Due>,
    has_thread: bool,
}

struct Due {
    at: Instant,
    lease: Weak<HeldGuard>,
}

impl HeldLease {
    /// Has `guard` renewed for `hold_limit`; for ever if that exceeds what an [`Instant`] can express.
    pub(crate) fn new(
        guard: Box<dyn LeaseGuard>,
        renewals: &Arc<Renewals>,
        hold_limit: Duration,
        on_failure: OnFailure,
    ) -> Self {
        let until = Instant::now().checked_add(hold_limit);
        let lease = Arc::new(HeldGuard { guard: Mutex::new(Guard::Idle(guard)), until, on_failure });
        renewals.add(Arc::downgrade(&lease));
        Self { lease, config: renewals.config.clone(), process: std::process::id() }
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // It is the parent's, and so is the thread that may have it locked.
            mem::forget(Arc::clone(&self.lease));
            return;
        }
        let guard = mem::replace(&mut *self.lease.locked(), Guard::Ended);
        if let Guard::Idle(guard) = guard {
            release(guard, &self.config);
        }
    }
}

/// Releases a lease, unless the tier is paused: then it ends after its time.
fn release(guard: Box<dyn LeaseGuard>, config: &RemoteConfig) {
    if !config.health.is_paused() {
        let context = RemoteContext::new(deadline_after(config.call_timeout.min(LONGEST_RELEASE)), None);
        let _ = guarded(|| guard.release(&context));
    }
}

impl HeldGuard {
    fn locked(&self) -> MutexGuard<'_, Guard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lease to renew it, if it is to be renewed.
    fn take(&self) -> Option<Box<dyn LeaseGuard>> {
        let now = Instant::now();
        if self.until.is_some_and(|until| now >= until) {
            return None;
        }
        let mut guard = self.locked();
        match mem::replace(&mut *guard, Guard::InRenewal) {
            Guard::Idle(held) => Some(held),
            other => {
                *guard = other;
                None
            }
        }
    }

    /// Renews the lease. False if it is not to be renewed any more.
    fn renew(&self, config: &RemoteConfig) -> bool {
        let Some(mut held) = self.take() else { return false };
        let context = RemoteContext::new(deadline_after(config.call_timeout), None);
        let renewed = guarded(|| held.renew(config.lease_ttl, &context));
        let mut guard = self.locked();
        if matches!(*guard, Guard::Ended) {
            drop(guard);
            release(held, config);
            return false;
        }
        let why = match renewed {
            Ok(Ok(false)) => {
                // Another host builds the same by now: more work, no harm.
                *guard = Guard::Ended;
                return false;
            }
            Ok(Ok(true)) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(panic) => Some(panic),
        };
        *guard = Guard::Idle(held);
        drop(guard);
        if let Some(why) = why {
            // The caller's function for warnings may panic, and the thread has other leases to renew.
            let _ = guarded(|| (self.on_failure)(&why));
        }
        // If it failed, it may succeed next time, before the lease ends.
        true
    }
}

impl Renewals {
    pub(crate) fn new(config: RemoteConfig) -> Self {
        Self { config, state: Mutex::default(), changed: Condvar::new() }
    }

    /// A third of its time, so that one failed renewal loses no lease.
    fn interval(&self) -> Duration {
        (self.config.lease_ttl / 3).clamp(Duration::from_millis(1), LONGEST_INTERVAL)
    }

    fn add(self: &Arc<Self>, lease: Weak<HeldGuard>) {
        let mut state = self.locked();
        state.leases.push(Due { at: Instant::now() + self.interval(), lease });
        if !state.has_thread {
            let own = Arc::clone(self);
            let thread = thread::Builder::new().name("lease-renewal".to_owned()).spawn(move || own.run());
            // Without a thread the lease ends after its time: others build the same, and nothing worse.
            state.has_thread = thread.is_ok();
        }
        drop(state);
        self.changed.notify_all();
    }

    fn run(&self) {
        let mut state = self.locked();
        loop {
            state.leases.retain(|due| due.lease.strong_count() > 0);
            let Some(next) = state.leases.iter().map(|due| due.at).min() else {
                state.has_thread = false;
                return;
            };
            let now = Instant::now();
            if now < next {
                let woken = self.changed.wait_timeout(state, next - now);
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let leases = mem::take(&mut state.leases).into_iter();
            let (due, later): (Vec<Due>, Vec<Due>) = leases.partition(|due| due.at <= now);
            state.leases = later;
            drop(state);
            let renewed = self.renew_all(due);
            state = self.locked();
            state.leases.extend(renewed);
        }
    }

    /// Renews leases, with nothing locked that a caller waits for. Those that are to be renewed again.
    fn renew_all(&self, due: Vec<Due>) -> Vec<Due> {
        let renewed = due.into_iter().filter_map(|Due { lease, .. }| {
            let renewed = lease.upgrade()?.renew(&self.config);
            renewed.then(|| Due { at: Instant::now() + self.interval(), lease })
        });
        renewed.collect()
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

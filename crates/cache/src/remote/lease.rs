//! Leases that are held, and the thread that renews them.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::call::{deadline_after, guarded};
use super::tier::{LeaseGuard, RemoteContext};

/// A function that is told why a renewal failed.
pub(crate) type OnFailure = Box<dyn Fn(&str) + Send + Sync>;

/// The longest time between two renewals.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);

/// A lease that this process holds. It is released when it is dropped; the copy in a forked child releases nothing.
pub(crate) struct HeldLease {
    lease: Arc<HeldGuard>,
    call_timeout: Duration,
    process: u32,
}

struct HeldGuard {
    /// `None` once it is released or lost.
    guard: Mutex<Option<Box<dyn LeaseGuard>>>,
    /// Until when it is renewed, if not for ever: a caller may never drop its ticket.
    until: Option<Instant>,
    on_failure: OnFailure,
}

/// The leases of a cache. A thread renews them while there are any.
pub(crate) struct Renewals {
    ttl: Duration,
    call_timeout: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

/// Lets the next lease start another thread if this one panics.
struct EndOfThread<'a>(&'a Renewals);

impl Drop for EndOfThread<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.locked().has_thread = false;
        }
    }
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
        let lease = Arc::new(HeldGuard { guard: Mutex::new(Some(guard)), until, on_failure });
        renewals.add(Arc::downgrade(&lease));
        Self { lease, call_timeout: renewals.call_timeout, process: std::process::id() }
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // It is the parent's, and so is the thread that may have it locked.
            mem::forget(Arc::clone(&self.lease));
            return;
        }
        let guard = self.lease.locked().take();
        if let Some(guard) = guard {
            // It ends after its time.
            let _ = guarded(|| guard.release(&RemoteContext::new(deadline_after(self.call_timeout), None)));
        }
    }
}

impl HeldGuard {
    fn locked(&self) -> MutexGuard<'_, Option<Box<dyn LeaseGuard>>> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews the lease. False if it is not to be renewed any more.
    fn renew(&self, ttl: Duration, call_timeout: Duration) -> bool {
        let now = Instant::now();
        let mut guard = self.locked();
        let Some(held) = guard.as_mut().filter(|_| self.until.is_none_or(|until| now < until)) else {
            return false;
        };
        let renewed = guarded(|| held.renew(ttl, &RemoteContext::new(deadline_after(call_timeout), None)));
        let why = match renewed {
            Ok(Ok(true)) => return true,
            Ok(Ok(false)) => {
                // Another host builds the same by now: more work, no harm.
                *guard = None;
                return false;
            }
            Ok(Err(error)) => error.to_string(),
            Err(panic) => panic,
        };
        drop(guard);
        (self.on_failure)(&why);
        // It may answer next time, before the lease ends.
        true
    }
}

impl Renewals {
    pub(crate) fn new(ttl: Duration, call_timeout: Duration) -> Self {
        Self { ttl, call_timeout, state: Mutex::default(), changed: Condvar::new() }
    }

    /// A third of its time, so that one failed renewal loses no lease.
    fn interval(&self) -> Duration {
        (self.ttl / 3).clamp(Duration::from_millis(1), LONGEST_INTERVAL)
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
        let _ended = EndOfThread(self);
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
            let renewed = lease.upgrade()?.renew(self.ttl, self.call_timeout);
            renewed.then(|| Due { at: Instant::now() + self.interval(), lease })
        });
        renewed.collect()
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

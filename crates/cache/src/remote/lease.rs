//! Leases that are held, and the thread that renews them.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::call::{deadline_after, guarded};
use super::health::CallEnd;
use super::tier::{LeaseGuard, RemoteConfig, RemoteContext};
use crate::timer::{Timed, Timer};

/// A function that is called with the cause of a renewal that failed.
pub(crate) type OnFailure = Box<dyn Fn(&str) + Send + Sync>;

/// The longest time between two renewals.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);
/// How long a release may take. A cancelled build should end soon, and a lease that is not released ends after its time.
const LONGEST_RELEASE: Duration = Duration::from_secs(1);

/// A lease that this process holds. It is released when it is dropped; the copy in a forked child releases nothing.
pub(crate) struct HeldLease {
    lease: Arc<HeldGuard>,
    process: u32,
}

pub(super) struct HeldGuard {
    guard: Mutex<Guard>,
    config: RemoteConfig,
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

/// The leases of a cache.
pub(super) type Renewals = Arc<Timer<HeldGuard>>;

pub(super) fn renewals(config: &RemoteConfig) -> Renewals {
    Timer::new(interval(config))
}

/// The time between two renewals: a third of a lease's time, so that one failed renewal loses no lease.
fn interval(config: &RemoteConfig) -> Duration {
    (config.lease_ttl / 3).clamp(Duration::from_millis(1), LONGEST_INTERVAL)
}

impl HeldLease {
    /// Has `guard` renewed for `hold_limit`; for ever if that exceeds what an [`Instant`] can express.
    pub(super) fn new(
        guard: Box<dyn LeaseGuard>,
        config: &RemoteConfig,
        renewals: &Renewals,
        hold_limit: Duration,
        on_failure: OnFailure,
    ) -> Self {
        let (guard, config) = (Mutex::new(Guard::Idle(guard)), config.clone());
        let now = Instant::now();
        let (first, until) = (now + interval(&config), now.checked_add(hold_limit));
        let lease = Arc::new(HeldGuard { guard, config, until, on_failure });
        renewals.add(first, &lease);
        Self { lease, process: std::process::id() }
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
            release(guard, &self.lease.config);
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

    /// Renews the lease, within `share` of the time for all. False if it is not to be renewed any more.
    fn renew(&self, share: Duration) -> bool {
        let config = &self.config;
        // While the tier is paused, the next renewal may be the call that tries it.
        let Some(permit) = config.health.begin(Instant::now()) else { return true };
        let Some(mut held) = self.take() else {
            config.health.end(permit, CallEnd::Ended, Instant::now());
            return false;
        };
        let context = RemoteContext::new(deadline_after(config.call_timeout.min(share)), None);
        let renewed = guarded(|| held.renew(config.lease_ttl, &context));
        let end = match renewed {
            Ok(Ok(_)) => CallEnd::Answered,
            // The tier may have needed more time.
            _ if share < config.call_timeout => CallEnd::Ended,
            _ => CallEnd::Failed,
        };
        config.health.end(permit, end, Instant::now());
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

impl Timed for HeldGuard {
    const THREAD: &'static str = "lease-renewal";

    fn visit(&self, share: Duration) -> Option<Instant> {
        self.renew(share).then(|| Instant::now() + interval(&self.config))
    }
}

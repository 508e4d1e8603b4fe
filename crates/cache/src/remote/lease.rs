//! The leases of this process, and the thread that renews them.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opkeep_fs::ProcessId;

use super::call::{deadline_after, guarded};
use super::health::CallEnd;
use super::tier::{LeaseGuard, RemoteConfig, RemoteContext};
use crate::timer::{Timed, Timer};

/// A function that is called with the cause of a renewal that failed.
pub(crate) type OnFailure = Box<dyn Fn(&str) + Send + Sync>;

/// The longest time between two renewals.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);
/// The maximum time of a release. A cancelled build should end soon, and a lease that is not released expires.
const LONGEST_RELEASE: Duration = Duration::from_secs(1);

/// A lease that this process holds. It is released when it is dropped, but not if a forked child drops its copy.
pub(crate) struct HeldLease {
    lease: Arc<HeldGuard>,
    process: ProcessId,
}

pub(super) struct HeldGuard {
    guard: Mutex<Guard>,
    config: RemoteConfig,
    /// The end of the renewals; without one, a ticket that is never dropped would keep the lease for ever.
    until: Option<Instant>,
    on_failure: OnFailure,
}

enum Guard {
    Idle(Box<dyn LeaseGuard>),
    /// The thread that renews the lease has the guard, so that no caller waits for the tier's answer.
    InRenewal,
    /// The lease is released or lost. During a renewal, the thread that renews it releases it.
    Ended,
}

/// The leases of a cache.
pub(super) type Renewals = Arc<Timer<HeldGuard>>;

pub(super) fn renewals(config: &RemoteConfig) -> Renewals {
    Timer::new(interval(config))
}

/// Returns the time between two renewals: a third of the time to live, so that one failed renewal does not lose the lease.
fn interval(config: &RemoteConfig) -> Duration {
    (config.lease_ttl / 3).clamp(Duration::from_millis(1), LONGEST_INTERVAL)
}

impl HeldLease {
    /// Renews `guard` for `hold_limit`, or for ever if an [`Instant`] cannot express the end.
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
        Self { lease, process: ProcessId::current() }
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // The lease belongs to the parent process, whose thread may have it locked.
            mem::forget(Arc::clone(&self.lease));
            return;
        }
        let guard = mem::replace(&mut *self.lease.locked(), Guard::Ended);
        if let Guard::Idle(guard) = guard {
            release(guard, &self.lease.config);
        }
    }
}

/// Releases a lease, unless the tier is paused: then the lease expires.
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

    /// Takes the guard for a renewal. Returns `None` if the lease is not renewed any more.
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

    /// Renews the lease, within `share`. Returns whether to renew it again.
    fn renew(&self, share: Duration) -> bool {
        let config = &self.config;
        // The tier is paused. The next renewal may be the probe.
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
                // Another host may build the same entry now: more work, no harm.
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
            // If the caller's function panics, the thread must still renew the other leases.
            let _ = guarded(|| (self.on_failure)(&why));
        }
        // After a failure, the next renewal may still be in time.
        true
    }
}

impl Timed for HeldGuard {
    const THREAD: &'static str = "lease-renewal";

    fn visit(&self, share: Duration) -> Option<Instant> {
        self.renew(share).then(|| Instant::now() + interval(&self.config))
    }
}

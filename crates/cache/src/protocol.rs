//! The steps by which a caller gets an entry or a ticket: look up, lock, look up again, call the remote tier, lease.
//!
//! **Heartbeats.** While a lock holder calls the remote tier, other callers on this host wait for it. It gives a heartbeat
//! before and after each call, and is stale for them only after a time that is longer than a call may take. A pending key
//! that is not resumed for a second loses the lock, so it needs no heartbeats.
//!
//! **Waits for other hosts.** A caller waits while the other host renews its lease, but no longer than its own build may
//! take, from the time at which it began to wait for the key on any host. After that, and in the
//! [other cases that end a wait](crate::remote::LeaseWait), the caller builds without the lease. A failure that would repeat
//! reaches all waiters on this host at once; a tier passes on no failures to other hosts.
//!
//! **Without a lock.** A host without a store, or whose store has no locks, requests a lease nevertheless. A caller that
//! builds because the lock holder is stale does not, since that holder may have the lease, too.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use opkeep_digest::Digest;
use opkeep_store::{CacheMode, Entry, KeyLock, StoreError, TargetStore, TryLockOutcome};

use crate::claim::{Claim, Hit, Source};
use crate::error::CacheError;
use crate::failure::Failure;
use crate::miss::Miss;
use crate::pending::{Hold, Leased, PendingKey, Resumed};
use crate::query::{Query, Wait};
use crate::remote::{LeaseAttempt, LeaseWait, RemoteClient};
use crate::ticket::Ticket;
use crate::tiers::{Looked, Target};
use crate::unshared::UnsharedReason;
use crate::warning::WarningKind;

/// The shortest and the longest pause between two attempts of a waiter. The longest is short, so that a waiter takes over within
/// 50 ms.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));
/// A pause is this part of the wait so far: a waiter notices the end of a short build soon.
const PAUSE_SHARE: u32 = 10;
/// The time for which a lease is renewed if the query sets no limit.
const DEFAULT_HOLD_LIMIT: Duration = Duration::from_secs(3600);
/// The time between two heartbeats of a holder that calls the remote tier, without the time of the call.
const CALL_GRACE: Duration = Duration::from_secs(3);

/// The attempts of one caller to get or begin one key.
///
/// A caller takes the key's lock first, then the lease, then anything else that it needs, such as a job token. Since the order
/// is the same for all callers, no two of them wait for each other.
#[derive(Clone, Copy)]
pub(crate) struct Protocol<'a> {
    pub(crate) target: &'a Arc<Target>,
    pub(crate) key: &'a Digest,
    pub(crate) query: &'a Query<'a>,
    /// The time at which the caller began to wait for the key.
    pub(crate) began: Option<Instant>,
}

impl<'a> Protocol<'a> {
    pub(crate) fn new(target: &'a Arc<Target>, key: &'a Digest, query: &'a Query<'a>) -> Self {
        Self { target, key, query, began: None }
    }
}

impl Protocol<'_> {
    /// The first attempt.
    pub(crate) fn begin(self) -> Result<Claim, CacheError> {
        let target = self.target;
        // If another caller has published the entry since the last look-up, no lock is needed.
        let mut missing = match target.look(self.key, self.query) {
            Looked::Taken(entry) => return Ok(hit(entry, Source::Local)),
            Looked::Missing(missing) => missing,
        };
        if matches!(missing, Miss::Absent) && target.written_store().is_none() {
            // Without a lock, this is the only repeated look-up.
            missing = match target.look_again(self.key, self.query, None) {
                Looked::Taken(entry) => return Ok(hit(entry, Source::Local)),
                Looked::Missing(missing) => missing,
            };
        }
        let mode = target.shared.mode;
        if mode == CacheMode::Require {
            let found = target.look_remote(self.key, self.query, &missing);
            if found.is_none() && self.query.is_cancelled() {
                return Ok(Claim::Cancelled);
            }
            let why = || CacheError::NotCached { mode, why: missing.to_string() };
            return found.map(|entry| hit(entry, Source::Remote)).ok_or_else(why);
        }
        let Some(store) = target.written_store() else {
            let reason = match target.store {
                None => UnsharedReason::NoStore,
                Some(_) => UnsharedReason::ReadOnly,
            };
            return Ok(self.unshared(missing, reason, LeaseWait::default()));
        };
        Ok(self.decide(store, store.try_lock(self.key), missing, LeaseWait::default()))
    }

    /// Another attempt.
    pub(crate) fn poll(self, pending: PendingKey) -> Claim {
        match (pending.resume(), &self.target.store) {
            (Resumed::Locked(waiter, missing), Some(store)) => {
                self.decide(store, store.poll(waiter), missing, LeaseWait::default())
            }
            (Resumed::Leased(leased), _) if !leased.wait.is_due(Instant::now()) => self.pending(leased),
            (Resumed::Leased(Leased { hold, miss, wait }), store) => match (hold.for_attempt(), store) {
                (Hold::Parked, Some(store)) => self.decide(store, store.try_lock(self.key), miss, wait),
                (Hold::Unlocked(reason), _) => self.unlocked(reason, wait),
                (hold, _) => self.try_remote(Leased { hold, miss, wait }),
            },
            // Without a store no key is locked.
            (Resumed::Locked(..) | Resumed::Ended, _) => {
                self.unshared(Miss::NoStore, UnsharedReason::NoStore, LeaseWait::default())
            }
        }
    }

    /// Waits while the key is pending, unless the query does not wait.
    pub(crate) fn wait(self, mut claim: Claim) -> Claim {
        let mut on_wait = match self.query.wait {
            Wait::Never => None,
            Wait::ForHolder { on_wait } => on_wait,
        };
        let wait_began = Instant::now();
        loop {
            let Claim::Pending(mut pending) = claim else { return claim };
            if let Some(on_wait) = on_wait.take() {
                on_wait();
            }
            if self.query.is_cancelled() {
                return Claim::Cancelled;
            }
            if self.query.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                // The caller may resume the key much later.
                pending.park();
                return Claim::TimedOut(pending);
            }
            if let Wait::Never = self.query.wait {
                return Claim::Pending(pending);
            }
            thread::sleep((wait_began.elapsed() / PAUSE_SHARE).clamp(PAUSES.0, PAUSES.1));
            if self.query.on_poll.is_some_and(|on_poll| !on_poll()) {
                return Claim::Pending(pending);
            }
            let began = Some(pending.began());
            claim = Self { began, ..self }.poll(pending);
        }
    }

    /// Continues after an attempt to lock the key. Without locks, and if the holder is stale, the caller builds unshared.
    fn decide(
        self,
        store: &TargetStore,
        mut attempt: Result<TryLockOutcome, StoreError>,
        missing: Miss,
        wait: LeaseWait,
    ) -> Claim {
        let without = |reason, text: &str| {
            self.target.warn(WarningKind::Locks, text);
            self.unlocked(reason, LeaseWait::default())
        };
        loop {
            match attempt {
                Ok(TryLockOutcome::Acquired(lock)) => return self.locked(lock, wait),
                Ok(TryLockOutcome::HolderFailed(text)) => {
                    if let Some(failure) = Failure::for_waiter(&text, self.query.time_limit) {
                        return Claim::HolderFailed(failure);
                    }
                    // The holder had a shorter time limit than this caller.
                    attempt = store.try_lock(self.key);
                }
                Ok(TryLockOutcome::Held(mut waiter)) => {
                    if waiter.is_stale(self.stale_after()) {
                        let text = format!(
                            "the process that compiles the entry `{}` gave no heartbeat for {} seconds: this one compiles it, \
                             too. If the other one is stopped, resume or end it: it holds the lock `{}`",
                            self.key,
                            self.stale_after().as_secs_f64(),
                            waiter.path().display(),
                        );
                        store.cancel_wait(waiter);
                        return without(UnsharedReason::HolderStale, &text);
                    }
                    let began = self.began.unwrap_or_else(Instant::now);
                    let pending = PendingKey::locked(self.target, self.key, began, waiter, missing);
                    return Claim::Pending(pending.with_cancel(self.query.cancel));
                }
                Ok(TryLockOutcome::Unsupported) => {
                    return without(
                        UnsharedReason::NoLocks,
                        "the store's file system has no locks; processes may compile the same kernel",
                    );
                }
                Err(error) if store.stops_every_write(&error) => {
                    self.target.pause_writing(&error);
                    return self.unlocked(UnsharedReason::ReadOnly, wait);
                }
                Err(error) => {
                    return without(
                        UnsharedReason::LockFailed,
                        &format!("compiling without a lock: {error}"),
                    );
                }
            }
        }
    }

    /// Returns the time without a heartbeat after which the lock holder is stale.
    fn stale_after(self) -> Duration {
        let call = self.target.remote().map(|remote| remote.call_timeout().saturating_add(CALL_GRACE));
        call.map_or(self.query.stale_after, |call| call.max(self.query.stale_after))
    }

    /// Looks up the entry again under the lock, then in the remote tier.
    fn locked(self, lock: KeyLock, wait: LeaseWait) -> Claim {
        match self.target.look_again(self.key, self.query, Some(&lock)) {
            Looked::Taken(entry) if lock.waited() => hit(entry, Source::Waited),
            Looked::Taken(entry) => hit(entry, Source::Local),
            Looked::Missing(miss) => self.try_remote(Leased { hold: Hold::Locked(lock), miss, wait }),
        }
    }

    /// Looks up the entry in the remote tier, and requests a lease.
    fn try_remote(self, mut leased: Leased) -> Claim {
        if let Some(entry) = self.look_remote(&leased) {
            return hit(entry, Source::Remote);
        }
        let is_stale = matches!(leased.hold, Hold::Unlocked(UnsharedReason::HolderStale));
        let Some(remote) = self.target.leases().filter(|_| !is_stale) else { return self.build(leased) };
        let hold_limit = self.query.hold_limit.unwrap_or(DEFAULT_HOLD_LIMIT);
        let key = self.target.remote_key(self.key);
        let target = Arc::clone(self.target);
        let on_failure = move |why: &str| target.renewal_failed(why);
        let requested = Instant::now();
        let attempt = with_heartbeats(leased.lock(), || {
            remote.lease(&key, hold_limit, self.query.limits(), Box::new(on_failure))
        });
        let attempt = attempt.unwrap_or_else(|why| {
            self.target.remote_failed(why);
            LeaseAttempt::None
        });
        match attempt {
            LeaseAttempt::Granted(lease) => {
                // The last lease holder may have published the entry since the look-up.
                match self.look_remote(&leased) {
                    Some(entry) => hit(entry, Source::Remote),
                    None if self.query.is_cancelled() => Claim::Cancelled,
                    None => {
                        let (lock, miss) = (leased.hold.into_lock(), leased.miss);
                        Claim::Build(self.ticket(miss, lock).with_lease(lease))
                    }
                }
            }
            LeaseAttempt::Held { remaining, holder } => {
                leased.wait.note(requested, holder, remaining, remote.lease_ttl());
                if leased.wait.was_released_twice() {
                    // The last lease holder may have published the entry since the look-up.
                    return match self.look_remote(&leased) {
                        Some(entry) => hit(entry, Source::Remote),
                        None => self.build(leased),
                    };
                }
                self.wait_for_lease(leased, requested, remote, hold_limit)
            }
            // The caller's wait ended before the answer, and another host may still build.
            LeaseAttempt::None if leased.wait.is_held() && self.query.limits().are_over() => {
                self.wait_for_lease(leased, requested, remote, hold_limit)
            }
            LeaseAttempt::None => self.build(leased),
        }
    }

    /// Continues to wait for a lease that another host has, unless the wait took too long.
    fn wait_for_lease(
        self,
        leased: Leased,
        requested: Instant,
        remote: &RemoteClient,
        hold_limit: Duration,
    ) -> Claim {
        if !leased.wait.is_stale(requested) && !self.has_waited_enough(remote, hold_limit) {
            return self.pending(leased);
        }
        self.target.warn(
            WarningKind::Remote,
            "another host holds the lease of a kernel for too long; compiling without it",
        );
        self.build(leased)
    }

    /// Whether the caller has waited for as long as its own build may take.
    fn has_waited_enough(self, remote: &RemoteClient, hold_limit: Duration) -> bool {
        let longest = self.query.time_limit.map_or(hold_limit, |limit| limit.min(hold_limit));
        // If a holder exits without releasing its lease, the lease ends after its time to live.
        let longest = longest.saturating_add(remote.lease_ttl());
        self.began.is_some_and(|began| began.elapsed() >= longest)
    }

    fn look_remote(self, leased: &Leased) -> Option<Box<Entry>> {
        self.target.read_remote()?;
        with_heartbeats(leased.lock(), || self.target.look_remote(self.key, self.query, &leased.miss))
    }

    /// Looks up the entry once more, then continues without the lock.
    fn unlocked(self, reason: UnsharedReason, wait: LeaseWait) -> Claim {
        match self.target.look_again(self.key, self.query, None) {
            Looked::Taken(entry) => hit(entry, Source::Waited),
            Looked::Missing(missing) => self.unshared(missing, reason, wait),
        }
    }

    fn unshared(self, miss: Miss, reason: UnsharedReason, wait: LeaseWait) -> Claim {
        self.try_remote(Leased { hold: Hold::Unlocked(reason), miss, wait })
    }

    /// Returns a ticket without a lease.
    fn build(self, leased: Leased) -> Claim {
        if self.query.is_cancelled() {
            return Claim::Cancelled;
        }
        let Leased { hold, miss, .. } = leased;
        match hold {
            Hold::Unlocked(reason) => Claim::Unshared(self.ticket(miss, None), reason),
            hold => Claim::Build(self.ticket(miss, hold.into_lock())),
        }
    }

    fn pending(self, leased: Leased) -> Claim {
        let began = self.began.unwrap_or_else(Instant::now);
        let pending = PendingKey::leased(self.target, self.key, began, leased);
        Claim::Pending(pending.with_cancel(self.query.cancel))
    }

    fn ticket(self, missing: Miss, lock: Option<KeyLock>) -> Ticket {
        Ticket::new(self.target, self.key, missing, lock, self.query.cancel.cloned())
    }
}

/// Calls the remote tier. Gives the waiters for `lock` a heartbeat before and after the call.
fn with_heartbeats<T>(lock: Option<&KeyLock>, call: impl FnOnce() -> T) -> T {
    lock.inspect(|lock| lock.heartbeat());
    let answer = call();
    lock.inspect(|lock| lock.heartbeat());
    answer
}

fn hit(entry: Box<Entry>, source: Source) -> Claim {
    Claim::Hit(Hit { entry, source })
}

//! The way from a key to an entry or a ticket: look, lock, look again, look into the remote tier, lease.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use opkeep_digest::Digest;
use opkeep_store::{CacheMode, Entry, KeyLock, StoreError, TargetStore, TryLockOutcome};

use crate::claim::{Claim, Hit, Source, UnsharedReason};
use crate::error::CacheError;
use crate::failure::Failure;
use crate::local::{Looked, Target, cancel_of};
use crate::miss::Miss;
use crate::pending::{Leased, PendingKey, Resumed};
use crate::query::{Query, Wait};
use crate::remote::LeaseAttempt;
use crate::ticket::Ticket;
use crate::warning::WarningKind;

/// The longest pause between two attempts of a caller that waits. It keeps a takeover below 50 ms.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// How long a lease is renewed if the query does not say.
const DEFAULT_HOLD_LIMIT: Duration = Duration::from_secs(3600);

/// One caller's way to one key.
///
/// The order of what is held is fixed: the key's lock, then the lease. A caller that takes more, such as a job token, takes it
/// after these; so no callers wait for each other in a ring.
#[derive(Clone, Copy)]
pub(crate) struct Protocol<'a> {
    pub(crate) target: &'a Arc<Target>,
    pub(crate) key: &'a Digest,
    pub(crate) query: &'a Query<'a>,
}

impl Protocol<'_> {
    /// The first attempt.
    pub(crate) fn begin(self) -> Result<Claim, CacheError> {
        let target = self.target;
        // Others may have published since the caller last looked: then no lock is needed.
        let mut missing = match target.look(self.key, self.query) {
            Looked::Taken(entry) => return Ok(hit(entry, Source::Local)),
            Looked::Missing(missing) => missing,
        };
        if matches!(missing, Miss::Absent) && target.written_store().is_none() {
            // No lock follows, under which it would look again.
            missing = match target.look_again(self.key, self.query, None) {
                Looked::Taken(entry) => return Ok(hit(entry, Source::Local)),
                Looked::Missing(missing) => missing,
            };
        }
        let mode = target.shared.mode;
        if mode == CacheMode::Require {
            let found = target.look_remote(self.key, self.query, &missing);
            let why = || CacheError::NotCached { mode, why: missing.to_string() };
            return found.map(|entry| hit(entry, Source::Remote)).ok_or_else(why);
        }
        let Some(store) = target.written_store() else {
            let reason = match target.store {
                None => UnsharedReason::NoStore,
                Some(_) => UnsharedReason::ReadOnly,
            };
            return Ok(self.unshared(missing, reason));
        };
        Ok(self.decide(store, store.try_lock(self.key), missing))
    }

    /// Another attempt.
    pub(crate) fn poll(self, pending: PendingKey) -> Claim {
        match (pending.resume(), &self.target.store) {
            (Resumed::Locked(waiter, missing), Some(store)) => {
                self.decide(store, store.poll(waiter), missing)
            }
            (Resumed::Leased(leased), _) => self.look_further(leased),
            // Without a store no key is pending.
            (Resumed::Locked(..) | Resumed::Ended, _) => {
                self.unshared(Miss::NoStore, UnsharedReason::NoStore)
            }
        }
    }

    /// Waits, if the query says so, while the key is pending.
    pub(crate) fn wait(self, mut claim: Claim) -> Claim {
        let Wait::Until { deadline, cancel, mut on_wait } = self.query.wait else { return claim };
        let mut pause = Duration::from_millis(1);
        loop {
            let Claim::Pending(pending) = claim else { return claim };
            if let Some(on_wait) = on_wait.take() {
                on_wait();
            }
            if cancel.is_cancelled() {
                return Claim::Cancelled;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Claim::TimedOut(pending);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
            claim = self.poll(pending);
        }
    }

    /// Goes on from an attempt to lock the key. Without locks, and if the holder is stale, the caller builds unshared.
    fn decide(
        self,
        store: &TargetStore,
        mut attempt: Result<TryLockOutcome, StoreError>,
        missing: Miss,
    ) -> Claim {
        let without = |reason, text: &str| {
            self.target.warn(WarningKind::Locks, text);
            self.unlocked(reason)
        };
        loop {
            match attempt {
                Ok(TryLockOutcome::Acquired(lock)) => return self.locked(lock),
                Ok(TryLockOutcome::HolderFailed(text)) => {
                    if let Some(failure) = Failure::for_waiter(&text, self.query.time_limit) {
                        return Claim::HolderFailed(failure);
                    }
                    // The holder had less time than this caller has.
                    attempt = store.try_lock(self.key);
                }
                Ok(TryLockOutcome::Held(mut waiter)) => {
                    if waiter.is_stale(self.query.stale_after) {
                        store.cancel_wait(waiter);
                        return without(
                            UnsharedReason::HolderStale,
                            "another process holds a kernel's lock for too long; compiling without it",
                        );
                    }
                    return Claim::Pending(PendingKey::locked(self.target, self.key, waiter, missing));
                }
                Ok(TryLockOutcome::Unsupported) => {
                    return without(
                        UnsharedReason::NoLocks,
                        "the store's file system has no locks; processes may compile the same kernel",
                    );
                }
                Err(error) if error.stops_every_write() => {
                    self.target.stop_writing(&error);
                    return self.unlocked(UnsharedReason::ReadOnly);
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

    /// Looks again under the lock, then into the remote tier.
    fn locked(self, lock: KeyLock) -> Claim {
        match self.target.look_again(self.key, self.query, Some(&lock)) {
            Looked::Taken(entry) if lock.waited() => hit(entry, Source::Waited),
            Looked::Taken(entry) => hit(entry, Source::Local),
            Looked::Missing(missing) => self.look_further(Leased::new(lock, missing)),
        }
    }

    /// Looks into the remote tier and asks it for the right to build, with the key locked.
    fn look_further(self, mut leased: Leased) -> Claim {
        if !leased.is_due() {
            return self.pending(leased);
        }
        if let Some(entry) = self.target.look_remote(self.key, self.query, &leased.miss) {
            return hit(entry, Source::Remote);
        }
        let Some(remote) = self.target.written_remote() else { return self.build(leased) };
        let hold_limit = self.query.hold_limit.unwrap_or(DEFAULT_HOLD_LIMIT);
        // A holder that renews for longer ignores the limit, or the tier's answers are wrong.
        let longest = hold_limit.saturating_add(remote.lease_ttl());
        if leased.is_held_for(longest.min(self.query.stale_after)) {
            self.target.warn(
                WarningKind::Remote,
                "another host holds the lease of a kernel for too long; compiling without it",
            );
            return self.build(leased);
        }
        let key = self.target.remote_key(self.key);
        let target = Arc::clone(self.target);
        let on_failure = move |why: &str| target.renewal_failed(why);
        let attempt = remote.lease(&key, hold_limit, cancel_of(self.query), Box::new(on_failure));
        match attempt.unwrap_or_else(|why| self.target.remote_failed(why).unwrap_or(LeaseAttempt::None)) {
            LeaseAttempt::Granted(lease) => {
                // Its last holder may have published since the look.
                match self.target.look_remote(self.key, self.query, &leased.miss) {
                    Some(entry) => hit(entry, Source::Remote),
                    None => Claim::Build(self.ticket(leased.miss, Some(leased.lock)).with_lease(lease)),
                }
            }
            LeaseAttempt::Held(remaining) => self.pending(leased.held(remaining)),
            LeaseAttempt::None => self.build(leased),
        }
    }

    /// Looks once more, then goes on without the lock.
    fn unlocked(self, reason: UnsharedReason) -> Claim {
        match self.target.look_again(self.key, self.query, None) {
            Looked::Taken(entry) => hit(entry, Source::Waited),
            Looked::Missing(missing) => self.unshared(missing, reason),
        }
    }

    fn unshared(self, missing: Miss, reason: UnsharedReason) -> Claim {
        match self.target.look_remote(self.key, self.query, &missing) {
            Some(entry) => hit(entry, Source::Remote),
            None => Claim::Unshared(self.ticket(missing, None), reason),
        }
    }

    fn build(self, leased: Leased) -> Claim {
        Claim::Build(self.ticket(leased.miss, Some(leased.lock)))
    }

    fn pending(self, leased: Leased) -> Claim {
        Claim::Pending(PendingKey::leased(self.target, self.key, leased))
    }

    fn ticket(self, missing: Miss, lock: Option<KeyLock>) -> Ticket {
        Ticket::new(self.target, self.key, missing, lock)
    }
}

fn hit(entry: Box<Entry>, source: Source) -> Claim {
    Claim::Hit(Hit { entry, source })
}

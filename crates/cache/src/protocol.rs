//! The steps by which a caller gets an entry or a ticket: look up, lock, look up again, call the remote tier, lease.
//!
//! **Heartbeats.** While a lock holder calls the remote tier, other callers on this host wait for it. It gives a heartbeat
//! before and after each call, and is stale for them only after a time that is longer than a call may take. A pending key
//! that is not resumed for a second loses the lock, so it needs no heartbeats.
//!
//! **Waits for other hosts.** A caller waits while the other host renews its lease, but no longer than its own build may
//! take, or than a multiple of what that is expected to take ([`Query::wait_limit`]), from the time at which it began to wait for
//! the key on any host. After that, and in the [other cases that end a wait](crate::remote::lease::LeaseObserver), the caller
//! builds without the lease. A failure that would
//! repeat reaches all waiters on this host at once; a tier passes on no failures to other hosts. A waiting caller does not call the
//! engine: a thread asks for the keys of all callers, and the caller acts when there is news of its key.
//!
//! **Without a lock.** A host without a store, or whose store has no locks, requests a lease nevertheless. A caller that
//! builds because the lock holder is stale does not, since that holder may have the lease, too.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use opkeep_digest::Digest;
use opkeep_store::{CacheMode, Counter, Entry, KeyLock, StoreError, TargetStore, TryLockOutcome};

use crate::claim::{Claim, Hit, Source};
use crate::error::CacheError;
use crate::failure::Failure;
use crate::miss::Miss;
use crate::pending::{Hold, Leased, PendingKey, Resumed};
use crate::query::{Query, Wait};
use crate::remote::lease::{HeldLease, LeaseStep};
use crate::remote::{Claimed, News, RemoteTarget, Watch};
use crate::ticket::Ticket;
use crate::tiers::{FoundRemote, Looked, Target};
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

/// The time between two heartbeats of a lock holder that waits for what it needs to build.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The number of steps of one attempt: each claim that fails leads to a wait, unless other hosts' leases end at that moment.
const MAX_STEPS: u32 = 8;

/// The outcome of the claim of a lease.
enum Step {
    Done(Box<Claim>),
    /// The caller builds, and has the lease.
    Build {
        lease: HeldLease,
        /// Whether it was another host's.
        is_takeover: bool,
    },
    /// More is known of the leases.
    Again,
    /// There is no lease.
    None,
}

/// The attempts of one caller to get or begin one key.
///
/// A caller takes the key's lock first, then anything else that it needs, such as a job token, then the lease, which it never waits
/// for with these in hand. So no two callers wait for each other, and no host has a lease that it cannot use yet.
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
            Looked::Taken(entry) => return Ok(self.local_hit(entry, Source::Local)),
            Looked::Missing(missing) => missing,
        };
        if matches!(missing, Miss::Absent) && target.written_store().is_none() {
            // Without a lock, this is the only repeated look-up.
            missing = match target.look_again(self.key, self.query, None) {
                Looked::Taken(entry) => return Ok(self.local_hit(entry, Source::Local)),
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
            return found.map(|found| self.found_remote(found)).ok_or_else(why);
        }
        let Some(store) = target.written_store() else {
            let reason = match target.store {
                None => UnsharedReason::NoStore,
                Some(_) => UnsharedReason::ReadOnly,
            };
            return Ok(self.unshared(missing, reason, None));
        };
        Ok(self.decide(store, store.try_lock(self.key), missing, None))
    }

    /// Another attempt.
    pub(crate) fn poll(self, pending: PendingKey) -> Claim {
        match (pending.resume(), &self.target.store) {
            (Resumed::Locked(waiter, missing), Some(store)) => {
                self.decide(store, store.poll(waiter), missing, None)
            }
            (Resumed::Leased(leased), _) if !self.is_due(&leased) => self.pending(leased),
            (Resumed::Leased(Leased { hold, miss, watch, .. }), store) => match (hold.for_attempt(), store) {
                (Hold::Parked, Some(store)) => self.decide(store, store.try_lock(self.key), miss, watch),
                (Hold::Unlocked(reason), _) => self.unlocked(reason, watch),
                (hold, _) => self.try_remote(Leased::new(hold, miss, watch)),
            },
            // Without a store no key is locked.
            (Resumed::Locked(..) | Resumed::Ended, _) => {
                self.unshared(Miss::NoStore, UnsharedReason::NoStore, None)
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
            let pause = (wait_began.elapsed() / PAUSE_SHARE).clamp(PAUSES.0, PAUSES.1);
            thread::sleep(pause);
            pending.count_lost(pause);
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
        watch: Option<Watch>,
    ) -> Claim {
        let without = |reason, text: &str| {
            self.target.warn(WarningKind::Locks, text);
            self.unlocked(reason, None)
        };
        loop {
            match attempt {
                Ok(TryLockOutcome::Acquired(lock)) => return self.locked(lock, watch),
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
                            "the process that compiles the entry `{}` gave no heartbeat for {} s: this one compiles it, \
                             too. If the other one is stopped, resume or end it: it holds the lock `{}`",
                            self.key,
                            self.stale_after().as_secs_f64(),
                            waiter.path().display()
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
                    return self.unlocked(UnsharedReason::ReadOnly, watch);
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
        let remote = self.target.used_remote().filter(|_| !self.query.stays_here);
        let call = remote.map(|remote| remote.client().call_timeout().saturating_add(CALL_GRACE));
        call.map_or(self.query.stale_after, |call| call.max(self.query.stale_after))
    }

    /// Looks up the entry again under the lock, then in the remote tier.
    fn locked(self, lock: KeyLock, watch: Option<Watch>) -> Claim {
        // A process of this host that was killed with the lease need not be waited for.
        if let (Some(note), Some(remote)) = (lock.left_note(), self.target.leases()) {
            remote.note_dead(self.key, note);
        }
        match self.target.look_again(self.key, self.query, Some(&lock)) {
            Looked::Taken(entry) if lock.waited() => self.local_hit(entry, Source::Waited),
            Looked::Taken(entry) => self.local_hit(entry, Source::Local),
            Looked::Missing(miss) => self.try_remote(Leased::new(Hold::Locked(lock), miss, watch)),
        }
    }

    /// Looks up the entry in the remote tier, and claims a lease.
    fn try_remote(self, mut leased: Leased) -> Claim {
        // In a forked child, the board that is watched is the parent's.
        let is_waiting = leased.watch.take_if(|watch| !watch.is_own()).is_none() && leased.watch.is_some();
        let is_asked = is_waiting || self.claimed_generation().is_some();
        if !is_asked && let Some(found) = self.look_remote(&leased) {
            return self.found_remote(found);
        }
        let is_stale = matches!(leased.hold, Hold::Unlocked(UnsharedReason::HolderStale));
        let Some(remote) = self.leases().filter(|_| !is_stale) else { return self.build(leased) };
        for _ in 0..MAX_STEPS {
            let step = match remote.news(self.key, self.query.limits()) {
                News::Arrived(arrival) => match self.target.judge(arrival, self.query, &leased.miss) {
                    Some(entry) => return self.remote_hit(entry),
                    None => continue,
                },
                News::Stored { is_own } => match self.stored(is_own, &leased) {
                    Some(claim) => return claim,
                    None => continue,
                },
                // A look of another thread may have read the lease that this caller holds, as if it were another host's.
                News::Step(step) => {
                    self.claimed_generation().map_or(step, |generation| LeaseStep::Claim { generation })
                }
            };
            match step {
                LeaseStep::Build { is_stale: false } => break,
                LeaseStep::Build { is_stale: true } => return self.build_unleased(leased),
                LeaseStep::Wait => return self.wait_for_lease(leased, remote),
                LeaseStep::Claim { .. } if !self.can_build(&mut leased, remote) => {
                    if self.query.is_cancelled() {
                        return Claim::Cancelled;
                    }
                    if leased.watch.as_ref().is_none_or(Watch::is_claimable) {
                        return self.pending(leased);
                    }
                }
                LeaseStep::Claim { generation } => match self.claim(remote, generation, &leased) {
                    Step::Done(claim) => return *claim,
                    Step::Build { lease, is_takeover } => {
                        let (lock, miss) = (leased.hold.into_lock(), leased.miss);
                        lock.iter().for_each(|lock| lock.set_note(&lease.note()));
                        self.target.tally.add(Counter::Takeovers, is_takeover.into());
                        return Claim::Build(self.ticket(miss, lock).with_lease(lease, is_takeover));
                    }
                    Step::Again => {}
                    // The caller's wait ended before the answer, and another host may still build.
                    Step::None if is_waiting && self.query.limits().are_over() => {
                        return match leased.is_stale(remote.client().lease_ttl()) {
                            true => self.build_unleased(leased),
                            false => self.wait_for_lease(leased, remote),
                        };
                    }
                    Step::None => break,
                },
            }
        }
        self.build(leased)
    }

    /// Returns the generation of the lease that the caller has claimed before.
    fn claimed_generation(self) -> Option<u64> {
        self.query.claimed.and_then(|claimed| claimed.generation(self.key))
    }

    /// Whether the caller can build as soon as it has the lease. While it waits for what it needs, the board asks for the key.
    fn can_build(self, leased: &mut Leased, remote: &RemoteTarget) -> bool {
        let Some(before_claim) = self.query.before_claim else { return true };
        let was_absent = leased.was_absent();
        let (watch, heartbeat) =
            (leased.watch.take().map_or_else(OnceCell::new, OnceCell::from), Cell::new(Instant::now()));
        let can_build = before_claim(&|| {
            if heartbeat.get().elapsed() >= HEARTBEAT {
                leased.lock().inspect(|lock| lock.heartbeat());
                heartbeat.set(Instant::now());
            }
            !self.query.is_cancelled()
                && watch.get_or_init(|| remote.watch(self.key, was_absent)).is_claimable()
        });
        leased.watch = watch.into_inner();
        can_build
    }

    /// Claims a lease, and looks for the entry with the lease in hand.
    fn claim(self, remote: &RemoteTarget, generation: u64, leased: &Leased) -> Step {
        if let Some(claimed) = self.query.claimed.and_then(|claimed| claimed.take(self.key, generation)) {
            remote.finished(self.key);
            return Step::Build { lease: claimed.lease, is_takeover: claimed.is_takeover };
        }
        match remote.has_leases(self.query.limits()) {
            Ok(Some(true)) => {}
            Ok(Some(false)) => {
                self.target.warn_without_leases(remote);
                return Step::None;
            }
            Ok(None) => return Step::None,
            Err(why) => {
                self.target.remote_failed(why);
                return Step::None;
            }
        }
        let is_takeover = remote.is_takeover(self.key, generation);
        let claimed = with_heartbeats(leased.lock(), || {
            remote.claim(self.key, generation, self.hold_limit(), self.query.limits())
        });
        let lease = match claimed {
            Ok(Claimed::Granted(lease)) => lease,
            Ok(Claimed::Held) => return Step::Again,
            Ok(Claimed::None) => return Step::None,
            Err(why) => {
                self.target.remote_failed(why);
                return Step::None;
            }
        };
        // The last lease holder may have published the entry since the look-up.
        let confirmed =
            with_heartbeats(leased.lock(), || remote.confirm(self.key, generation, self.query.limits()));
        let is_confirmed = confirmed.unwrap_or_else(|why| {
            self.target.remote_failed(why);
            true
        });
        loop {
            let found = match remote.news(self.key, self.query.limits()) {
                News::Arrived(arrival) => {
                    let taken = self.target.judge(arrival, self.query, &leased.miss);
                    taken.map(|entry| self.remote_hit(entry))
                }
                News::Stored { is_own } => self.stored(is_own, leased),
                News::Step(_) => break,
            };
            if let Some(claim) = found {
                return Step::Done(Box::new(claim));
            }
        }
        if self.query.is_cancelled() {
            return Step::Done(Box::new(Claim::Cancelled));
        }
        if !is_confirmed {
            return Step::Again;
        }
        remote.finished(self.key);
        Step::Build { lease, is_takeover }
    }

    /// Whether another attempt at a key that another host builds may bring something.
    fn is_due(self, leased: &Leased) -> bool {
        let is_over = |remote: &RemoteTarget| remote.client().is_paused() || self.has_waited_enough(remote);
        leased.is_due() || self.leases().is_none_or(is_over)
    }

    /// Continues to wait for a lease that another host has, unless the wait took too long, or the tier is paused.
    fn wait_for_lease(self, mut leased: Leased, remote: &RemoteTarget) -> Claim {
        if remote.client().is_paused() {
            return self.build(leased);
        }
        if !self.has_waited_enough(remote) {
            let was_absent = leased.was_absent();
            leased.watch.get_or_insert_with(|| remote.watch(self.key, was_absent)).begin_wait();
            return self.pending(leased);
        }
        self.build_unleased(leased)
    }

    /// Builds although another host has the lease, or may have it.
    fn build_unleased(self, leased: Leased) -> Claim {
        self.target.warn(
            WarningKind::Remote,
            "another host holds the lease of a kernel for too long; compiling without it",
        );
        self.build(leased)
    }

    /// Returns the time for which a lease of this caller is renewed.
    fn hold_limit(self) -> Duration {
        hold_limit(self.query)
    }

    /// Whether the caller has waited for as long as its own build may take.
    fn has_waited_enough(self, remote: &RemoteTarget) -> bool {
        let hold_limit = self.hold_limit();
        let limits = [self.query.time_limit, self.query.wait_limit];
        let longest = limits.into_iter().flatten().fold(hold_limit, Duration::min);
        // If a holder exits without releasing its lease, the lease is taken over after its time to live.
        let longest = longest.saturating_add(remote.client().lease_ttl());
        self.began.is_some_and(|began| began.elapsed() >= longest)
    }

    /// Returns the hit of an entry that was stored since the caller's look-up.
    fn stored(self, is_own: bool, leased: &Leased) -> Option<Claim> {
        let entry = self.target.look_stored(self.key, self.query, leased.lock())?;
        Some(if is_own { self.remote_hit(entry) } else { hit(entry, Source::Waited) })
    }

    /// Returns a hit of the local store. It is one of the remote tier if this process has fetched the entry before a caller began
    /// the key.
    fn local_hit(self, entry: Box<Entry>, source: Source) -> Claim {
        let remote = self.target.remote.as_ref();
        let fetched = remote.filter(|remote| remote.take_found(self.key));
        let Some(remote) = fetched else { return hit(entry, source) };
        remote.finished(self.key);
        self.remote_hit(entry)
    }

    /// Returns a hit of the remote tier. If this caller waited, another host built the entry meanwhile.
    fn remote_hit(self, entry: Box<Entry>) -> Claim {
        self.target.tally.add(Counter::RemoteShared, self.began.is_some().into());
        hit(entry, Source::Remote)
    }

    fn found_remote(self, found: FoundRemote) -> Claim {
        match found.is_fetched {
            true => self.remote_hit(found.entry),
            false => hit(found.entry, Source::Waited),
        }
    }

    fn look_remote(self, leased: &Leased) -> Option<FoundRemote> {
        self.target.read_remote().filter(|_| !self.query.stays_here)?;
        with_heartbeats(leased.lock(), || self.target.look_remote(self.key, self.query, &leased.miss))
    }

    /// Returns the remote tier, if leases are used for the key.
    fn leases(&self) -> Option<&RemoteTarget> {
        self.target.leases().filter(|_| !self.query.stays_here)
    }

    /// Looks up the entry once more, then continues without the lock.
    fn unlocked(self, reason: UnsharedReason, watch: Option<Watch>) -> Claim {
        match self.target.look_again(self.key, self.query, None) {
            Looked::Taken(entry) => self.local_hit(entry, Source::Waited),
            Looked::Missing(missing) => self.unshared(missing, reason, watch),
        }
    }

    fn unshared(self, miss: Miss, reason: UnsharedReason, watch: Option<Watch>) -> Claim {
        self.try_remote(Leased::new(Hold::Unlocked(reason), miss, watch))
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

/// Returns the time for which a lease of a caller with this query is renewed.
pub(crate) fn hold_limit(query: &Query<'_>) -> Duration {
    query.hold_limit.unwrap_or(DEFAULT_HOLD_LIMIT)
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

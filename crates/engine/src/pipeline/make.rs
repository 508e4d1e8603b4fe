//! The build of a missing kernel: takes it from another process that builds it, or compiles and publishes it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use opkeep_cache::{Accept, CacheError, Claim, Failure, PendingKey, Query, Source, Ticket, UNKNOWN_WAIT};
use opkeep_store::{CacheMode, Entry};

use super::kernel_pipeline::{KernelPipeline, MissReason};
use crate::event::Event;
use crate::plan::{KeyState, KeyedKernel, PlannedKernel};
use crate::ready::ReadyKernel;
use crate::report::KernelReport;
use crate::schedule::job_tokens::JobToken;
use crate::schedule::queue::TaskPoll;
use crate::{BuildError, KernelError, Outcome, Tier};

/// How many times as long as a compile is expected to take on this host it is waited for on another one, which may be slower, or
/// busy. To it, the time is added after which a lease is taken over.
const OTHER_HOSTS_TIME: u32 = 4;
/// The interval between heartbeats of a lock holder that waits for a job token.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// The time that a lock holder may take in addition to the compile timeout: for the wait for a job token since the last
/// heartbeat, for validation and for publication.
const GRACE: Duration = Duration::from_secs(3);

impl KernelPipeline<'_> {
    /// Builds a missing kernel, whose compile is expected to take so long, if that is known. If another process builds it, returns the
    /// value for the next attempt.
    pub(crate) fn make(
        &self,
        planned: &PlannedKernel<'_>,
        missing: &MissReason,
        expected: Option<Duration>,
        pending: Option<PendingKey>,
    ) -> TaskPoll<KernelReport, PendingKey> {
        let began = Instant::now();
        let waited = pending.as_ref().map(PendingKey::waited).unwrap_or_default();
        let made = match self.try_make(planned, missing, expected, pending) {
            Ok(TaskPoll::Pending(pending)) => return TaskPoll::Pending(pending),
            Ok(TaskPoll::Ready(made)) => Ok(made),
            Err(error) => Err(error),
        };
        let elapsed = began.elapsed() + waited;
        let kernel = planned.name();
        match &made {
            Ok(ReadyKernel { artifact, outcome, from_remote, compile_time, .. }) => {
                let (outcome, tier) = (*outcome, compile_time.is_none().then(|| Tier::of(*from_remote)));
                self.setup.notify(Event::Finished { kernel, outcome, elapsed, artifact, tier });
            }
            Err(error) => match &**error {
                KernelError::Skipped { first } => self.setup.notify(Event::Skipped { kernel, first }),
                KernelError::Cancelled => self.setup.notify(Event::Cancelled { kernel, elapsed }),
                error => {
                    if self.setup.config.fail_fast {
                        let _ = self.failed.set(kernel.to_owned());
                    }
                    self.setup.notify(Event::Failed { kernel, error, elapsed });
                }
            },
        }
        TaskPoll::Ready(KernelReport::new(planned, made))
    }

    fn try_make(
        &self,
        planned: &PlannedKernel<'_>,
        missing: &MissReason,
        expected: Option<Duration>,
        pending: Option<PendingKey>,
    ) -> Result<TaskPoll<ReadyKernel, PendingKey>, Arc<KernelError>> {
        let keyed = match &planned.state {
            KeyState::Refused(refused) => return Err(Arc::clone(&refused.error)),
            KeyState::Keyed(keyed) => keyed,
        };
        self.ensure_running()?;
        let not_cached =
            || KernelError::NotCached { kernel: keyed.name.to_string(), why: self.why_not_cached(missing) };
        let Some(target) = self.target_of(&keyed.spec.target).filter(|_| !keyed.spec.debug) else {
            return match self.setup.config.mode {
                CacheMode::Require => Err(not_cached().into()),
                _ => Ok(TaskPoll::Ready(self.compile_alone(planned, keyed, missing)?)),
            };
        };
        let taken = Mutex::new(None);
        let accept = |entry: &Entry| self.accept(keyed, entry, &taken);
        let token = Mutex::new(None);
        let before_claim = |keep_waiting: &dyn Fn() -> bool| self.take_token(&token, keep_waiting);
        let mut query = self.query(&accept);
        query.before_claim = Some(&before_claim);
        query.wait_limit = Some(lease_wait(expected, self.runtime.compile_times.longest()));
        let is_first = pending.is_none();
        let waited = pending.as_ref().filter(|pending| pending.waits_for_host()).map(PendingKey::waited);
        let claim = match pending {
            Some(pending) => target.resume(pending, &query),
            None => target.get_or_begin(keyed.key.digest(), &query),
        };
        let claim = claim.map_err(|error| match error {
            CacheError::NotCached { .. } => not_cached(),
            error => BuildError::from(error).into(),
        });
        let claim = claim?;
        self.notify_wait(planned.name(), is_first, waited, &claim);
        match claim {
            Claim::Build(ticket) | Claim::Unshared(ticket, _) => {
                let token = token.into_inner().unwrap_or_else(PoisonError::into_inner);
                Ok(TaskPoll::Ready(self.make_with(ticket, token, planned, keyed, missing)?))
            }
            Claim::Pending(pending) => Ok(TaskPoll::Pending(pending)),
            Claim::HolderFailed(Failure { reason, .. }) => Err(KernelError::HolderFailed { reason }.into()),
            Claim::Hit(hit) => {
                // The kernel was checked when the cache called `accept`.
                let ready = match taken.into_inner().unwrap_or_else(PoisonError::into_inner) {
                    Some(ready) => ready,
                    None => self.take_entry(keyed, &hit.entry, Outcome::Shared)?,
                };
                let from_remote = hit.source == Source::Remote;
                // A kernel that another host was compiling is shared, as is one of another process.
                let outcome = if from_remote && is_first { Outcome::Reused } else { Outcome::Shared };
                Ok(TaskPoll::Ready(ReadyKernel { outcome, from_remote, ..ready }))
            }
            // A query that does not wait does not time out.
            _ => Err(KernelError::Cancelled.into()),
        }
    }

    /// Reports the beginning and the end of a wait. `waited` is the time for which another host was waited for, if one was.
    fn notify_wait(&self, kernel: &str, is_first: bool, waited: Option<Duration>, claim: &Claim) {
        let pending = match claim {
            Claim::Pending(pending) => Some(pending),
            _ => None,
        };
        let waits_for_host = pending.is_some_and(PendingKey::waits_for_host);
        if is_first && pending.is_some() {
            self.setup.notify(Event::Waiting { kernel });
        }
        match waited {
            Some(waited) if !waits_for_host => self.setup.notify(Event::WaitEnded { kernel, waited }),
            None if waits_for_host => self.setup.notify(Event::WaitingForHost { kernel }),
            _ => {}
        }
        if let Claim::Build(ticket) = claim
            && ticket.is_takeover()
        {
            self.setup.notify(Event::LeaseTakenOver { kernel });
        }
    }

    /// Returns a query that does not wait.
    pub(super) fn query<'q>(&'q self, accept: &'q (dyn Fn(&Entry) -> Accept + Sync)) -> Query<'q> {
        let mut query = Query::new(accept);
        query.time_limit = self.setup.config.compile_timeout;
        query.stale_after = self.stale_after().unwrap_or(Duration::MAX);
        // Twice as long, since the lock holder may wait for a job token as long as it may compile.
        query.hold_limit = Some(query.stale_after.saturating_mul(2));
        query.cancel = Some(self.cancel);
        query.wait_budget = Some(&self.wait_budget);
        // The look-up was counted at the beginning of the build.
        query.counted = false;
        query
    }

    /// Checks an entry that another process published after the first look-up. Puts the kernel into `taken` if it can
    /// be used.
    pub(super) fn accept(
        &self,
        keyed: &KeyedKernel,
        entry: &Entry,
        taken: &Mutex<Option<ReadyKernel>>,
    ) -> Accept {
        // With `force`, an entry is new enough only if it was made since the first build of the group began. A time in the
        // future comes from another clock, so it does not prove that.
        let since = self.runtime.group.began()..=SystemTime::now();
        let mode = self.setup.config.mode;
        if !mode.reads() && !since.contains(&entry.created()) {
            return Accept::Replace(format!("cache mode is {mode}"));
        }
        match self.judge_entry(keyed, entry, Outcome::Shared) {
            Ok((ready, accept)) => {
                *taken.lock().unwrap_or_else(PoisonError::into_inner) = Some(ready);
                accept
            }
            Err(error) => Accept::Replace(format!("the stored kernel is not valid: {error}")),
        }
    }

    /// Compiles and publishes a kernel for which other processes may wait.
    fn make_with(
        &self,
        ticket: Ticket,
        token: Option<JobToken>,
        planned: &PlannedKernel<'_>,
        keyed: &KeyedKernel,
        missing: &MissReason,
    ) -> Result<ReadyKernel, KernelError> {
        // Without leases the token is taken now: then no other host waits for this one.
        let token = token.map_or_else(|| self.token(Some(&ticket)), Ok);
        let mut made = token.and_then(|_token| self.compile(planned, keyed, missing, Outcome::Compiled));
        if let Ok(ReadyKernel { compile_time: Some(time), .. }) = &made {
            ticket.count_build(*time);
        }
        match &mut made {
            Ok(made) => made.kept = Some(self.publish(planned, keyed, made, ticket)),
            Err(error) if error.would_repeat() => ticket.abandon(self.failure(error)),
            Err(_) => drop(ticket),
        }
        made
    }

    /// Returns the failure for the waiters.
    fn failure(&self, error: &KernelError) -> Failure {
        match self.setup.config.compile_timeout.filter(|_| error.is_deadline()) {
            Some(limit) => Failure::timed_out(error.to_string(), limit),
            None => Failure::new(error.to_string()),
        }
    }

    /// Compiles a kernel that is not stored, such as one for debugging.
    fn compile_alone(
        &self,
        planned: &PlannedKernel<'_>,
        keyed: &KeyedKernel,
        missing: &MissReason,
    ) -> Result<ReadyKernel, KernelError> {
        let _token = self.token(None)?;
        self.compile(planned, keyed, missing, Outcome::Bypassed)
    }

    /// Returns the time without a heartbeat after which a lock holder is stale; it is assumed to have the compile
    /// timeout of this process.
    fn stale_after(&self) -> Option<Duration> {
        self.setup.config.compile_timeout.map(|deadline| deadline.saturating_add(GRACE))
    }

    /// Waits for a job token, which goes to `token`, before a lease is claimed: a host with a lease must be able to compile.
    fn take_token(&self, token: &Mutex<Option<JobToken>>, keep_waiting: &dyn Fn() -> bool) -> bool {
        let mut token = token.lock().unwrap_or_else(PoisonError::into_inner);
        if token.is_none() {
            let is_wanted = || self.ensure_running().is_ok() && keep_waiting();
            *token = self.runtime.tokens.take(self.stale_after(), is_wanted);
        }
        token.is_some()
    }

    /// Waits until this machine may run one more compiler.
    fn token(&self, ticket: Option<&Ticket>) -> Result<JobToken, KernelError> {
        let mut last = Instant::now();
        let token = self.runtime.tokens.take(self.stale_after(), || {
            if last.elapsed() >= HEARTBEAT {
                ticket.inspect(|ticket| ticket.heartbeat());
                last = Instant::now();
            }
            self.ensure_running().is_ok()
        });
        token.ok_or_else(|| self.ensure_running().err().unwrap_or(KernelError::Cancelled))
    }
}

/// Returns the time for which a kernel that another host compiles is waited for, by the time that its compile is `expected` to take
/// here; if that is unknown, by the longest time that is known of any compile for the target, but not less than [`UNKNOWN_WAIT`]. Other
/// operators are no measure: those whose compiles have ended are the short ones.
fn lease_wait(expected: Option<Duration>, longest: Option<Duration>) -> Duration {
    match expected {
        Some(expected) => expected.saturating_mul(OTHER_HOSTS_TIME),
        None => longest.unwrap_or_default().saturating_mul(OTHER_HOSTS_TIME).max(UNKNOWN_WAIT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_hosts_are_waited_for_as_long_as_compiling_may_take() {
        let seconds = Duration::from_secs;
        // A known time counts alone.
        assert_eq!(lease_wait(Some(seconds(3)), Some(seconds(100))), seconds(12));
        assert_eq!(lease_wait(Some(Duration::MAX), None), Duration::MAX);
        assert_eq!(lease_wait(None, None), UNKNOWN_WAIT);
        assert_eq!(lease_wait(None, Some(seconds(1))), UNKNOWN_WAIT);
        assert_eq!(lease_wait(None, Some(seconds(100))), seconds(400));
    }
}

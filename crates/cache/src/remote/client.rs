//! Calls to an engine, with time limits. After failures, the engine is paused. An answer that does not fit its request is an
//! invalid answer: what the engine returned is not used.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use opkeep_digest::Digest;
use opkeep_fs::ForkSafeCell;
use opkeep_store::{Counter, Destination, Entry, MAX_ENTRY_BYTES};
use opkeep_text::counted;

use super::call::{Limits, guarded};
use super::config::{RemoteConfig, RemotePolicy};
use super::context::RemoteContext;
use super::engine::{Capabilities, ClaimAnswer, ClaimTerms, ExclusiveCreate, PutAnswer, RemoteObject};
use super::error::RemoteError;
use super::health::{CallEnd, Change, Pause};
use super::idle_timeout::{Activity, IdleTimeout};
use super::object::{LeaseToken, LeaseValue, ObjectName};
use super::problems::{CallFailure, CallKind, Problem, Problems};
use crate::event::CacheEvent;
use crate::refusal::Refusal;
use crate::running_time::RunningTime;
use crate::signing::TargetTrust;
use crate::tally::{AnswerWait, Tally};
use crate::wait_budget::WaitBudget;

/// A lease that nothing renews is kept by the engine for so many times to live, only to be collected.
const KEPT_TTLS: u32 = 4;
/// The maximum time of a release. A cancelled build should end soon, and a lease that is not released is taken over.
const LONGEST_RELEASE: Duration = Duration::from_secs(1);

/// An engine as the cache uses it for one target, whose counts its calls are.
pub(crate) struct RemoteClient {
    shared: Arc<SharedClient>,
    tally: Arc<Tally>,
}

/// What all targets of a cache know of an engine.
struct SharedClient {
    config: RemoteConfig,
    destination: Destination,
    capabilities: ForkSafeCell<Capabilities>,
    /// The problems that there was a warning of.
    problems: Problems,
    activity: Activity,
    /// Whether a warning said that the engine has no leases.
    has_warned_of_leases: AtomicBool,
    /// Whether the last call that stored ended since the engine took nothing.
    takes_nothing: AtomicBool,
}

/// The reason why objects are not stored.
pub(crate) struct PutFailure {
    /// Whether the engine takes none of them, such as one that is full.
    pub(crate) is_refused: bool,
    /// For people.
    pub(crate) reason: CallFailure,
}

/// How a stored object is treated that has the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays.
    Keep,
    /// It is replaced.
    Replace,
}

impl RemoteClient {
    pub(crate) fn new(config: RemoteConfig, tally: Arc<Tally>) -> Self {
        let (problems, has_warned_of_leases, takes_nothing) = Default::default();
        let (destination, capabilities) = (config.destination(), ForkSafeCell::new());
        let activity = Activity::new();
        let shared = SharedClient {
            config,
            destination,
            capabilities,
            problems,
            activity,
            has_warned_of_leases,
            takes_nothing,
        };
        Self { shared: Arc::new(shared), tally }
    }

    /// Returns the same client for another target.
    pub(crate) fn for_target(&self, tally: Arc<Tally>) -> Self {
        Self { shared: Arc::clone(&self.shared), tally }
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(crate) fn config(&self) -> &RemoteConfig {
        &self.shared.config
    }

    /// Returns what the marks of entries that are to be sent here name.
    pub(crate) fn destination(&self) -> &Destination {
        &self.shared.destination
    }

    pub(crate) fn reads(&self) -> bool {
        self.config().policy != RemotePolicy::Off
    }

    pub(crate) fn writes(&self) -> bool {
        self.config().policy == RemotePolicy::ReadWrite
    }

    pub(crate) fn lease_ttl(&self) -> Duration {
        self.config().lease_ttl
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        self.config().call_timeout
    }

    /// Returns the time between two renewals of a lease: a third of the time to live, so that one failed renewal does not lose
    /// the lease.
    pub(super) fn renewal_interval(&self) -> Duration {
        (self.config().lease_ttl / 3).max(Duration::from_millis(1))
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.config().health.is_paused()
    }

    /// Whether a call at `now` would be made: the engine is not paused, or the pause has passed, and one call decides.
    pub(crate) fn may_call(&self, now: Instant) -> bool {
        self.config().health.may_call(now)
    }

    /// Whether nothing came from the engine, and nothing went there, in the `waited` time, for so long that waiting for it is of no use. It
    /// may also be paused.
    pub(crate) fn is_stuck(&self, waited: &RunningTime) -> bool {
        let now = Instant::now();
        let time = waited.at(now);
        let idle = self.shared.activity.idle(now).saturating_sub(waited.stopped()).min(time);
        self.is_paused() || idle >= self.config().idle_timeout
    }

    /// Returns the pause, if the engine is paused.
    pub(crate) fn pause(&self) -> Option<Pause> {
        self.config().health.pause()
    }

    /// Pauses the engine for what another process of this host found out a moment ago.
    pub(crate) fn pause_for(&self, reason: &str) {
        if self.config().health.pause_for(Instant::now(), reason) {
            self.tally.notify(CacheEvent::Paused);
        }
    }

    /// Returns the warning that the engine is paused, at the first call during a pause.
    pub(crate) fn new_pause(&self) -> Option<String> {
        let Pause { length, reason, .. } = self.config().health.pause()?;
        self.shared.problems.warn_of_pause().then(|| {
            let seconds = length.as_secs();
            format!("the remote cache is not used: {reason}; one call in {seconds} s tries it again")
        })
    }

    /// Returns the warning that `entries` entries are not sent, if no failure has explained it. `is_sending`: calls are in progress.
    pub(crate) fn new_unsent(&self, entries: usize, is_sending: bool) -> Option<String> {
        let SharedClient { problems, activity, takes_nothing, .. } = &*self.shared;
        problems.warn_of_unsent().then(|| {
            let timeout = self.config().idle_timeout;
            let is_idle = is_sending && activity.idle(Instant::now()) >= timeout;
            let why = match is_idle || takes_nothing.load(Ordering::Relaxed) {
                true => format!("it took nothing for {:.1} s", timeout.as_secs_f64()),
                false => "the time for it is over".to_owned(),
            };
            let (kernels, them) = if entries == 1 { ("kernel is", "it") } else { ("kernels are", "them") };
            format!("{entries} {kernels} not sent to the remote cache: {why}; a later build sends {them}")
        })
    }

    /// Whether a warning that the engine has no leases is due. It is due once.
    pub(crate) fn is_first_without_leases(&self) -> bool {
        !self.shared.has_warned_of_leases.swap(true, Ordering::Relaxed)
    }

    /// Returns what the engine does. It is asked once.
    pub(crate) fn capabilities(&self, limits: Limits<'_>) -> Result<Option<Capabilities>, CallFailure> {
        if let Some(known) = self.shared.capabilities.get() {
            return Ok(Some(*known));
        }
        // Some clients know it without a call, so an answer does not end an outage.
        let answer =
            self.call_once(CallKind::Lease, limits, |context| self.config().engine.capabilities(context))?;
        Ok(answer.map(|found| *self.shared.capabilities.get_or_init(|| found)))
    }

    /// Whether other hosts may have leases, as far as the engine was asked.
    pub(super) fn may_have_leases(&self) -> bool {
        let known = self.shared.capabilities.get();
        self.writes() && known.is_none_or(|known| known.exclusive_create != ExclusiveCreate::None)
    }

    /// Whether the engine has counters, as far as it was asked.
    pub(super) fn has_counters(&self) -> bool {
        self.shared.capabilities.get().is_some_and(|known| known.has_counters)
    }

    /// Returns the size of the largest object, as far as the engine was asked.
    pub(super) fn max_object_bytes(&self) -> u64 {
        self.shared.capabilities.get().map_or(u64::MAX, |known| known.max_object_bytes)
    }

    /// Requests objects, and calls `found` with each as it arrives. Returns whether the engine answered.
    pub(crate) fn get_many(
        &self,
        names: &[ObjectName],
        limits: Limits<'_>,
        found: &mut dyn FnMut(usize, Vec<u8>),
    ) -> Result<bool, CallFailure> {
        if names.is_empty() {
            return Ok(true);
        }
        let answer = self.call(CallKind::Read, limits, |context| {
            let (mut seen, mut wrong) = (vec![false; names.len()], None);
            let answer =
                self.config().engine.get_many(names, context, &mut |at, content| match seen.get_mut(at) {
                    Some(seen) if !*seen => {
                        *seen = true;
                        self.tally.add(Counter::RemoteReceived, content.len() as u64);
                        context.note_progress();
                        found(at, content);
                        // What the caller does with it is no time of the engine, nor of the call.
                        context.resume();
                    }
                    Some(_) => wrong = Some("one object twice"),
                    None => wrong = Some("an object that was not asked for"),
                });
            match wrong {
                Some(wrong) => Err(RemoteError::Invalid { reason: format!("it returned {wrong}") }),
                None => answer,
            }
        });
        Ok(answer?.is_some())
    }

    /// Stores objects. Returns the indices of those whose names existed, and that were not stored. `None`: the engine did not answer.
    pub(super) fn put(
        &self,
        objects: &[RemoteObject<'_>],
        existing: Existing,
        limits: Limits<'_>,
    ) -> Result<Option<Vec<usize>>, PutFailure> {
        let mut is_refused = false;
        let answer = self.call(CallKind::Store, limits, |context| {
            let answers = match existing {
                Existing::Replace => self
                    .config()
                    .engine
                    .replace(objects, context)
                    .map(|()| vec![PutAnswer::Stored; objects.len()]),
                Existing::Keep => self.config().engine.put_if_absent(objects, context),
            };
            is_refused = matches!(answers, Err(RemoteError::Full { .. } | RemoteError::Refused { .. }));
            answers.and_then(|answers| expect(answers.len(), objects.len()).map(|()| answers))
        });
        let Some(answers) = answer.map_err(|why| PutFailure { is_refused, reason: why })? else {
            return Ok(None);
        };
        let bytes = objects.iter().map(|object| object.content.len() as u64).sum();
        self.tally.add(Counter::RemoteSent, bytes);
        let answers = answers.into_iter().enumerate();
        Ok(Some(answers.filter_map(|(at, answer)| (answer == PutAnswer::Existed).then_some(at)).collect()))
    }

    /// Claims leases in the order of `names`, `limit` at most. `None`: the engine did not answer.
    pub(crate) fn claim(
        &self,
        names: &[ObjectName],
        value: &LeaseValue,
        limit: usize,
        limits: Limits<'_>,
    ) -> Result<Option<Vec<ClaimAnswer>>, CallFailure> {
        let terms = ClaimTerms::new(limit, self.keep_for());
        self.call(CallKind::Lease, limits, |context| {
            let answers = self.config().engine.claim(names, value, terms, context)?;
            expect(answers.len(), names.len())?;
            let granted = answers.iter().filter(|answer| **answer == ClaimAnswer::Granted).count();
            match granted <= limit {
                true => Ok(answers),
                false => {
                    let reason = format!(
                        "it granted {granted}, at most {limit} were requested",
                        granted = counted(granted, "lease")
                    );
                    Err(RemoteError::Invalid { reason })
                }
            }
        })
    }

    /// Renews leases, for at most `time`. `None`: the engine is paused.
    pub(super) fn renew(
        &self,
        names: &[ObjectName],
        value: &LeaseValue,
        time: Duration,
    ) -> Result<Option<Vec<bool>>, CallFailure> {
        let deadline = Instant::now().checked_add(time);
        // The engine may need more time than there is between two renewals, which is no failure of the engine.
        self.call(CallKind::Lease, Limits { deadline, ..Limits::default() }, |context| {
            let answers = self.config().engine.renew(names, value, self.keep_for(), context)?;
            expect(answers.len(), names.len())?;
            Ok(answers)
        })
    }

    /// Releases leases, unless the engine is paused. Best effort.
    pub(super) fn release(&self, names: &[ObjectName], token: &LeaseToken) {
        if names.is_empty() || self.is_paused() {
            return;
        }
        let timeout = self.config().call_timeout.min(LONGEST_RELEASE);
        let context = RemoteContext::new(super::call::deadline_after(timeout), None);
        let _ = guarded(|| self.config().engine.release(names, token, &context));
    }

    /// Reads a counter: the outer `None` if the engine did not answer, the inner one if it has no counters.
    pub(super) fn progress(
        &self,
        counter: &ObjectName,
        limits: Limits<'_>,
    ) -> Result<Option<Option<u64>>, CallFailure> {
        self.call(CallKind::Read, limits, |context| self.config().engine.progress(counter, context))
    }

    /// Adds to a counter. Best effort: it is a hint for hosts that wait.
    pub(crate) fn advance(&self, counter: &ObjectName, by: u64, limits: Limits<'_>) {
        if self.has_counters() && !self.is_paused() {
            let _ = self.call(CallKind::Store, limits, |context| {
                self.config().engine.advance(counter, by, self.keep_for(), context)
            });
        }
    }

    fn keep_for(&self) -> Duration {
        self.config().lease_ttl.saturating_mul(KEPT_TTLS)
    }

    /// Makes one call. Returns `None` if the engine is paused, or if the caller ended the call.
    fn call<T>(
        &self,
        kind: CallKind,
        limits: Limits<'_>,
        call: impl FnOnce(&RemoteContext<'_>) -> Result<T, RemoteError>,
    ) -> Result<Option<T>, CallFailure> {
        let answer = self.call_once(kind, limits, call)?;
        answer.iter().for_each(|_| self.shared.problems.succeeded(kind));
        Ok(answer)
    }

    /// Makes one call whose success proves nothing, and ends no problem.
    fn call_once<T>(
        &self,
        kind: CallKind,
        limits: Limits<'_>,
        call: impl FnOnce(&RemoteContext<'_>) -> Result<T, RemoteError>,
    ) -> Result<Option<T>, CallFailure> {
        if limits.are_over() {
            return Ok(None);
        }
        let problems = &self.shared.problems;
        // Before the look at what is left: who uses it up sees that this call may still follow.
        let in_call = limits.budget.map(WaitBudget::enter);
        if let Some(budget) = limits.budget.filter(|budget| budget.left().is_zero()) {
            drop(in_call);
            budget.owe_warning();
            return budget.warning().map_or(Ok(None), |why| Err(problems.failure(Problem::Slow, why)));
        }
        let Some(permit) = self.config().health.begin(Instant::now()) else { return Ok(None) };
        let (answer, end) = self.timed(kind, limits, call);
        drop(in_call);
        opkeep_trace::debug!(
            "call to the remote cache ended",
            kind = format_args!("{kind:?}"),
            engine = self.config().engine.location(),
            answer = match &answer {
                Ok(Ok(_)) => "an answer".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Err(panic) => panic.clone(),
            },
        );
        if kind == CallKind::Store && matches!(answer, Ok(Ok(_))) {
            self.shared.takes_nothing.store(false, Ordering::Relaxed);
        }
        let reason = match &answer {
            Ok(Ok(_)) => "its last answers took too long".to_owned(),
            Ok(Err(_)) if end == CallEnd::Idle => {
                let seconds = self.config().idle_timeout.as_secs_f64();
                format!("the remote cache sent nothing for {seconds:.1} s")
            }
            Ok(Err(error)) => error.to_string(),
            Err(panic) => panic.clone(),
        };
        let has_no_answer = end != CallEnd::Ended && !matches!(answer, Ok(Ok(_)));
        let used_up = limits.budget.filter(|budget| budget.left().is_zero());
        if has_no_answer && used_up.is_some_and(|budget| !budget.has_warned()) {
            problems.expect_warning();
        }
        match self.config().health.end(permit, end, Instant::now(), &reason) {
            Some(Change::Paused) => self.tally.notify(CacheEvent::Paused),
            Some(Change::Resumed) => self.tally.notify(CacheEvent::Resumed),
            None => {}
        }
        let has_failed = matches!(end, CallEnd::Failed | CallEnd::Idle);
        if has_failed || matches!(answer, Ok(Err(RemoteError::Full { .. }))) {
            self.tally.add(Counter::RemoteFailures, 1);
        }
        let problem = match answer {
            Ok(Ok(answer)) => return Ok(Some(answer)),
            Ok(Err(_)) if end == CallEnd::Ended => return Ok(None),
            Ok(Err(RemoteError::Full { .. } | RemoteError::Refused { .. })) => {
                problems.answered();
                Problem::Refusing(kind)
            }
            Ok(Err(_)) | Err(_) => Problem::Failing(kind),
        };
        let failure = problems.failure(problem, reason);
        // The budget is used up: one warning is enough.
        match used_up {
            // That it hangs says more.
            Some(budget) if end == CallEnd::Idle => {
                if budget.is_first_reason() {
                    Err(failure)
                } else {
                    Ok(None)
                }
            }
            Some(budget) => {
                budget.owe_warning();
                budget.warning().map_or(Ok(None), |why| Err(failure.because(why)))
            }
            None => Err(failure),
        }
    }

    /// Returns the tally, if it counts waits within `limits`.
    pub(super) fn tally_of(&self, limits: Limits<'_>) -> Option<&Tally> {
        limits.is_waited_for.then_some(&self.tally)
    }

    /// Returns the failure that the budget of `limits` is used up, if its warning is due and was left to this caller: no call within the
    /// budget is in progress any more.
    pub(crate) fn used_up(&self, limits: Limits<'_>) -> Option<CallFailure> {
        let why = limits.budget?.warning()?;
        Some(self.shared.problems.failure(Problem::Slow, why))
    }

    /// Makes a call within its limits, and charges its time. The outer error is a panic's.
    fn timed<T>(
        &self,
        kind: CallKind,
        limits: Limits<'_>,
        call: impl FnOnce(&RemoteContext<'_>) -> Result<T, RemoteError>,
    ) -> (Result<Result<T, RemoteError>, String>, CallEnd) {
        let RemoteConfig { call_timeout, idle_timeout, .. } = *self.config();
        let timeout = limits.timeout_of_call(call_timeout);
        // The engine answers to a large object only when it has all of it, which the system still sends after it took the last byte. So a
        // call that stores does not fail then, but a caller with a deadline does not wait for it.
        let stores = kind == CallKind::Store;
        let ends_idle = limits.needs_progress && (!stores || limits.deadline.is_some());
        let idle_timeout = Some(idle_timeout).filter(|_| ends_idle);
        let idle = IdleTimeout::new(idle_timeout.unwrap_or(timeout)).counted_in(&self.shared.activity);
        let began = Instant::now();
        let wait = AnswerWait::begin(self.tally_of(limits), limits.budget);
        let context = RemoteContext::new(limits.end_of_call(timeout), limits.cancel).with_idle_timeout(&idle);
        let answer = guarded(|| call(&context));
        let now = Instant::now();
        let longest = idle.longest(now);
        let took = (now - began).saturating_sub(idle.stopped());
        let suspended = idle.suspended();
        wait.end(took, suspended);
        let is_late = took > timeout;
        let end = match &answer {
            // An engine that is full can still be read.
            Ok(Ok(_) | Err(RemoteError::Full { .. })) if !is_late => {
                let is_slow = !stores && idle_timeout.is_some_and(|limit| longest > limit / 2);
                if is_slow { CallEnd::Slow } else { CallEnd::Answered }
            }
            Ok(Err(RemoteError::TimedOut)) if idle_timeout.is_some_and(|limit| longest >= limit) => {
                self.shared.takes_nothing.fetch_or(stores, Ordering::Relaxed);
                if stores { CallEnd::Ended } else { CallEnd::Idle }
            }
            Ok(Err(_)) if !is_late && limits.are_over() => CallEnd::Ended,
            _ => CallEnd::Failed,
        };
        (answer, end)
    }
}

impl fmt::Debug for RemoteClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteClient").field("config", self.config()).finish_non_exhaustive()
    }
}

fn expect(answers: usize, requests: usize) -> Result<(), RemoteError> {
    match answers == requests {
        true => Ok(()),
        false => {
            let reason =
                format!("it has {answers} answers to {requests}", requests = counted(requests, "request"));
            Err(RemoteError::Invalid { reason })
        }
    }
}

/// Decodes the bytes that an engine returned, checks every digest and the signatures, and sets the stamp to 0, since another host's
/// validation does not count here.
pub(crate) fn checked(
    file: Vec<u8>,
    key: &Digest,
    name: &ObjectName,
    trust: &TargetTrust,
) -> Result<Entry, Refusal> {
    let invalid = |why: String| {
        Refusal::damaged(format_args!("an entry of the remote cache is not valid: {why} (`{name}`)"))
    };
    if file.len() as u64 > MAX_ENTRY_BYTES {
        let found = file.len();
        return Err(invalid(format!(
            "it has {found}, at most {MAX_ENTRY_BYTES} are allowed",
            found = counted(found, "byte")
        )));
    }
    let entry = Entry::decode(file, Some(key)).map_err(|damage| invalid(damage.to_string()))?;
    for name in entry.names() {
        entry.lazy_member(name).map_err(|damage| invalid(damage.to_string()))?;
    }
    trust.check_remote(&entry).map_err(|Refusal { kind, reason }| {
        let reason = format!("an entry of the remote cache is not trusted: {reason} (`{name}`)");
        Refusal { kind, reason }
    })?;
    if entry.validation() == 0 {
        return Ok(entry);
    }
    let unstamped = entry.to_builder().with_validation(0).encode(key);
    let unstamped = unstamped.ok_or_else(|| invalid("it exceeds the bounds of an entry".to_owned()))?;
    Entry::decode(unstamped, Some(key)).map_err(|damage| invalid(damage.to_string()))
}

//! The turn of one process of a host to fetch a plan. The others wait for it, and find its entries in the local store. If the engine is
//! paused in that turn, they pause it as well: each would wait for an engine that hangs, one after the other.

use std::thread;
use std::time::{Duration, Instant};

use opkeep_digest::Digest;
use opkeep_store::{KeyLock, TryLockOutcome};

use crate::query::Query;
use crate::remote::{ObjectNames, Pause, RemoteTarget};
use crate::running_time::RunningTime;
use crate::tally::AnswerWait;
use crate::tiers::Target;
use crate::wait_budget::WaitBudget;

/// The shortest and the longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// The begin of the reason for which other processes pause the engine. The destination and the reason for people follow.
const PAUSED: &str = "remote cache paused";

/// The turn of this process.
pub(crate) struct FetchTurn {
    /// `None` if there are no locks, or the other process is stopped.
    lock: Option<KeyLock>,
    /// The pause of the engine when the turn began.
    pause: Option<Pause>,
    /// Whether another caller had its turn meanwhile: then the local store may have more by now.
    pub(crate) has_waited: bool,
}

impl FetchTurn {
    /// Ends the turn. If the engine was paused in it since it hangs, those that wait for the turn pause it as well.
    pub(crate) fn end(self, remote: &RemoteTarget) {
        let Some(lock) = self.lock else { return };
        if let Some(pause) =
            remote.client().pause().filter(|pause| pause.hangs && self.pause.as_ref() != Some(pause))
        {
            let destination = remote.client().destination();
            lock.release_with_failure(&format!("{PAUSED} {destination} {}", pause.reason));
        }
    }
}

/// Returns why another process paused the engine of `remote`.
fn reason_of_pause<'t>(text: &'t str, remote: &RemoteTarget) -> Option<&'t str> {
    let text = text.strip_prefix(PAUSED)?.strip_prefix(' ')?;
    let text = text.strip_prefix(remote.client().destination().as_str())?;
    text.strip_prefix(' ')
}

impl Target {
    /// Waits for the turn to fetch the plan `keys`, for half of the time at most that a call may take: if the other process is stopped,
    /// this one fetches as well.
    pub(crate) fn fetch_turn(&self, remote: &RemoteTarget, keys: &[Digest], query: &Query<'_>) -> FetchTurn {
        let before = remote.client().pause();
        let Some(store) = self.written_store() else {
            return FetchTurn { lock: None, pause: before, has_waited: false };
        };
        let (time, limits) = (RunningTime::new(), query.limits());
        let longest = limits.timeout_of_call(remote.client().call_timeout()) / 2;
        let _in_call = limits.budget.map(WaitBudget::enter);
        let wait = AnswerWait::begin(Some(&self.tally), limits.budget);
        // The digest of a plan is no key of an entry.
        let mut attempt = store.try_lock(&ObjectNames::plan(keys));
        let (mut pause, mut has_waited) = (PAUSES.0, false);
        while let Ok(TryLockOutcome::Held(waiter)) = attempt {
            has_waited = true;
            if time.at(Instant::now()) >= longest || limits.are_over() {
                store.cancel_wait(waiter);
                attempt = Ok(TryLockOutcome::Unsupported);
            } else {
                thread::sleep(pause);
                pause = (pause * 2).min(PAUSES.1);
                attempt = store.poll(waiter);
            }
        }
        let waited = if has_waited { time.at(Instant::now()) } else { Duration::ZERO };
        wait.end(waited, time.suspended());
        // Without the lock, it is the turn of all: entries are fetched more than once, and nothing else.
        let lock = match attempt {
            Ok(TryLockOutcome::Acquired(lock)) => Some(lock),
            Ok(TryLockOutcome::HolderFailed(text)) => {
                reason_of_pause(&text, remote).inspect(|reason| remote.client().pause_for(reason));
                None
            }
            Ok(TryLockOutcome::Held(_) | TryLockOutcome::Unsupported) | Err(_) => None,
        };
        FetchTurn { lock, pause: before, has_waited }
    }
}

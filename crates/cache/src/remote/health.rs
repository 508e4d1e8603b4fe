//! The health of a remote tier: after failures, the tier is paused, and then one call decides whether it works again.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use opkeep_fs::{ForkMark, without_fork};

/// The number of calls in a row that fail, time out or are slow, after which the tier is paused.
const MAX_FAILURES: u32 = 3;
/// The first pause, and the longest: each is twice as long as the last, while the call that follows it fails.
const PAUSES: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(600));

/// The results of the last calls.
#[derive(Debug, Default)]
pub(super) struct Health {
    state: Mutex<State>,
    fork: ForkMark,
}

#[derive(Debug, Default)]
struct State {
    /// The number of failures in a row.
    failures: u32,
    /// The earliest time of the call that decides whether the pause ends, if the tier is paused.
    paused_until: Option<Instant>,
    /// The length of the pause.
    pause: Duration,
    /// What was wrong with the call that began it, for people.
    reason: String,
    /// Whether that call found that the tier hangs.
    hangs: bool,
    /// Whether the call that decides is in progress.
    is_probed: bool,
}

/// The permission for one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    /// An ordinary call.
    Call,
    /// The call that decides whether a pause ends.
    Probe,
}

/// A change of a tier's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is not used for a while.
    Paused,
    /// It is used again.
    Resumed,
}

/// The end of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallEnd {
    Answered,
    /// It was answered after a time that is too long to be useful.
    Slow,
    Failed,
    /// The tier did nothing for so long that it hangs: no other caller is to find that out.
    Idle,
    /// The caller ended it, which is no failure of the tier.
    Ended,
}

/// A pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    pub(super) length: Duration,
    /// What was wrong with the call that began it, for people.
    pub(crate) reason: String,
    /// Whether the tier hangs, which it does for other processes as well: another failure may be one of this process's credentials.
    pub(crate) hangs: bool,
}

impl Health {
    /// Returns the permission to call the tier at `now`; pass it to [`end`](Self::end) after the call. `None` during a pause.
    pub(super) fn begin(&self, now: Instant) -> Option<Permit> {
        self.with_state(|state| {
            if !state.may_call(now) {
                return None;
            }
            state.is_probed = state.paused_until.is_some();
            Some(if state.is_probed { Permit::Probe } else { Permit::Call })
        })
    }

    /// Records the end of a call and, for people, what was wrong with it. Returns what that changes. During a pause only the probe counts,
    /// since all other calls began before the pause.
    pub(super) fn end(&self, permit: Permit, end: CallEnd, now: Instant, reason: &str) -> Option<Change> {
        self.with_state(|state| {
            let was_paused = state.paused_until.is_some();
            state.note(permit, end, now, reason);
            match (was_paused, state.paused_until.is_some()) {
                (false, true) => Some(Change::Paused),
                (true, false) => Some(Change::Resumed),
                _ => None,
            }
        })
    }

    /// Pauses the tier at `now` for what another process found out a moment ago. Returns whether it was not paused.
    pub(super) fn pause_for(&self, now: Instant, reason: &str) -> bool {
        self.with_state(|state| {
            let begins = state.paused_until.is_none();
            if begins {
                state.begin_pause(PAUSES.0, now, reason, true);
            }
            begins
        })
    }

    /// Whether the tier is paused.
    pub(super) fn is_paused(&self) -> bool {
        self.with_state(|state| state.paused_until.is_some())
    }

    /// Returns the pause, if the tier is paused.
    pub(super) fn pause(&self) -> Option<Pause> {
        let of = |state: &mut State| Pause {
            length: state.pause,
            reason: state.reason.clone(),
            hangs: state.hangs,
        };
        self.with_state(|state| state.paused_until.is_some().then(|| of(state)))
    }

    /// Whether [`begin`](Self::begin) permits a call at `now`.
    pub(super) fn may_call(&self, now: Instant) -> bool {
        self.with_state(|state| state.may_call(now))
    }

    /// A forked child, which shares the settings of its parent's tier, never finds the state locked.
    fn with_state<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        without_fork(|| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if self.fork.is_first_in_child() {
                // The thread that would end the probe is the parent's.
                state.is_probed = false;
            }
            change(&mut state)
        })
    }
}

impl State {
    fn may_call(&self, now: Instant) -> bool {
        self.paused_until.is_none_or(|until| now >= until && !self.is_probed)
    }

    /// Records the end of a call.
    fn note(&mut self, permit: Permit, end: CallEnd, now: Instant, reason: &str) {
        match (permit, end) {
            (Permit::Call, _) if self.paused_until.is_some() => {}
            (Permit::Call, CallEnd::Ended) => {}
            // The next call becomes the probe.
            (Permit::Probe, CallEnd::Ended) => self.is_probed = false,
            (_, CallEnd::Answered) => *self = State::default(),
            (Permit::Call, CallEnd::Idle) => self.begin_pause(PAUSES.0, now, reason, true),
            (Permit::Call, CallEnd::Failed | CallEnd::Slow) => {
                self.failures += 1;
                if self.failures >= MAX_FAILURES {
                    self.begin_pause(PAUSES.0, now, reason, false);
                }
            }
            (Permit::Probe, CallEnd::Failed | CallEnd::Slow | CallEnd::Idle) => {
                self.begin_pause((self.pause * 2).min(PAUSES.1), now, reason, end == CallEnd::Idle);
            }
        }
    }

    fn begin_pause(&mut self, pause: Duration, now: Instant, reason: &str, hangs: bool) {
        let (paused_until, reason) = (Some(now + pause), reason.to_owned());
        *self = Self { paused_until, pause, reason, hangs, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::CallEnd::{Answered, Ended, Failed, Idle, Slow};
    use super::*;

    const PAUSE: Duration = PAUSES.0;

    impl Health {
        fn note(&self, permit: Permit, end: CallEnd, now: Instant) -> Option<Change> {
            self.end(permit, end, now, "a test")
        }
    }

    /// Returns the health of a tier that failed until `now`, and is paused.
    fn paused(now: Instant) -> Health {
        let health = Health::default();
        for _ in 0..MAX_FAILURES {
            health.note(health.begin(now).unwrap(), Failed, now);
        }
        health
    }

    #[test]
    fn failures_in_a_row_pause_it() {
        let (health, now) = (Health::default(), Instant::now());
        for end in [Failed, Failed, Answered, Failed, Failed, Ended] {
            assert!(!health.is_paused());
            health.note(health.begin(now).unwrap(), end, now);
        }
        health.note(health.begin(now).unwrap(), Failed, now);
        assert!(health.is_paused());
        assert!(!health.pause().unwrap().hangs, "it may be the credentials of this process");
        let early = now + PAUSE - Duration::from_millis(1);
        assert_eq!((health.may_call(early), health.begin(early)), (false, None));
    }

    #[test]
    fn one_probe_decides_after_the_pause() {
        let now = Instant::now();
        let (health, later) = (paused(now), now + PAUSE);
        assert!(health.may_call(later) && health.is_paused());
        assert_eq!(health.begin(later), Some(Permit::Probe));
        assert!(!health.may_call(later));
        assert_eq!(health.begin(later), None, "others do not call it meanwhile");
        health.note(Permit::Probe, Failed, later);
        assert_eq!(health.begin(later + PAUSE * 2 - Duration::from_millis(1)), None, "one failure is enough");
        let later = later + PAUSE * 2;
        assert_eq!(health.begin(later), Some(Permit::Probe));
        health.note(Permit::Probe, Answered, later);
        assert_eq!([health.begin(later), health.begin(later)], [Some(Permit::Call); 2]);
        assert!(!health.is_paused());
    }

    #[test]
    fn a_probe_that_its_caller_ended_decides_nothing() {
        let now = Instant::now();
        let (health, later) = (paused(now), now + PAUSE);
        health.note(health.begin(later).unwrap(), Ended, later);
        assert!(health.is_paused());
        assert_eq!(health.begin(later), Some(Permit::Probe));
    }

    #[test]
    fn calls_that_began_before_the_pause_decide_nothing() {
        let now = Instant::now();
        let health = Health::default();
        let calls: Vec<_> = (0..8).map(|_| health.begin(now).unwrap()).collect();
        for permit in &calls[..3] {
            health.note(*permit, Failed, now);
        }
        health.note(calls[3], Answered, now);
        let later = now + PAUSE - Duration::from_secs(1);
        health.note(calls[4], Failed, later);
        assert_eq!(health.begin(later), None);
        assert_eq!(health.begin(now + PAUSE), Some(Permit::Probe));
    }

    /// Each probe of a tier that hangs costs its caller an idle timeout.
    #[test]
    fn pauses_of_a_tier_that_hangs_become_longer() {
        let (health, mut now, mut pauses) = (Health::default(), Instant::now(), Vec::new());
        for _ in 0..7 {
            health.note(health.begin(now).unwrap(), Idle, now);
            let pause = health.pause().unwrap();
            assert!(pause.hangs);
            assert_eq!((pause.reason.as_str(), health.begin(now)), ("a test", None));
            pauses.push(pause.length.as_secs());
            now += pause.length;
        }
        assert_eq!(pauses, [30, 60, 120, 240, 480, 600, 600]);
        health.note(health.begin(now).unwrap(), Answered, now);
        assert_eq!(health.pause(), None);
        health.note(health.begin(now).unwrap(), Idle, now);
        assert_eq!(health.pause().unwrap().length, PAUSE);
    }

    #[test]
    fn slow_answers_in_a_row_pause_it() {
        let (health, now) = (Health::default(), Instant::now());
        for end in [Slow, Slow, Answered, Slow, Failed] {
            health.note(health.begin(now).unwrap(), end, now);
            assert!(!health.is_paused());
        }
        assert_eq!(health.note(health.begin(now).unwrap(), Slow, now), Some(Change::Paused));
    }
}

//! The problems of an engine, of which each is one warning until it ends.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a call does. Some kinds can work while others do not: an engine that is full can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// It reads objects or a counter.
    Read,
    /// It stores objects.
    Store,
    /// It claims or renews leases, or asks whether there are leases.
    Lease,
}

/// What is wrong with an engine.
#[derive(Clone, Copy, Debug)]
pub(super) enum Problem {
    /// Calls fail: it cannot be reached, or does not answer as it should.
    Failing(CallKind),
    /// It refuses calls, such as one that is full. It answers, so this is no outage.
    Refusing(CallKind),
    /// Its answers take longer than a caller waits for. That does not end: each caller would find out again.
    Slow,
}

/// The problems that there was a warning of. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Problems(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    /// Calls fail, and none of any kind was answered since. In an outage all kinds of calls fail, which is one problem.
    outage: AtomicBool,
    /// By kind of call, until a call of the kind succeeds.
    failing: [AtomicBool; 3],
    refusing: [AtomicBool; 3],
    slow: AtomicBool,
    /// A warning with a reason follows.
    is_due: AtomicBool,
    /// Calls are not made, because of those of other callers.
    paused: AtomicBool,
    /// Entries were not sent in time, and no call failed for it.
    unsent: AtomicBool,
}

/// The reason why a call to an engine failed.
#[derive(Debug)]
pub(crate) struct CallFailure {
    /// For people.
    reason: String,
    problem: Problem,
    problems: Problems,
}

impl Problems {
    /// Returns the failure of a call that met `problem`.
    pub(super) fn failure(&self, problem: Problem, reason: String) -> CallFailure {
        CallFailure { reason, problem, problems: self.clone() }
    }

    /// Records that there is a warning of `problem`. Returns whether it is due.
    fn warn(&self, problem: Problem) -> bool {
        let Flags { outage, failing, refusing, slow, is_due, .. } = &*self.0;
        let is_first = match problem {
            Problem::Failing(kind) => {
                let is_new = !failing[kind as usize].swap(true, Ordering::Relaxed);
                !outage.swap(true, Ordering::Relaxed) && is_new
            }
            Problem::Refusing(kind) => !refusing[kind as usize].swap(true, Ordering::Relaxed),
            Problem::Slow => !slow.swap(true, Ordering::Relaxed),
        };
        is_due.store(false, Ordering::SeqCst);
        is_first
    }

    /// Records that a warning with a reason follows, so that none of a pause comes before it. Before the failures that may begin the pause.
    pub(super) fn expect_warning(&self) {
        self.0.is_due.store(true, Ordering::SeqCst);
    }

    /// Records that there is a warning that the engine is not called any longer. Returns whether it is due: it is the first warning of
    /// any problem. It hides no later one, which has a reason.
    pub(super) fn warn_of_pause(&self) -> bool {
        let Flags { outage, failing, refusing, slow, paused, is_due, unsent: _ } = &*self.0;
        // First, since it ends when another one begins.
        if is_due.load(Ordering::SeqCst) {
            return false;
        }
        let others = [outage, slow].into_iter().chain(failing).chain(refusing);
        let had_any = others.into_iter().any(|problem| problem.load(Ordering::Relaxed));
        !had_any && !paused.swap(true, Ordering::Relaxed)
    }

    /// Records that there is a warning of entries that are not sent. Returns whether it is due: no other warning has the reason.
    pub(super) fn warn_of_unsent(&self) -> bool {
        let Flags { outage, failing, refusing, slow, paused, unsent, is_due: _ } = &*self.0;
        let reasons =
            [outage, slow, paused, &failing[CallKind::Store as usize], &refusing[CallKind::Store as usize]];
        let has_reason = reasons.iter().any(|problem| problem.load(Ordering::Relaxed));
        !has_reason && !unsent.swap(true, Ordering::Relaxed)
    }

    /// Records that the engine answered, if only by a refusal.
    pub(super) fn answered(&self) {
        self.0.outage.store(false, Ordering::Relaxed);
        self.0.paused.store(false, Ordering::Relaxed);
    }

    /// Records that a call succeeded.
    pub(super) fn succeeded(&self, kind: CallKind) {
        self.answered();
        self.0.failing[kind as usize].store(false, Ordering::Relaxed);
        self.0.refusing[kind as usize].store(false, Ordering::Relaxed);
        if kind == CallKind::Store {
            self.0.unsent.store(false, Ordering::Relaxed);
        }
    }
}

impl CallFailure {
    /// Returns the same failure, for another reason.
    pub(super) fn because(self, reason: String) -> Self {
        Self { reason, ..self }
    }

    /// Returns what goes on nevertheless, for people.
    pub(crate) fn effect(&self) -> &'static str {
        match self.problem {
            Problem::Refusing(CallKind::Store) => {
                "kernels are still fetched, and are sent when it takes them"
            }
            Problem::Refusing(CallKind::Lease) => {
                "kernels are still fetched, and other hosts may build the same ones"
            }
            Problem::Failing(CallKind::Store) => "the kernels are sent later",
            Problem::Failing(CallKind::Read | CallKind::Lease)
            | Problem::Refusing(CallKind::Read)
            | Problem::Slow => "building without it",
        }
    }

    /// Records that there is a warning of the failure. Returns whether it is due: it is the first since the problem began.
    pub(crate) fn warn(&self) -> bool {
        self.problems.warn(self.problem)
    }
}

impl fmt::Display for CallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::CallKind::{Lease, Read, Store};
    use super::Problem::{Failing, Refusing, Slow};
    use super::*;

    #[test]
    fn a_problem_is_one_warning_until_it_ends() {
        let problems = Problems::default();
        let warn = |problem| problems.failure(problem, String::new()).warn();
        // A failure without a warning hides no other one.
        drop(problems.failure(Failing(Read), String::new()));
        for (first, other) in [(Read, Store), (Store, Lease), (Lease, Read)] {
            assert_eq!([first, first, other].map(|kind| warn(Failing(kind))), [true, false, false]);
            // The engine answers other calls, while this one still fails.
            problems.succeeded(other);
            assert!(!warn(Failing(first)));
            problems.succeeded(first);
        }
        assert_eq!([Slow, Slow].map(warn), [true, false]);
    }

    #[test]
    fn an_engine_that_refuses_to_store_is_still_read() {
        let effect = |problem| Problems::default().failure(problem, String::new()).effect();
        for problem in [Refusing(Store), Refusing(Lease)] {
            assert!(effect(problem).contains("are still fetched"), "{problem:?}");
        }
        for problem in [Refusing(Read), Failing(Read), Failing(Lease), Slow] {
            assert_eq!(effect(problem), "building without it", "{problem:?}");
        }
        assert_eq!(effect(Failing(Store)), "the kernels are sent later");
    }

    #[test]
    fn another_problem_is_a_warning_of_its_own() {
        let problems = Problems::default();
        let warn = |problem| problems.failure(problem, String::new()).warn();
        // An engine that is full, and then cannot be reached.
        assert_eq!([Refusing(Store), Refusing(Store), Failing(Read)].map(warn), [true, false, true]);
        // It is there again, and is still full; then it refuses to be read, too.
        problems.succeeded(Read);
        assert_eq!([Refusing(Store), Refusing(Read)].map(warn), [false, true]);
        // A failed upload, after which nothing is stored: a later outage is reported.
        let problems = Problems::default();
        let warn = |problem| problems.failure(problem, String::new()).warn();
        assert!(warn(Failing(Store)));
        problems.succeeded(Read);
        assert_eq!([Failing(Read), Failing(Store)].map(warn), [true, false]);
    }

    #[test]
    fn unsent_entries_are_reported_if_no_failure_explains_them() {
        let due = |problem: Option<super::Problem>| {
            let problems = Problems::default();
            let has_warned = problem.map(|problem| problems.failure(problem, String::new()).warn());
            assert_ne!(has_warned, Some(false));
            [problems.warn_of_unsent(), problems.warn_of_unsent()]
        };
        assert_eq!([None, Some(Refusing(Read)), Some(Refusing(Lease))].map(due), [[true, false]; 3]);
        for explained in [Failing(Store), Refusing(Store), Slow, Failing(Read)] {
            assert_eq!(due(Some(explained)), [false; 2], "{explained:?}");
        }
        let problems = Problems::default();
        assert!(problems.warn_of_pause() && !problems.warn_of_unsent());
        // The engine is read again.
        let problems = Problems::default();
        assert!(problems.failure(Failing(Read), String::new()).warn());
        problems.succeeded(Read);
        assert!(problems.warn_of_unsent());
        problems.succeeded(Read);
        assert!(!problems.warn_of_unsent());
        problems.succeeded(Store);
        assert!(problems.warn_of_unsent());
    }

    #[test]
    fn a_pause_is_reported_if_nothing_else_is() {
        let problems = Problems::default();
        assert_eq!([problems.warn_of_pause(), problems.warn_of_pause()], [true, false]);
        // The first call of this caller has the reason.
        assert!(problems.failure(Failing(Read), String::new()).warn());
        problems.answered();
        assert!(!problems.warn_of_pause());
        problems.succeeded(Read);
        assert!(problems.warn_of_pause());
        // A thread sees the pause before the one that knows the reason reports it.
        let problems = Problems::default();
        problems.expect_warning();
        assert!(!problems.warn_of_pause());
        assert!(problems.failure(super::Problem::Slow, String::new()).warn() && !problems.warn_of_pause());
        // A pause that was not reported hides no outage.
        let problems = Problems::default();
        assert!(problems.failure(Refusing(Read), String::new()).warn() && !problems.warn_of_pause());
        assert!(problems.failure(Failing(Read), String::new()).warn());
    }
}

//! The problems of an engine, of which each is one warning until it ends.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is wrong with an engine.
#[derive(Clone, Copy, Debug)]
pub(super) enum Problem {
    /// Calls fail: it cannot be reached, or does not answer as it should. Ends with the next answer.
    Failing,
    /// Calls that store objects fail. Ends when it stores one.
    Storing,
    /// It refuses requests, such as one that is full. Ends when it stores an object.
    Refusing,
    /// Its answers take longer than a caller waits for. That does not end: each caller would find out again.
    Slow,
}

/// The problems that there was a warning of. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Problems(Arc<[AtomicBool; 4]>);

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

    /// Records that there is a warning of `problem`. Returns whether it is due: in an outage, all kinds of calls fail, which is one
    /// problem.
    fn warn(&self, problem: Problem) -> bool {
        let is_outage = self.has(Problem::Failing) || self.has(Problem::Storing);
        !is_outage && !self.0[problem as usize].swap(true, Ordering::Relaxed)
    }

    fn has(&self, problem: Problem) -> bool {
        self.0[problem as usize].load(Ordering::Relaxed)
    }

    /// Records that there is a warning that the engine is not called any longer. Returns whether it is the first of any kind.
    pub(super) fn warn_of_pause(&self) -> bool {
        let had_any = self.0.iter().any(|problem| problem.load(Ordering::Relaxed));
        self.warn(Problem::Failing) && !had_any
    }

    /// Records that `problem` has ended.
    pub(super) fn ended(&self, problem: Problem) {
        self.0[problem as usize].store(false, Ordering::Relaxed);
    }
}

impl CallFailure {
    /// Returns the same failure, for another reason.
    pub(super) fn because(self, reason: String) -> Self {
        Self { reason, ..self }
    }

    /// Returns the failure of a call that stores objects.
    pub(super) fn of_storing(self) -> Self {
        let problem = if let Problem::Failing = self.problem { Problem::Storing } else { self.problem };
        Self { problem, ..self }
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
    use super::*;

    #[test]
    fn a_problem_is_one_warning_until_it_ends() {
        let problems = Problems::default();
        let warn = |problem| problems.failure(problem, String::new()).warn();
        // A failure of which nobody warns hides no other.
        drop(problems.failure(Problem::Failing, String::new()));
        for (first, other) in [(Problem::Failing, Problem::Storing), (Problem::Storing, Problem::Failing)] {
            assert_eq!([first, first, other, Problem::Refusing].map(warn), [true, false, false, false]);
            // The engine answers other calls, while this one still fails.
            problems.ended(other);
            assert!(!warn(first));
            problems.ended(first);
        }
        // An engine that is full, and then cannot be reached.
        assert_eq!([Problem::Refusing, Problem::Refusing, Problem::Failing].map(warn), [true, false, true]);
        assert!(!problems.warn_of_pause());
        assert!(Problems::default().warn_of_pause());
    }
}

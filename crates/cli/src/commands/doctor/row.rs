//! The rows of a report, and checks that are bounded in time.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::ui::hints::hints;
use crate::ui::logged::{failed_tool, tool_output};
use crate::ui::output::chain;

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    /// Something that a user may want otherwise.
    Note,
    Problem,
}

impl Status {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

/// A line of the report.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) check: &'static str,
    pub(super) status: Status,
    pub(super) finding: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) help: Vec<String>,
    /// Whether it prevents builds.
    pub(super) prevents_builds: bool,
    /// What a tool that fails wrote, for `-v`.
    #[serde(skip)]
    pub(super) details: Option<String>,
    /// Whether there was no answer.
    #[serde(skip)]
    pub(super) has_timed_out: bool,
}

impl Row {
    pub(super) fn ok(check: &'static str, finding: impl Into<String>) -> Self {
        let (status, finding) = (Status::Ok, finding.into());
        let (help, details) = (Vec::new(), None);
        Self { check, status, finding, help, prevents_builds: false, details, has_timed_out: false }
    }

    pub(super) fn note(check: &'static str, finding: impl Into<String>) -> Self {
        Self { status: Status::Note, ..Self::ok(check, finding) }
    }

    pub(super) fn problem(check: &'static str, finding: impl Into<String>) -> Self {
        Self { status: Status::Problem, ..Self::ok(check, finding) }
    }

    /// Returns the problem that is an error, with the hints for it.
    pub(super) fn error(check: &'static str, error: &anyhow::Error) -> Self {
        let details = failed_tool(error).map(tool_output);
        Self { help: hints(error), details, ..Self::problem(check, chain(error)) }
    }

    /// Returns the row with one more thing to do.
    #[must_use]
    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Returns the row of something without which there is no build, if `prevents`.
    #[must_use]
    pub(super) fn prevents_builds(mut self, prevents: bool) -> Self {
        self.prevents_builds = prevents;
        self
    }
}

/// A check, and how long it may take.
pub(super) struct Check {
    name: &'static str,
    limit: Duration,
    run: Box<dyn FnOnce() -> Vec<Row> + Send>,
}

impl Check {
    pub(super) fn new(
        name: &'static str,
        limit: Duration,
        run: impl FnOnce() -> Vec<Row> + Send + 'static,
    ) -> Self {
        Self { name, limit, run: Box::new(run) }
    }
}

/// Runs all checks at once, and returns their rows in the order of the checks. One that takes too long, as on a file system whose
/// server is gone, is a problem; its thread goes on, since nothing can end a call of the system.
pub(super) fn run_all(checks: Vec<Check>) -> Vec<Row> {
    let started = checks.into_iter().map(|Check { name, limit, run }| {
        let (sender, receiver) = channel();
        let spawned = thread::Builder::new().name("doctor".to_owned()).spawn(move || {
            // Without a receiver, the check took too long.
            let _ = sender.send(run());
        });
        (name, limit, spawned.is_ok(), receiver)
    });
    let started: Vec<_> = started.collect();
    let mut rows = Vec::new();
    let mut waited = Duration::ZERO;
    for (name, limit, is_spawned, receiver) in started {
        let begin = std::time::Instant::now();
        let received = receiver.recv_timeout(limit.saturating_sub(waited));
        waited += begin.elapsed();
        match received {
            Ok(found) => rows.extend(found),
            Err(RecvTimeoutError::Timeout) => {
                let finding =
                    format!("no answer in {} s: a file system, a server or a program hangs", limit.as_secs());
                rows.push(Row { has_timed_out: true, ..Row::problem(name, finding) });
            }
            Err(RecvTimeoutError::Disconnected) if is_spawned => {
                rows.push(Row::problem(name, "the check ended without a result: please report it"));
            }
            Err(RecvTimeoutError::Disconnected) => {
                let row = Row::problem(name, "there is no thread for the check");
                rows.push(row.help("raise the limit on processes (`ulimit -u`)"));
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_hangs_is_a_problem_and_the_others_are_reported() {
        let (end, wait) = channel::<()>();
        let long = Duration::from_secs(60);
        let found = run_all(vec![
            Check::new("one", long, || vec![Row::ok("one", "fine")]),
            Check::new("two", Duration::from_millis(20), move || {
                let _ = wait.recv();
                Vec::new()
            }),
            Check::new("three", long, || vec![Row::note("three", "so")]),
        ]);
        drop(end);
        assert!(found[1].has_timed_out && !found[0].has_timed_out);
        let found: Vec<_> = found.iter().map(|row| (row.check, row.status)).collect();
        assert_eq!(found, [("one", Status::Ok), ("two", Status::Problem), ("three", Status::Note)]);
    }
}

//! The error type of this crate.

use std::path::PathBuf;

use thiserror::Error;

/// The failure of a program. It is exhaustive: each backend converts every failure to its own error.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// The exit status was not 0.
    #[error("`{command}` failed: {status}\n{log_tail}")]
    Failed {
        /// The program and its arguments.
        command: String,
        /// Its status: `exit status: 1`, `signal: 11 (SIGSEGV)`.
        status: String,
        /// The end of its output.
        log_tail: String,
        /// The file that keeps all of its output.
        log: Option<PathBuf>,
    },
    /// It did not end in time and was killed with all its children.
    #[error("`{command}` did not end within its deadline of {seconds:.1} s and was killed\n{log_tail}")]
    TimedOut {
        /// The program and its arguments.
        command: String,
        /// How long it ran.
        seconds: f64,
        /// The end of its output.
        log_tail: String,
        /// The file that keeps all of its output.
        log: Option<PathBuf>,
    },
    /// Its exit status was 0, but an expected result is missing.
    #[error("`{command}` ended without an error, but {problem}\n{log_tail}")]
    MissingOutput {
        /// The program and its arguments.
        command: String,
        /// What is missing or wrong.
        problem: String,
        /// The end of its output.
        log_tail: String,
        /// The file that keeps all of its output.
        log: Option<PathBuf>,
    },
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
    /// It could not be started or waited for.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// The action that failed, such as `run`.
        action: &'static str,
        /// The path that it concerned.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

//! What can go wrong when a program is run.

use std::path::PathBuf;

use thiserror::Error;

/// Why a program did not do what it should. Each backend makes an error of its own of it.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// It ended with another status than 0.
    #[error("`{command}` failed: {status}\n{log_tail}")]
    Failed {
        /// The program and its arguments.
        command: String,
        /// How it ended: `exit status: 1`, `signal: 11 (SIGSEGV)`.
        status: String,
        /// The end of its output.
        log_tail: String,
        /// A file with all of its output that was kept.
        log: Option<PathBuf>,
    },
    /// It did not end in time, and was killed with all its children.
    #[error("`{command}` did not end within its deadline of {seconds:.1} s and was killed\n{log_tail}")]
    TimedOut {
        /// The program and its arguments.
        command: String,
        /// How long it ran.
        seconds: f64,
        /// The end of its output.
        log_tail: String,
        /// A file with all of its output that was kept.
        log: Option<PathBuf>,
    },
    /// It ended with status 0, but did not leave what it should.
    #[error("`{command}` ended without an error, but {problem}\n{log_tail}")]
    MissingOutput {
        /// The program and its arguments.
        command: String,
        /// What is missing or wrong.
        problem: String,
        /// The end of its output.
        log_tail: String,
        /// A file with all of its output that was kept.
        log: Option<PathBuf>,
    },
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
    /// It could not be started or waited for.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// What was tried, such as `run`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

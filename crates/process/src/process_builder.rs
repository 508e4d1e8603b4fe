//! Running a program to its end.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use opkeep_fs::CancelToken;
use rustix::fs::{OFlags, fcntl_setfl};

use crate::error::ProcessError;
use crate::group::{OnParentExit, ProcessGroup};
use crate::log::keep_log;
use crate::output::tail;
use crate::process_output::ProcessOutput;
use crate::running_process::{Launch, RunningProcess};
use crate::sandbox::Sandbox;

/// A program to run, and how.
#[derive(Clone, Copy, Debug)]
pub struct ProcessBuilder<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [OsString],
    /// All of its environment.
    pub environment: &'a [(&'a OsStr, &'a OsStr)],
    /// Where it runs.
    pub dir: &'a Path,
    /// Where its output is kept if it does not end in time.
    pub log: Option<&'a Path>,
    /// When it must have ended.
    pub deadline: Option<Instant>,
    /// Cancels the run.
    pub cancel: &'a CancelToken,
    /// What confines and observes it.
    pub sandbox: Sandbox<'a>,
}

impl ProcessBuilder<'_> {
    /// Runs the program to its end, or to its deadline; then it and all its children are ended.
    ///
    /// # Errors
    /// It could not be started, did not end in time, or was cancelled. A status other than 0 is no error here.
    pub fn wait_with_output(&self) -> Result<ProcessOutput, ProcessError> {
        self.spawn()?.wait_with_output()
    }

    /// Starts the program, to be waited for later. It ends with the thread that calls this. Its output is not
    /// read until it is waited for.
    ///
    /// # Errors
    /// It could not be started.
    pub fn spawn(&self) -> Result<RunningProcess, ProcessError> {
        let began = Instant::now();
        let cannot = |source| ProcessError::Io { action: "run", path: self.program.to_owned(), source };
        let (group, output) = self.start().map_err(cannot)?;
        let launch = Launch {
            program: self.program.to_owned(),
            command: self.to_string(),
            log: self.log.map(Path::to_owned),
            deadline: self.deadline,
            cancel: self.cancel.clone(),
            began,
        };
        Ok(RunningProcess::new(launch, group, output))
    }

    /// The error of a program that ended and failed.
    pub fn exit_error(&self, ended: &ProcessOutput) -> ProcessError {
        ProcessError::Failed {
            command: self.to_string(),
            status: ended.ending(),
            log_tail: tail(&ended.output),
            log: self.log.and_then(|log| keep_log(log, &ended.output)),
        }
    }

    /// The error of a program that ended well and did not do what it should.
    pub fn missing_output_error(&self, ended: &ProcessOutput, problem: impl Into<String>) -> ProcessError {
        ProcessError::MissingOutput {
            command: self.to_string(),
            problem: problem.into(),
            log_tail: tail(&ended.output),
            log: self.log.and_then(|log| keep_log(log, &ended.output)),
        }
    }

    fn start(&self) -> io::Result<(ProcessGroup, io::PipeReader)> {
        let mut command = Command::new(self.program);
        command.args(self.args).current_dir(self.dir).env_clear().envs(self.environment.iter().copied());
        let (from, for_stdout) = io::pipe()?;
        fcntl_setfl(&from, OFlags::NONBLOCK)?;
        let for_stderr = for_stdout.try_clone()?;
        command.stdin(Stdio::null()).stdout(for_stdout).stderr(for_stderr);
        // Our ends of the pipe close with `command`; else what is read would have no end.
        Ok((ProcessGroup::start(&mut command, OnParentExit::Kill, self.sandbox)?, from))
    }
}

/// The command as one would type it.
impl fmt::Display for ProcessBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.program.display())?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", arg.display()))
    }
}

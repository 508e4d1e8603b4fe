//! The description of a program to run.

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

/// A program to run, with its settings.
#[derive(Clone, Copy, Debug)]
pub struct ProcessBuilder<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [OsString],
    /// Its complete environment.
    pub environment: &'a [(&'a OsStr, &'a OsStr)],
    /// Its working directory.
    pub dir: &'a Path,
    /// The file that keeps its output if it does not end in time.
    pub log: Option<&'a Path>,
    /// The time at which it is killed.
    pub deadline: Option<Instant>,
    /// Cancels the run.
    pub cancel: &'a CancelToken,
    /// Confines and observes it.
    pub sandbox: Sandbox<'a>,
}

impl ProcessBuilder<'_> {
    /// Runs the program until it ends or its deadline passes; then it and all its children are killed.
    ///
    /// # Errors
    /// It could not be started, did not end in time, or was cancelled. An exit status other than 0 is no error here.
    pub fn wait_with_output(&self) -> Result<ProcessOutput, ProcessError> {
        self.spawn()?.wait_with_output()
    }

    /// Starts the program without waiting for it. The kernel kills it when the calling thread ends. Its output is not
    /// read before the wait.
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

    /// The error of a program that ended with another status than 0.
    pub fn exit_error(&self, ended: &ProcessOutput) -> ProcessError {
        ProcessError::Failed {
            command: self.to_string(),
            status: ended.ending(),
            log_tail: tail(&ended.output),
            log: self.log.and_then(|log| keep_log(log, &ended.output)),
        }
    }

    /// The error of a program that ended with status 0 without its expected result.
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
        // Dropping `command` closes this process's write ends of the pipe: if they stayed open, reading would never
        // end.
        Ok((ProcessGroup::start(&mut command, OnParentExit::Kill, self.sandbox)?, from))
    }
}

/// The command line as a user would type it.
impl fmt::Display for ProcessBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.program.display())?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", arg.display()))
    }
}

//! A program that runs in the place of its caller: with its input, and with both outputs as they come.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, PipeReader, Read};
use std::os::fd::{AsFd, RawFd};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use opkeep_fs::CancelToken;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};

use crate::error::ProcessError;
use crate::ffi::KeptDescriptors;
use crate::group::{OnParentExit, ProcessGroup};
use crate::sandbox::Sandbox;
use crate::signals::SignalRelay;

/// The time between two looks at a program that writes nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The longest wait for processes that end after the program which started them, and the longest for their output.
const END_TIME: Duration = Duration::from_millis(200);
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// One of a program's two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The open files of this process that a program inherits, beside its two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InheritedFiles<'a> {
    /// Standard input and all others that this process inherited. A terminal is not passed: the program is in a process group of its
    /// own, which the terminal would stop; it reads nothing instead.
    All,
    /// These descriptors, if this process inherited them. Standard input is empty.
    Only(&'a [RawFd]),
}

/// A program to run in the place of this process.
#[derive(Clone, Copy, Debug)]
pub struct ForwardingProcess<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [OsString],
    /// Its complete environment.
    pub environment: &'a [(&'a OsStr, &'a OsStr)],
    /// Its working directory.
    pub dir: &'a Path,
    /// The open files that it inherits.
    pub files: InheritedFiles<'a>,
    /// The time at which it is killed.
    pub deadline: Option<Instant>,
    /// Kills it.
    pub cancel: &'a CancelToken,
    /// Signals that it and its children should receive.
    pub signals: &'a SignalRelay,
    /// Observes it. Only an observed program ends with all its children: their calls would fail afterwards.
    pub sandbox: Sandbox<'a>,
}

/// The result of a program that was not killed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Forwarded {
    /// Its exit status.
    pub status: ExitStatus,
    /// Whether all its children had ended when it ended, and all of its output was forwarded. Known of observed programs only.
    pub is_complete: bool,
}

/// The pipe of each output; `None` when it is closed.
type Pipes = [(Stream, Option<PipeReader>); 2];

/// The outputs of a program.
struct Outputs<'s> {
    pipes: Pipes,
    sink: &'s mut dyn FnMut(Stream, &[u8]) -> io::Result<()>,
    /// Whether the sink took all.
    is_complete: bool,
}

impl ForwardingProcess<'_> {
    /// Runs the program until it ends. `sink` takes its output as it comes; if it fails, the program's writes fail from then on, as
    /// they would if its reader were gone.
    ///
    /// # Errors
    /// It could not be started, did not end in time, or was cancelled. An exit status other than 0 is no error here.
    pub fn run(
        &self,
        sink: &mut dyn FnMut(Stream, &[u8]) -> io::Result<()>,
    ) -> Result<Forwarded, ProcessError> {
        let began = Instant::now();
        let failed = |action, source| ProcessError::Io { action, path: self.program.to_owned(), source };
        let (mut group, pipes) = self.start().map_err(|error| failed("run", error))?;
        let end = group.end_descriptor();
        let mut outputs = Outputs { pipes, sink, is_complete: true };
        loop {
            if group.has_ended().map_err(|error| failed("wait for", error))? {
                break;
            }
            self.signals.take().into_iter().for_each(|signal| group.signal(signal));
            if self.cancel.is_cancelled() {
                return Err(ProcessError::Cancelled);
            }
            let now = Instant::now();
            let left =
                self.deadline.map_or(POLL_INTERVAL, |deadline| deadline.saturating_duration_since(now));
            if left.is_zero() {
                let seconds = began.elapsed().as_secs_f64();
                let command = self.command_line();
                return Err(ProcessError::TimedOut { command, seconds, log_tail: String::new(), log: None });
            }
            outputs.wait(end.as_ref(), left.min(POLL_INTERVAL));
            outputs.forward();
        }
        let all_ended = self.sandbox.observer.is_none_or(|observer| observer.has_ended(END_TIME));
        let status = match self.sandbox.observer {
            Some(_) => group.end(),
            None => group.end_without_children(),
        };
        // Children that run on unobserved may hold the outputs open for as long as they like.
        outputs.forward_rest(if self.sandbox.observer.is_some() { DRAIN_TIME } else { END_TIME });
        let status = status.map_err(|error| failed("wait for", error))?;
        Ok(Forwarded { status, is_complete: all_ended && outputs.is_complete && outputs.are_closed() })
    }

    fn start(&self) -> io::Result<(ProcessGroup, Pipes)> {
        let mut command = Command::new(self.program);
        command.args(self.args).current_dir(self.dir).env_clear().envs(self.environment.iter().copied());
        let ((stdout, for_stdout), (stderr, for_stderr)) = (io::pipe()?, io::pipe()?);
        fcntl_setfl(&stdout, OFlags::NONBLOCK)?;
        fcntl_setfl(&stderr, OFlags::NONBLOCK)?;
        let (stdin, descriptors) = match self.files {
            InheritedFiles::All if io::stdin().is_terminal() => (Stdio::null(), KeptDescriptors::All),
            InheritedFiles::All => (Stdio::inherit(), KeptDescriptors::All),
            InheritedFiles::Only(kept) => (Stdio::null(), KeptDescriptors::Only(kept.to_vec())),
        };
        command.stdin(stdin).stdout(for_stdout).stderr(for_stderr);
        let group = ProcessGroup::start_with(&mut command, OnParentExit::Kill, self.sandbox, descriptors)?;
        Ok((group, [(Stream::Stdout, Some(stdout)), (Stream::Stderr, Some(stderr))]))
    }

    fn command_line(&self) -> String {
        let args = self.args.iter().map(|arg| format!(" {}", arg.display()));
        self.program.display().to_string() + &args.collect::<String>()
    }
}

impl Outputs<'_> {
    /// Waits until there is output, or until `end` is readable.
    fn wait(&self, end: Option<&impl AsFd>, most: Duration) {
        let open = self.pipes.iter().filter_map(|(_, pipe)| pipe.as_ref());
        let mut any: Vec<PollFd<'_>> = open.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        any.extend(end.map(|end| PollFd::new(end, PollFlags::IN)));
        // The result does not matter: the caller looks for itself.
        let _ = Timespec::try_from(most).map(|most| poll(&mut any, Some(&most)));
    }

    /// Forwards what has come, and returns whether anything came.
    fn forward(&mut self) -> bool {
        let mut buffer = vec![0; 64 * 1024];
        let mut came = false;
        for (stream, pipe) in &mut self.pipes {
            let Some(open) = pipe else { continue };
            match open.read(&mut buffer) {
                Ok(count) if count > 0 => {
                    came = true;
                    if (self.sink)(*stream, &buffer[..count]).is_err() {
                        (*pipe, self.is_complete) = (None, false);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => came = true,
                Ok(_) | Err(_) => *pipe = None,
            }
        }
        came
    }

    /// Forwards the rest of the output of a program that has ended, for at most `most`: one that its children have may never end. What
    /// the program itself wrote is in the pipes, and so comes first.
    fn forward_rest(&mut self, most: Duration) {
        let began = Instant::now();
        loop {
            let came = self.forward();
            let left = most.saturating_sub(began.elapsed());
            if self.are_closed() || left.is_zero() {
                return;
            }
            if !came {
                self.wait(None::<&PipeReader>, left);
            }
        }
    }

    fn are_closed(&self) -> bool {
        self.pipes.iter().all(|(_, pipe)| pipe.is_none())
    }
}

//! Running a program to its end.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use opbuild_backend::{BackendError, Cancel};

use crate::{Group, Orphan, Output, disk, tail};

/// How long a program is left alone that has not closed its outputs; and one that has, at first.
const SELDOM: Duration = Duration::from_millis(20);
const SOONEST: Duration = Duration::from_micros(100);

/// A child that left the group could hold the pipe open: it does not hold us for longer.
const GRACE: Duration = Duration::from_secs(2);

/// A program to run, and how.
#[derive(Clone, Copy)]
pub struct Run<'a> {
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
    /// Says when nobody waits for it any more.
    pub cancel: &'a Cancel,
}

/// A program that ended by itself.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to its outputs, both, bounded.
    pub output: String,
}

impl Run<'_> {
    /// Runs the program to its end, or to its deadline; then it and all its children are ended.
    ///
    /// # Errors
    /// It could not be started, did not end in time, or nobody waits for it any more. That it says by its status that it
    /// failed is none.
    pub fn to_end(&self) -> Result<Ended, BackendError> {
        let began = Instant::now();
        let cannot =
            |action| move |source| BackendError::Io { action, path: self.program.to_owned(), source };
        let (mut group, output, closed) = self.start().map_err(cannot("run"))?;
        let ended = self.wait(&group, &closed);
        let status = group.end();
        // The reader drops its end when all is read.
        let _ = closed.recv_timeout(GRACE);
        let output = output.take();
        match (ended, status) {
            (Some(Ok(())), Ok(status)) => Ok(Ended { status, output }),
            (Some(Err(source)), _) | (Some(Ok(())), Err(source)) => Err(cannot("wait for")(source)),
            (None, _) if self.cancel.is_cancelled() => Err(BackendError::Cancelled),
            (None, _) => Err(BackendError::Deadline {
                command: self.to_string(),
                seconds: began.elapsed().as_secs_f64(),
                log_tail: tail(&output),
                log: self.log.and_then(|log| disk::keep_log(log, &output)),
            }),
        }
    }

    /// The error of a program that ended and failed.
    pub fn failed(&self, ended: &Ended) -> BackendError {
        BackendError::Compile {
            command: self.to_string(),
            status: ended.status.to_string(),
            log_tail: tail(&ended.output),
            log: self.log.and_then(|log| disk::keep_log(log, &ended.output)),
        }
    }

    /// The error of a program that ended well and did not do what it should.
    pub fn lied(&self, ended: &Ended, problem: impl Into<String>) -> BackendError {
        BackendError::Output {
            command: self.to_string(),
            problem: problem.into(),
            log_tail: tail(&ended.output),
            log: self.log.and_then(|log| disk::keep_log(log, &ended.output)),
        }
    }

    fn start(&self) -> io::Result<(Group, Output, mpsc::Receiver<()>)> {
        let mut command = Command::new(self.program);
        command.args(self.args).current_dir(self.dir).env_clear().envs(self.environment.iter().copied());
        let (from, for_stdout) = io::pipe()?;
        let for_stderr = for_stdout.try_clone()?;
        command.stdin(Stdio::null()).stdout(for_stdout).stderr(for_stderr);
        // Started before the child, so that there is none if this fails.
        let (output, (open, closed)) = (Output::default(), mpsc::channel());
        let reader = output.clone();
        let read = move || {
            reader.drain(from);
            drop(open);
        };
        std::thread::Builder::new().spawn(read)?;
        // Our ends of the pipe close with `command`; the reader would wait for them.
        let group = Group::start(&mut command, Orphan::Dies)?;
        Ok((group, output, closed))
    }

    /// Waits for the end without reaping; `None` if the deadline passes or nobody waits any more.
    ///
    /// A program that ends closes its outputs, and so do its children: until they are closed it is looked after now and
    /// then only.
    fn wait(&self, group: &Group, closed: &mpsc::Receiver<()>) -> Option<io::Result<()>> {
        let mut pause = SOONEST;
        loop {
            match group.has_ended() {
                Ok(true) => return Some(Ok(())),
                Ok(false) => {}
                Err(error) => return Some(Err(error)),
            }
            let now = Instant::now();
            if self.cancel.is_cancelled() || self.deadline.is_some_and(|deadline| now >= deadline) {
                return None;
            }
            let left = self.deadline.map_or(SELDOM, |deadline| deadline - now);
            if closed.recv_timeout(SELDOM.min(left)) == Err(mpsc::RecvTimeoutError::Disconnected) {
                std::thread::sleep(pause.min(left));
                pause = (pause * 5 / 4).min(Duration::from_millis(4));
            }
        }
    }
}

/// The command as one would type it.
impl fmt::Display for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.program.display())?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", arg.display()))
    }
}

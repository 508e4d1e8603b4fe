//! A running program, and the wait for its end.

use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use opkeep_fs::CancelToken;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::ProcessError;
use crate::group::ProcessGroup;
use crate::log::keep_log;
use crate::output::{BoundedBuffer, tail};
use crate::process_output::ProcessOutput;

/// The time between two looks at a program that writes nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The time in which output accumulates. Compilers write word by word, and each word would wake this thread.
const GATHER: Duration = Duration::from_millis(1);

/// From this much output at a time on, it is read at once: the program would wait for the reader.
const FLOOD: usize = 32 * 1024;

/// The time between two looks at a program that has closed its outputs, if the system does not report its end.
const CLOSED_POLL_INTERVAL: Duration = Duration::from_micros(500);

/// The longest wait for a child that left the group and holds the pipe open.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// The time in which a program whose result is not needed may end by itself, and again after SIGTERM.
const TERMINATE_TIME: Duration = Duration::from_millis(250);

/// A started program, and its limits.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    /// The command line, for messages.
    pub(crate) command: String,
    /// The file for the output of a program that does not end in time.
    pub(crate) log: Option<PathBuf>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancel: CancelToken,
    pub(crate) began: Instant,
}

/// A started program whose end is to be awaited. When dropped, it and all its children are killed, except in a forked child of
/// the process that started it.
#[derive(Debug)]
pub struct RunningProcess {
    launch: Launch,
    group: ProcessGroup,
    /// Readable when the program ends; `None` if the system does not report ends.
    end: Option<OwnedFd>,
    /// Its output; `None` once all is read.
    pipe: Option<PipeReader>,
    output: BoundedBuffer,
}

impl RunningProcess {
    /// Waits for a program in `group`, whose output comes through the non-blocking `pipe`.
    pub(crate) fn new(launch: Launch, group: ProcessGroup, pipe: PipeReader) -> Self {
        let end = group.end_descriptor();
        Self { launch, group, end, pipe: Some(pipe), output: BoundedBuffer::default() }
    }

    /// Sets the limits of a wait that begins now: `deadline` and `cancel`. The time before it does not count, since the
    /// output was not read and a full pipe blocks the program.
    #[must_use]
    pub fn set_deadline(self, deadline: Option<Instant>, cancel: &CancelToken) -> Self {
        let launch = Launch { deadline, cancel: cancel.clone(), began: Instant::now(), ..self.launch };
        Self { launch, ..self }
    }

    /// Ends it because its result is not needed. A dropped one is killed at once; this one first has a moment to end by
    /// itself, then receives SIGTERM, so that a compiler can remove its temporary files.
    pub fn terminate(mut self) {
        self.read_rest(TERMINATE_TIME);
        if self.pipe.is_some() {
            self.group.terminate_group();
            self.read_rest(TERMINATE_TIME);
        }
    }

    /// Waits for its end, as [`ProcessBuilder::wait_with_output`](crate::ProcessBuilder::wait_with_output) does.
    ///
    /// # Errors
    /// It did not end in time, or was cancelled.
    pub fn wait_with_output(mut self) -> Result<ProcessOutput, ProcessError> {
        let ended = self.wait();
        let status = self.group.end();
        self.read_rest(DRAIN_TIME);
        let output = self.output.text();
        opkeep_trace::debug!(
            "program ended",
            program = self.launch.program.display(),
            command = self.launch.command,
            status = status.as_ref().map_or_else(ToString::to_string, ToString::to_string),
            seconds = self.launch.began.elapsed().as_secs_f64(),
        );
        match (ended, status) {
            (Some(Ok(())), Ok(status)) => Ok(ProcessOutput { status, output }),
            (Some(Err(source)), _) | (Some(Ok(())), Err(source)) => {
                Err(ProcessError::Io { action: "wait for", path: self.launch.program, source })
            }
            (None, _) if self.launch.cancel.is_cancelled() => Err(ProcessError::Cancelled),
            (None, _) => Err(ProcessError::TimedOut {
                command: self.launch.command,
                seconds: self.launch.began.elapsed().as_secs_f64(),
                log_tail: tail(&output),
                log: self.launch.log.and_then(|log| keep_log(&log, &output)),
            }),
        }
    }

    /// Waits for the end without reaping; `None` if the deadline passes or the run is cancelled.
    fn wait(&mut self) -> Option<io::Result<()>> {
        let mut gathers = false;
        loop {
            match self.group.has_ended() {
                Ok(true) => return Some(Ok(())),
                Ok(false) => {}
                Err(error) => return Some(Err(error)),
            }
            let now = Instant::now();
            if self.launch.cancel.is_cancelled()
                || self.launch.deadline.is_some_and(|deadline| now >= deadline)
            {
                return None;
            }
            let left = self.launch.deadline.map_or(POLL_INTERVAL, |deadline| deadline - now);
            let output = self.pipe.as_ref().filter(|_| !gathers).map(AsFd::as_fd);
            let most = match (gathers, &self.end, &self.pipe) {
                (true, ..) => GATHER,
                (false, None, None) => CLOSED_POLL_INTERVAL,
                _ => POLL_INTERVAL,
            };
            wait_for([self.end.as_ref().map(AsFd::as_fd), output], most.min(left));
            gathers = (1..FLOOD).contains(&self.read());
        }
    }

    /// Reads the available output and returns its length.
    fn read(&mut self) -> usize {
        let (mut came, mut buffer) = (0, [0; 8192]);
        while let Some(pipe) = self.pipe.as_mut().filter(|_| came < FLOOD) {
            match pipe.read(&mut buffer) {
                Ok(count) if count > 0 => {
                    self.output.add(&buffer[..count]);
                    came += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => self.pipe = None,
            }
        }
        came
    }

    /// Reads the rest of the output of a program that has ended or is about to, for at most `at_most`. In a forked child the
    /// output is the parent's.
    fn read_rest(&mut self, at_most: Duration) {
        let began = Instant::now();
        while self.group.is_own() {
            self.read();
            let left = at_most.saturating_sub(began.elapsed());
            if self.pipe.is_none() || left.is_zero() {
                return;
            }
            wait_for([self.pipe.as_ref().map(AsFd::as_fd), None], left);
        }
    }
}

/// Waits until one of these is readable, or `most` has passed.
fn wait_for(any: [Option<BorrowedFd<'_>>; 2], most: Duration) {
    let mut any: Vec<PollFd<'_>> =
        any.into_iter().flatten().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    // The result does not matter: all callers look for themselves.
    let _ = Timespec::try_from(most).map(|most| poll(&mut any, Some(&most)));
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "the test asks the system what this thread did")]

    use std::ffi::{OsStr, OsString};

    use std::path::Path;

    use super::*;
    use crate::{ProcessBuilder, Sandbox};

    /// Runs a shell script; `change` is applied to the running program before the wait.
    fn ran(script: &str, change: impl Fn(&mut RunningProcess)) -> ProcessOutput {
        let args = ["-c", script].map(OsString::from);
        let environment = [(OsStr::new("PATH"), OsStr::new("/usr/bin:/bin"))];
        let (program, dir, cancel) = (Path::new("/bin/sh"), Path::new("/"), &CancelToken::new());
        let deadline = Some(Instant::now() + Duration::from_secs(60));
        let run = ProcessBuilder {
            program,
            args: &args,
            environment: &environment,
            dir,
            log: None,
            deadline,
            cancel,
            sandbox: Sandbox::default(),
        };
        let mut running = run.spawn().unwrap();
        change(&mut running);
        running.wait_with_output().unwrap()
    }

    /// How many times this thread has waited.
    fn waits() -> usize {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse().unwrap()
    }

    #[test]
    fn programs_are_awaited_with_and_without_reports_of_their_end() {
        let cases = [
            ("echo one; sleep 0.05; echo two >&2; exit 3", 3, "one\ntwo\n"),
            ("echo closed; exec >&- 2>&-; sleep 0.05; exit 4", 4, "closed\n"),
            ("exit 5", 5, ""),
        ];
        for (script, code, output) in cases {
            for reports_end in [true, false] {
                let ended = ran(script, |running| {
                    if !reports_end {
                        running.end = None;
                    }
                });
                assert_eq!((ended.status.code(), ended.output.as_str()), (Some(code), output), "{script}");
            }
        }
    }

    #[test]
    fn earlier_output_is_read() {
        let pause = |_: &mut RunningProcess| std::thread::sleep(Duration::from_millis(50));
        assert_eq!(ran("echo out; echo err >&2", pause).output, "out\nerr\n");
    }

    /// One wake-up for each word of a compiler would cost too much.
    #[test]
    fn words_gather() {
        const WORDS: usize = 20_000;
        let (before, began) = (waits(), Instant::now());
        let script = format!("i=0; while [ $i -lt {WORDS} ]; do printf x; i=$((i + 1)); done");
        let ended = ran(&script, |_| {});
        assert_eq!(ended.output, "x".repeat(WORDS));
        // One wake-up when output begins, one while it accumulates, whatever the duration.
        let (waits, gathered) = (waits() - before, began.elapsed().as_millis() / GATHER.as_millis());
        assert!(waits as u128 <= 50 + 2 * gathered, "{waits} waits in {gathered} ms");
    }

    /// Its children end, too; a process that ignores SIGTERM is killed.
    #[test]
    fn a_program_that_is_not_needed_receives_sigterm() {
        let dir = tempfile::tempdir().unwrap();
        let (ready, left) = (dir.path().join("ready"), dir.path().join("left"));
        let tidy = format!("trap \"rm '{}'; exit\" TERM; : > '{0}'", left.display());
        let goes_on = format!(": > '{}'; while :; do sleep 0.01; done", ready.display());
        let stubborn = format!("trap '' TERM; {goes_on}");
        for script in [format!("{tidy}; {goes_on}"), format!("({tidy}; {goes_on}); :"), stubborn] {
            let args = ["-c", &script].map(OsString::from);
            let environment = [(OsStr::new("PATH"), OsStr::new("/usr/bin:/bin"))];
            let (program, dir, cancel) = (Path::new("/bin/sh"), Path::new("/"), &CancelToken::new());
            let run = ProcessBuilder {
                program,
                args: &args,
                environment: &environment,
                dir,
                log: None,
                deadline: None,
                cancel,
                sandbox: Sandbox::default(),
            };
            let mut running = run.spawn().unwrap();
            let process = format!("/proc/{}", running.group.child().id());
            while !ready.exists() {
                std::thread::sleep(Duration::from_millis(2));
            }
            running.terminate();
            assert!(!left.exists() && !Path::new(&process).exists(), "{script}");
            std::fs::remove_file(&ready).unwrap();
        }
    }

    #[test]
    fn a_dropped_program_is_killed() {
        let args = ["-c", "sleep 1000"].map(OsString::from);
        let (program, dir, cancel) = (Path::new("/bin/sh"), Path::new("/"), &CancelToken::new());
        let run = ProcessBuilder {
            program,
            args: &args,
            environment: &[],
            dir,
            log: None,
            deadline: None,
            cancel,
            sandbox: Sandbox::default(),
        };
        let mut running = run.spawn().unwrap();
        let process = format!("/proc/{}", running.group.child().id());
        assert!(Path::new(&process).exists());
        drop(running);
        assert!(!Path::new(&process).exists());
    }
}

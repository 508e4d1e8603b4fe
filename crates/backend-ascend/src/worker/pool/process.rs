//! One worker: a Python process with its pipes, its sandbox and its directory.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use opkeep_backend::Context;
use opkeep_fs::Fs;
use opkeep_process::{OnParentExit, Output, ProbeDir, ProcessGroup, ending};
use serde_json::Value;

use super::config::{LOOK, SCRIPT, WorkerConfig, WorkerError};
use crate::probe::interpreter::{Interpreter, with_temporary};
use crate::probe::reach::Extra;
use crate::probe::sandbox::JobSandbox;
use crate::worker::frame;

/// The timeout for output that is still under way after an answer, or after the end of the process.
const LAG: Duration = Duration::from_secs(2);

/// A worker. Its process ends before its directory is removed.
pub(super) struct Worker {
    pub(super) config: Arc<WorkerConfig>,
    group: ProcessGroup,
    sandbox: JobSandbox,
    /// The directory that the worker may read and write. It contains the directory of the current job.
    directory: ProbeDir,
    /// None while a message is being written.
    requests: Option<ChildStdin>,
    answers: mpsc::Receiver<Value>,
    pub(super) log: Output,
    pub(super) jobs: u32,
    /// The [`Reach::home`](crate::probe::reach::Reach::home) of the requests that the worker serves.
    pub(super) home: String,
    /// The pool's `generation` when the worker was started.
    pub(super) generation: u64,
}

impl Worker {
    fn start(config: &Arc<WorkerConfig>, extra: &Extra) -> io::Result<Self> {
        let Interpreter { program, arguments, environment } = &config.interpreter;
        let directory = ProbeDir::create(&[&config.scratch])?;
        let sandbox = config.sandbox(extra, directory.path()).map_err(io::Error::other)?;
        let mut command = Command::new(program);
        let bytecode = config.bytecode.as_deref().unwrap_or(Path::new(""));
        command.args(arguments).args(["-S", "-u", "-c", SCRIPT]).arg(bytecode).current_dir("/");
        command.env_clear().envs(with_temporary(environment, directory.path()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut group = ProcessGroup::start(&mut command, OnParentExit::Terminate, sandbox.as_run())?;
        let child = group.child();
        let (Some(requests), Some(mut out), Some(printed)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("the worker has no pipes"));
        };
        let log = Output::default();
        log.follow(printed)?;
        let (say, answers) = mpsc::channel();
        let read = move || {
            while let Ok(Some(answer)) = frame::read(&mut out) {
                if say.send(answer).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().spawn(read)?;
        Ok(Self {
            config: Arc::clone(config),
            group,
            sandbox,
            directory,
            requests: Some(requests),
            answers,
            log,
            jobs: 0,
            home: String::new(),
            generation: 0,
        })
    }

    /// The directory that the worker may read and write.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Makes the directory of the next job.
    pub(super) fn job_directory(&self) -> io::Result<PathBuf> {
        let path = self.directory.path().join("job");
        Fs::new().remove_tree(&path)?;
        Fs::new().create_dir(&path, 0o777)?;
        Ok(path)
    }

    /// Moves the job's directory to `to`.
    pub(super) fn move_job_to(&self, to: &Path) -> io::Result<()> {
        Fs::new().move_tree(&self.directory.path().join("job"), to)
    }

    /// Returns the paths that were read since the last call and that neither the domain nor `extra` contains, and whether
    /// the worker read files that it had written outside of its directory.
    ///
    /// # Errors
    /// The observation may be incomplete.
    pub(super) fn uncovered_reads(
        &self,
        extra: &Extra,
    ) -> Result<(Vec<PathBuf>, bool), opkeep_backend::BackendError> {
        self.sandbox.take(self.config.reach(), extra)
    }

    /// Writes a message while the caller waits: a message that does not fit into the pipe is written only as fast as
    /// the worker reads it, and a stuck worker reads nothing. A caller that stops waiting drops the worker, which also
    /// ends the write.
    pub(super) fn send(&mut self, message: Vec<u8>, cx: &Context<'_>) -> Result<io::Result<()>, WorkerError> {
        let Some(mut requests) = self.requests.take() else {
            return Ok(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let (say, written) = mpsc::channel();
        let write = move || {
            let result = requests.write_all(&message).and_then(|()| requests.flush());
            // The receiver is gone if the caller waits no longer.
            let _ = say.send((requests, result));
        };
        if let Err(error) = std::thread::Builder::new().spawn(write) {
            return Ok(Err(error));
        }
        let began = Instant::now();
        loop {
            match written.recv_timeout(LOOK) {
                Ok((requests, result)) => {
                    self.requests = Some(requests);
                    return Ok(result);
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Ok(Err(io::ErrorKind::BrokenPipe.into()));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => self.check_waiting(cx, began)?,
            }
        }
    }

    /// Whether the caller still waits.
    fn check_waiting(&self, cx: &Context<'_>, began: Instant) -> Result<(), WorkerError> {
        if cx.cancel.is_cancelled() {
            return Err(WorkerError::Cancelled);
        }
        match cx.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            true => {
                Err(WorkerError::Late { seconds: began.elapsed().as_secs_f64(), output: self.log.take() })
            }
            false => Ok(()),
        }
    }

    /// Waits for the next answer. After an error, the caller drops the worker, which ends it with its child processes.
    pub(super) fn receive(&mut self, cx: &Context<'_>) -> Result<Value, WorkerError> {
        let began = Instant::now();
        loop {
            match self.answers.recv_timeout(LOOK) {
                Ok(answer) => return Ok(answer),
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(self.died()),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            // Child processes may hold the pipe open after the worker's end, and its last answer may still arrive.
            if self.group.has_ended().unwrap_or(false) {
                return self.answers.recv_timeout(LAG).map_err(|_| self.died());
            }
            self.check_waiting(cx, began)?;
        }
    }

    fn died(&mut self) -> WorkerError {
        // The pipe closes a moment before the process ends.
        let until = Instant::now() + LAG;
        while !self.group.has_ended().unwrap_or(true) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (status, output) = (self.group.end(), self.log.take());
        let status = status.map_or_else(|error| error.to_string(), |status| ending(status, &output));
        WorkerError::Died { status, output }
    }

    /// The output up to `mark`, which the worker prints before it answers.
    pub(super) fn output_to(&self, mark: &str) -> String {
        let until = Instant::now() + LAG;
        let mut output = String::new();
        loop {
            output.push_str(&self.log.take());
            if let Some((before, _)) = output.split_once(mark) {
                return before.to_owned();
            }
            if Instant::now() >= until {
                return output;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Starts workers from one thread that outlives them: the system ends a child process when the thread that started it
/// ends.
pub(super) struct Starter {
    orders: Mutex<mpsc::Sender<Order>>,
}

type Order = (Arc<WorkerConfig>, Extra, mpsc::SyncSender<io::Result<Worker>>);

impl Starter {
    pub(super) fn new() -> io::Result<Self> {
        let (send, orders) = mpsc::channel::<Order>();
        let serve = move || {
            for (config, extra, answer) in orders {
                // The receiver is gone if the caller waits no longer.
                let _ = answer.send(Worker::start(&config, &extra));
            }
        };
        std::thread::Builder::new().name("opkeep workers".to_owned()).spawn(serve)?;
        Ok(Self { orders: Mutex::new(send) })
    }

    pub(super) fn start(&self, config: &Arc<WorkerConfig>, extra: &Extra) -> io::Result<Worker> {
        let (send, answer) = mpsc::sync_channel(1);
        let gone = || io::Error::other("the thread that starts workers is gone");
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner).clone();
        orders.send((Arc::clone(config), extra.clone(), send)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

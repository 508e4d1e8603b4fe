//! Workers: Python processes that import the toolkit once and compile many operators.
//!
//! The domain of a process cannot change, so it contains a directory of the worker's own. Each job gets an empty
//! directory there, which is moved to the job's work directory afterwards. Jobs share a worker if `Extra` adds the same
//! paths for them (`Reach::home`). After each job, the observer reports the paths that were read.

mod config;
mod process;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opkeep_backend::{BackendError, Context, FailedTool, ToolKind};
use opkeep_fs::Fs;
use opkeep_process::tail;
use serde_json::{Value, json};

use config::LOOK;
pub(crate) use config::{SCRIPT, WorkerConfig, WorkerError, text};
use process::{Starter, Worker};

use crate::probe::interpreter::PYTHON_HELP;
use crate::probe::reach::Extra;
use crate::probe::sandbox::is_interrupted;
use crate::slog;
use crate::worker::frame;

/// The timeout for importing the toolkit.
const START: Duration = Duration::from_secs(300);
/// The number of new workers that may find the toolkit's files changed, or whose calls signals may interrupt, before the
/// request fails.
const ATTEMPTS: usize = 4;
/// From this number of idle workers on, a new worker replaces the one that has been idle longest.
const WAITING: usize = 4;

/// The requirements of a request to a worker.
#[derive(Clone, Copy)]
pub(crate) struct WorkerOptions<'a> {
    /// The further paths that the request may read. Only a worker that was started for exactly these paths gets the
    /// request: modules in other directories may have the same names.
    pub(crate) extra: &'a Extra,
    /// A directory whose modules must be unchanged since their import, as the toolkit's must.
    pub(crate) watched: Option<&'a Path>,
    /// Whether the request gets a worker of its own, since a worker may not notice later changes of files that it read.
    pub(crate) is_last: bool,
    /// The path, still free, to which the job's directory is moved; None if it is not needed.
    pub(crate) output_dir: Option<&'a Path>,
}

/// The result of a request.
pub(crate) struct Asked {
    pub(crate) answer: Result<Answer, WorkerError>,
    /// Paths that were read for the request and that its key does not cover.
    pub(crate) unkeyed_paths: Vec<PathBuf>,
    /// Whether files were read that the worker had written outside its directory.
    pub(crate) reads_own_files: bool,
}

/// A worker's answer.
pub(crate) struct Answer {
    /// The message.
    pub(crate) content: Value,
    /// The output printed during the request.
    pub(crate) output: String,
}

/// The idle workers. Concurrent requests are served by as many workers.
pub(crate) struct Pool {
    idle: Mutex<Vec<Worker>>,
    starter: Starter,
    marks: AtomicU64,
    /// The number of calls of [`dismiss`](Self::dismiss).
    generation: AtomicU64,
}

impl Pool {
    pub(crate) fn new() -> io::Result<Self> {
        let (marks, generation) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { idle: Mutex::default(), starter: Starter::new()?, marks, generation })
    }

    /// Sends `request` to a worker started by `config`, and waits for the answer.
    pub(crate) fn ask(
        &self,
        config: &Arc<WorkerConfig>,
        request: &Value,
        worker_options: WorkerOptions<'_>,
        cx: &Context<'_>,
    ) -> Asked {
        let home = config.reach().home(worker_options.extra);
        let mut started = 0;
        while started < ATTEMPTS {
            let waiting = self.waiting(config, &home, worker_options);
            let is_fresh = waiting.is_none();
            let worker = match waiting {
                Some(worker) => Ok(worker),
                None => {
                    started += 1;
                    self.start(config, &home, worker_options.extra, cx)
                }
            };
            let mut worker = match worker {
                Ok(worker) => worker,
                Err(error) => return Asked::without_worker(error),
            };
            match self.have_do(&mut worker, request, worker_options, cx) {
                // An idle worker that has ended, or a stale one, has not begun the request: another worker gets it.
                Ok(Done::NotBegun) if !is_fresh => {}
                Ok(Done::IsStale) => {}
                done => {
                    let read = worker.uncovered_reads(worker_options.extra);
                    let is_answered = matches!(done, Ok(Done::Answered(_)));
                    // Another worker may be observed completely.
                    if !is_answered || !read.as_ref().is_err_and(is_interrupted) || started == ATTEMPTS {
                        return self.end(worker, done, read, worker_options);
                    }
                }
            }
        }
        Asked::without_worker(WorkerError::Start(BackendError::Toolchain {
            problem: "the toolkit's files change all the time".to_owned(),
            help: "build again when its installation is done".to_owned(),
            tool: None,
        }))
    }

    /// Sends the request to `worker`, and waits for the answer.
    fn have_do(
        &self,
        worker: &mut Worker,
        request: &Value,
        worker_options: WorkerOptions<'_>,
        cx: &Context<'_>,
    ) -> Result<Done, WorkerError> {
        let config = Arc::clone(&worker.config);
        let directory =
            worker.job_directory().map_err(|source| cannot("make a directory for", &config, source))?;
        let mark = format!("\n[opkeep {}]\n", self.marks.fetch_add(1, Ordering::Relaxed));
        let mut request = request.clone();
        request["mark"] = mark.as_str().into();
        request["watched"] = worker_options.watched.map(text).into();
        request["folder"] = text(&directory).into();
        let Extra { files, beneath, .. } = worker_options.extra;
        request["domain"] = json!({"files": texts(files), "beneath": texts(beneath)});
        let message = frame::encode(&request).map_err(|source| cannot("ask", &config, source))?;
        match worker.send(message, cx)? {
            // A worker that served earlier jobs is replaced by another one; for a new one, `receive` reports how it
            // ended.
            Err(_) if worker.jobs > 0 => return Ok(Done::NotBegun),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            sent => sent.map_err(|source| cannot("ask", &config, source))?,
        }
        let content = worker.receive(cx)?;
        if content["stale"] == true {
            return Ok(Done::IsStale);
        }
        let output = worker.output_to(&mark);
        worker.jobs += 1;
        Ok(Done::Answered(Answer { content, output }))
    }

    /// Collects the observed reads and the files of a finished request.
    fn end(
        &self,
        worker: Worker,
        done: Result<Done, WorkerError>,
        read: Result<(Vec<PathBuf>, bool), BackendError>,
        worker_options: WorkerOptions<'_>,
    ) -> Asked {
        let config = Arc::clone(&worker.config);
        let moved = match worker_options.output_dir {
            Some(to) => worker.move_job_to(to).map_err(|source| cannot("keep the files of", &config, source)),
            None => Ok(()),
        };
        let answer = match (done, moved) {
            (Ok(Done::Answered(answer)), Ok(())) => Ok(answer),
            (Ok(Done::Answered(_)), Err(error)) | (Err(error), _) => Err(error),
            (Ok(Done::NotBegun | Done::IsStale), _) => {
                Err(cannot("ask", &config, io::ErrorKind::BrokenPipe.into()))
            }
        };
        let (mut unkeyed_paths, reads_own_files) = match read {
            Ok(read) => read,
            Err(error) => return Asked::without_worker(WorkerError::Start(error)),
        };
        if let Ok(Answer { content, .. }) = &answer {
            let reported = content["beyond"].as_array().into_iter().flatten().filter_map(Value::as_str);
            unkeyed_paths.extend(reported.map(PathBuf::from));
            let is_good = unkeyed_paths.is_empty()
                && !reads_own_files
                && content["last"] == false
                && !worker_options.is_last;
            if is_good && worker.jobs < config.jobs_per_worker {
                self.keep(worker);
            }
        }
        opkeep_order::sort(&mut unkeyed_paths);
        unkeyed_paths.dedup();
        Asked { answer, unkeyed_paths, reads_own_files }
    }

    /// Ends all idle workers: they do not notice changes of files that they read otherwise than by Python's imports.
    pub(crate) fn dismiss(&self) {
        let mut idle = self.idle();
        self.generation.fetch_add(1, Ordering::Relaxed);
        let dismissed = std::mem::take(&mut *idle);
        drop(idle);
        // Dropping the workers ends them, after the lock is released.
        drop(dismissed);
    }

    /// An idle worker for such requests. If there is none, and too many workers are idle, the one that has been idle
    /// longest ends.
    fn waiting(
        &self,
        config: &Arc<WorkerConfig>,
        home: &str,
        worker_options: WorkerOptions<'_>,
    ) -> Option<Worker> {
        let mut idle = self.idle();
        let fits =
            |worker: &Worker| worker.home == home && worker.config == *config && !worker_options.is_last;
        if let Some(at) = idle.iter().rposition(fits) {
            return Some(idle.remove(at));
        }
        let leaves = (idle.len() >= WAITING).then(|| idle.remove(0));
        drop(idle);
        drop(leaves);
        None
    }

    fn keep(&self, worker: Worker) {
        let mut idle = self.idle();
        if worker.generation == self.generation.load(Ordering::Relaxed) {
            idle.push(worker);
            return;
        }
        drop(idle);
        drop(worker);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Worker>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(
        &self,
        config: &Arc<WorkerConfig>,
        home: &str,
        extra: &Extra,
        cx: &Context<'_>,
    ) -> Result<Worker, WorkerError> {
        let generation = self.generation.load(Ordering::Relaxed);
        let mut worker = self.starter.start(config, extra).map_err(|source| cannot("run", config, source))?;
        (worker.home, worker.generation) = (home.to_owned(), generation);
        let cx = &cx.with_deadline(cx.deadline_before(Some(Instant::now() + START)));
        let message = frame::encode(&config.message(worker.directory()))
            .map_err(|source| cannot("run", config, source))?;
        match worker.send(message, cx)? {
            // `receive` reports how the worker ended.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            sent => sent.map_err(|source| cannot("run", config, source))?,
        }
        let content = worker.receive(cx).map_err(|error| match error {
            WorkerError::Died { status, output } => unusable(&format!("it ended: {status}"), &output),
            other => other,
        })?;
        if content["ready"] == true {
            return Ok(worker);
        }
        // The output printed before the message may arrive a little later.
        std::thread::sleep(LOOK);
        Err(unusable(content["problem"].as_str().unwrap_or_default(), &worker.log.take()))
    }
}

/// The result of a request to one worker.
enum Done {
    Answered(Answer),
    /// The worker had ended before.
    NotBegun,
    /// A module that the worker imported has changed.
    IsStale,
}

impl Asked {
    fn without_worker(error: WorkerError) -> Self {
        Self { answer: Err(error), unkeyed_paths: Vec::new(), reads_own_files: false }
    }
}

fn cannot(action: &'static str, config: &WorkerConfig, source: io::Error) -> WorkerError {
    WorkerError::Start(BackendError::Io { action, path: config.interpreter.program.clone(), source })
}

/// The error of a toolkit that cannot be imported.
pub(crate) fn unusable(problem: &str, output: &str) -> WorkerError {
    let hint = slog::hint(problem).or_else(|| slog::hint(output));
    let (command, output) = ("python3".to_owned(), tail(output));
    WorkerError::Start(BackendError::failed_tool(
        format!("Python cannot import the toolkit: {problem}"),
        hint.unwrap_or(PYTHON_HELP),
        FailedTool { kind: ToolKind::Other, command, output },
    ))
}

fn texts(paths: &BTreeSet<PathBuf>) -> Vec<String> {
    paths.iter().map(|path| text(path)).collect()
}

/// The Python with which programs in `environment` run.
///
/// # Errors
/// `HI_PYTHON` names no program, or there is no `python3` on `PATH`.
pub(crate) fn python(environment: &[(OsString, OsString)]) -> Result<PathBuf, BackendError> {
    let value = |wanted: &str| environment.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    let named = value("HI_PYTHON").filter(|named| !named.is_empty()).map(PathBuf::from);
    let name = named.unwrap_or_else(|| PathBuf::from("python3"));
    let path = value("PATH").map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    // A name with a slash is a path, as in the shell that starts the toolkit's programs.
    let places = if name.components().count() > 1 {
        vec![name.clone()]
    } else {
        path.iter().map(|one| one.join(&name)).collect()
    };
    places.into_iter().find(|path| Fs::new().is_program(path)).ok_or_else(|| BackendError::Toolchain {
        problem: format!("there is no Python `{}`", name.display()),
        help: PYTHON_HELP.to_owned(),
        tool: None,
    })
}

#[cfg(test)]
mod tests;

//! Workers: Python processes that import the toolkit once and compile many operators.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use opbuild_backend::{BackendError, Cancel};
use opbuild_process::{Group, Orphan, Output, Sandbox, ending, tail};
use serde_json::{Value, json};

use crate::domain::{ReadDomain, Reasoned};
use crate::interpreter::Interpreter;
use crate::{disk, frame, slog};

/// What workers run.
pub(crate) const SCRIPT: &str =
    concat!(include_str!("py/importer.py"), include_str!("py/worker.py"), include_str!("py/probe.py"));

/// How long the toolkit may take to be imported.
const START: Duration = Duration::from_secs(300);
/// How often it is looked whether somebody still waits.
const LOOK: Duration = Duration::from_millis(20);
/// How long the rest of the output may take when the answer is there.
const LAG: Duration = Duration::from_secs(2);
/// So many new workers are told that the toolkit's files changed; after that another one is not worth it.
const ATTEMPTS: usize = 4;
/// So many workers may wait before one for other modules is started in the place of the one that waits longest.
const WAITING: usize = 4;

/// How workers are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setup {
    /// The Python that the toolkit runs with.
    pub(crate) interpreter: Interpreter,
    /// Where its bytecode is kept; nowhere if None.
    pub(crate) bytecode: Option<PathBuf>,
    /// What it may read.
    pub(crate) domain: ReadDomain,
    /// The folder of the package `opc_tool`, without which operators can only be asked.
    pub(crate) tool_folder: Option<PathBuf>,
    /// The folders whose modules must be what they were when they were imported.
    pub(crate) roots: Vec<PathBuf>,
    /// After how many jobs a worker is replaced.
    pub(crate) jobs_each: u32,
}

/// How long somebody waits.
#[derive(Clone, Copy)]
pub(crate) struct Patience<'a> {
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancel: &'a Cancel,
}

/// Whom something is asked.
#[derive(Clone, Copy, Default)]
pub(crate) struct Whom<'a> {
    /// Only workers that did nothing but this get it: modules of other places may have the same names. What the
    /// toolkit itself finds is one such thing, and its name is empty.
    pub(crate) home: &'a str,
    /// A folder whose modules must be what they were, beside the toolkit's.
    pub(crate) watched: Option<&'a Path>,
    /// Nobody else is to get the worker: it may have read what changes without its knowledge.
    pub(crate) is_last: bool,
}

/// What came of a request.
pub(crate) struct Answer {
    /// What the worker says.
    pub(crate) content: Value,
    /// What was printed meanwhile.
    pub(crate) output: String,
}

/// Why there is no answer.
pub(crate) enum Trouble {
    /// The worker died at it, and how.
    Died { status: String, output: String },
    /// It took too long.
    Late { seconds: f64, output: String },
    /// Nobody waits any more.
    Cancelled,
    /// No worker could be started.
    Start(BackendError),
}

/// Workers that wait for work. As many work as are asked at once.
pub(crate) struct Pool {
    idle: Mutex<Vec<Worker>>,
    starter: Starter,
    marks: AtomicU64,
    /// How often all workers were dismissed.
    generation: AtomicU64,
}

impl Pool {
    pub(crate) fn new() -> io::Result<Self> {
        let (marks, generation) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { idle: Mutex::default(), starter: Starter::new()?, marks, generation })
    }

    /// Has a worker that was started by `setup` do what `request` says.
    pub(crate) fn ask(
        &self,
        setup: &Arc<Setup>,
        request: &Value,
        whom: Whom<'_>,
        patience: Patience<'_>,
    ) -> Result<Answer, Trouble> {
        let mut started = 0;
        while started < ATTEMPTS {
            let waiting = self.waiting(setup, whom);
            let is_fresh = waiting.is_none();
            let mut worker = match waiting {
                Some(worker) => worker,
                None => {
                    started += 1;
                    self.start(setup, whom.home, patience)?
                }
            };
            let mark = format!("\n[opbuild {}]\n", self.marks.fetch_add(1, Ordering::Relaxed));
            let mut request = request.clone();
            request["mark"] = mark.as_str().into();
            request["watched"] = whom.watched.map(text).into();
            let message = frame::of(&request).map_err(|source| cannot("ask", setup, source))?;
            match worker.send(message, patience)? {
                // One that died while it waited, or is out of date, has not begun.
                Err(_) if !is_fresh => continue,
                // How it died is told below.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                sent => sent.map_err(|source| cannot("ask", setup, source))?,
            }
            let content = worker.receive(patience)?;
            if content["stale"] == true {
                continue;
            }
            let output = worker.output_to(&mark);
            worker.jobs += 1;
            if worker.jobs < setup.jobs_each && content["last"] == false && !whom.is_last {
                self.keep(worker);
            }
            return Ok(Answer { content, output });
        }
        Err(Trouble::Start(BackendError::Toolchain {
            problem: "the toolkit's files change all the time".to_owned(),
            way_out: "build again when its installation is done".to_owned(),
        }))
    }

    /// Has nobody asked who knows the toolkit as it was: it reads much of it once, and not by Python's imports only.
    pub(crate) fn dismiss(&self) {
        let mut idle = self.idle();
        self.generation.fetch_add(1, Ordering::Relaxed);
        let dismissed = std::mem::take(&mut *idle);
        drop(idle);
        // They are ended without the lock.
        drop(dismissed);
    }

    /// A worker that waits for such a request. If there is none, and there will be another one, who waits longest goes.
    fn waiting(&self, setup: &Arc<Setup>, whom: Whom<'_>) -> Option<Worker> {
        let mut idle = self.idle();
        let fits = |worker: &Worker| worker.home == whom.home && worker.setup == *setup && !whom.is_last;
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

    fn start(&self, setup: &Arc<Setup>, home: &str, patience: Patience<'_>) -> Result<Worker, Trouble> {
        let generation = self.generation.load(Ordering::Relaxed);
        let mut worker = self.starter.start(setup).map_err(|source| cannot("run", setup, source))?;
        (worker.home, worker.generation) = (home.to_owned(), generation);
        let limit = Instant::now() + START;
        let deadline = Some(patience.deadline.map_or(limit, |deadline| deadline.min(limit)));
        let patience = Patience { deadline, ..patience };
        let message = frame::of(&setup.message()).map_err(|source| cannot("run", setup, source))?;
        match worker.send(message, patience)? {
            // How it died is told below.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            sent => sent.map_err(|source| cannot("run", setup, source))?,
        }
        let content = worker.receive(patience).map_err(|trouble| match trouble {
            Trouble::Died { status, output } => unusable(&format!("it ended: {status}"), &output),
            other => other,
        })?;
        if content["ready"] == true {
            return Ok(worker);
        }
        // What it printed before it said so.
        std::thread::sleep(LOOK);
        Err(unusable(content["problem"].as_str().unwrap_or_default(), &worker.log.take()))
    }
}

fn cannot(action: &'static str, setup: &Setup, source: io::Error) -> Trouble {
    Trouble::Start(BackendError::Io { action, path: setup.interpreter.program.clone(), source })
}

impl Setup {
    /// What a worker is told when it starts.
    fn message(&self) -> Value {
        // The toolkit resolves links in some paths, and leaves them in others.
        let both = |(path, _): &Reasoned| [text(path), text(&disk::real(path))];
        let paths = |reasoned: &[Reasoned]| reasoned.iter().flat_map(both).collect::<BTreeSet<_>>();
        json!({"tool_folder": self.tool_folder.as_deref().map(text),
            "roots": self.roots.iter().map(|root| text(root)).collect::<Vec<_>>(),
            "files": paths(&self.domain.files), "beneath": paths(&self.domain.beneath)})
    }
}

/// The toolkit cannot be imported.
pub(crate) fn unusable(problem: &str, output: &str) -> Trouble {
    let hint = slog::hint(problem).or_else(|| slog::hint(output));
    let output = tail(output);
    let shown = if output.is_empty() { String::new() } else { format!("\n{output}\n") };
    Trouble::Start(BackendError::Toolchain {
        problem: format!("Python cannot import the toolkit: {problem}{shown}"),
        way_out: hint.unwrap_or("HI_PYTHON names the Python that the toolkit was installed for").to_owned(),
    })
}

/// A worker.
struct Worker {
    setup: Arc<Setup>,
    group: Group,
    /// None while something is written that is not taken.
    requests: Option<ChildStdin>,
    answers: mpsc::Receiver<Value>,
    log: Output,
    jobs: u32,
    /// What alone it is asked.
    home: String,
    /// How often workers had been dismissed when it was started.
    generation: u64,
}

impl Worker {
    fn start(setup: &Arc<Setup>) -> io::Result<Self> {
        let Interpreter { program, arguments, environment } = &setup.interpreter;
        let mut command = Command::new(program);
        let bytecode = setup.bytecode.as_deref().unwrap_or(Path::new(""));
        command.args(arguments).args(["-S", "-u", "-c", SCRIPT]).arg(bytecode).current_dir("/");
        command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut group = Group::start(&mut command, Orphan::IsTold, Sandbox::default())?;
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
            setup: Arc::clone(setup),
            group,
            requests: Some(requests),
            answers,
            log,
            jobs: 0,
            home: String::new(),
            generation: 0,
        })
    }

    /// Writes a message, as long as somebody waits: what is longer than a pipe holds has to be taken by the worker, and
    /// one that hangs takes nothing. Who gives up drops the worker; that ends the writing, too.
    fn send(&mut self, message: Vec<u8>, patience: Patience<'_>) -> Result<io::Result<()>, Trouble> {
        let Some(mut requests) = self.requests.take() else {
            return Ok(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let (say, written) = mpsc::channel();
        let write = move || {
            let result = requests.write_all(&message).and_then(|()| requests.flush());
            // Whoever waited may have gone.
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
                Err(mpsc::RecvTimeoutError::Timeout) => self.patient(patience, began)?,
            }
        }
    }

    /// Whether somebody still waits.
    fn patient(&self, patience: Patience<'_>, began: Instant) -> Result<(), Trouble> {
        if patience.cancel.is_cancelled() {
            return Err(Trouble::Cancelled);
        }
        match patience.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            true => Err(Trouble::Late { seconds: began.elapsed().as_secs_f64(), output: self.log.take() }),
            false => Ok(()),
        }
    }

    /// Waits for the next answer. Who has none is not asked again: dropping it ends it, with all that it started.
    fn receive(&mut self, patience: Patience<'_>) -> Result<Value, Trouble> {
        let began = Instant::now();
        loop {
            match self.answers.recv_timeout(LOOK) {
                Ok(answer) => return Ok(answer),
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(self.died()),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            // What it started may hold the pipe open when it is dead. What it said before comes yet.
            if self.group.has_ended().unwrap_or(false) {
                return self.answers.recv_timeout(LAG).map_err(|_| self.died());
            }
            self.patient(patience, began)?;
        }
    }

    fn died(&mut self) -> Trouble {
        // The pipe closes a moment before the process is gone.
        let until = Instant::now() + LAG;
        while !self.group.has_ended().unwrap_or(true) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (status, output) = (self.group.end(), self.log.take());
        let status = status.map_or_else(|error| error.to_string(), |status| ending(status, &output));
        Trouble::Died { status, output }
    }

    /// What was printed up to `mark`, which the worker prints before it answers.
    fn output_to(&self, mark: &str) -> String {
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

pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Starts workers from a thread that lives as long as they may: the system ends a child with the thread that started it.
struct Starter {
    orders: Mutex<mpsc::Sender<Order>>,
}

type Order = (Arc<Setup>, mpsc::SyncSender<io::Result<Worker>>);

impl Starter {
    fn new() -> io::Result<Self> {
        let (send, orders) = mpsc::channel::<Order>();
        let serve = move || {
            for (setup, answer) in orders {
                // Whoever asked may have gone.
                let _ = answer.send(Worker::start(&setup));
            }
        };
        std::thread::Builder::new().name("opbuild workers".to_owned()).spawn(serve)?;
        Ok(Self { orders: Mutex::new(send) })
    }

    fn start(&self, setup: &Arc<Setup>) -> io::Result<Worker> {
        let (send, answer) = mpsc::sync_channel(1);
        let gone = || io::Error::other("the thread that starts workers is gone");
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner).clone();
        orders.send((Arc::clone(setup), send)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

/// The Python that an environment's programs run with.
///
/// # Errors
/// `HI_PYTHON` names none, or there is no `python3` on `PATH`.
pub(crate) fn python(environment: &[(OsString, OsString)]) -> Result<PathBuf, BackendError> {
    let value = |wanted: &str| environment.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    let named = value("HI_PYTHON").filter(|named| !named.is_empty()).map(PathBuf::from);
    let name = named.unwrap_or_else(|| PathBuf::from("python3"));
    let path = value("PATH").map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    // As a shell does, which starts the toolkit's programs: what has a slash in it is a path.
    let places = if name.components().count() > 1 {
        vec![name.clone()]
    } else {
        path.iter().map(|one| one.join(&name)).collect()
    };
    places.into_iter().find(|path| disk::is_program(path)).ok_or_else(|| BackendError::Toolchain {
        problem: format!("there is no Python `{}`", name.display()),
        way_out: "HI_PYTHON names the Python that the toolkit was installed for".to_owned(),
    })
}

/// The variables of an environment, the later of two counting.
pub(crate) fn merged<'a>(
    variables: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
) -> Vec<(OsString, OsString)> {
    let all: BTreeMap<&OsStr, &OsStr> = variables.into_iter().collect();
    all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests;

//! Helpers of the engine's tests.
#![allow(dead_code, reason = "each test file uses its own part")]
#![expect(clippy::disallowed_methods, reason = "tests look at what is on the disk")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use opkeep::{BuildReport, CacheMode, Config, Engine, Event, Request};
use opkeep_artifact::Artifact;
use opkeep_backend::{Backend, BackendError};
use opkeep_cann_meta::KernelMeta;
use opkeep_digest::Digest;
use opkeep_store::StoreConfig;
use opkeep_testkit::{NullBackend, descriptor};
use tempfile::TempDir;

/// A temporary directory with a store, in memory if possible.
pub(crate) struct Bench {
    pub(crate) dir: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        Self { dir: dir.unwrap() }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    pub(crate) fn engine(&self, backend: &Arc<NullBackend>) -> Engine {
        self.engine_of(Arc::<NullBackend>::clone(backend))
    }

    pub(crate) fn engine_of(&self, backend: Arc<dyn Backend>) -> Engine {
        Engine::new(backend, Config::with_store(StoreConfig::new(self.root())))
            .with_config(|config| config.work_dir = Some(self.dir.path().to_owned()))
    }

    /// Every entry of the store.
    pub(crate) fn entries(&self) -> Vec<PathBuf> {
        files(&self.root()).into_iter().filter(|path| path.extension().is_some_and(|e| e == "kern")).collect()
    }

    pub(crate) fn quarantined(&self) -> usize {
        files(&self.root()).iter().filter(|path| path.to_string_lossy().contains("/quarantine/")).count() / 2
    }
}

/// Waits for a condition of another thread that signals nothing.
pub(crate) fn eventually(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "it did not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How long a test waits for another thread: far longer than on any busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Counts events of one thread, for another that waits for a number of them.
#[derive(Default)]
pub(crate) struct Gate {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Gate {
    pub(crate) fn signal(&self) {
        *self.count.lock().unwrap() += 1;
        self.changed.notify_all();
    }

    /// Waits until so many events have happened.
    pub(crate) fn wait_for(&self, count: usize) {
        let found = self.count.lock().unwrap();
        let (found, timeout) = self.changed.wait_timeout_while(found, LIMIT, |found| *found < count).unwrap();
        assert!(!timeout.timed_out(), "{found} of {count} events happened");
    }

    /// An engine that signals whenever it waits for another one.
    pub(crate) fn waiting(self: &Arc<Self>, engine: Engine) -> Engine {
        let gate = Arc::clone(self);
        engine.with_observer(move |event| {
            if let Event::Waiting { .. } = event {
                gate.signal();
            }
        })
    }
}

/// Returns every file below `dir`.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// A request for one operator.
pub(crate) fn request(op_type: &str, shape: &[i64]) -> Request {
    Request::new(descriptor(&format!("net/{op_type}{shape:?}"), op_type, &[shape]))
}

/// `compiled`, `reused`, ... of each kernel.
pub(crate) fn outcomes(report: &BuildReport) -> Vec<&'static str> {
    report.kernels.iter().map(|kernel| kernel.outcome.name()).collect()
}

/// The outcomes of a build that can be built.
pub(crate) fn build(engine: &Engine, requests: &[Request]) -> Vec<&'static str> {
    outcomes(&engine.build(requests).expect("a build that can be built"))
}

pub(crate) fn with_mode(bench: &Bench, backend: &Arc<NullBackend>, mode: CacheMode) -> Engine {
    bench.engine(backend).with_config(|config| config.mode = mode)
}

/// A compiler that ran and failed.
pub(crate) fn failure(log_tail: &str) -> BackendError {
    BackendError::Compile {
        command: "cc kernel.c".into(),
        status: "exit status: 1".into(),
        log_tail: log_tail.into(),
        log: None,
    }
}

/// Returns the same kernel with so many unused bytes at the end.
pub(crate) fn padded(artifact: Artifact, bytes: usize) -> Artifact {
    let mut object = artifact.object;
    object.resize(object.len() + bytes, 0);
    let mut meta = KernelMeta::parse(&artifact.metadata).unwrap();
    meta.sha256 = Some(Digest::of(&object).to_string());
    Artifact { metadata: meta.to_json().into_bytes(), object, extra: Vec::new() }
}

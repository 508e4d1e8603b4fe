//! The configuration of workers, and the errors of their requests.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use opkeep_backend::BackendError;
use opkeep_fs::Fs;
use serde_json::{Value, json};

use crate::probe::guards::Guards;
use crate::probe::interpreter::Interpreter;
use crate::probe::reach::{Extra, Reach};
use crate::probe::read_domain::ReadDomain;
use crate::probe::sandbox::JobSandbox;
use crate::probe::unkeyed::Reasoned;

/// The script of workers.
pub(crate) const SCRIPT: &str = concat!(
    include_str!("../../py/importer.py"),
    include_str!("../../py/worker.py"),
    include_str!("../../py/probe.py")
);

/// The interval between checks whether the caller still waits.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// The configuration of workers.
#[derive(Debug)]
pub(crate) struct WorkerConfig {
    /// The Python with which the toolkit runs.
    pub(crate) interpreter: Interpreter,
    /// The directory for bytecode; None if none is kept.
    pub(crate) bytecode: Option<PathBuf>,
    /// The paths that a worker may read.
    pub(crate) domain: ReadDomain,
    /// The directory of the package `opc_tool`. Without it, workers answer queries but do not compile.
    pub(crate) tool_dir: Option<PathBuf>,
    /// The directories whose modules must be unchanged since their import.
    pub(crate) roots: Vec<PathBuf>,
    /// The number of jobs after which a worker is replaced.
    pub(crate) jobs_per_worker: u32,
    /// The guards of a worker.
    pub(crate) guards: Guards,
    /// The parent of a worker's directory.
    pub(crate) scratch: PathBuf,
    /// The file system whose clock decides which modules were changed just now.
    pub(crate) fs: Fs,
    /// `domain` in resolved form, made at first use.
    pub(crate) reach: OnceLock<Reach>,
}

impl PartialEq for WorkerConfig {
    fn eq(&self, other: &Self) -> bool {
        // `reach` follows from the domain; a backend has one file system.
        let Self {
            interpreter,
            bytecode,
            domain,
            tool_dir,
            roots,
            jobs_per_worker,
            guards,
            scratch,
            fs: _,
            reach: _,
        } = self;
        (interpreter, bytecode, domain) == (&other.interpreter, &other.bytecode, &other.domain)
            && (tool_dir, roots, jobs_per_worker) == (&other.tool_dir, &other.roots, &other.jobs_per_worker)
            && (guards, scratch) == (&other.guards, &other.scratch)
    }
}

impl WorkerConfig {
    /// The paths that a worker may read.
    pub(crate) fn reach(&self) -> &Reach {
        self.reach.get_or_init(|| Reach::of(&self.domain))
    }

    /// The sandbox of a program that works in `work_dir`.
    ///
    /// # Errors
    /// A guard that this host had before cannot be used now.
    pub(crate) fn sandbox(&self, extra: &Extra, work_dir: &Path) -> Result<JobSandbox, BackendError> {
        JobSandbox::new(&self.guards, self.reach(), extra, work_dir)
    }

    /// The first message to a worker.
    pub(super) fn message(&self, directory: &Path) -> Value {
        // The toolkit resolves the links of some paths only.
        let both = |(path, _): &Reasoned| [text(path), text(&Fs::new().resolved(path))];
        let paths = |reasoned: &[Reasoned]| opkeep_order::set(reasoned.iter().flat_map(both));
        let mut beneath = paths(&self.domain.beneath);
        beneath.extend([text(directory), text(&Fs::new().resolved(directory))]);
        json!({"tool_folder": self.tool_dir.as_deref().map(text),
            "roots": self.roots.iter().map(|root| text(root)).collect::<Vec<_>>(),
            "clock_offset": self.clock_offset(),
            "files": paths(&self.domain.files), "beneath": beneath})
    }

    /// How far the clock of `fs` is ahead of the system's, in nanoseconds.
    fn clock_offset(&self) -> i64 {
        let ahead = match self.fs.now().duration_since(SystemTime::now()) {
            Ok(ahead) => i64::try_from(ahead.as_nanos()),
            Err(behind) => i64::try_from(behind.duration().as_nanos()).map(i64::wrapping_neg),
        };
        ahead.unwrap_or(0)
    }
}

/// The reason for a missing answer.
pub(crate) enum WorkerError {
    /// The worker ended during the request.
    Died { status: String, output: String },
    /// The deadline passed.
    Late { seconds: f64, output: String },
    /// No caller waits any more.
    Cancelled,
    /// No worker could be started.
    Start(BackendError),
}

pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

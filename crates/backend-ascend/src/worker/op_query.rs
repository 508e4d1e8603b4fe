//! Queries to operators, sent through a worker, about the element types and formats that they take.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use opkeep_backend::{BackendError, Context, FileDigests};
use opkeep_cann_toolkit::{Implementation, OpsInfo, Soc, Sources, Toolkit};
use opkeep_descriptor::{Job, Op, ResolvedSpec};
use opkeep_digest::{Digest, Fingerprint, Hasher};
use opkeep_fs::Fs;
use serde_json::{Value, json};

use crate::compile::parameters;
use crate::compile::ready::{HELP, Ready};
use crate::error::toolkit_error;
use crate::graph::select::{Formats, PortFormats, parse_formats};
use crate::probe::record::Record;
use crate::worker::op_query_cache::OpQueryCache;
use crate::worker::pool::{Asked, Pool, WorkerError, WorkerOptions};

/// The timeout of one query: longer than importing the toolkit takes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// Queries operators through `pool`, and caches their answers.
pub(crate) struct OpQuery<'a> {
    /// Prepares a query to the operator of a job.
    pub(crate) ready: &'a dyn Fn(&Job) -> Result<Ready, BackendError>,
    /// Whether importing the toolkit now reads other files than a record states.
    pub(crate) has_changed: &'a dyn Fn(&Arc<Record>) -> Result<bool, BackendError>,
    /// The record of importing the toolkit, made only if an operator is queried.
    pub(crate) record: &'a dyn Fn() -> Result<Arc<Record>, BackendError>,
    pub(crate) toolkit: &'a Toolkit,
    pub(crate) soc: &'a Soc,
    pub(crate) sources: &'a Sources,
    pub(crate) ops: &'a OpsInfo,
    pub(crate) spec: &'a ResolvedSpec,
    pub(crate) answers: &'a OpQueryCache,
    pub(crate) cx: &'a Context<'a>,
    pub(crate) pool: &'a dyn Fn() -> Result<&'a Pool, BackendError>,
    pub(crate) files: OnceDigests,
}

/// Digests of files. Each file is read only once, since no query is repeated in a process.
#[derive(Default)]
pub(crate) struct OnceDigests(Mutex<HashMap<PathBuf, Digest>>);

impl FileDigests for OnceDigests {
    fn digest(&self, path: &Path) -> io::Result<Digest> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(digest) = known.get(path) {
            return Ok(*digest);
        }
        let digest = Digest::of_reader(Fs::new().open(path)?)?;
        known.insert(path.to_owned(), digest);
        Ok(digest)
    }
}

impl Formats for OpQuery<'_> {
    fn select(&self, job: &Job, op_index: usize) -> Result<Option<Vec<PortFormats>>, BackendError> {
        let Some(op) = job.ops.get(op_index) else { return Ok(None) };
        let implementation = self.sources.implementation(op, self.ops).map_err(toolkit_error)?;
        let message = self.message(op, &implementation)?;
        let query_digest = self.query_digest(job, &message, &self.files)?;
        let answer = match self.answers.get(&query_digest) {
            Some(answer) => answer,
            None => {
                let answer = self.ask(job, op, &message, &implementation)?;
                // If the module was edited meanwhile, it is unknown which version answered.
                if self.query_digest(job, &message, &OnceDigests::default())? == query_digest {
                    self.answers.add(&query_digest, answer.clone());
                }
                answer
            }
        };
        answer.map(|answer| parse_formats(&op.op_type, &answer)).transpose()
    }
}

impl OpQuery<'_> {
    /// The digest of the query and of everything that the answer may depend on.
    fn query_digest(&self, job: &Job, message: &Value, files: &OnceDigests) -> Result<Digest, BackendError> {
        let sources = self.sources.fingerprint(job, self.spec, self.ops, files).map_err(toolkit_error)?;
        let mut hasher = Hasher::new("question to an operator");
        hasher.bytes(message.to_string().as_bytes());
        hasher.digest(&sources.digest());
        // The operator reads the properties of the chip from the platform file.
        hasher.digest(&self.toolkit.platforms.digest(self.soc, files).map_err(toolkit_error)?);
        let mut python = Fingerprint::new();
        (self.record)()?.fingerprint(&mut python);
        hasher.digest(&python.digest());
        let versions = &self.toolkit.versions;
        hasher.bytes(versions.compiler.to_string().as_bytes());
        hasher.bytes(versions.opp.to_string().as_bytes());
        Ok(hasher.finish())
    }

    /// The query, as a message to a worker.
    fn message(&self, op: &Op, implementation: &Implementation) -> Result<Value, BackendError> {
        let info = self.ops.get(&op.op_type);
        let (ports, attrs) = parameters::python_arguments(op, info)?;
        let module = |below: &str| {
            let parts = [implementation.package.as_str(), below, implementation.module.as_str()];
            parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
        };
        let dynamic = implementation.dynamic.is_some().then(|| module("dynamic"));
        let fixed = implementation.file.is_some().then(|| module(""));
        let modules: Vec<String> = dynamic.into_iter().chain(fixed).collect();
        let core_type = info.and_then(|info| info.core_type.as_deref()).unwrap_or("AiCore");
        Ok(json!({"do": "select", "soc": self.soc.name, "core_type": core_type,
            "base": implementation.base.to_string_lossy(), "modules": modules, "ports": ports, "attrs": attrs}))
    }

    fn ask(
        &self,
        job: &Job,
        op: &Op,
        message: &Value,
        implementation: &Implementation,
    ) -> Result<Option<String>, BackendError> {
        let mut ready = (self.ready)(job)?;
        let mut asked = self.ask_worker(&ready, message, implementation)?;
        if !asked.unkeyed_paths.is_empty() && (self.has_changed)(&ready.record)? {
            ready = (self.ready)(job)?;
            asked = self.ask_worker(&ready, message, implementation)?;
        }
        let command = || format!("{}.op_select_format", op.op_type);
        if !asked.unkeyed_paths.is_empty() {
            let (paths, help) = (asked.unkeyed_paths, HELP.to_owned());
            return Err(BackendError::UnkeyedRead { command: command(), paths, help });
        }
        let answer = asked.answer.map_err(|error| self.failed(&op.op_type, error))?;
        if answer.content["done"] == true {
            return Ok(answer.content["answer"].as_str().map(str::to_owned));
        }
        let problem = answer.content["problem"].as_str().unwrap_or("the operator gives no reason");
        Err(BackendError::Compile {
            command: command(),
            status: problem.to_owned(),
            log_tail: opkeep_process::tail(&answer.output),
            log: None,
        })
    }

    fn ask_worker(
        &self,
        ready: &Ready,
        message: &Value,
        implementation: &Implementation,
    ) -> Result<Asked, BackendError> {
        let is_outside_toolkit = implementation.base != self.toolkit.tbe;
        let worker_options = WorkerOptions {
            extra: &ready.extra,
            watched: is_outside_toolkit.then_some(implementation.base.as_path()),
            is_last: false,
            output_dir: None,
        };
        let deadline = self.cx.deadline_before(Some(Instant::now() + ANSWER_TIMEOUT));
        let cx = self.cx.with_deadline(deadline);
        Ok((self.pool)()?.ask(&ready.config, message, worker_options, &cx))
    }

    fn failed(&self, op_type: &str, error: WorkerError) -> BackendError {
        let command = format!("{op_type}.op_select_format");
        match error {
            WorkerError::Died { status, output } => BackendError::Compile {
                command,
                status: format!("the worker ended: {status}"),
                log_tail: opkeep_process::tail(&output),
                log: None,
            },
            WorkerError::Late { seconds, output } => BackendError::TimedOut {
                command,
                seconds,
                log_tail: opkeep_process::tail(&output),
                log: None,
            },
            WorkerError::Cancelled => BackendError::Cancelled,
            WorkerError::Start(error) => error,
        }
    }
}

//! Asking operators which element types and formats they take, by a worker.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use opbuild_backend::{BackendError, Cancel, FileDigests};
use opbuild_descriptor::{EffectiveSpec, Job};
use opbuild_digest::{Digest, Hasher};
use serde_json::json;

use crate::answers::Answers;
use crate::find::Toolkit;
use crate::ops_info::OpsInfo;
use crate::platform::Soc;
use crate::pool::{Patience, Pool, Trouble};
use crate::select::{Formats, PortFormats, parse_formats};
use crate::sources::{Implementation, Sources};
use crate::{disk, input};

/// Asks by `pool` what is not known from before.
pub(crate) struct Asker<'a> {
    pub(crate) toolkit: &'a Toolkit,
    pub(crate) soc: &'a Soc,
    pub(crate) sources: &'a Sources,
    pub(crate) ops: &'a OpsInfo,
    pub(crate) spec: &'a EffectiveSpec,
    pub(crate) answers: &'a Answers,
    pub(crate) pool: &'a dyn Fn() -> Result<&'a Pool, BackendError>,
    pub(crate) files: Once,
}

/// Digests of files, each read once: what is asked here is asked once in a process.
#[derive(Default)]
pub(crate) struct Once(Mutex<HashMap<PathBuf, Digest>>);

impl FileDigests for Once {
    fn digest(&self, path: &Path) -> io::Result<Digest> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(digest) = known.get(path) {
            return Ok(*digest);
        }
        let digest = disk::digest(path)?;
        known.insert(path.to_owned(), digest);
        Ok(digest)
    }
}

impl Formats for Asker<'_> {
    fn select(&self, job: &Job, op_index: usize) -> Result<Option<Vec<PortFormats>>, BackendError> {
        let Some(op) = job.ops.get(op_index) else { return Ok(None) };
        let implementation = self.sources.implementation(op, self.ops)?;
        let question = self.question(job, op_index)?;
        let answer = match self.answers.get(&question) {
            Some(answer) => answer,
            None => {
                let answer = self.ask(job, op_index, &implementation)?;
                self.answers.add(&question, answer.clone());
                answer
            }
        };
        answer.map(|answer| parse_formats(&op.op_type, &answer)).transpose()
    }
}

impl Asker<'_> {
    /// What is asked, of whom, and all that the answer may hang on.
    fn question(&self, job: &Job, op_index: usize) -> Result<Digest, BackendError> {
        let sources = self.sources.fingerprint(job, self.spec, self.ops, &self.files)?;
        let mut hasher = Hasher::new("question to an operator");
        hasher.digest(&job.digest());
        hasher.bytes(&(op_index as u64).to_le_bytes());
        hasher.digest(&sources.digest());
        hasher.bytes(self.soc.to_string().as_bytes());
        let versions = &self.toolkit.versions;
        hasher.bytes(versions.compiler.to_string().as_bytes());
        hasher.bytes(versions.opp.to_string().as_bytes());
        Ok(hasher.finish())
    }

    fn ask(
        &self,
        job: &Job,
        op_index: usize,
        implementation: &Implementation,
    ) -> Result<Option<String>, BackendError> {
        let Some(op) = job.ops.get(op_index) else { return Ok(None) };
        let info = self.ops.get(&op.op_type);
        let (ports, attrs) = input::call(op, info)?;
        let module = |below: &str| {
            let parts = [implementation.package.as_str(), below, implementation.module.as_str()];
            parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
        };
        let dynamic = implementation.dynamic.is_some().then(|| module("dynamic"));
        let fixed = implementation.file.is_some().then(|| module(""));
        let modules: Vec<String> = dynamic.into_iter().chain(fixed).collect();
        let core_type = info.and_then(|info| info.core_type.as_deref()).unwrap_or("AiCore");
        let message = json!({"do": "select", "soc": self.soc.name, "core_type": core_type,
            "base": implementation.base.to_string_lossy(), "modules": modules, "ports": ports, "attrs": attrs});
        let cancel = Cancel::new();
        let patience = Patience { deadline: None, cancel: &cancel };
        let answer =
            (self.pool)()?.ask(&message, patience).map_err(|trouble| self.failed(&op.op_type, trouble))?;
        if answer.content["done"] == true {
            return Ok(answer.content["answer"].as_str().map(str::to_owned));
        }
        let problem = answer.content["problem"].as_str().unwrap_or("it says nothing");
        Err(BackendError::Compile {
            command: format!("{}.op_select_format", op.op_type),
            status: problem.to_owned(),
            log_tail: opbuild_process::tail(&answer.output),
            log: None,
        })
    }

    fn failed(&self, op_type: &str, trouble: Trouble) -> BackendError {
        let command = format!("{op_type}.op_select_format");
        match trouble {
            Trouble::Died { status, output } => BackendError::Compile {
                command,
                status: format!("the worker ended: {status}"),
                log_tail: opbuild_process::tail(&output),
                log: None,
            },
            Trouble::Late { seconds, output } => BackendError::Deadline {
                command,
                seconds,
                log_tail: opbuild_process::tail(&output),
                log: None,
            },
            Trouble::Cancelled => BackendError::Cancelled,
            Trouble::Start(error) => error,
        }
    }
}

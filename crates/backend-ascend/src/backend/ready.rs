//! The preparation of a compile: the record of the toolkit, the paths that may be read, the worker's configuration.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};

use opkeep_backend::{BackendError, Context, FileDigests};
use opkeep_cann_toolkit::disk::tree;
use opkeep_cann_toolkit::{Externals, first, knowledge_bank, toolchain};
use opkeep_descriptor::{Job, ResolvedSpec};
use opkeep_digest::{Digest, Fingerprint};
use opkeep_fs::Fs;
use opkeep_process::{Declared, Inputs};

use super::AscendBackend;
use crate::compile::driver::tool_dir;
use crate::compile::ready::{KnownConfig, Ready};
use crate::error::toolkit_error;
use crate::probe::guards::Guards;
use crate::probe::reach::Extra;
use crate::probe::record::Record;
use crate::worker::pool::WorkerConfig;

impl AscendBackend {
    /// Prepares a compile of `job`.
    pub(super) fn ready(
        &self,
        cx: &Context<'_>,
        job: &Job,
        spec: &ResolvedSpec,
    ) -> Result<Ready, BackendError> {
        let known = self.externals().get(&job.digest()).cloned();
        let externals = match known {
            Some(externals) => externals,
            None => self.sources.inputs(job, spec, &self.ops(), cx.files).map_err(toolkit_error)?.1,
        };
        let (record, names) = self.record(cx, &externals)?;
        let config = self.config(cx, &record)?;
        let extra = extra(externals, names, spec, &record);
        Ok(Ready { config, record, extra })
    }

    /// The configuration of workers that import the toolkit as `record` states.
    pub(super) fn config(
        &self,
        cx: &Context<'_>,
        record: &Arc<Record>,
    ) -> Result<Arc<WorkerConfig>, BackendError> {
        let declared = self.declared(cx.files)?;
        let mut last_config = self.last_config.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*last_config
            && Arc::ptr_eq(&known.record, record)
            && known.declared == declared
        {
            return Ok(Arc::clone(&known.config));
        }
        let config = Arc::new(self.config_with(record, &declared, record.guards.clone()));
        *last_config =
            Some(KnownConfig { record: Arc::clone(record), declared, config: Arc::clone(&config) });
        Ok(config)
    }

    fn config_with(&self, record: &Record, declared: &[Declared], guards: Guards) -> WorkerConfig {
        let vendors = self.toolkit.vendors.iter().map(|vendor| vendor.tbe.clone());
        WorkerConfig {
            interpreter: record.interpreter().clone(),
            bytecode: self.probe.bytecode(),
            domain: self.probe.domain(&self.toolkit, record, declared),
            tool_dir: tool_dir(&self.toolkit),
            roots: vendors.chain(self.toolkit.python_path()).collect(),
            jobs_per_worker: self.jobs_per_worker,
            guards,
            scratch: self.scratch.clone(),
            fs: self.fs.clone(),
            reach: OnceLock::new(),
        }
    }

    /// `ready` with other guards.
    pub(super) fn guarded_by(
        &self,
        cx: &Context<'_>,
        ready: Ready,
        guards: Guards,
    ) -> Result<Ready, BackendError> {
        let config = self.config_with(&ready.record, &self.declared(cx.files)?, guards);
        Ok(Ready { config: Arc::new(config), ..ready })
    }

    /// The record of importing the toolkit, and those of its module names that concern an operator.
    pub(super) fn record(
        &self,
        cx: &Context<'_>,
        externals: &Externals,
    ) -> Result<(Arc<Record>, BTreeSet<String>), BackendError> {
        let own = self.toolkit.module_names();
        let asked = externals.names.iter().filter(|name| !own.contains(first(name)));
        let asked: BTreeSet<String> = opkeep_order::set(asked.cloned());
        let last = self.probe.last().filter(|record| asked.iter().all(|name| record.knows(name)));
        let record = match last {
            // The record was checked when the toolchain of this key was fingerprinted.
            Some(record) => record,
            None => {
                let toolkit = toolchain(&self.toolkit, cx.files).map_err(toolkit_error)?.digest();
                self.probe.record(cx, &self.toolkit, &toolkit, &asked)?
            }
        };
        let open = record.scanned.iter().filter(|_| externals.is_open);
        let all = externals.names.iter().chain(open).filter(|name| record.takes_more(name));
        let names = opkeep_order::set(all.cloned());
        Ok((record, names))
    }

    /// Whether a new probe finds other files than `record` states. A record that a new probe confirmed is not probed
    /// again.
    pub(super) fn has_changed(&self, cx: &Context<'_>, record: &Arc<Record>) -> Result<bool, BackendError> {
        if self.probe.is_confirmed(record) {
            return Ok(false);
        }
        self.probe.forget();
        let toolkit = toolchain(&self.toolkit, cx.files).map_err(toolkit_error)?.digest();
        let names = opkeep_order::set(record.names().cloned());
        let now = self.probe.record(cx, &self.toolkit, &toolkit, &names)?;
        if !now.says_the_same_as(record) {
            return Ok(true);
        }
        self.probe.confirm(&now);
        Ok(false)
    }

    /// The files that the user declares as inputs.
    fn declared(&self, files: &dyn FileDigests) -> Result<Vec<Declared>, BackendError> {
        Inputs::declared(&self.inputs, &|path| files.digest(path)).map_err(|(path, error)| {
            BackendError::Toolchain {
                problem: format!(
                    "`{}`, which is declared as an input of the toolchain, cannot be read: {error}",
                    path.display()
                ),
                help: "name files, or directories of files, that are there".to_owned(),
                tool: None,
            }
        })
    }

    pub(super) fn add_declared(
        &self,
        fingerprint: &mut Fingerprint,
        files: &dyn FileDigests,
    ) -> Result<(), BackendError> {
        for Declared { name, digest, .. } in self.declared(files)? {
            fingerprint.add(format!("input {name}"), digest, format!("{:.12}", digest.to_string()));
        }
        Ok(())
    }

    pub(super) fn externals(&self) -> MutexGuard<'_, HashMap<Digest, Externals>> {
        self.externals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The further paths that one compile may read.
fn extra(externals: Externals, names: BTreeSet<String>, spec: &ResolvedSpec, record: &Record) -> Extra {
    let Externals { mut files, directories, .. } = externals;
    let mut listed: BTreeSet<PathBuf> = directories.clone();
    for directory in opkeep_order::set(files.iter().filter_map(|file| file.parent()).map(PathBuf::from)) {
        // The `__init__` of a package may import every module beside it, without effect on the operator.
        if Fs::new().is_file(&directory.join("__init__.py")) {
            let beside = tree::names(&directory).ok().flatten().into_iter().flatten();
            let modules = beside.filter(|(name, is_dir)| !is_dir && name.to_string_lossy().ends_with(".py"));
            files.extend(modules.map(|(name, _)| directory.join(name)));
            // The package itself is looked up in its parent directory.
            listed.extend(directory.parent().map(PathBuf::from));
        }
        listed.insert(directory);
    }
    files.extend(record.files_of(&names));
    let banks =
        knowledge_bank::OPTIONS.iter().filter_map(|option| spec.options.get(*option)).map(PathBuf::from);
    Extra { names, files, beneath: opkeep_order::set(directories.into_iter().chain(banks)), listed }
}

//! One compile, with repeated attempts.
//!
//! If a job reads a file that its key does not cover, one check shows whether the toolkit has changed since the probe.
//! If it has not, the job is refused, and the error names the file. Queries (`op_select_format`) are treated alike.

use std::sync::Arc;

use opkeep_artifact::Artifact;
use opkeep_backend::{BackendError, CompileRequest, Context};

use super::AscendBackend;
use crate::compile::driver::ActiveDriver;
use crate::compile::invocation::{self, AttemptResult, CompilerInput, Process};
use crate::compile::parameters;
use crate::compile::ready::{HELP, Ready};
use crate::error::toolkit_error;
use crate::probe::guards::Guards;
use crate::probe::record::Record;

/// The guards that keep an attempt from reading files that its key does not cover.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// All guards of this host.
    ByAll,
    /// The observer only.
    ByObserver,
    /// No guards: kernels for debugging are not stored.
    No,
}

impl AscendBackend {
    /// Compiles a job, and refuses a kernel made from files that its key does not cover. An attempt is repeated if it
    /// may succeed then, if it read an unknown file and the toolkit has changed since the probe, and, without Landlock,
    /// if it read files that it wrote elsewhere.
    pub(super) fn compile_job(
        &self,
        cx: &Context<'_>,
        request: &CompileRequest<'_>,
    ) -> Result<Artifact, BackendError> {
        let mut number = 0;
        let mut attempt = |kept: Kept| {
            number += 1;
            self.attempt(cx, request, number, kept)
        };
        if request.spec.debug {
            let (result, _) = attempt(Kept::No)?;
            let again = result.artifact.is_err() && result.max_repeats > 0;
            return if again { attempt(Kept::No)?.0.artifact } else { result.artifact };
        }
        let (mut result, mut record) = attempt(Kept::ByAll)?;
        let mut repeats = 0;
        while result.artifact.is_err() && result.unkeyed_paths.is_empty() && repeats < result.max_repeats {
            (result, record) = attempt(Kept::ByAll)?;
            repeats += 1;
        }
        if !result.unkeyed_paths.is_empty() && self.has_changed(cx, &record)? {
            (result, _) = attempt(Kept::ByAll)?;
        }
        if result.unkeyed_paths.is_empty() && result.reads_own_files {
            (result, _) = attempt(Kept::ByObserver)?;
        }
        let AttemptResult { artifact, unkeyed_paths, command, .. } = result;
        match unkeyed_paths.is_empty() {
            true => artifact,
            false => Err(BackendError::UnkeyedRead { command, paths: unkeyed_paths, help: HELP.to_owned() }),
        }
    }

    fn attempt(
        &self,
        cx: &Context<'_>,
        request: &CompileRequest<'_>,
        number: u32,
        kept: Kept,
    ) -> Result<(AttemptResult, Arc<Record>), BackendError> {
        let (op, ops) = (self.single(request.job)?, self.ops());
        let info = ops.get(&op.op_type);
        let implementation = self.sources.implementation(op, &ops).map_err(toolkit_error)?;
        let parameters =
            parameters::parameters(request.job, request.name.as_str(), info, &request.spec.options)?;
        let input = CompilerInput::new(cx, request, op, parameters, &implementation, &self.toolkit, number);
        let mut ready = self.ready(cx, request.job, request.spec)?;
        if kept != Kept::ByAll {
            let guards = match kept {
                Kept::ByObserver => ready.record.guards.only_observing(),
                _ => Guards::none("kernels for debugging are not kept"),
            };
            ready = self.guarded_by(cx, ready, guards)?;
        }
        let Ready { config, record, extra } = &ready;
        let result = match &self.driver {
            ActiveDriver::Process { program, has_banks } => {
                let environment = &record.interpreter().for_programs(&self.environment);
                Process { program, has_banks: *has_banks, environment, config, extra }.compile(&input)
            }
            ActiveDriver::Workers(pool) => invocation::compile_by_worker(pool, config, extra, &input),
        };
        Ok((result, ready.record))
    }
}

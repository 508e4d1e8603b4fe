//! The compile of one kernel in a work directory of its own, its validation and its publication.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep_artifact::Artifact;
use opkeep_backend::{BackendError, CompileRequest};
use opkeep_cache::Ticket;
use opkeep_descriptor::Job;
use opkeep_digest::Digest;
use opkeep_fs::CancelToken;
use opkeep_kernel_entry::{KernelBundle, KernelRecord, Origin, encode_entry};

use super::kernel_pipeline::{KernelPipeline, MissReason};
use crate::event::Event;
use crate::plan::{KeyedKernel, PlannedKernel};
use crate::ready::ReadyKernel;
use crate::warning::WarningKind;
use crate::work_dir::{WorkDir, WorkDirs};
use crate::{KernelError, Outcome};

/// The maximum time for which a compile is retried while the process has too many open files.
const STARVED: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// The time limit for computing the fingerprints again after a compile.
const RECHECK: Duration = Duration::from_secs(10);

impl KernelPipeline<'_> {
    /// Compiles a kernel and checks it.
    pub(crate) fn compile(
        &self,
        planned: &PlannedKernel<'_>,
        keyed: &KeyedKernel,
        missing: &MissReason,
        outcome: Outcome,
    ) -> Result<ReadyKernel, KernelError> {
        self.setup.notify(Event::Started { kernel: planned.name() });
        let began = Instant::now();
        let no_dir = |source: &io::Error| KernelError::WorkDir {
            path: self.setup.work_dir.clone(),
            source: match source.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(source.kind(), source.to_string()),
            },
        };
        let work_dirs = self.runtime.work_dirs.as_ref().map_err(no_dir)?;
        let deadline = self.setup.config.compile_timeout.and_then(|deadline| began.checked_add(deadline));
        let attempt = || {
            let work_dir = work_dirs.create().map_err(|source| no_dir(&source))?;
            self.compile_in(work_dirs, &work_dir, planned, keyed, deadline)
        };
        let made = loop {
            match attempt() {
                // A file descriptor becomes free when another compile or a waiter closes a file.
                Err(error) if error.is_out_of_files() && began.elapsed() < STARVED => {
                    self.ensure_running()?;
                    std::thread::sleep(PAUSE);
                }
                made => break made?,
            }
        };
        let (artifact, object_digest) = made;
        let compile_time = Some(began.elapsed());
        let digests = (object_digest, Digest::of(&artifact.metadata));
        let artifact = Arc::new(artifact);
        Ok(ReadyKernel {
            digests,
            artifact,
            outcome,
            reason: Some(missing.reason.clone()),
            compile_time,
            compile_began: Some(began),
            saved_time: None,
            imported: None,
            from_remote: false,
            kept: None,
        })
    }

    /// Compiles a kernel in `work_dir` and validates it. Returns the kernel and the digest of its object.
    fn compile_in(
        &self,
        work_dirs: &WorkDirs,
        work_dir: &WorkDir,
        planned: &PlannedKernel<'_>,
        keyed: &KeyedKernel,
        deadline: Option<Instant>,
    ) -> Result<(Artifact, Digest), KernelError> {
        let cx = self.runtime.context(self.cancel).with_deadline(deadline);
        let (job, spec, name) = (planned.job, &keyed.spec, &keyed.name);
        let request = CompileRequest { job, spec, name, work_dir: work_dir.dir() };
        // A panic fails this kernel, not the build: state that a panic may have left inconsistent is not used again.
        let compiled = catch_unwind(AssertUnwindSafe(|| self.setup.backend.compile(&cx, &request)));
        let compiled = compiled.map_err(|panic| KernelError::Panicked {
            kernel: keyed.name.to_string(),
            message: message(&*panic),
        })?;
        let artifact = compiled.map_err(|mut error| {
            if let BackendError::Compile { log, .. }
            | BackendError::TimedOut { log, .. }
            | BackendError::MissingOutput { log, .. } = &mut error
                && let Some(written) = log.take()
            {
                let name = written.file_name().map(PathBuf::from).unwrap_or_default();
                *log = work_dirs.keep_failed(work_dir, keyed.name.as_str()).map(|kept| kept.join(name));
            }
            error
        })?;
        let object_digest = self.validate(keyed, &artifact).map_err(|mut error| {
            if let KernelError::Invalid { kept_dir, .. } | KernelError::NameMismatch { kept_dir, .. } =
                &mut error
            {
                *kept_dir = work_dirs.keep_failed(work_dir, keyed.name.as_str());
            }
            error
        })?;
        Ok((artifact, object_digest))
    }

    /// Checks that the artifact is valid and is the requested kernel. Returns the digest of the object, which
    /// validation computes.
    fn validate(&self, keyed: &KeyedKernel, artifact: &Artifact) -> Result<Digest, KernelError> {
        let expected = self.expected(&keyed.spec);
        let (digest, doubt) = self.runtime.rules.validate(&expected, keyed, artifact)?;
        doubt.inspect(|doubt| self.warn_of_doubt(keyed, doubt));
        Ok(digest)
    }

    /// Publishes a compiled kernel. If publishing fails, the kernel can still be used, and the cache has emitted a
    /// warning. Returns whether the local store has the entry.
    pub(crate) fn publish(
        &self,
        planned: &PlannedKernel<'_>,
        keyed: &KeyedKernel,
        made: &ReadyKernel,
        ticket: Ticket,
    ) -> bool {
        if !ticket.is_kept() {
            return false;
        }
        if let Some(change) = self.toolchain_change(planned.job, keyed) {
            let text = format!("kernels are not kept: {change} while compiling");
            self.runtime.warnings.warn_once(WarningKind::ToolchainChanged, &text);
            return false;
        }
        let expected = self.expected(&keyed.spec);
        let KeyedKernel { spec, parts, key, name } = keyed;
        let origin = Origin::Compiled { name, parts, compile_time: made.compile_time };
        let record = KernelRecord { job: planned.job, spec, key: *key, origin };
        let entry = encode_entry(&KernelBundle::of(&made.artifact), &expected, &record);
        ticket.publish(&entry.builder()).is_ok_and(|published| published.local.is_some())
    }

    /// Returns a description of the change of the toolchain or the sources since the key was computed, if there is one.
    /// After such a change the key does not describe the inputs of the kernel.
    fn toolchain_change(&self, job: &Job, keyed: &KeyedKernel) -> Option<String> {
        // The kernel is complete: a cancellation at this point must not discard it.
        let (backend, uncancelled) = (&self.setup.backend, CancelToken::new());
        let cx = self.runtime.context(&uncancelled).with_deadline(Instant::now().checked_add(RECHECK));
        let now = backend
            .toolchain(&cx)
            .and_then(|toolchain| Ok((toolchain, backend.op_sources(&cx, job, &keyed.spec)?)));
        match now {
            Err(error) => Some(format!("the toolchain can no longer be read ({error})")),
            Ok((toolchain, op_sources)) => {
                let (old_toolchain, old_sources) = (&keyed.parts.toolchain, &keyed.parts.op_sources);
                let same = old_toolchain.digest() == toolchain.digest()
                    && old_sources.digest() == op_sources.digest();
                if same {
                    return None;
                }
                let mut changes = old_toolchain.diff(&toolchain);
                changes.extend(old_sources.diff(&op_sources));
                let first = changes.first().map(ToString::to_string);
                Some(format!("toolchain part {}", first.unwrap_or_else(|| "order changed".to_owned())))
            }
        }
    }
}

/// Returns the message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

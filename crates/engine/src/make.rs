//! One kernel: look up, and if it is missing, compile once, validate, publish.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use opbuild_artifact::Artifact;
use opbuild_backend::{BackendError, CompileRequest, FileDigests};
use opbuild_descriptor::{Job, Key};
use opbuild_digest::Digest;
use opbuild_store::{
    Draft, Entry, KeyLock, LockOutcome, Lookup, Miss, Mode, Patience, Replace, Store, StoreError, TargetStore,
};
use opbuild_validator::{RULES_VERSION, Severity, validate};

use crate::builder::Builder;
use crate::event::Event;
use crate::plan::{Keyed, Plan, Planned, State};
use crate::report::KernelReport;
use crate::warnings::{Cause, Warnings};
use crate::work::WorkRoot;
use crate::{BuildError, JobError, Outcome, handover, header};

/// Names of an entry's members.
const JSON: &str = "json";
const OBJECT: &str = "object";
pub(crate) const INFO: &str = "info";
pub(crate) const HEADER: &str = "header";

/// Makes the kernels of one build.
pub(crate) struct Maker<'a> {
    builder: &'a Builder,
    work: &'a io::Result<WorkRoot>,
    files: &'a dyn FileDigests,
    warnings: &'a Warnings,
    /// The store's part for each target of the plan.
    shelves: Vec<(String, TargetStore)>,
    began: SystemTime,
    /// The store could not be written. It is read on, and nothing more is tried: one cause, one warning.
    cannot_keep: AtomicBool,
}

/// Why a kernel was not found, and what is to be done about the entry.
pub(crate) struct Missing {
    reason: String,
    damaged: bool,
}

/// A kernel that is there.
struct Made {
    artifact: Artifact,
    /// Of the object and of the `.json`.
    digests: (Digest, Digest),
    outcome: Outcome,
    reason: Option<String>,
    compile_time: Option<Duration>,
}

impl<'a> Maker<'a> {
    pub(crate) fn new(
        builder: &'a Builder,
        store: Option<&Store>,
        plan: &Plan<'_>,
        work: &'a io::Result<WorkRoot>,
        files: &'a dyn FileDigests,
        warnings: &'a Warnings,
        began: SystemTime,
    ) -> Result<Self, BuildError> {
        let mut shelves = Vec::new();
        for target in plan.targets() {
            match store.map(|store| store.target(&target)) {
                Some(Ok(shelf)) => shelves.push((target, shelf)),
                Some(Err(source)) if builder.mode.insists() => {
                    return Err(BuildError::Store { mode: builder.mode, source });
                }
                Some(Err(error)) => match store.map(|store| store.reader().target(&target)) {
                    // What cannot be written may still be read.
                    Some(Ok(shelf)) if builder.mode.takes() => {
                        warnings.tell(Cause::Keeping, &format!("kernels are built and not kept: {error}"));
                        shelves.push((target, shelf));
                    }
                    _ => warnings.tell(Cause::Store, &format!("building without the store: {error}")),
                },
                None => {}
            }
        }
        let cannot_keep = AtomicBool::new(false);
        Ok(Self { builder, work, files, warnings, shelves, began, cannot_keep })
    }

    /// The kernel, if it is in the store and may be taken from there.
    pub(crate) fn look_up(&self, planned: &Planned<'_>) -> Result<KernelReport, Missing> {
        let began = Instant::now();
        let missing = |reason: &str| Missing { reason: reason.to_owned(), damaged: false };
        let keyed = planned.keyed().ok_or_else(|| missing("refused by the backend"))?;
        if keyed.spec.debug {
            return Err(missing("debug options are on"));
        }
        let mode = self.builder.mode;
        if !mode.takes() {
            return Err(missing(&format!("cache mode is {mode}")));
        }
        let shelf = self.shelf(keyed).ok_or_else(|| missing("there is no store that can be used"))?;
        match shelf.get(keyed.key.digest()) {
            Lookup::Hit(entry) => {
                let made = self.take_entry(keyed, &entry, Outcome::Reused).map_err(|error| Missing {
                    reason: format!("the stored kernel is not valid: {error}"),
                    damaged: true,
                })?;
                self.builder.finished(planned.name(), Outcome::Reused, began);
                Ok(self.report(planned, Ok(made)))
            }
            Lookup::Miss(miss) => {
                if let Miss::Untrusted(_) | Miss::Trouble(_) = &miss {
                    self.warnings.tell(Cause::Reading, &miss.to_string());
                }
                Err(Missing { reason: miss.to_string(), damaged: matches!(miss, Miss::Damaged(_)) })
            }
        }
    }

    /// Makes a kernel that is missing.
    pub(crate) fn make(&self, planned: &Planned<'_>, missing: &Missing) -> KernelReport {
        let began = Instant::now();
        let made = match &planned.state {
            State::Refused(error) => Err(Arc::clone(error)),
            State::Keyed(keyed) if self.builder.mode == Mode::Require => {
                Err(JobError::Required { kernel: keyed.name.to_string(), why: missing.reason.clone() }.into())
            }
            State::Keyed(keyed) if keyed.spec.debug => {
                self.compile(planned, keyed, missing, Outcome::Bypassed).map_err(Arc::new)
            }
            State::Keyed(keyed) => match self.shelf(keyed).filter(|shelf| self.keeps_in(shelf)) {
                Some(shelf) => self.make_once(planned, keyed, shelf, missing).map_err(Arc::new),
                None => self.compile(planned, keyed, missing, Outcome::Compiled).map_err(Arc::new),
            },
        };
        let report = self.report(planned, made);
        self.builder.finished(planned.name(), report.outcome, began);
        report
    }

    /// Makes what was put survive a power cut, and writes down what was counted.
    pub(crate) fn finish(&self, kernels: &[KernelReport]) {
        let fresh: Vec<_> = kernels.iter().filter(|kernel| kernel.outcome == Outcome::Compiled).collect();
        let keys: Vec<_> = fresh.iter().filter_map(|kernel| kernel.key).map(|key| *key.digest()).collect();
        for (_, shelf) in self.shelves.iter().filter(|(_, shelf)| shelf.is_writable()) {
            shelf.sync(&keys);
            // Statistics that another process holds up stay in memory, and are written with the next ones.
            let _ = shelf.flush();
        }
    }

    /// Makes the kernel under its lock, so that of all processes that miss it one compiles.
    fn make_once(
        &self,
        planned: &Planned<'_>,
        keyed: &Keyed,
        shelf: &TargetStore,
        missing: &Missing,
    ) -> Result<Made, JobError> {
        let lock = self.lock(planned, keyed, shelf)?;
        if let Some(made) = self.look_again(keyed, shelf, lock.as_ref()) {
            return Ok(made);
        }
        let made = self.compile(planned, keyed, missing, Outcome::Compiled);
        if let Ok(Made { compile_time: Some(time), .. }) = &made {
            shelf.count_compile(*time);
        }
        match &made {
            Ok(made) => self.publish(planned, keyed, shelf, made, missing),
            Err(error) if error.would_repeat() => {
                if let Some(lock) = lock {
                    let limit = self.builder.deadline.filter(|_| error.is_deadline());
                    lock.release_failed(&handover::write(&error.to_string(), limit));
                }
            }
            Err(_) => {}
        }
        made
    }

    /// The kernel's lock; none where there are no locks, or when waiting took too long.
    fn lock(
        &self,
        planned: &Planned<'_>,
        keyed: &Keyed,
        shelf: &TargetStore,
    ) -> Result<Option<KeyLock>, JobError> {
        let cancelled = || self.builder.cancel.is_cancelled();
        let on_wait = || self.builder.tell(Event::Waiting { kernel: planned.name() });
        // The holder's compile ends by the same deadline as ours would.
        let deadline = self.builder.deadline.and_then(|deadline| Instant::now().checked_add(deadline));
        let patience = Patience { deadline, cancelled: &cancelled, on_wait: Some(&on_wait) };
        loop {
            match shelf.lock(keyed.key.digest(), patience) {
                Ok(LockOutcome::Acquired(lock)) => return Ok(Some(lock)),
                Ok(LockOutcome::HolderFailed(left)) => {
                    if let Some(reason) = handover::read(&left, self.builder.deadline) {
                        return Err(JobError::Elsewhere { reason });
                    }
                    // It had less time than we have: its failure is not ours.
                }
                Ok(LockOutcome::Cancelled) => return Err(BackendError::Cancelled.into()),
                Ok(LockOutcome::TimedOut) => {
                    let text = "another process holds a kernel's lock for too long; compiling without it";
                    self.warnings.tell(Cause::Locks, text);
                    return Ok(None);
                }
                Ok(LockOutcome::Unsupported) => {
                    let text = "the store's file system has no locks; processes may compile the same kernel";
                    self.warnings.tell(Cause::Locks, text);
                    return Ok(None);
                }
                Err(error) if error.stops_every_write() => {
                    self.cannot_keep(&error);
                    return Ok(None);
                }
                Err(error) => {
                    self.warnings.tell(Cause::Locks, &format!("compiling without a lock: {error}"));
                    return Ok(None);
                }
            }
        }
    }

    /// Looks again, now that nobody else makes the kernel; and takes a damaged entry away.
    fn look_again(&self, keyed: &Keyed, shelf: &TargetStore, lock: Option<&KeyLock>) -> Option<Made> {
        let found = match self.builder.mode.takes() {
            true => shelf.get_again(keyed.key.digest()),
            false => shelf.peek(keyed.key.digest()),
        };
        match found {
            Lookup::Hit(entry) => {
                // With `force`, only what was made since this build began is new enough.
                // One that claims to be from the future was made by another clock and says nothing.
                let since = self.began..=SystemTime::now();
                let new_enough = self.builder.mode.takes() || since.contains(&entry.created());
                new_enough.then(|| self.take_entry(keyed, &entry, Outcome::Shared).ok()).flatten()
            }
            Lookup::Miss(Miss::Damaged(judged)) => {
                let path = shelf.path(keyed.key.digest());
                let text = format!(
                    "a damaged entry is set aside and built again: `{}`: {}",
                    path.display(),
                    judged.damage
                );
                self.warnings.tell(Cause::Damage, &text);
                if let Some(lock) = lock
                    && let Err(error) = shelf.quarantine(keyed.key.digest(), &judged, lock)
                {
                    self.warnings.tell(Cause::Keeping, &error.to_string());
                }
                None
            }
            Lookup::Miss(_) => None,
        }
    }

    /// The kernel in an entry. Its bytes are checked; one that older rules let in is validated again.
    fn take_entry(&self, keyed: &Keyed, entry: &Entry, outcome: Outcome) -> Result<Made, JobError> {
        let member = |name| match (entry.member(name), entry.member_digest(name)) {
            (Some(bytes), Some(digest)) => Ok((bytes.to_vec(), *digest)),
            _ => Err(JobError::Incomplete { kernel: keyed.name.to_string(), member: name }),
        };
        let (json, json_digest) = member(JSON)?;
        let (object, object_digest) = member(OBJECT)?;
        let artifact = Artifact { json, object, extra: header::extra_members(entry) };
        if entry.validation() < RULES_VERSION {
            self.validate(keyed, &artifact)?;
            // Once is enough. If this cannot be written, it is done again next time.
            if let Some(shelf) = self.shelf(keyed).filter(|shelf| self.keeps_in(shelf)) {
                let _ = shelf.restamp(entry, RULES_VERSION);
            }
        }
        let digests = (object_digest, json_digest);
        Ok(Made { artifact, digests, outcome, reason: None, compile_time: None })
    }

    fn compile(
        &self,
        planned: &Planned<'_>,
        keyed: &Keyed,
        missing: &Missing,
        outcome: Outcome,
    ) -> Result<Made, JobError> {
        if self.builder.cancel.is_cancelled() {
            return Err(BackendError::Cancelled.into());
        }
        self.builder.tell(Event::Started { kernel: planned.name() });
        let began = Instant::now();
        let no_folder = |source: &io::Error| JobError::WorkFolder {
            path: self.builder.work_base.clone(),
            source: io::Error::new(source.kind(), source.to_string()),
        };
        let work = self.work.as_ref().map_err(no_folder)?;
        let folder = work.folder().map_err(|source| no_folder(&source))?;
        let compiled = self.builder.backend.compile(&CompileRequest {
            job: planned.job,
            spec: &keyed.spec,
            name: &keyed.name,
            work_dir: folder.dir(),
            deadline: self.builder.deadline.and_then(|deadline| began.checked_add(deadline)),
            cancel: &self.builder.cancel,
        });
        let artifact = compiled.map_err(|mut error| {
            if let BackendError::Compile { log, .. } = &mut error
                && let Some(written) = log.take()
            {
                let name = written.file_name().map(PathBuf::from).unwrap_or_default();
                *log = work.keep_failed(&folder, keyed.name.as_str()).map(|kept| kept.join(name));
            }
            error
        })?;
        let object_digest = self.validate(keyed, &artifact)?;
        let compile_time = Some(began.elapsed());
        let digests = (object_digest, Digest::of(&artifact.json));
        Ok(Made { digests, artifact, outcome, reason: Some(missing.reason.clone()), compile_time })
    }

    /// Whether the artifact is a kernel as its `.json` says, and the one that was asked for. Gives the digest of its
    /// object, which validation takes anyway.
    fn validate(&self, keyed: &Keyed, artifact: &Artifact) -> Result<Digest, JobError> {
        let kernel = || keyed.name.to_string();
        let expectations = self.builder.backend.expectations(&keyed.spec);
        let report = validate(&artifact.json, &artifact.object, &expectations);
        let Some(meta) = report.meta.as_ref().filter(|_| report.is_valid()) else {
            return Err(JobError::Invalid { kernel: kernel(), errors: report.errors().cloned().collect() });
        };
        if let Some(doubt) = report.findings.iter().find(|finding| finding.severity() == Severity::Warning) {
            self.warnings
                .tell(Cause::Doubt, &format!("the kernel `{}` is valid, but odd: {doubt}", kernel()));
        }
        let names = meta.entry_names();
        match names.iter().find(|name| !is_of(name, keyed.name.as_str())) {
            Some(other) => Err(JobError::AnotherKernel { kernel: kernel(), found: (*other).to_owned() }),
            None => Ok(report.sha256.unwrap_or_else(|| Digest::of(&artifact.object))),
        }
    }

    /// Puts a compiled kernel into the store. If that fails the kernel is still good: one warning, no more.
    fn publish(
        &self,
        planned: &Planned<'_>,
        keyed: &Keyed,
        shelf: &TargetStore,
        made: &Made,
        missing: &Missing,
    ) {
        if !self.keeps_in(shelf) {
            return;
        }
        if let Some(moved) = self.moved(planned.job, keyed) {
            self.warnings.tell(Cause::Moved, &format!("kernels are not kept: {moved} while compiling"));
            return;
        }
        let info = header::canonical_info(planned.job, &keyed.spec);
        let text = header::render(keyed, &planned.op_type(), made.compile_time, RULES_VERSION);
        let names: Vec<String> =
            made.artifact.extra.iter().map(|member| format!("x/{}", member.name)).collect();
        let mut draft = Draft::new(RULES_VERSION)
            .cost(made.compile_time.unwrap_or_default())
            .eager(JSON, &made.artifact.json)
            .eager(OBJECT, &made.artifact.object);
        for (name, member) in names.iter().zip(&made.artifact.extra) {
            draft = draft.eager(name, &member.bytes);
        }
        draft = draft.lazy(INFO, info.as_bytes()).lazy(HEADER, text.as_bytes());
        let replace = if self.builder.mode == Mode::Force || missing.damaged {
            Replace::Always
        } else {
            Replace::Never
        };
        if let Err(error) = shelf.put_replacing(keyed.key.digest(), &draft, replace) {
            match error.stops_every_write() {
                true => self.cannot_keep(&error),
                false => self.warnings.tell(Cause::Keeping, &format!("a kernel is not kept: {error}")),
            }
        }
    }

    /// What changed since the key was made, if anything did: then nobody knows what the kernel was made from.
    fn moved(&self, job: &Job, keyed: &Keyed) -> Option<String> {
        let backend = &self.builder.backend;
        let now = backend
            .toolchain(self.files)
            .and_then(|toolchain| Ok((toolchain, backend.op_sources(job, &keyed.spec, self.files)?)));
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

    /// Whether kernels are put into `shelf`.
    fn keeps_in(&self, shelf: &TargetStore) -> bool {
        shelf.is_writable() && !self.cannot_keep.load(Ordering::Relaxed)
    }

    /// Goes on without writing to the store, and says why, once.
    fn cannot_keep(&self, error: &StoreError) {
        if !self.cannot_keep.swap(true, Ordering::Relaxed) {
            self.warnings.tell(Cause::Keeping, &format!("kernels are built and not kept: {error}"));
        }
    }

    fn shelf(&self, keyed: &Keyed) -> Option<&TargetStore> {
        self.shelves.iter().find(|(target, _)| *target == keyed.spec.target).map(|(_, shelf)| shelf)
    }

    fn report(&self, planned: &Planned<'_>, made: Result<Made, Arc<JobError>>) -> KernelReport {
        let mut report = KernelReport {
            name: planned.name().to_owned(),
            key: planned.keyed().map(|keyed| Key::from(*keyed.key.digest())),
            op_type: planned.op_type(),
            asked_by: planned.asked_by.iter().map(|name| (*name).to_owned()).collect(),
            outcome: Outcome::Failed,
            reason: None,
            error: None,
            compile_time: None,
            artifact: None,
            digests: None,
        };
        match made {
            Ok(Made { artifact, digests, outcome, reason, compile_time }) => {
                report.digests = Some(digests);
                report.outcome = outcome;
                report.reason = reason;
                report.compile_time = compile_time;
                report.artifact = Some(Arc::new(artifact));
            }
            Err(error) => {
                report.reason = Some(error.to_string());
                report.error = Some(error);
            }
        }
        report
    }
}

/// Whether a kernel goes by the name that was asked for: as it is, or with something behind an underscore.
fn is_of(kernel: &str, name: &str) -> bool {
    kernel.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_only_begins_alike_is_another() {
        for own in ["add_1", "add_1__kernel0", "add_1_0_mix_aic"] {
            assert!(is_of(own, "add_1"), "{own}");
        }
        for other in ["add_12__kernel0", "add_10", "add_", "sub_1", ""] {
            assert!(!is_of(other, "add_1"), "{other}");
        }
    }
}

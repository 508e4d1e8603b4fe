//! The reports of builds.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep_artifact::Artifact;
use opkeep_descriptor::Key;
use opkeep_digest::Digest;
use opkeep_kernel_entry::Provenance;
use opkeep_kernel_meta::{DirectoryRisk, LeftKernel, ViewError};
use opkeep_store::Statistics;

use crate::outcome::Outcome;
use crate::plan::PlannedKernel;
use crate::ready::ReadyKernel;
use crate::record::BuildRecord;
use crate::{KernelError, MissExplanation, Warning};

/// The report of a build.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct BuildReport {
    /// The backend's name.
    pub backend: &'static str,
    /// The exact targets, as the backend resolved them; usually one.
    pub targets: Vec<String>,
    /// The number of requests.
    pub requests: usize,
    /// The kernels of the requests, in the order of their first requests.
    pub kernels: Vec<KernelReport>,
    /// The kernel of each request: an index into `kernels`.
    pub kernel_of: Vec<usize>,
    /// The problems that did not stop the build.
    pub warnings: Vec<Warning>,
    /// The result of writing the kernels where a framework looks for them, if [`Config::view`](crate::Config::view) is
    /// set.
    pub view: Option<Result<ViewPlacement, ViewError>>,
    /// The duration of the build.
    pub elapsed: Duration,
    /// Whether the call was cancelled before every kernel had another outcome.
    pub cancelled: bool,
    /// What the build did with the remote tier, and the time that it lost by waiting. Local look-ups and compiles are not in it.
    pub activity: Statistics,
    /// The number of kernels in the store that are still to be sent to the remote tier, those of earlier builds included. 0 if this
    /// build sends none.
    pub unsent: usize,
    /// The number of kernels that this build compiled since the remote tier had no copy that it uses. 0 if a call failed, since
    /// it is not known then what the remote tier has.
    pub remote_absent: usize,
    /// The records of the build and of those that were merged into it, if [`Config::record`](crate::Config::record) is set.
    pub records: Vec<BuildRecord>,
}

impl BuildReport {
    /// Returns the number of kernels with each outcome.
    pub fn counts(&self) -> BTreeMap<Outcome, usize> {
        let mut counts: BTreeMap<Outcome, usize> =
            opkeep_order::map(Outcome::ALL.into_iter().map(|outcome| (outcome, 0)));
        for kernel in &self.kernels {
            *counts.entry(kernel.outcome).or_default() += 1;
        }
        counts
    }

    /// Adds the report of another build, such as one of the same call for another backend.
    pub fn merge(&mut self, other: Self) {
        let Self {
            backend: _,
            targets,
            requests,
            kernels,
            kernel_of,
            warnings,
            view,
            elapsed,
            cancelled,
            activity,
            unsent,
            remote_absent,
            records,
        } = other;
        self.records.extend(records);
        self.activity.add(&activity);
        self.unsent += unsent;
        self.remote_absent += remote_absent;
        let first = self.kernels.len();
        self.targets.extend(targets);
        opkeep_order::sort(&mut self.targets);
        self.targets.dedup();
        self.requests += requests;
        self.kernels.extend(kernels);
        self.kernel_of.extend(kernel_of.into_iter().map(|at| at + first));
        self.warnings.extend(
            warnings.into_iter().filter(|warning| !self.warnings.contains(warning)).collect::<Vec<_>>(),
        );
        self.elapsed += elapsed;
        self.cancelled |= cancelled;
        match (&mut self.view, view) {
            (Some(Ok(view)), Some(Ok(other))) => view.merge(other, first),
            (Some(Ok(_)), Some(Err(error))) => self.view = Some(Err(error)),
            _ => {}
        }
    }

    /// Returns the number of kernels that came from the remote tier.
    pub fn count_from_remote(&self) -> usize {
        self.kernels.iter().filter(|kernel| kernel.from_remote).count()
    }

    /// Returns the number of kernels with `outcome`.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.kernels.iter().filter(|kernel| kernel.outcome == outcome).count()
    }
}

/// The kernels that a build wrote to the view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ViewPlacement {
    /// The directory.
    pub directory: PathBuf,
    /// The names in the directory, each with its kernel: an index into [`BuildReport::kernels`].
    pub names: Vec<(String, usize)>,
    /// Names that several kernels have. None of these kernels is in the directory under that name, since a framework
    /// would run the wrong one.
    pub conflicting_names: Vec<String>,
    /// Names of frameworks that cannot be file names.
    pub invalid_names: Vec<String>,
    /// Names of multi-part kernels (`jsonList`) and of kernels without a `.json`: such kernels are not written to the
    /// directory.
    pub multi_part_names: Vec<String>,
    /// Kernels that are not in the directory because of the files under their names or beside them.
    pub left: Vec<LeftKernel>,
    /// The path of the quarantine with the foreign files that were replaced, if there were any.
    pub quarantine: Option<PathBuf>,
    /// Names of files that were renamed for a comparison and did not get their own names back, since another file has
    /// the name, or the kernel's other file does not fit; and of files that another program wrote or extended, of outdated
    /// kernels of ours that could not be quarantined.
    pub displaced: Vec<String>,
    /// The reason why the directory cannot be relied on.
    pub risk: Option<DirectoryRisk>,
}

impl ViewPlacement {
    /// Adds the placement of another build into the directory. The indices of that build's kernels begin at `first`.
    fn merge(&mut self, other: Self, first: usize) {
        let Self {
            directory: _,
            names,
            conflicting_names,
            invalid_names,
            multi_part_names,
            left,
            quarantine,
            displaced,
            risk,
        } = other;
        self.names.extend(names.into_iter().map(|(name, at)| (name, at + first)));
        for (all, more) in
            [(&mut self.conflicting_names, conflicting_names), (&mut self.displaced, displaced)]
        {
            all.extend(more);
            opkeep_order::sort(all);
            all.dedup();
        }
        self.invalid_names.extend(invalid_names);
        self.multi_part_names.extend(multi_part_names);
        self.left.extend(left);
        self.quarantine = self.quarantine.take().or(quarantine);
        self.risk = self.risk.take().or(risk);
    }
}

/// The report of one kernel.
#[derive(Debug)]
#[non_exhaustive]
pub struct KernelReport {
    /// The kernel's name; for a kernel without a key, the name of its first request.
    pub name: String,
    /// The kernel's key. `None` if the backend refused the job; if an imported kernel was reused nevertheless, the
    /// import's key.
    pub key: Option<Key>,
    /// The types of the kernel's operators, joined by `+`.
    pub op_type: String,
    /// The names of the requests for the kernel.
    pub requested_by: Vec<String>,
    /// The kernel's outcome.
    pub outcome: Outcome,
    /// The reason why the kernel was not reused or why it failed; for an imported kernel, the provenance as text.
    pub reason: Option<String>,
    /// Why the kernel was missing, if it was, and if [`Config::explain_misses`](crate::Config::explain_misses) is set.
    pub miss: Option<MissExplanation>,
    /// The error, if the kernel was not built.
    pub error: Option<Arc<KernelError>>,
    /// The provenance, if the kernel was imported.
    pub imported: Option<Provenance>,
    /// Whether this build took the kernel from the remote tier. It is in the local store now, if that is written.
    pub from_remote: bool,
    /// The duration of the compile, if this build compiled the kernel.
    pub compile_time: Option<Duration>,
    /// The duration of the earlier compile, if the kernel was found and its entry states it.
    pub saved_time: Option<Duration>,
    /// The number of bytes of the object and the `.json` together, if the kernel was built.
    pub bytes: Option<usize>,
    /// The kernel, if it was built and [`Config::keep_artifacts`](crate::Config::keep_artifacts) is set.
    pub artifact: Option<Arc<Artifact>>,
    /// The beginning of the compile, if this build compiled the kernel.
    pub(crate) compile_began: Option<Instant>,
    /// The digests of the object and of the `.json`, if the kernel was built.
    pub(crate) digests: Option<(Digest, Digest)>,
    /// Whether the local store has the entry, as far as that is known.
    pub(crate) kept: Option<bool>,
}

impl KernelReport {
    pub(crate) fn new(planned: &PlannedKernel<'_>, made: Result<ReadyKernel, Arc<KernelError>>) -> Self {
        let mut report = Self {
            name: planned.name().to_owned(),
            key: planned.keyed().map(|keyed| Key::from(*keyed.key.digest())),
            op_type: planned.op_type(),
            requested_by: planned.requested_by.iter().map(|name| (*name).to_owned()).collect(),
            outcome: Outcome::Failed,
            reason: None,
            miss: None,
            error: None,
            imported: None,
            from_remote: false,
            compile_time: None,
            compile_began: None,
            saved_time: None,
            bytes: None,
            artifact: None,
            digests: None,
            kept: None,
        };
        match made {
            Ok(ready) => {
                let ReadyKernel { artifact, digests, outcome, reason, imported, from_remote, .. } = ready;
                report.imported = imported;
                report.from_remote = from_remote;
                report.kept = ready.kept;
                report.digests = Some(digests);
                report.outcome = outcome;
                report.reason = reason;
                report.compile_time = ready.compile_time;
                report.compile_began = ready.compile_began;
                report.saved_time = ready.saved_time;
                report.bytes = Some(artifact.object.len() + artifact.metadata.len());
                report.artifact = Some(artifact);
            }
            Err(error) => {
                report.outcome = error.outcome();
                report.reason = Some(error.to_string());
                report.error = Some(error);
            }
        }
        report
    }
}

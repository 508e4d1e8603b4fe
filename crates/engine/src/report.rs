//! What came of a build.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use opkeep_artifact::Artifact;
use opkeep_descriptor::Key;
use opkeep_digest::Digest;
use opkeep_kernel_entry::Provenance;
use opkeep_kernel_meta::{DirectoryRisk, LeftKernel, ViewError};

use crate::KernelError;
use crate::outcome::Outcome;
use crate::plan::PlannedKernel;
use crate::ready::ReadyKernel;

/// What came of a build.
#[derive(Debug, Default)]
pub struct BuildReport {
    /// The backend's name.
    pub backend: &'static str,
    /// The exact targets, as resolved; one, as a rule.
    pub targets: Vec<String>,
    /// How many operators were asked for.
    pub operators: usize,
    /// The kernels they came to, in the order in which they were first asked for.
    pub kernels: Vec<KernelReport>,
    /// The kernel of each operator: an index into `kernels`.
    pub kernel_of: Vec<usize>,
    /// What should be known and stopped nothing.
    pub warnings: Vec<String>,
    /// Where kernels were put for a framework, if that was asked for; or why they could not.
    pub view: Option<Result<ViewPlacement, ViewError>>,
    /// How long it took.
    pub elapsed: Duration,
    /// Whether the call was cancelled before every kernel had another outcome.
    pub cancelled: bool,
}

impl BuildReport {
    /// How many kernels had each outcome.
    pub fn counts(&self) -> BTreeMap<Outcome, usize> {
        let mut counts: BTreeMap<Outcome, usize> =
            Outcome::ALL.into_iter().map(|outcome| (outcome, 0)).collect();
        for kernel in &self.kernels {
            *counts.entry(kernel.outcome).or_default() += 1;
        }
        counts
    }

    /// How many kernels had `outcome`.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.kernels.iter().filter(|kernel| kernel.outcome == outcome).count()
    }
}

/// Kernels where a framework looks for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewPlacement {
    /// The folder.
    pub folder: PathBuf,
    /// Names there, each with its kernel: an index into [`BuildReport::kernels`].
    pub names: Vec<(String, usize)>,
    /// Names that were asked for by operators of different kernels. Neither kernel is there under that name, since a
    /// framework would run one for the other.
    pub conflicting_names: Vec<String>,
    /// Names that a framework asked for and that cannot be those of files.
    pub unusable: Vec<String>,
    /// Names of kernels that are in parts (`jsonList`) or have no `.json`: the folder does not hold such.
    pub multi_part_names: Vec<String>,
    /// Kernels that are not there, because of what stands under their names or beside them.
    pub left: Vec<LeftKernel>,
    /// Where the files are kept that were replaced, if some were that are not ours.
    pub quarantine: Option<PathBuf>,
    /// Files that could not get their names back after the build compared them: another file has the name, or the kernel's
    /// other file does not fit. Their names in the directory, where they stay.
    pub displaced: Vec<String>,
    /// Why the folder cannot be relied on.
    pub risk: Option<DirectoryRisk>,
}

/// What came of one kernel.
#[derive(Debug)]
pub struct KernelReport {
    /// The kernel's name; for one without a key, the name of the operator that asked for it.
    pub name: String,
    /// Its key; none, if the backend refused the job before there was one. If it was reused all the same, that of the
    /// imported kernel.
    pub key: Option<Key>,
    /// The types of its operators, joined by `+`.
    pub op_type: String,
    /// Names of the operators that asked for it.
    pub requested_by: Vec<String>,
    /// How it came out.
    pub outcome: Outcome,
    /// Why it was not reused, or why it failed; of an imported one, what it is.
    pub reason: Option<String>,
    /// The failure itself.
    pub error: Option<Arc<KernelError>>,
    /// Where it came from, if it was imported.
    pub imported: Option<Provenance>,
    /// How long its compile took, if this build compiled it.
    pub compile_time: Option<Duration>,
    /// The bytes of its `.o` and its `.json` together, unless it failed.
    pub bytes: Option<usize>,
    /// The kernel, unless it failed, or [`Config::keep_artifacts`](crate::Config::keep_artifacts) says not to keep it.
    pub artifact: Option<Arc<Artifact>>,
    /// The SHA-256 of its `.o` and of its `.json`, as they were checked.
    pub(crate) digests: Option<(Digest, Digest)>,
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
            error: None,
            imported: None,
            compile_time: None,
            bytes: None,
            artifact: None,
            digests: None,
        };
        match made {
            Ok(ReadyKernel { artifact, digests, outcome, reason, compile_time, imported }) => {
                report.imported = imported;
                report.digests = Some(digests);
                report.outcome = outcome;
                report.reason = reason;
                report.compile_time = compile_time;
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

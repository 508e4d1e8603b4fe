//! The result of a build as JSON.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use opkeep::{BuildReport, KernelReport, ViewPlacement};
use opkeep_kernel_entry::Provenance;
use serde::Serialize;

use super::left::{LeftOutput, left_outputs};
use super::report::{groups, reason, saved_time};
use crate::commands::activity::{LostOutput, RemoteOutput};
use crate::commands::misses::output::{CauseOutput, FormerOutput, NearestOutput};
use crate::input::model::Unreadable;
use crate::ui::json::{self, FileError, Milliseconds};
use crate::ui::output::chain;

/// The result of a build as JSON.
#[derive(Serialize)]
pub(crate) struct BuildOutput {
    /// The name of the network; none, if there are several inputs.
    network: Option<String>,
    target: String,
    targets: Vec<String>,
    backend: &'static str,
    operators: usize,
    kernels: usize,
    #[serde(flatten)]
    counts: OutcomeCounts,
    from_remote: usize,
    /// None without a remote cache.
    remote: Option<RemoteOutput>,
    lost: LostOutput,
    elapsed_ms: Milliseconds,
    saved_ms: Milliseconds,
    results: Vec<KernelOutput>,
    /// Only with `--explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    causes: Option<Vec<CauseOutput>>,
    #[serde(flatten)]
    view: Option<ViewOutput>,
    #[serde(flatten)]
    unreadable: UnreadableOutput,
    interrupted: bool,
    /// The page about the build, if one was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<String>,
}

/// The number of kernels with each outcome, by the outcome's name.
pub(crate) type OutcomeCounts = BTreeMap<&'static str, usize>;

pub(crate) fn counts(report: &BuildReport) -> OutcomeCounts {
    opkeep_order::map(report.counts().into_iter().map(|(outcome, count)| (outcome.name(), count)))
}

/// The inputs that could not be read; without any, there are no fields.
#[derive(Serialize)]
pub(crate) struct UnreadableOutput {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<FileError>,
}

impl UnreadableOutput {
    pub(crate) fn new(unreadable: &Unreadable) -> Self {
        let one = |(file, error): &(PathBuf, anyhow::Error)| FileError::new(file, chain(error));
        Self { unreadable: unreadable.errors.iter().map(one).collect() }
    }
}

#[derive(Serialize)]
struct KernelOutput {
    name: String,
    key: Option<String>,
    op_type: String,
    operators: Vec<String>,
    outcome: &'static str,
    reason: Option<String>,
    imported: Option<ImportedOutput>,
    from_remote: bool,
    compile_ms: Option<Milliseconds>,
    saved_ms: Option<Milliseconds>,
    bytes: Option<usize>,
    /// The stored kernel that explains the miss, only with `--explain` and of a miss; null if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest: Option<Option<NearestOutput>>,
    /// What is known of the missing entry, only with `--explain` and of a miss; null if nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    former: Option<Option<FormerOutput>>,
}

/// The provenance of an imported kernel, whose toolchain is not known.
#[derive(Serialize)]
pub(crate) struct ImportedOutput {
    folder: String,
    name: String,
    framework: String,
    said: BTreeMap<String, String>,
    has_options: bool,
    /// The time of the import, in Unix seconds.
    at: u64,
    toolchain: Option<String>,
    op_sources: Option<String>,
}

impl From<&Provenance> for ImportedOutput {
    fn from(imported: &Provenance) -> Self {
        let Provenance { directory: folder, name, framework, toolchain: said, has_options, imported_at: at } =
            imported.clone();
        let at = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self { folder, name, framework, said, has_options, at, toolchain: None, op_sources: None }
    }
}

/// The kernels that were written where the framework reads them, or the error.
#[derive(Serialize)]
#[serde(untagged)]
enum ViewOutput {
    Placed(PlacedOutput),
    Failed { kernel_meta_error: String },
}

#[derive(Serialize)]
struct PlacedOutput {
    kernel_meta: String,
    contested_names: Vec<String>,
    unusable_names: Vec<String>,
    names_in_parts: Vec<String>,
    left_alone: Vec<LeftOutput>,
    kernel_meta_quarantine: Option<String>,
    kernel_meta_displaced: Vec<String>,
    kernel_meta_risk: Option<String>,
}

/// What decides which fields there are.
pub(crate) struct Flags {
    pub(crate) has_remote: bool,
    pub(crate) is_interrupted: bool,
    pub(crate) explains: bool,
}

impl BuildOutput {
    /// Creates the result of `report`, the report of a build of `network` for the requested `target`.
    pub(crate) fn new(
        report: &BuildReport,
        network: Option<String>,
        target: &str,
        unreadable: &Unreadable,
        flags: Flags,
    ) -> Self {
        let view = report.view.as_ref().map(|view| match view {
            Ok(placed) => ViewOutput::Placed(placed_output(placed)),
            Err(error) => ViewOutput::Failed { kernel_meta_error: error.to_string() },
        });
        Self {
            network,
            target: report.targets.first().map_or(target, String::as_str).to_owned(),
            targets: report.targets.clone(),
            backend: report.backend,
            operators: report.requests,
            kernels: report.kernels.len(),
            counts: counts(report),
            from_remote: report.count_from_remote(),
            remote: flags.has_remote.then(|| report.into()),
            lost: (&report.activity).into(),
            elapsed_ms: Milliseconds(report.elapsed),
            saved_ms: Milliseconds(saved_time(report)),
            results: report.kernels.iter().map(kernel_output).collect(),
            causes: flags.explains.then(|| groups(report).iter().map(CauseOutput::from).collect()),
            view,
            unreadable: UnreadableOutput::new(unreadable),
            interrupted: flags.is_interrupted,
            timings: None,
        }
    }

    /// The same with the file of the page about the build.
    pub(crate) fn with_timings(mut self, timings: Option<&Path>) -> Self {
        self.timings = timings.map(json::path);
        self
    }
}

fn kernel_output(kernel: &KernelReport) -> KernelOutput {
    KernelOutput {
        name: kernel.name.clone(),
        key: kernel.key.map(|key| key.to_string()),
        op_type: kernel.op_type.clone(),
        operators: kernel.requested_by.clone(),
        outcome: kernel.outcome.name(),
        reason: reason(kernel),
        imported: kernel.imported.as_ref().map(ImportedOutput::from),
        from_remote: kernel.from_remote,
        compile_ms: kernel.compile_time.map(Milliseconds),
        saved_ms: kernel.saved_time.map(Milliseconds),
        bytes: kernel.bytes,
        nearest: kernel
            .miss
            .as_ref()
            .map(|miss| miss.nearest.as_ref().map(|nearest| NearestOutput::from(&**nearest))),
        former: kernel.miss.as_ref().map(|miss| miss.former.as_ref().and_then(FormerOutput::new)),
    }
}

fn placed_output(placed: &ViewPlacement) -> PlacedOutput {
    PlacedOutput {
        kernel_meta: json::path(&placed.directory),
        contested_names: placed.conflicting_names.clone(),
        unusable_names: placed.invalid_names.clone(),
        names_in_parts: placed.multi_part_names.clone(),
        left_alone: left_outputs(placed),
        kernel_meta_quarantine: placed.quarantine.as_deref().map(json::path),
        kernel_meta_displaced: placed.displaced.clone(),
        kernel_meta_risk: placed.risk.as_ref().map(ToString::to_string),
    }
}

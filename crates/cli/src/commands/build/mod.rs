//! `opkeep build`: builds networks and operators.

mod left;
pub(crate) mod not_cached;
pub(crate) mod output;
pub(crate) mod report;

use std::path::PathBuf;
use std::sync::Arc;

use opkeep::{BuildReport, Outcome, ViewConfig, ViewGroup};
use opkeep_framework_cache::FrameworkFiles;

use self::output::{BuildOutput, Flags, UnreadableOutput};
use crate::commands::report::{check_page, write_timings};
use crate::flags::compile::CompileArgs;
use crate::flags::record::RecordArgs;
use crate::flags::remote::RemoteArgs;
use crate::flags::trust::TrustArgs;
use crate::input::model;
use crate::input::options::note_ignored;
use crate::setup;
use crate::setup::targets::{TargetRequests, split_by_target};
use crate::ui::env;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::counted;
use not_cached::explanation;
use report::{interrupted, network_name, note_targets, print_report, report_text, with_progress};

/// The details of build.
const DETAILS: &str = "\
`opkeep --help` lists the environment variables.

Exit code 0: all kernels are built; 1: a kernel failed, or an input is not a model; 2: wrong usage,
or nothing could be built.

Examples:
  opkeep build resnet50.onnx --target cpu --dim batch=1
    builds a network whose first dimension is open
  RANK_ID=3 opkeep build kernel_meta --target Ascend910B1
    builds the descriptors in a directory, into rank_3/kernel_meta
  opkeep build models --remote redis://HOST
    shares the kernels with other hosts";

/// Build networks or operators: compile new and changed kernels, reuse the others
///
/// The kernels are then in rank_N/kernel_meta, where frameworks read them.
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// Networks (.onnx), operator descriptors (.info), or directories of them
    ///
    /// Links and pseudo file systems (/proc) below a directory are skipped.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) inputs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) common: CompileArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    /// Write no kernels to rank_N/kernel_meta
    #[arg(long)]
    pub(crate) no_kernel_meta: bool,
    /// Write kernels to this directory instead of rank_N/kernel_meta
    #[arg(long, value_name = "DIR", conflicts_with = "no_kernel_meta")]
    pub(crate) kernel_meta: Option<PathBuf>,
    /// Report beside each compile why the kernel was missing
    ///
    /// The result also has each cause with its kernels, as that of opkeep explain. Stored kernels are compared while
    /// compilers run.
    #[arg(long)]
    pub(crate) explain: bool,
    /// Replace kernels in kernel_meta that opkeep did not write
    ///
    /// Also release kernels by debug kernels. Foreign kernels go to a quarantine, from which `opkeep repair --undo
    /// DIR` restores them.
    #[arg(long, conflicts_with = "no_kernel_meta")]
    pub(crate) replace: bool,
    /// Also reuse imported kernels where none was compiled by opkeep
    ///
    /// They are of an equal job, target and options, but of an unknown toolchain; see opkeep help import.
    #[arg(long)]
    pub(crate) trust_imported: bool,
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    /// Write a page about this build: when each thread compiled what, and what bounded the build
    ///
    /// The page is for a browser, is complete in itself, and runs no script [default FILE: opkeep-timings.html].
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "opkeep-timings.html")]
    pub(crate) timings: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    args.timings.as_deref().map_or(Ok(()), check_page)?;
    let cancel = output.cancel_on_signal();
    let settings = setup::remote_settings(&args.remote, &args.trust)?;
    let (remote, trust) = (settings.remote()?, settings.trust()?);
    if args.trust_imported && trust.policy.trusted_keys().is_some() {
        output.print_warning(
            "imported kernels have no signature, so none is used: --trust-imported has no effect",
        );
    }
    let engine = setup::engine(&args.common, &cancel, output)?;
    let (mut requests, unreadable, unknown) = model::requests(&args.inputs, &engine, &args.common)?;
    if cancel.is_cancelled() && requests.is_empty() {
        output.print_interrupted(true);
        return Ok(ExitStatus::Interrupted);
    }
    model::set_debug_options(&mut requests, &args.common, output)?;
    unreadable.errors.iter().for_each(|(_, error)| output.print_error(error));
    if requests.is_empty() && !unreadable.is_empty() {
        output.print_json_only(&UnreadableOutput::new(&unreadable))?;
        return Ok(ExitStatus::Failed);
    }
    let by_target = split_by_target(requests, engine, &args.common, unknown, &cancel)?;
    if let Some(for_default) = by_target.first() {
        note_targets(&for_default.requests, &args.common, output);
    }
    let group = ViewGroup::of(by_target.iter().map(|one| one.requests.as_slice()));
    let record = setup::record(&args.record, label(&args.inputs), args.timings.is_some());
    let mut report: Option<BuildReport> = None;
    for TargetRequests { target, engine, requests } in by_target {
        note_ignored(&args.common, engine.backend(), &target, output);
        let view = view(args, &group)?;
        let engine = engine.with_config(|config| {
            config.keep_artifacts = false;
            config.trust_imported = args.trust_imported;
            config.explain_misses = args.explain;
            config.remote.clone_from(&remote);
            config.trust.clone_from(&trust);
            config.record.clone_from(&record);
            config.view = view;
        });
        let part = with_progress(engine, &requests, output)?;
        match &mut report {
            Some(report) => report.merge(part),
            None => report = Some(part),
        }
    }
    let report = report.unwrap_or_default();

    let single = args.inputs.first().filter(|_| args.inputs.len() == 1);
    let network = single.map(|input| network_name(input));
    let target = args.common.target();
    let flags =
        Flags { has_remote: remote.is_some(), is_interrupted: cancel.is_cancelled(), explains: args.explain };
    let timings = args.timings.as_deref().map(|file| write_timings(file, &report.records).map(|()| file));
    let has_timings = timings.as_ref().is_none_or(Result::is_ok);
    let written = timings.as_ref().and_then(|timings| timings.as_ref().ok().copied());
    let json = BuildOutput::new(&report, network, target, &unreadable, flags).with_timings(written);
    // Printed before the result, which contains the warnings, too.
    let is_placed = print_report(&report, args.common.chooses_target(), output);
    let others = args.remote.remote.is_some() || args.trust_imported;
    let explanation = || explanation(args.inputs.iter().map(PathBuf::as_path), &args.common, others);
    let text = report_text(&report, output.verbosity(), (!args.explain).then(explanation));
    output.print_result(&text, &json)?;
    match &timings {
        Some(Ok(file)) => output.print_note(&format!("the timings of this build are in {}", file.display())),
        Some(Err(error)) => output.print_error(error),
        None => {}
    }
    if cancel.is_cancelled() {
        output.print_note(&interrupted(&report));
    }
    Ok(match () {
        () if cancel.is_cancelled() => ExitStatus::Interrupted,
        () if unreadable.exit_status() == ExitStatus::Failed => ExitStatus::Failed,
        () if report.count(Outcome::Failed) > 0 || !is_placed || !has_timings => ExitStatus::Problems,
        () => unreadable.exit_status(),
    })
}

/// Returns the label of the build's record: the file name of the only input, or their number.
fn label(inputs: &[PathBuf]) -> String {
    match inputs {
        [input] => match input.file_name() {
            Some(name) => name.to_string_lossy().into_owned(),
            None => "a directory".to_owned(),
        },
        inputs => counted(inputs.len(), "input"),
    }
}

/// Returns the directory of kernels for a framework, from the flags and the environment.
fn view(args: &Args, group: &ViewGroup) -> anyhow::Result<Option<ViewConfig>> {
    if args.no_kernel_meta {
        return Ok(None);
    }
    let mut view = match &args.kernel_meta {
        Some(dir) => ViewConfig::directory(dir),
        None => env::kernel_meta()?,
    };
    view.policy.replace = args.replace;
    view.policy.guessed_target = !args.common.chooses_target();
    view.group = Some(group.clone());
    view.foreign_files = Arc::new(FrameworkFiles);
    Ok(Some(view))
}

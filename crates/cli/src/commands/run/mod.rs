//! `opkeep run`: builds and runs a model, and compares its outputs.

mod profile;
mod tensors;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use opkeep::{BuildReport, KernelReport, NodeTiming, Request, RunError, Session};
use opkeep_backend::{Backend, Buffer, Slot, check_dynamic_loading};
use opkeep_descriptor::Job;
use opkeep_fs::CancelToken;
use opkeep_ops::Graph;
use opkeep_tensors::{AssignedFile, Role, assign_files, compare, input_buffers, write_outputs};
use serde::Serialize;

use crate::commands::build::not_cached::{self, explanation};
use crate::commands::build::output::{OutcomeCounts, counts};
use crate::commands::build::report::{
    interrupted, network_name, note_targets, print_report, summary, with_progress,
};
use crate::flags::compile::CompileArgs;
use crate::flags::record::RecordArgs;
use crate::flags::remote::RemoteArgs;
use crate::flags::tensors::{InputArgs, ToleranceArgs};
use crate::flags::trust::TrustArgs;
use crate::input::dims::Dims;
use crate::input::model::{self, Model};
use crate::input::options::{UnknownOptions, note_ignored};
use crate::input::store::threads;
use crate::setup;
use crate::ui::config::Verbosity;
use crate::ui::hints;
use crate::ui::json::Milliseconds;
use crate::ui::logged::LoggedError;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, counted};
use profile::{Profile, StepOutput};
use tensors::{ComparisonOutput, TensorOutput, comparison_text, tensor_text};

/// The details of run.
const DETAILS: &str = "\
Exit code 0: the model ran, and its outputs are equal to the references; 1: a kernel failed, or an
output differs; 2: the model or an input cannot be read, or this command is statically linked, so
that it cannot load kernels.

Examples:
  opkeep run model.onnx --input x.pb --compare y.pb
    runs a network, and compares its output with a reference
  opkeep run square.info --input-values 1,4,9
    runs one operator
  opkeep run model.onnx --input-fill random:1 --profile
    shows the time of each operator";

/// Build a network or an operator, run it, and compare its outputs with references
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// A network (.onnx) or an operator descriptor (.info)
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) inputs: InputArgs,
    /// Write each output to this directory as output_<i>.npy
    ///
    /// The outputs have the network's order.
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Compare an output with a reference (.pb or .npy)
    ///
    /// The exit code is 1 if they differ. A reference is for the output that the file names; without such a name, for
    /// the next output in order.
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) tolerance: ToleranceArgs,
    /// Show the time of each operator
    #[arg(long)]
    pub(crate) profile: bool,
    #[command(flatten)]
    pub(crate) common: CompileArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    #[command(flatten)]
    pub(crate) record: RecordArgs,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    check_dynamic_loading()?;
    let cancel = output.cancel_on_signal();
    let settings = setup::remote_settings(&args.remote, &args.trust)?;
    let (remote, trust) = (settings.remote()?, settings.trust()?);
    let label = args.model.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let record = setup::record(&args.record, label, false);
    let engine = setup::engine(&args.common, &cancel, output)?
        .with_config(|config| (config.remote, config.trust, config.record) = (remote, trust, record));
    let (mut unknown, mut dims) = (UnknownOptions::of(&args.common), Dims::of(&args.common.dims)?);
    unknown.remove_known_to(engine.backend(), args.common.target())?;
    let model = Model::read(&args.model, &engine, &args.common, &mut dims);
    dims.check()?;
    let model = model?;
    model.remove_known_options(&mut unknown);
    unknown.check()?;
    note_ignored(&args.common, engine.backend(), args.common.target(), output);
    let outputs = model.outputs();
    let inputs = input_buffers(&model.inputs(), &args.inputs.sources()).map_err(hints::input_error)?;
    let references = assign_files(&args.compare, &outputs, Role::Output)?;
    let mut requests = model.requests(&args.common);
    model::set_debug_options(&mut requests, &args.common, output)?;
    note_targets(&requests, &args.common, output);

    let report = with_progress(engine, &requests, output)?;
    print_report(&report, args.common.chooses_target(), output);
    let input = std::iter::once(args.model.as_path());
    let explanation = explanation(input, &args.common, args.remote.remote.is_some());
    let help = not_cached::help(&report, Some(explanation));
    let outcome = execute(args, &model, &requests, report, &inputs, &cancel, output)?;
    let result = match outcome {
        Ok(result) => result,
        Err(error) => {
            output.print_failure(&error);
            help.iter().for_each(|help| output.print_help(help));
            return Ok(if cancel.is_cancelled() { ExitStatus::Interrupted } else { ExitStatus::Problems });
        }
    };

    let files = match &args.output {
        Some(dir) => write_outputs(dir, &outputs, &result.buffers)?,
        None => Vec::new(),
    };
    let (mut text, mut tensors) = (Text::default(), Vec::new());
    for (at, (info, buffer)) in outputs.iter().zip(&result.buffers).enumerate() {
        text.append(&tensor_text(at, info, buffer));
        tensors.push(TensorOutput::new(info, buffer, files.get(at)));
    }
    let mut comparisons = Vec::new();
    for AssignedFile { file, index, tensor } in &references {
        let info = &outputs[*index];
        let comparison = compare(info, result.buffers[*index].bytes(), tensor, args.tolerance.tolerance());
        text.line(comparison_text(info, file, &comparison));
        comparisons.push(ComparisonOutput::new(info, file, &comparison));
    }
    let all_passed = comparisons.iter().all(|comparison| comparison.passed);
    let json = result.output(args, &model, tensors, comparisons);
    text.append(&result.text(args, &model));
    output.print_result(&text, &json)?;
    Ok(if all_passed { ExitStatus::Success } else { ExitStatus::Problems })
}

/// The result as JSON.
#[derive(Serialize)]
struct RunOutput {
    network: String,
    target: Option<String>,
    backend: &'static str,
    operators: usize,
    kernels: usize,
    #[serde(flatten)]
    counts: OutcomeCounts,
    from_remote: usize,
    run_ms: Milliseconds,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<Vec<StepOutput>>,
    #[serde(flatten)]
    operator: Option<OperatorOutput>,
    outputs: Vec<TensorOutput>,
    comparisons: Vec<ComparisonOutput>,
}

/// The only kernel of an operator, as JSON.
#[derive(Serialize)]
struct OperatorOutput {
    kernel: String,
    key: Option<String>,
    outcome: &'static str,
}

/// The outcome of running the model.
struct RunResult {
    report: BuildReport,
    buffers: Vec<Buffer>,
    profile: Profile,
}

impl RunResult {
    fn output(
        &self,
        args: &Args,
        model: &Model,
        outputs: Vec<TensorOutput>,
        comparisons: Vec<ComparisonOutput>,
    ) -> RunOutput {
        let Self { report, profile, .. } = self;
        let operator = match (model, report.kernels.as_slice()) {
            (Model::Operator(_), [kernel]) => Some(OperatorOutput {
                kernel: kernel.name.clone(),
                key: kernel.key.map(|key| key.to_string()),
                outcome: kernel.outcome.name(),
            }),
            _ => None,
        };
        RunOutput {
            network: network_name(&args.model),
            target: report.targets.first().cloned(),
            backend: report.backend,
            operators: report.requests,
            kernels: report.kernels.len(),
            counts: counts(report),
            from_remote: report.count_from_remote(),
            run_ms: Milliseconds(profile.elapsed),
            profile: args.profile.then(|| profile.output()),
            operator,
            outputs,
            comparisons,
        }
    }

    fn text(&self, args: &Args, model: &Model) -> Text {
        let mut text = if args.profile { self.profile.text() } else { Text::default() };
        if let (Model::Operator(_), [kernel]) = (model, self.report.kernels.as_slice()) {
            text.line(format_args!("{} {}", kernel.outcome, kernel.name));
        }
        text.line(summary(&self.report));
        text.line(self.profile.summary());
        text
    }
}

/// Loads the kernels and runs the model once. The inner error is reported with exit code 1.
fn execute(
    args: &Args,
    model: &Model,
    requests: &[Request],
    report: BuildReport,
    inputs: &[Buffer],
    cancel: &CancelToken,
    output: &Output,
) -> anyhow::Result<anyhow::Result<RunResult>> {
    if cancel.is_cancelled() {
        return Ok(Err(anyhow!(interrupted(&report))));
    }
    let failed: Vec<&KernelReport> =
        report.kernels.iter().filter(|kernel| kernel.artifact.is_none()).collect();
    if !failed.is_empty() {
        let missing = not_cached::lines(&report, output.verbosity() > Verbosity::Normal);
        let others = failed.iter().filter(|kernel| !not_cached::is_not_cached(kernel));
        let one = |kernel: &&KernelReport| {
            let reason = kernel.reason.as_deref().unwrap_or("no reason was given");
            format!("`{}` could not be built: {reason}", kernel.name)
        };
        let failed = others.map(one).chain(missing).collect::<Vec<_>>().join("\n");
        return Ok(Err(LoggedError(failed).into()));
    }
    let backend = setup::backend(&args.common, args.common.target()).context("opening the backend")?;
    let threads = threads(args.common.jobs());
    let inputs: Vec<&[u8]> = inputs.iter().map(Buffer::bytes).collect();
    let execution = match model {
        Model::Network(network) => {
            run_network(&*backend, &network.graph, &report, &inputs, threads, cancel, output)
        }
        Model::Operator(descriptor) => run_operator(&*backend, &report, &descriptor.job, &inputs, threads)
            .context("the kernel was built, and cannot be run"),
    };
    Ok(execution.map(|Execution { buffers, steps, elapsed }| {
        let steps = requests.iter().zip(steps);
        let steps = steps.map(|(request, step)| (request.name(), &request.descriptor.job, step));
        RunResult { report, buffers, profile: Profile::new(steps, elapsed, threads) }
    }))
}

/// The outputs, the time of each operator, and the total time.
struct Execution {
    buffers: Vec<Buffer>,
    steps: Vec<Duration>,
    elapsed: Duration,
}

fn run_network(
    backend: &dyn Backend,
    graph: &Graph,
    report: &BuildReport,
    inputs: &[&[u8]],
    threads: NonZeroUsize,
    cancel: &CancelToken,
    output: &Output,
) -> anyhow::Result<Execution> {
    let session = Session::new(graph, report, loader_of(backend)?)?;
    let progress = output.progress();
    progress.begin(graph.nodes().len());
    let mut steps = Vec::with_capacity(graph.nodes().len());
    let began = Instant::now();
    let buffers = session.run(inputs, threads, cancel, |step: NodeTiming| {
        progress.node_done(&graph.nodes()[step.node].name);
        steps.push(step.elapsed);
    });
    let elapsed = began.elapsed();
    progress.done();
    match buffers {
        Ok(buffers) => Ok(Execution { buffers, steps, elapsed }),
        Err(error @ RunError::Cancelled) => Err(error.into()),
        Err(error) => Err(anyhow::Error::new(error).context("the network was built, and cannot be run")),
    }
}

fn run_operator(
    backend: &dyn Backend,
    report: &BuildReport,
    job: &Job,
    inputs: &[&[u8]],
    threads: NonZeroUsize,
) -> anyhow::Result<Execution> {
    let kernel = report.kernels.first().context("the build gave no kernel")?;
    let artifact = kernel.artifact.as_ref().context("the build gave no artifact")?;
    let loaded = loader_of(backend)?.load(artifact, job)?;
    let zeroed = |slot: &Slot| {
        Buffer::try_zeroed(slot.bytes)
            .with_context(|| format!("no memory for an output of {}", counted(slot.bytes, "byte")))
    };
    let mut outputs = loaded.outputs().iter().map(zeroed).collect::<Result<Vec<_>, _>>()?;
    let mut buffers: Vec<&mut [u8]> = outputs.iter_mut().map(Buffer::bytes_mut).collect();
    let began = Instant::now();
    loaded.launch(inputs, &mut buffers, threads)?;
    let elapsed = began.elapsed();
    Ok(Execution { buffers: outputs, steps: vec![elapsed], elapsed })
}

fn loader_of(backend: &dyn Backend) -> anyhow::Result<&dyn opkeep_backend::Loader> {
    backend.loader().with_context(|| format!("backend `{}` has no loader here", backend.name()))
}

//! `opkeep explain`: reports why each kernel would be a hit or a miss, and what is stored. It compiles nothing and writes
//! nothing.

mod groups;
mod kernels;
mod keys;
mod lookups;
mod not_stored;
mod output;
mod triton;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::ArgGroup;
use opkeep::{CacheStatus, Explanation, MissGroup, RemoteStatus};
use opkeep_cache::Namespace;
use opkeep_descriptor::{BuildSpec, Diff, ResolvedSpec};
use opkeep_framework_cache::triton::TritonDir;
use opkeep_fs::Dir;
use serde::Serialize;

use self::kernels::{absent_text, all_kernels, few_kernels, kernel_output, missed, summary};
use self::lookups::{LookupOutput, Lookups};
use self::output::KernelOutput;
use crate::commands::build::output::UnreadableOutput;
use crate::commands::build::report::note_targets;
use crate::commands::misses::output::{CauseOutput, ChangeOutput, changes};
use crate::commands::misses::text::{Detail, causes_text};
use crate::flags::compile::CompileArgs;
use crate::flags::remote::RemoteArgs;
use crate::flags::trust::TrustArgs;
use crate::input::options::note_ignored;
use crate::input::{self, model};
use crate::setup;
use crate::setup::targets::{TargetRequests, split_by_target};
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, counted};

/// The two ways to call it.
const USAGE: &str =
    "opkeep explain [OPTIONS] <PATH|KEY>...\n       opkeep explain [OPTIONS] --framework <NAME>";

/// The details of explain.
const DETAILS: &str = "\
`opkeep --help` lists the environment variables.

Examples:
  opkeep explain model.onnx --target cpu
    reports what a build would compile, and why
  opkeep explain new.info --against old.info
    reports how two descriptors differ, from the old one to the new one
  opkeep explain --framework triton --kernel add_kernel
    reports what is stored for a kernel of Triton";

/// Report why kernels would be misses, each cause once, without compiling
///
/// The report has the number of kernels that each cause hits, what differs from what is stored, and where kernels were
/// looked for, the remote cache included. A key, Triton's directory or --framework reports what is stored.
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS, override_usage = USAGE)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["inputs", "framework"]))]
pub(crate) struct Args {
    /// Networks (.onnx), descriptors (.info), directories of them, or keys of entries
    ///
    /// Also Triton's directory (TRITON_CACHE_DIR), or that of one of its keys. Of the key of an entry, four digits
    /// are enough if no other key begins with them.
    #[arg(conflicts_with = "framework", value_name = "PATH|KEY")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Also report each kernel with each difference
    #[arg(long, conflicts_with_all = ["framework", "against"])]
    pub(crate) all: bool,
    /// Report instead how the only input differs from this descriptor, from this one to the input
    ///
    /// `opkeep diff A B` reports the other direction, from A to B.
    #[arg(long, value_name = "FILE", conflicts_with = "framework")]
    pub(crate) against: Option<PathBuf>,
    /// Report instead what is stored for this framework, such as triton
    ///
    /// The report has how the keys of each kernel differ; with --target for that target only.
    #[arg(long, value_name = "NAME")]
    pub(crate) framework: Option<String>,
    /// Report this kernel of the framework only
    #[arg(long, value_name = "NAME", requires = "framework", conflicts_with = "inputs")]
    pub(crate) kernel: Option<String>,
    #[command(flatten)]
    pub(crate) common: CompileArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    /// Explain a build with --trust-imported
    #[arg(long)]
    pub(crate) trust_imported: bool,
}

/// What can be explained.
const INPUTS: &str = "explain takes networks, descriptors, Triton's directory (with kernels in it), the key of an entry or its \
    first four digits or more, and Triton's whole key; --framework triton --kernel NAME names a kernel";

/// The result as JSON.
#[derive(Serialize)]
struct ExplainOutput {
    kernels: Vec<KernelOutput>,
    causes: Vec<CauseOutput>,
    lookups: Vec<LookupOutput>,
    #[serde(flatten)]
    unreadable: UnreadableOutput,
}

/// The result of `--against` as JSON.
#[derive(Serialize)]
struct ComparedOutput {
    job: Vec<ChangeOutput>,
    spec: Vec<ChangeOutput>,
}

/// Returns the note for a host without trusted keys.
fn signed_note(namespace: &Namespace) -> String {
    format!(
        "it is not known whether namespace `{namespace}` has signed copies: those of other hosts are looked for, and used, only \
         with --trusted-keys"
    )
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    if let Some(other) = &args.against {
        return compare(args, other, output);
    }
    if let Some(framework) = &args.framework {
        return groups::explain(framework, args.kernel.as_deref(), &args.common, output);
    }
    if let Some(named) = Named::of(&args.inputs)? {
        return match named {
            Named::Keys(keys) => keys::explain(&keys, &args.common, output),
            Named::Triton(dirs) => triton::explain(&dirs, &args.common, output),
        };
    }
    let cancel = output.cancel_token();
    let settings = setup::remote_settings(&args.remote, &args.trust)?;
    let (remote, trust, namespace) = (settings.remote()?, settings.trust()?, settings.namespace()?);
    let engine = setup::engine(&args.common, &cancel, output)?;
    let (mut requests, unreadable, unknown) = model::requests(&args.inputs, &engine, &args.common)?;
    model::set_debug_options(&mut requests, &args.common, output)?;
    unreadable.errors.iter().for_each(|(_, error)| output.print_error(error));
    if requests.is_empty() {
        output.print_json_only(&UnreadableOutput::new(&unreadable))?;
        if args.inputs.iter().any(|path| names_nothing(path)) {
            output.print_help(INPUTS);
        }
        return Ok(ExitStatus::Failed);
    }
    let root = engine.config().store.as_ref().map(|store| store.root.clone());
    let by_target = split_by_target(requests, engine, &args.common, unknown, &cancel)?;
    if let Some(for_default) = by_target.first() {
        note_targets(&for_default.requests, &args.common, output);
    }
    let mut kernels = Vec::new();
    for TargetRequests { target, engine, requests } in by_target {
        note_ignored(&args.common, engine.backend(), &target, output);
        let engine = engine.with_config(|config| {
            config.trust_imported = args.trust_imported;
            config.remote.clone_from(&remote);
            config.trust.clone_from(&trust);
        });
        kernels.extend(engine.explain(&requests)?);
    }
    if let Some(why) = kernels.iter().find_map(unanswered) {
        output.print_note(&format!("it is not known what the remote cache has: {why}"));
    }
    if trust.policy.trusted_keys().is_none() && kernels.iter().any(is_absent) {
        output.print_note(&signed_note(&namespace));
    }
    let misses = kernels.iter().enumerate().filter_map(|(at, kernel)| match &kernel.status {
        CacheStatus::Miss(miss) => Some((at, miss)),
        _ => None,
    });
    let causes = MissGroup::of(misses);
    let lookups = Lookups::of(&kernels, root.as_deref(), remote.as_ref());
    let mut text = match args.all {
        true => all_kernels(&kernels, &absent_text(&trust, &namespace)),
        false => few_kernels(&kernels),
    };
    text.append(&causes_text(&causes, |at| missed(&kernels[at]), Detail { all: args.all, flag: "--all" }));
    text.append(&lookups.text(&causes));
    text.line(summary(&kernels));
    let json = ExplainOutput {
        kernels: kernels.iter().map(kernel_output).collect(),
        causes: causes.iter().map(CauseOutput::from).collect(),
        lookups: lookups.outputs(),
        unreadable: UnreadableOutput::new(&unreadable),
    };
    output.print_result(&text, &json)?;
    Ok(unreadable.exit_status())
}

/// Whether there is nothing at `path`, or an empty directory: the user may mean a key, or another directory.
fn names_nothing(path: &Path) -> bool {
    let is_empty = || Dir::open_quietly(path)?.entries().map(|names| names.is_empty());
    !input::exists(path) || is_empty().unwrap_or(false)
}

/// Inputs that name what is stored, not what could be built.
enum Named {
    Keys(Vec<String>),
    Triton(Vec<TritonDir>),
}

impl Named {
    /// Returns what the inputs name. None if they name networks or descriptors.
    fn of(inputs: &[PathBuf]) -> anyhow::Result<Option<Self>> {
        let (mut keys, mut dirs) = (Vec::new(), Vec::new());
        for path in inputs {
            match path.to_str().and_then(keys::key_of) {
                Some(key) if !input::exists(path) => keys.push(key),
                _ => dirs.extend(TritonDir::at(path).ok().flatten()),
            }
        }
        match inputs.len() {
            _ if keys.is_empty() && dirs.is_empty() => Ok(None),
            count if count == keys.len() => Ok(Some(Self::Keys(keys))),
            count if count == dirs.len() => Ok(Some(Self::Triton(dirs))),
            _ => anyhow::bail!("expected inputs of one kind: models, Triton's directories, or keys"),
        }
    }
}

/// Reports the differences between two descriptors.
fn compare(args: &Args, other: &Path, output: &Output) -> anyhow::Result<ExitStatus> {
    let [input] = args.inputs.as_slice() else {
        anyhow::bail!("--against takes one input, found {}", counted(args.inputs.len(), "input"));
    };
    let read =
        |path: &Path| input::read_descriptor(path).context("--against compares two descriptors (.info)");
    let (old, new) = (read(other)?, read(input)?);
    let job = Diff::of_jobs(&old.job, &new.job);
    let spec = Diff::of_specs(&as_stated(&old.spec), &as_stated(&new.spec));
    let mut text = Text::default();
    if !(job.is_empty() && spec.is_empty()) {
        text.line(format_args!("{} -> {}", other.display(), input.display()));
    }
    if job.is_empty() {
        text.line("the jobs are the same");
    }
    for change in job.changes.iter().chain(&spec.changes) {
        text.line(change);
    }
    output.print_result(&text, &ComparedOutput { job: changes(&job), spec: changes(&spec) })?;
    Ok(ExitStatus::Success)
}

/// Returns the spec as the descriptor states it: only a backend knows the relevant options and their defaults.
fn as_stated(spec: &BuildSpec) -> ResolvedSpec {
    let options = spec.options.keys().filter_map(|name| Some((name.clone(), spec.option(name)?)));
    ResolvedSpec { target: spec.target.clone(), options: opkeep_order::map(options), debug: false }
}

/// Returns the reason why the remote cache did not answer, if it did not.
fn unanswered(kernel: &Explanation) -> Option<&str> {
    match &kernel.remote {
        Some(RemoteStatus::Unknown { reason, .. }) => Some(reason),
        _ => None,
    }
}

fn is_absent(kernel: &Explanation) -> bool {
    matches!(kernel.remote, Some(RemoteStatus::Absent))
}

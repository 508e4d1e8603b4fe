//! `opkeep explain`: reports why each kernel would be a hit or a miss, and what is stored. It compiles nothing and writes
//! nothing.

mod groups;
mod keys;
mod not_stored;
mod output;
mod triton;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::ArgGroup;
use opkeep::{CacheStatus, Explanation, NearestEntry, RemoteStatus};
use opkeep_cache::{Namespace, TrustConfig};
use opkeep_descriptor::{BuildSpec, Change, Diff, ResolvedSpec};
use opkeep_digest::PartChange;
use opkeep_framework_cache::triton::TritonDir;
use opkeep_fs::Dir;
use opkeep_store::Miss;
use serde::Serialize;

use self::output::{ChangeOutput, KernelOutput, MAX_CHARACTERS, NearestOutput, RemoteOutput};
use crate::commands::build::output::{ImportedOutput, UnreadableOutput};
use crate::commands::build::report::note_targets;
use crate::flags::compile::CompileArgs;
use crate::flags::remote::RemoteArgs;
use crate::flags::trust::TrustArgs;
use crate::input::{self, model};
use crate::setup;
use crate::setup::targets::{TargetRequests, split_by_target};
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{self, Text, counted, shortened};

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
    reports how two descriptors differ
  opkeep explain --framework triton --kernel add_kernel
    reports what is stored for a kernel of Triton";

/// Report why each kernel would be a hit or a miss, without compiling
///
/// For a miss, the report has what the remote cache has of it, and how it differs from the nearest stored kernel.
/// A key, Triton's directory or --framework reports what is stored.
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
    /// Report instead how the only input differs from this descriptor
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

/// The maximum number of differences in text.
const MAX_CHANGES: usize = 8;

/// The result as JSON.
#[derive(Serialize)]
struct ExplainOutput {
    kernels: Vec<KernelOutput>,
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
    let settings = setup::remote_settings(&args.remote, &args.trust);
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
    let by_target = split_by_target(requests, engine, &args.common, unknown, &cancel)?;
    if let Some(for_default) = by_target.first() {
        note_targets(&for_default.requests, &args.common, output);
    }
    let mut kernels = Vec::new();
    for TargetRequests { engine, requests, .. } in by_target {
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
    let absent = absent_text(&trust, &namespace);
    let texts = Texts { absent: &absent, common: common_reason(&kernels) };
    let mut text: Text = kernels.iter().map(|kernel| text_of(kernel, texts)).collect();
    text.extend(texts.common.map(|why| Text::of(format_args!("each miss: {why}"))));
    text.line(summary(&kernels));
    let kernels = kernels.iter().map(kernel_output).collect();
    let json = ExplainOutput { kernels, unreadable: UnreadableOutput::new(&unreadable) };
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
    let mut text = if job.is_empty() { Text::of("the jobs are the same") } else { Text::default() };
    for change in job.changes.iter().chain(&spec.changes) {
        text.line(change);
    }
    output.print_result(&text, &ComparedOutput { job: changes(&job), spec: changes(&spec) })?;
    Ok(ExitStatus::Success)
}

/// Returns the spec as the descriptor states it: only a backend knows the relevant options and their defaults.
fn as_stated(spec: &BuildSpec) -> ResolvedSpec {
    let options = spec.options.keys().filter_map(|name| Some((name.clone(), spec.option(name)?)));
    ResolvedSpec { target: spec.target.clone(), options: options.collect(), debug: false }
}

fn changes(diff: &Diff) -> Vec<ChangeOutput> {
    let one = |change: &Change| {
        let Change { path, old, new, .. } = change.clone();
        ChangeOutput { path, old, new }
    };
    diff.changes.iter().map(one).collect()
}

fn outcome(kernel: &Explanation) -> &'static str {
    match kernel.status {
        CacheStatus::Hit => "hit",
        CacheStatus::Miss { .. } => "miss",
        CacheStatus::Bypassed => "bypassed",
        CacheStatus::Unsupported(_) => "refused",
        _ => "unknown",
    }
}

/// What the lines of all kernels have in common.
#[derive(Clone, Copy)]
struct Texts<'a> {
    /// What is said of a kernel that the remote cache lacks.
    absent: &'a str,
    /// The reason of all misses, which has a line of its own.
    common: Option<&'a str>,
}

/// Returns the reason of all misses, if it is the same for several of them: one that concerns the store, and not a kernel.
fn common_reason(kernels: &[Explanation]) -> Option<&str> {
    let reasons = kernels.iter().filter_map(|kernel| match &kernel.status {
        CacheStatus::Miss { why, .. } => Some(why.as_str()),
        _ => None,
    });
    let reasons: Vec<&str> = reasons.collect();
    let is_common = reasons.len() > 1 && reasons.iter().all(|why| *why == reasons[0]);
    let first = reasons.first().copied().filter(|_| is_common)?;
    (first != Miss::Absent.to_string()).then_some(first)
}

fn text_of(kernel: &Explanation, texts: Texts<'_>) -> Text {
    let Explanation { name, op_type, requested_by, status, .. } = kernel;
    let others = if requested_by.len() > 1 {
        format!(", {}", counted(requested_by.len(), "operator"))
    } else {
        String::new()
    };
    let mut text = Text::of(format_args!("{:8} {name} ({op_type}{others})", outcome(kernel)));
    match status {
        CacheStatus::Bypassed => {
            text.line("  kernels with debug options are compiled each time and never kept");
        }
        CacheStatus::Unsupported(why) => text.line(format_args!("  {why}")),
        CacheStatus::Miss { why, nearest } => {
            if texts.common.is_none() {
                text.line(format_args!("  {why}"));
            }
            let remote = kernel.remote.as_ref().and_then(|remote| remote_text(remote, texts.absent));
            text.extend(remote.map(Text::of));
            text.extend(nearest.iter().map(|nearest| nearest_text(nearest)));
        }
        _ => {}
    }
    if let Some(imported) = &kernel.imported {
        let would = match status {
            CacheStatus::Hit => "it is",
            _ => "an imported kernel matches: --trust-imported would reuse it;",
        };
        text.line(format_args!("  {would} {imported}"));
    }
    text.extend(kernel.imported_problem.iter().map(|problem| Text::of(format_args!("  {problem}"))));
    text
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

/// Returns which copies a host with these keys does not find. What others signed has other names, so whether it is there is not known.
fn absent_text(trust: &TrustConfig, namespace: &Namespace) -> String {
    let (which, by) = match (trust.policy.trusted_keys(), &trust.signing_key) {
        (Some(_), _) => ("copy", " that a trusted key signed"),
        (None, Some(_)) => ("copy", " that is unsigned or signed by this host's key"),
        (None, None) => ("unsigned copy", ""),
    };
    format!("the remote cache has no {which} of it in namespace `{namespace}`{by}")
}

/// Returns a line about the remote cache; `None` if it did not answer, which is a note.
fn remote_text(remote: &RemoteStatus, absent: &str) -> Option<String> {
    Some(match remote {
        RemoteStatus::Available { bytes, .. } => {
            format!("  the remote cache has it ({}): a build takes it", text::bytes(*bytes))
        }
        RemoteStatus::Refused { reason, .. } => {
            format!("  the remote cache has it, and a build refuses it: {reason}")
        }
        RemoteStatus::Absent => format!("  {absent}"),
        _ => return None,
    })
}

fn kernel_output(kernel: &Explanation) -> KernelOutput {
    let (reason, nearest) = match &kernel.status {
        CacheStatus::Unsupported(why) => (Some(why.to_string()), None),
        CacheStatus::Miss { why, nearest } => {
            (Some(why.as_str().to_owned()), Some(nearest.as_ref().map(|nearest| nearest_output(nearest))))
        }
        _ => (None, None),
    };
    KernelOutput {
        name: kernel.name.clone(),
        key: kernel.key.map(|key| key.to_string()),
        op_type: kernel.op_type.clone(),
        operators: kernel.requested_by.clone(),
        outcome: outcome(kernel),
        reason,
        nearest,
        imported: kernel.imported.as_ref().map(ImportedOutput::from),
        imported_problem: kernel.imported_problem.clone(),
        remote: kernel.remote.as_ref().map(RemoteOutput::from),
    }
}

fn part_changes(changes: &[PartChange]) -> Vec<String> {
    changes.iter().map(ToString::to_string).collect()
}

/// Returns the differences from the nearest kernel, by part of the key.
fn nearest_text(nearest: &NearestEntry) -> Text {
    let lines = |diff: &Diff| diff.changes.iter().map(ToString::to_string).collect();
    let parts: [(&str, Vec<String>); 4] = [
        ("job", lines(&nearest.job)),
        ("spec", lines(&nearest.spec)),
        ("toolchain", part_changes(&nearest.toolchain)),
        ("op sources", part_changes(&nearest.op_sources)),
    ];
    let mut text = Text::of(format_args!("  the nearest stored kernel is {}; it differs in", nearest.name));
    for (part, lines) in parts {
        let line = |line: &String| format!("    {part:10}  {}", shortened(line, MAX_CHARACTERS));
        text.list(lines.iter().map(line), MAX_CHANGES, |more| format!("    {part:10}  and {more} more"));
    }
    text
}

fn nearest_output(nearest: &NearestEntry) -> NearestOutput {
    NearestOutput {
        name: nearest.name.clone(),
        job: changes(&nearest.job),
        spec: changes(&nearest.spec),
        toolchain: part_changes(&nearest.toolchain),
        op_sources: part_changes(&nearest.op_sources),
    }
}

fn summary(kernels: &[Explanation]) -> String {
    let count = |name: &str| kernels.iter().filter(|kernel| outcome(kernel) == name).count();
    let counts = ["hit", "miss", "bypassed", "refused"].map(|name| format!("{} {name}", count(name)));
    let is_available = |kernel: &&Explanation| matches!(kernel.remote, Some(RemoteStatus::Available { .. }));
    let in_remote = match kernels.iter().filter(is_available).count() {
        0 => String::new(),
        count => format!("; {count} of the misses would come from the remote cache"),
    };
    format!("{}: {}{in_remote}", counted(kernels.len(), "kernel"), counts.join(", "))
}

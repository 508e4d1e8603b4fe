//! `opkeep bundle inspect`: lists and checks the kernels of a bundle.

use std::iter;
use std::path::PathBuf;

use opkeep_bundle::{BUNDLE_FORMAT, BundleReader};
use opkeep_digest::Digest;
use opkeep_kernel_entry::{EntryVerdict, verify_entry};
use opkeep_validator::Validator;
use serde::Serialize;

use super::export::{TargetOutput, contents, contents_text};
use super::judge::kernel_name;
use super::source;
use super::trust::{SignerOutput, TrustArgs};
use crate::ui::json;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, bytes, columns, counted, shortened};

/// The details of inspect.
const DETAILS: &str = "\
Every byte is checked, and every kernel judged as by opkeep bundle import, which takes none that is
not valid. The names of signers are stated by the bundle; with --trusted-keys they are checked.

Next: `opkeep bundle import FILE`.

Exit code 0: all kernels are valid; 1: some are not, or no trusted key signed the index; 2: FILE
cannot be read, or is no complete bundle.

Examples:
  opkeep bundle inspect resnet50.bundle
    lists the kernels of a bundle";

/// List the kernels of a bundle, and check each
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// The bundle; `-` is the standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    trust: TrustArgs,
}

/// The maximum number of characters of a kernel's name in text.
const MAX_NAME: usize = 100;

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let trust = args.trust.read()?;
    let mut standard = source::standard_input(iter::once(args.file.as_path()), output);
    let cancel = output.cancel_on_signal();
    let mut reader = source::open(&args.file, &mut standard)?;
    let (signed_by, untrusted) = match reader.check_signature(&trust.policy, &trust.namespace) {
        Ok(key) => (key.map(SignerOutput::from), None),
        Err(untrusted) => (None, Some(untrusted.in_namespace(&trust.namespace).to_string())),
    };
    let validator = Validator::builtin();
    let progress = output.progress();
    progress.start(&args.file.to_string_lossy());
    let blocks = reader.index().block_count();
    let mut kernels = Vec::new();
    for number in 0..blocks {
        if cancel.is_cancelled() {
            break;
        }
        let block = reader.read_block(number).and_then(opkeep_bundle::CompressedBlock::decompress);
        let block = match block {
            Ok(block) => block,
            Err(error) if error.is_io() => return Err(error.into()),
            Err(error) => {
                let damaged = reader.index().block_entries(number);
                kernels.extend(damaged.map(|entry| KernelOutput::new(&entry, Some(error.to_string()))));
                continue;
            }
        };
        for (place, indexed) in block.entries().enumerate() {
            kernels.push(match block.entry(place) {
                Err(error) => KernelOutput::new(&indexed, Some(error.to_string())),
                Ok(entry) => {
                    let verdict = verify_entry(&entry, indexed.target, &validator);
                    let name = kernel_name(&entry);
                    match verdict {
                        EntryVerdict::Valid => KernelOutput::new(&indexed, None).named(name),
                        EntryVerdict::Invalid(error) => {
                            KernelOutput::new(&indexed, Some(error.to_string())).named(name)
                        }
                        EntryVerdict::Unverifiable { why } => KernelOutput {
                            unverifiable: Some(why),
                            ..KernelOutput::new(&indexed, None).named(name)
                        },
                    }
                }
            });
        }
        progress.update(number as u64 + 1, blocks as u64);
    }
    progress.done();
    let json = inspected(args, &reader, signed_by, untrusted, kernels, cancel.is_cancelled());
    output.print_result(&text(&json), &json)?;
    let is_valid = json.untrusted.is_none() && json.kernels.iter().all(|kernel| kernel.problem.is_none());
    Ok(match () {
        () if json.interrupted => ExitStatus::Interrupted,
        () if is_valid => ExitStatus::Success,
        () => ExitStatus::Problems,
    })
}

/// The result as JSON.
#[derive(Serialize)]
struct InspectOutput {
    file: String,
    bytes: u64,
    bundle_format: u32,
    plan: Option<String>,
    /// The names of the keys that are said to have signed the index.
    signers: Vec<String>,
    /// The trusted key that signed the index. Absent without trusted keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_by: Option<SignerOutput>,
    /// Why no trusted key vouches for the index.
    #[serde(skip_serializing_if = "Option::is_none")]
    untrusted: Option<String>,
    targets: Vec<TargetOutput>,
    kernels: Vec<KernelOutput>,
    interrupted: bool,
}

#[derive(Serialize)]
struct KernelOutput {
    target: String,
    #[serde(serialize_with = "json::as_text")]
    key: Digest,
    name: String,
    bytes: u64,
    /// The number of its block, from 0, and the place of its first byte in it.
    block: usize,
    offset: u64,
    #[serde(serialize_with = "json::as_text")]
    sha256: Digest,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unverifiable: Option<String>,
}

impl KernelOutput {
    fn new(entry: &opkeep_bundle::IndexedEntry<'_>, problem: Option<String>) -> Self {
        Self {
            target: entry.target.to_owned(),
            key: *entry.key,
            name: String::new(),
            bytes: entry.bytes,
            block: entry.block,
            offset: entry.offset,
            sha256: *entry.digest,
            problem,
            unverifiable: None,
        }
    }

    fn named(self, name: String) -> Self {
        Self { name, ..self }
    }
}

fn inspected(
    args: &Args,
    reader: &BundleReader<std::fs::File>,
    signed_by: Option<SignerOutput>,
    untrusted: Option<String>,
    kernels: Vec<KernelOutput>,
    interrupted: bool,
) -> InspectOutput {
    InspectOutput {
        file: json::path(&args.file),
        bytes: reader.bytes(),
        bundle_format: BUNDLE_FORMAT,
        plan: reader.index().plan().map(ToString::to_string),
        signers: reader.signatures().iter().map(|signature| signature.key_name().to_string()).collect(),
        signed_by,
        untrusted,
        targets: contents(reader.index()),
        kernels,
        interrupted,
    }
}

fn text(json: &InspectOutput) -> Text {
    let signed = match (&json.signed_by, &json.untrusted) {
        (Some(key), _) => format!("signed by the trusted key {}", key.name),
        (None, Some(why)) => format!("NOT TRUSTED: {why}"),
        (None, None) if json.signers.is_empty() => "not signed".to_owned(),
        (None, None) => format!("said to be signed by {}", json.signers.join(", ")),
    };
    let mut text = Text::of(format_args!(
        "{}: {}, {}, {signed}",
        json.file,
        counted(json.kernels.len(), "kernel"),
        bytes(json.bytes)
    ));
    text.append(&contents_text(&json.targets));
    let row = |kernel: &KernelOutput| {
        let (key, size) = (kernel.key.to_string(), bytes(kernel.bytes));
        vec![shortened(&kernel.name, MAX_NAME), key, size]
    };
    text.append(&columns("  ", &json.kernels.iter().map(row).collect::<Vec<_>>()));
    for kernel in &json.kernels {
        let told = kernel.problem.as_ref().map(|problem| ("not valid", problem));
        if let Some((what, why)) = told.or(kernel.unverifiable.as_ref().map(|why| ("note", why))) {
            text.line(format_args!("{what:<10} {} of {}: {why}", kernel.key, kernel.target));
        }
    }
    text
}

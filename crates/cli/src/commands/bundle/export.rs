//! `opkeep bundle export`: writes kernels of the store to a bundle.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use opkeep_bundle::{BundleWriter, HEAD_BYTES, Index, Signer, begins_as_bundle};
use opkeep_digest::Digest;
use opkeep_fs::{CancelToken, FileId, Fs, OutputFile, map};
use opkeep_store::{Access, Entry, Lookup, Miss, Store, TargetStore};
use opkeep_validator::Validator;
use serde::Serialize;

use super::judge::{LeftOut, Reason, judge, left_out_text};
use super::source::STANDARD;
use super::trust::{SignerOutput, Trust, TrustArgs};
use crate::flags::compile::CompileArgs;
use crate::input::replaced::check_replaced;
use crate::input::store::{StorePath, threads};
use crate::input::{model, read_file};
use crate::setup;
use crate::setup::targets::split_by_target;
use crate::ui::json;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, bytes, columns, counted, quotable};

/// The details of export.
const DETAILS: &str = "\
Without --plan and --keys, all kernels of the store are exported; with --target those of that
target. Each is judged before: a kernel that is damaged or not valid is left out, and so are kernels
that opkeep import took from a framework, whose toolchain is unknown, and kernels that only their
backend can judge. With --trusted-keys, kernels are left out that none of these keys signed. The
same kernels give the same bytes, on every machine with this version of opkeep. Times are not in a
bundle, nor when a kernel was used; signatures are.

With --sign-key, the index and each kernel are signed: that states that you vouch for all of them. A
note says how many of them have neither a signature of this key nor one of this host: other hosts
may have compiled those, or this host before it had keys.

FILE appears when it is complete. It replaces an existing bundle or an empty file, and no other.
Next: `opkeep bundle import FILE` on another host.

Exit code 0: FILE has what was asked for; 1: it lacks kernels that are damaged, not valid, or not in
the store; 2: there is nothing to export, or FILE cannot be written.

Examples:
  opkeep bundle export --target cpu --output cpu.bundle
    exports the kernels of one target
  opkeep bundle export --plan model.onnx --target cpu --output - | ssh HOST opkeep bundle import -
    copies the kernels of a network to another host";

/// Write kernels of the store to one compressed file
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// Export the kernels of this network (.onnx), descriptor (.info), or directory
    ///
    /// May be given several times. The flags that choose the kernels of a build choose them here.
    #[arg(long = "plan", value_name = "MODEL")]
    plans: Vec<PathBuf>,
    /// Export the kernels whose keys are in this file, one a line
    ///
    /// A key has 64 hexadecimal digits, as the members `key` of the kernels in the result of `opkeep explain --format
    /// json`.
    #[arg(long, value_name = "FILE", conflicts_with = "plans")]
    keys: Option<PathBuf>,
    /// The file to write; `-` is the standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Sign the index and each kernel with the secret key in this file
    ///
    /// No environment variable names it: you vouch for all kernels, those included that other hosts compiled.
    #[arg(long, value_name = "FILE")]
    sign_key: Option<PathBuf>,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    common: CompileArgs,
}

/// The maximum number and size of the entries that are judged at once.
const MAX_BATCH: (usize, u64) = (256, 16 << 20);
/// The maximum size of a file with keys.
const MAX_KEYS: u64 = 256 << 20;

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let cancel = output.cancel_on_signal();
    let trust = args.trust.read()?;
    refuse_replacing(args, &trust)?;
    let signer = args.sign_key.as_deref().map(|path| signer(path, &trust)).transpose()?;
    let signed_by = signer.as_ref().map(|signer| SignerOutput::from(signer.key().public_key()));
    let own = signer.as_ref().map(|signer| trust.of_own(signer.key().public_key()));
    let wanted = wanted(args, output, &cancel)?;
    let store_path = StorePath::default_store(&args.common.store)?;
    let store = store_path.open(Access::ReadOnly, &args.common.store, output)?;
    let store = store.with_context(|| format!("there is no store at `{}`", quotable(&store_path.root)))?;
    let targets = targets(args, &store)?;

    let out = Sink::create(&args.output, output)?;
    let mut export = Export {
        writer: BundleWriter::new(out, None, signer)?,
        trust,
        own,
        validator: Validator::builtin(),
        threads: threads(args.common.jobs()),
        found: BTreeSet::new(),
        left_out: Vec::new(),
        vouched_for: 0,
    };
    let progress = output.progress();
    for (name, target) in &targets {
        progress.start(name);
        let keys = target.keys(usize::MAX).into_iter();
        let keys: Vec<_> =
            keys.filter(|key| wanted.as_ref().is_none_or(|wanted| wanted.contains(key))).collect();
        export
            .add_all(name, target, &keys, &cancel, &|done| progress.update(done as u64, keys.len() as u64))?;
    }
    progress.done();
    let Export { writer, found, mut left_out, vouched_for, own, trust, .. } = export;
    let missing: Vec<String> =
        wanted.iter().flatten().filter(|key| !found.contains(key)).map(ToString::to_string).collect();
    opkeep_order::by_key(&mut left_out, |left| left.reason);
    let has_problems = !missing.is_empty() || left_out.iter().any(|left| left.reason.is_problem());
    let mut json = ExportOutput {
        file: None,
        bytes: 0,
        targets: Vec::new(),
        signed_by,
        vouched_for: own.map(|_| vouched_for),
        left_out,
        missing,
        interrupted: cancel.is_cancelled(),
    };
    let exit_status = match () {
        () if json.interrupted => ExitStatus::Interrupted,
        () if found_nothing(&found, &json.left_out) => ExitStatus::Failed,
        () => {
            let written = writer.finish()?;
            json.bytes = written.bytes;
            json.targets = contents(&written.index);
            // Another program may have written there meanwhile.
            refuse_replacing(args, &trust)?;
            written.out.publish().with_context(|| format!("cannot write `{}`", quotable(&args.output)))?;
            json.file = Some(json::path(&args.output));
            if has_problems { ExitStatus::Problems } else { ExitStatus::Success }
        }
    };
    if json.file.is_some() {
        note_vouching(&json, output);
    }
    report(args, &json, output)?;
    Ok(exit_status)
}

/// Whether no entry is in the bundle.
fn found_nothing(found: &BTreeSet<Digest>, left_out: &[LeftOut]) -> bool {
    found.len() == left_out.len()
}

/// Says for which kernels the exporter vouches, without having made them as far as is known.
fn note_vouching(json: &ExportOutput, output: &Output) {
    if let (Some(signer), Some(count @ 1..)) = (&json.signed_by, json.vouched_for) {
        let (kernels, have) = (counted(count, "kernel"), if count == 1 { "has" } else { "have" });
        let name = &signer.name;
        output.print_note(&format!(
            "{kernels} {have} no signature of `{name}` or of this host, which may not have compiled them: with this bundle you vouch for them"
        ));
    }
}

/// Prints the result. If the bundle goes to the standard output, the text goes elsewhere.
fn report(args: &Args, json: &ExportOutput, output: &Output) -> anyhow::Result<()> {
    let text = text(json);
    if args.output != Path::new(STANDARD) {
        return output.print_result(&text, json);
    }
    text.as_str().lines().for_each(|line| output.print_note(line));
    Ok(())
}

/// Checks that the bundle replaces nothing but a bundle that is no input, or an empty file: inputs may name other files, as a list of
/// trusted keys in the environment or the weights of a network do.
fn refuse_replacing(args: &Args, trust: &Trust) -> anyhow::Result<()> {
    let id = |path: &Path| Fs::new().metadata(path).ok().map(|found| FileId::of(&found));
    // It is new, or the standard output.
    let Some(output) = id(&args.output).filter(|_| args.output != Path::new(STANDARD)) else { return Ok(()) };
    let path = args.output.display();
    let named = args.plans.iter().chain(&args.keys).chain(&args.sign_key).map(PathBuf::as_path);
    let is_input = named.chain(trust.key_files()).any(|input| id(input) == Some(output));
    ensure!(!is_input, "`{path}` is an input; give the bundle another name");
    check_replaced(&args.output, "bundle", HEAD_BYTES, begins_as_bundle)
}

fn signer(path: &Path, trust: &Trust) -> anyhow::Result<Signer> {
    Ok(Signer::new(setup::sign_key(path)?, trust.namespace.clone()))
}

/// Returns the keys that the arguments name; none if they name none.
fn wanted(args: &Args, output: &Output, cancel: &CancelToken) -> anyhow::Result<Option<BTreeSet<Digest>>> {
    if let Some(path) = &args.keys {
        return read_keys(path).map(Some);
    }
    if args.plans.is_empty() {
        return Ok(None);
    }
    let common = &args.common;
    let engine = setup::engine(common, cancel, output)?;
    let (mut requests, unreadable, unknown) = model::requests(&args.plans, &engine, common)?;
    model::set_debug_options(&mut requests, common, output)?;
    if let Some((_, error)) = unreadable.errors.into_iter().next() {
        return Err(error);
    }
    let mut keys = BTreeSet::new();
    for part in split_by_target(requests, engine, common, unknown, cancel)? {
        let kernels = part.engine.explain(&part.requests)?;
        for kernel in kernels {
            match kernel.key {
                Some(key) => drop(keys.insert(*key.digest())),
                None => output.print_warning(&format!("`{}` has no key, so it is not exported", kernel.name)),
            }
        }
    }
    Ok(Some(keys))
}

/// Reads keys, one a line. Empty lines, and what follows a `#`, do not count.
fn read_keys(path: &Path) -> anyhow::Result<BTreeSet<Digest>> {
    let bytes = read_file(path, MAX_KEYS)?;
    let text = str::from_utf8(&bytes).with_context(|| format!("`{}` is not UTF-8", quotable(path)))?;
    let mut keys = BTreeSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        let word = line.split('#').next().unwrap_or_default().trim();
        if word.is_empty() {
            continue;
        }
        let key = word.parse::<Digest>();
        keys.insert(key.with_context(|| format!("`{}`, line {number}: expected a key", quotable(path)))?);
    }
    ensure!(!keys.is_empty(), "there is no key in `{}`; expected one a line", path.display());
    Ok(keys)
}

/// Returns the targets of the store that are exported, each opened.
fn targets(args: &Args, store: &Store) -> anyhow::Result<Vec<(String, TargetStore)>> {
    let mut names = store.targets()?;
    // A plan names its kernels by their keys.
    if args.plans.is_empty() && args.common.chooses_target() {
        let wanted = args.common.target();
        let is_wanted = |name: &String| {
            name.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        if !names.iter().any(is_wanted) {
            bail!("the store has no kernels for `{wanted}`; it has some for: {}", names.join(", "));
        }
        names.retain(is_wanted);
    }
    names.into_iter().map(|name| Ok((name.clone(), store.target(&name)?))).collect()
}

/// What was exported so far.
struct Export {
    writer: BundleWriter<Sink>,
    trust: Trust,
    /// What recognizes own entries, if entries are signed.
    own: Option<Trust>,
    validator: Validator,
    threads: NonZeroUsize,
    /// The keys of the entries that are in the store.
    found: BTreeSet<Digest>,
    left_out: Vec<LeftOut>,
    /// The number of entries that are signed and not known to be own ones.
    vouched_for: usize,
}

impl Export {
    /// Adds the entries of a target. Many are judged at once, and they are written in order.
    fn add_all(
        &mut self,
        name: &str,
        target: &TargetStore,
        keys: &[Digest],
        cancel: &CancelToken,
        progress: &dyn Fn(usize),
    ) -> anyhow::Result<()> {
        let (mut batch, mut size) = (Vec::new(), 0);
        for (done, key) in keys.iter().enumerate() {
            if cancel.is_cancelled() {
                return Ok(());
            }
            match target.peek(key) {
                Lookup::Hit(entry) => {
                    size += entry.file_bytes();
                    batch.push(entry);
                }
                // It was evicted a moment ago.
                Lookup::Miss(Miss::Absent) => {}
                Lookup::Miss(miss) => {
                    let reason = if let Miss::Damaged(_) = miss { Reason::Damaged } else { Reason::Io };
                    self.found.insert(*key);
                    self.left_out.push(LeftOut::new(name, key, reason, miss));
                }
            }
            if batch.len() >= MAX_BATCH.0 || size >= MAX_BATCH.1 {
                self.add_batch(name, &batch)?;
                progress(done);
                (batch, size) = (Vec::new(), 0);
            }
        }
        self.add_batch(name, &batch)
    }

    fn add_batch(&mut self, target: &str, entries: &[Box<Entry>]) -> anyhow::Result<()> {
        let judged = map(
            entries.len(),
            self.threads,
            || false,
            |at| judge(target, &entries[at], &self.trust, &self.validator),
        );
        for (entry, verdict) in entries.iter().zip(judged.results) {
            self.found.insert(*entry.key());
            match verdict {
                Ok(()) => match self.writer.add(target, entry) {
                    Ok(()) => {
                        let own = self.own.as_ref();
                        let is_others = own.is_some_and(|own| own.check_stored(target, entry).is_err());
                        self.vouched_for += usize::from(is_others);
                    }
                    Err(error @ opkeep_bundle::BundleError::Entry { .. }) => {
                        self.left_out.push(LeftOut::new(target, entry.key(), Reason::Damaged, error));
                    }
                    Err(error) => return Err(error.into()),
                },
                Err(left_out) => self.left_out.push(left_out),
            }
        }
        Ok(())
    }
}

/// Where the bundle goes.
enum Sink {
    File(OutputFile),
    Standard(io::Stdout),
}

impl Sink {
    fn create(path: &Path, output: &Output) -> anyhow::Result<Self> {
        if path != Path::new(STANDARD) {
            let file = Fs::new().output_file(path, 0o666);
            return Ok(Self::File(file.with_context(|| format!("cannot write `{}`", quotable(path)))?));
        }
        ensure!(
            output.has_standard_streams(),
            "the standard output is the caller's; give the name of a file"
        );
        ensure!(
            !output.is_json(),
            "a bundle and a JSON result cannot share the standard output; name a file"
        );
        let out = io::stdout();
        ensure!(
            !out.is_terminal(),
            "a bundle is not for a terminal; name a file, or redirect the standard output"
        );
        Ok(Self::Standard(out))
    }

    fn publish(self) -> io::Result<()> {
        match self {
            Self::File(file) => file.publish(),
            Self::Standard(mut out) => out.flush(),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Standard(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Standard(out) => out.flush(),
        }
    }
}

/// The result as JSON.
#[derive(Serialize)]
struct ExportOutput {
    /// Null if there is nothing to export.
    file: Option<String>,
    bytes: u64,
    targets: Vec<TargetOutput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_by: Option<SignerOutput>,
    /// The number of kernels that are signed, and have no earlier signature of the same key or of this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    vouched_for: Option<usize>,
    left_out: Vec<LeftOut>,
    missing: Vec<String>,
    interrupted: bool,
}

/// The kernels of one target.
#[derive(Serialize)]
pub(super) struct TargetOutput {
    target: String,
    kernels: usize,
    /// The size of the entries, before compression.
    bytes: u64,
}

/// Returns the number and the size of the entries of each target.
pub(super) fn contents(index: &Index) -> Vec<TargetOutput> {
    let mut targets: Vec<TargetOutput> = Vec::new();
    for entry in index.entries() {
        match targets.last_mut() {
            Some(last) if last.target == entry.target => {
                last.kernels += 1;
                last.bytes += entry.bytes;
            }
            _ => {
                targets.push(TargetOutput { target: entry.target.to_owned(), kernels: 1, bytes: entry.bytes })
            }
        }
    }
    targets
}

/// Returns a table with a line for each target.
pub(super) fn contents_text(targets: &[TargetOutput]) -> Text {
    let row = |target: &TargetOutput| {
        vec![target.target.clone(), counted(target.kernels, "kernel"), bytes(target.bytes)]
    };
    columns("  ", &targets.iter().map(row).collect::<Vec<_>>())
}

fn text(json: &ExportOutput) -> Text {
    let kernels: usize = json.targets.iter().map(|target| target.kernels).sum();
    let mut text = match &json.file {
        Some(file) => {
            let signed =
                json.signed_by.as_ref().map_or(String::new(), |by| format!(", signed by {}", by.name));
            Text::of(format_args!("{file}: {}, {}{signed}", counted(kernels, "kernel"), bytes(json.bytes)))
        }
        None if json.interrupted => Text::of("interrupted; nothing is exported"),
        None => Text::of("there is nothing to export"),
    };
    text.append(&contents_text(&json.targets));
    if !json.left_out.is_empty() {
        text.line(format_args!("left out: {}", counted(json.left_out.len(), "kernel")));
        left_out_text(&json.left_out, &mut text);
    }
    if !json.missing.is_empty() {
        text.line(format_args!("not in the store: {}", counted(json.missing.len(), "kernel")));
        text.list(json.missing.iter().map(|key| format!("  {key}")), 20, |more| format!("  and {more} more"));
    }
    text
}

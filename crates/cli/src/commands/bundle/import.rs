//! `opkeep bundle import`: takes kernels from bundles into the store.

use std::collections::BTreeMap;
use std::fs::File;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, bail};
use opkeep_bundle::{BundleBlock, BundleError, BundleReader, CompressedBlock, Index, IndexedEntry};
use opkeep_digest::Digest;
use opkeep_fs::{CancelToken, map};
use opkeep_store::{Entry, Lookup, Overwrite, PutOutcome, Store, StoreError, TargetStore};
use opkeep_trust::SIGNATURES_MEMBER;
use opkeep_validator::Validator;
use serde::Serialize;

use super::judge::{LeftOut, Reason, judge, left_out_text};
use super::source::{self, StandardInput};
use super::trust::{SignerOutput, Trust, TrustArgs};
use crate::flags::store::StoreArgs;
use crate::input::store::threads;
use crate::setup;
use crate::ui::json::{self, FileError, OrError};
use crate::ui::output::{ExitStatus, Output, chain};
use crate::ui::text::{Text, counted, quotable};

/// The details of import.
const DETAILS: &str = "\
Each kernel is checked byte for byte against the index, and judged as a kernel of its key before it
enters the store. A kernel that the store has stays; one that is damaged there, or that no trusted
key signed, is replaced. The first build that uses an imported kernel judges it once more, by the
rules of its own backend. Importing a bundle again changes nothing.

With --trusted-keys, a bundle is taken only if one of these keys signed its index, and a kernel only
if one of them signed it; opkeep bundle export --sign-key signs both. Nothing of a bundle is
decompressed before.

Next: builds take the kernels from the store; opkeep stats counts them.

Exit code 0: all kernels are in the store; 1: some were refused; 2: a FILE cannot be read, is
incomplete or is not signed as demanded, or the store cannot be written.

Examples:
  opkeep bundle import resnet50.bundle
    takes the kernels of a bundle into the store
  opkeep bundle import resnet50.bundle --trusted-keys @trusted-keys
    takes only what a trusted key signed";

/// The maximum number of bytes that are decompressed at once, in several blocks.
const MAX_BATCH_BYTES: u64 = 64 << 20;

/// Take the kernels of bundles into the store
///
/// Each kernel is checked as if it came from a remote cache.
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// The bundles; `-` is the standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// The number of kernels that are checked at once [default: one per processor]
    #[arg(long, short, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let trust = args.trust.read()?;
    let store = Store::open(setup::store(&args.store)?)?;
    store.limit_warnings().iter().for_each(|warning| output.print_warning(&warning.to_string()));
    let standard = source::standard_input(args.files.iter().map(PathBuf::as_path), output);
    let cancel = output.cancel_on_signal();
    let mut import = Import {
        store,
        standard,
        targets: BTreeMap::new(),
        trust,
        validator: Validator::builtin(),
        threads: threads(args.jobs),
        cancel,
    };
    let progress = output.progress();
    let (mut files, mut exit_status) = (Vec::new(), ExitStatus::Success);
    for path in &args.files {
        if import.cancel.is_cancelled() {
            break;
        }
        let name = path.to_string_lossy();
        progress.start(&name);
        let imported = import.file(path, &|done, of| progress.update_subject(&name, done, of));
        files.push(match imported {
            Ok(imported) => {
                if !imported.refused.is_empty() {
                    exit_status = exit_status.max(ExitStatus::Problems);
                }
                OrError::Done(imported)
            }
            Err(error) => {
                output.print_error(&error);
                exit_status = exit_status.max(ExitStatus::Failed);
                OrError::Failed(FileError::new(path, chain(&error)))
            }
        });
    }
    progress.done();
    import.targets.values().for_each(|target| drop(target.flush()));
    let interrupted = import.cancel.is_cancelled();
    let text: Text = files
        .iter()
        .filter_map(|file| if let OrError::Done(done) = file { Some(text(done)) } else { None })
        .collect();
    let json = ImportOutput { root: json::path(import.store.root()), files, interrupted };
    output.print_result(&text, &json)?;
    Ok(if interrupted { ExitStatus::Interrupted } else { exit_status })
}

/// What files have in common.
struct Import {
    store: Store,
    standard: StandardInput,
    targets: BTreeMap<String, TargetStore>,
    trust: Trust,
    validator: Validator,
    threads: NonZeroUsize,
    cancel: CancelToken,
}

/// What became of one entry.
enum Taken {
    Imported,
    /// It took the place of one that no trusted key signed.
    Replaced,
    Existing,
    Refused(LeftOut),
    /// The store takes no entry at all.
    Failed(StoreError),
}

impl Import {
    fn file(&mut self, path: &Path, progress: &dyn Fn(u64, u64)) -> anyhow::Result<ImportedFile> {
        let mut reader = source::open(path, &mut self.standard)?;
        let signed_by = reader.check_signature(&self.trust.policy, &self.trust.namespace);
        let signed_by = signed_by.map_err(|untrusted| untrusted.in_namespace(&self.trust.namespace));
        let signed_by = signed_by.with_context(|| format!("`{}` is not taken", quotable(path)))?;
        let mut imported = ImportedFile {
            file: json::path(path),
            bytes: reader.bytes(),
            signed_by: signed_by.map(SignerOutput::from),
            ..ImportedFile::default()
        };
        let names: Vec<String> = reader.index().targets().map(str::to_owned).collect();
        for name in names {
            if !self.targets.contains_key(&name) {
                let target = self.store.target(&name)?;
                self.targets.insert(name, target);
            }
        }
        let blocks = reader.index().block_count();
        let mut number = 0;
        while number < blocks && !self.cancel.is_cancelled() {
            let batch = number..number + batch_length(reader.index(), number, self.threads.get());
            number = batch.end;
            self.blocks(&mut reader, batch, &mut imported)?;
            progress(number as u64, blocks as u64);
        }
        Ok(imported)
    }

    /// Takes the entries of some blocks, which are read in order and checked at once.
    fn blocks(
        &self,
        reader: &mut BundleReader<File>,
        numbers: Range<usize>,
        imported: &mut ImportedFile,
    ) -> anyhow::Result<()> {
        let mut blocks = Vec::new();
        for number in numbers {
            match reader.read_block(number) {
                Ok(block) => blocks.push(Mutex::new(Some(block))),
                Err(error) if error.is_io() => return Err(error.into()),
                Err(error) => imported.refused.extend(refused_block(reader, number, &error)),
            }
        }
        let opened = map(
            blocks.len(),
            self.threads,
            || false,
            |at| {
                let block: Option<CompressedBlock> =
                    blocks[at].lock().unwrap_or_else(PoisonError::into_inner).take();
                block.map(|block| (block.number(), block.decompress()))
            },
        );
        let mut whole = Vec::new();
        for (number, block) in opened.results.into_iter().flatten() {
            match block {
                Ok(block) => whole.push(block),
                Err(error) => imported.refused.extend(refused_block(reader, number, &error)),
            }
        }
        let entries: Vec<(&BundleBlock, usize)> = whole
            .iter()
            .flat_map(|block| (0..block.entries().len()).map(move |place| (block, place)))
            .collect();
        let has_failed = AtomicBool::new(false);
        let stop = || self.cancel.is_cancelled() || has_failed.load(Ordering::Relaxed);
        let taken = map(entries.len(), self.threads, stop, |at| {
            let (block, place) = entries[at];
            let taken = self.entry(block, place);
            has_failed.fetch_or(matches!(taken, Taken::Failed(_)), Ordering::Relaxed);
            taken
        });
        for taken in taken.results {
            match taken {
                Taken::Imported => imported.imported += 1,
                Taken::Replaced => imported.replaced += 1,
                Taken::Existing => imported.existing += 1,
                Taken::Refused(left_out) => imported.refused.push(left_out),
                Taken::Failed(error) => bail!(error),
            }
        }
        // The entries of a block are in few directories, in the order of their keys.
        let mut keys: BTreeMap<&str, Vec<Digest>> = BTreeMap::new();
        for entry in whole.iter().flat_map(BundleBlock::entries) {
            keys.entry(entry.target).or_default().push(*entry.key);
        }
        for (name, keys) in keys {
            self.targets.get(name).iter().for_each(|target| target.sync(&keys));
        }
        Ok(())
    }

    fn entry(&self, block: &BundleBlock, place: usize) -> Taken {
        let Some(indexed) = block.entries().nth(place) else { return Taken::Existing };
        let Some(target) = self.targets.get(indexed.target) else { return Taken::Existing };
        let existing = match target.peek(indexed.key) {
            Lookup::Hit(entry) if self.trust.check_stored(indexed.target, &entry).is_ok() => {
                return Taken::Existing;
            }
            Lookup::Hit(_) => Overwrite::Always,
            Lookup::Miss(_) => Overwrite::Never,
        };
        let entry = match block.entry(place) {
            Ok(entry) => entry,
            Err(error) => return Taken::Refused(LeftOut::indexed(&indexed, &error)),
        };
        match judge(indexed.target, &entry, &self.trust, &self.validator) {
            Ok(()) => self.put(target, &indexed, &entry, existing),
            Err(left_out) => Taken::Refused(left_out),
        }
    }

    fn put(
        &self,
        target: &TargetStore,
        indexed: &IndexedEntry<'_>,
        entry: &Entry,
        existing: Overwrite,
    ) -> Taken {
        // The time of the bundle is none, and the first build that uses it sets the stamp.
        let builder = entry.to_builder().created(SystemTime::now());
        let signatures = self.trust.stored_signatures(entry);
        let builder = match &signatures {
            Some(signatures) => builder.with_lazy(SIGNATURES_MEMBER, signatures),
            None => builder,
        };
        match target.put_replacing(indexed.key, &builder, existing) {
            Ok(PutOutcome::Existing) => Taken::Existing,
            Ok(PutOutcome::Published) if existing == Overwrite::Always => Taken::Replaced,
            Ok(PutOutcome::Published) => Taken::Imported,
            Err(error) if target.stops_every_write(&error) => Taken::Failed(error),
            Err(error) => Taken::Refused(LeftOut::new(indexed.target, indexed.key, Reason::Io, error)),
        }
    }
}

/// Returns the number of blocks from `first` on that are decompressed at once: at most `threads`, and of [`MAX_BATCH_BYTES`], but at least
/// one.
fn batch_length(index: &Index, first: usize, threads: usize) -> usize {
    let mut sum = 0_u64;
    let sizes = index.blocks().skip(first).take(threads).map(|block| block.bytes);
    let fitting = sizes.take_while(|bytes| {
        sum = sum.saturating_add(*bytes);
        sum <= MAX_BATCH_BYTES
    });
    fitting.count().max(1)
}

/// Returns the entries of a block that cannot be used at all.
fn refused_block(reader: &BundleReader<File>, number: usize, error: &BundleError) -> Vec<LeftOut> {
    reader.index().block_entries(number).map(|entry| LeftOut::indexed(&entry, error)).collect()
}

/// The result as JSON.
#[derive(Serialize)]
struct ImportOutput {
    root: String,
    files: Vec<OrError<ImportedFile>>,
    interrupted: bool,
}

#[derive(Default, Serialize)]
struct ImportedFile {
    file: String,
    bytes: u64,
    /// The trusted key that signed the index. Unset if signatures do not matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_by: Option<SignerOutput>,
    imported: usize,
    replaced: usize,
    existing: usize,
    refused: Vec<LeftOut>,
}

fn text(file: &ImportedFile) -> Text {
    let ImportedFile { file, signed_by, imported, replaced, existing, refused, .. } = file;
    let mut parts = vec![format!("{} imported", counted(*imported, "kernel"))];
    let further = [(*replaced, "replaced"), (*existing, "there before"), (refused.len(), "refused")];
    parts.extend(
        further.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")),
    );
    let signed = signed_by.as_ref().map_or(String::new(), |by| format!("; signed by {}", by.name));
    let mut text = Text::of(format_args!("{file}: {}{signed}", parts.join(", ")));
    left_out_text(refused, &mut text);
    text
}

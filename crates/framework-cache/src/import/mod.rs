//! Imports kernels of frameworks into a store.
//!
//! ```text
//! scan ──intact──> descriptor: names it? older than it? ──> options, target ──> validate ──> key ──> put
//! ```
//!
//! Each kernel that is not imported is reported with the reason. The caches are not changed. [`Provenance`] keeps
//! imported kernels apart from compiled ones.
//!
//! # Imported kernels
//!
//! - A kernel is imported if the scan found it intact, the validator accepts it as a kernel for its chip, and its name
//!   follows from the descriptor beside it by the rules of the release that wrote it. Names before r2.1 do not depend
//!   on all options.
//! - Frameworks write the descriptor before they compile. A descriptor that is newer than the `.json` or the object
//!   shows that a later compile began, so the kernel is skipped.
//! - The backend reads the options without a toolchain.
//! - The `.json` must not have a kernel name with another hash: files that were copied over those of another kernel are
//!   consistent, too.
//! - An operator that is not the toolkit's (`py_module_path` elsewhere) is neither imported nor served by an import:
//!   only its source distinguishes it from another operator with its name, and no key of an import has the source
//!   (`Job::custom_op_source`). If the source does not exist on this host, the backend itself gives both operators one
//!   key; then both have one kernel, imported or not.
//!
//! # Several kernels of one job
//!
//! The first kernel stays, unless the other one was compiled after the first was imported, by the times of its files,
//! which must not be in the future: then the framework discarded its own kernel, and the import replaces the stored
//! one. Kernels of other ranks differ only in their names, those of other toolchains in code.
//!
//! The compile time of an imported kernel is unknown, and so is whether it can be compiled again. An eviction treats
//! such a kernel as the most expensive of those that it considers.

mod report;

pub use report::{CacheImport, ImportError, ImportReport, ImportedKernel, SkipReason, SkippedKernel};

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::scan::{
    CacheDir, CacheReader, ExtractError, ExtractedKernel, Item, ItemKind, ItemState, Kind, ScanOptions,
    find_through_links, scan,
};
use opkeep_artifact::Artifact;
use opkeep_cann_meta::{KernelMeta, is_chip, targets};
use opkeep_descriptor::{
    BuildSpec, Descriptor, ForeignName, Generation, KernelName, ResolvedSpec, import_key, read_info,
};
use opkeep_digest::Digest;
use opkeep_fs::CancelToken;
use opkeep_kernel_entry::member::{JSON, OBJECT};
use opkeep_kernel_entry::{KernelBundle, KernelRecord, Origin, Provenance, StoredExpectations, encode_entry};
use opkeep_store::{
    Access, LockOutcome, Lookup, Overwrite, PutOutcome, Store, StoreConfig, StoreError, TargetStore,
    WaitOptions,
};
use opkeep_validator::Validator;

/// The maximum time to wait for the lock of an entry.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Resolves the options of a descriptor; `None` if no backend runs such kernels.
type Reader = dyn Fn(&BuildSpec) -> Option<Result<ResolvedSpec, String>> + Send + Sync;
/// Called with the cache, the number of its finished steps, and the number of its steps: two for each kernel.
type Observer = dyn Fn(&Path, u64, u64) + Send + Sync;

/// Imports kernels from the caches of frameworks into a store.
///
/// Each kernel is stored under a key for imports, with its provenance: no build mistakes it for a kernel that opkeep
/// compiled, and only builds that trust imported kernels use it. Builds and other imports may run at the same time.
pub struct Importer {
    store: StoreConfig,
    read: Box<Reader>,
    threads: NonZeroUsize,
    dry_run: bool,
    cancel: CancelToken,
    observer: Box<Observer>,
}

/// The state of one import.
struct ImportRun<'a> {
    importer: &'a Importer,
    /// The store; `None` in a dry run if it does not exist.
    store: Option<Store>,
    targets: Mutex<BTreeMap<String, Arc<TargetStore>>>,
    /// For each key, the digests of the `.json` and the object that a dry run would have published.
    planned: Mutex<BTreeMap<Digest, [Digest; 2]>>,
    /// Whether the store cannot be written any more.
    stopped: AtomicBool,
}

/// A kernel that may be imported.
struct ImportCandidate {
    descriptor: Descriptor,
    generation: Generation,
    spec: ResolvedSpec,
    said: BTreeMap<String, String>,
    artifact: Artifact,
    expected: StoredExpectations,
    compiled_at: SystemTime,
}

/// The outcome of the import of one kernel.
enum Outcome {
    New(ImportedKernel),
    Replaced(ImportedKernel),
    ExistingEntry,
    Duplicate,
    Not(SkippedKernel),
    /// The kernel was not processed.
    Unprocessed,
}

/// The stored kernel of a job, compared with one of the same job that may be imported.
enum ExistingEntry {
    /// The stored kernel is the same.
    Same,
    /// The stored kernel was imported before the other one was compiled: the framework compiled the job again, perhaps
    /// with another toolchain.
    Older,
    /// The stored kernel has other bytes, like kernels of other ranks.
    Duplicate,
}

impl Importer {
    /// Returns an importer into the store at `store.root`. `read` resolves the options of a descriptor like the backend
    /// of its target: `None` if there is no such backend, an error if the options are invalid.
    pub fn new(
        store: StoreConfig,
        read: impl Fn(&BuildSpec) -> Option<Result<ResolvedSpec, String>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            store,
            read: Box::new(read),
            threads: NonZeroUsize::MIN,
            dry_run: false,
            cancel: CancelToken::new(),
            observer: Box::new(|_, _, _| {}),
        }
    }

    /// Sets the number of threads. The default is 1.
    #[must_use]
    pub fn threads(self, threads: NonZeroUsize) -> Self {
        Self { threads, ..self }
    }

    /// Sets whether the import only reports, and writes nothing. The default is false.
    #[must_use]
    pub fn dry_run(self, dry_run: bool) -> Self {
        Self { dry_run, ..self }
    }

    /// Sets a token that cancels the import. Kernels that are imported by then stay.
    #[must_use]
    pub fn cancel(self, cancel: CancelToken) -> Self {
        Self { cancel, ..self }
    }

    /// Sets a function that is called with the cache, the number of its finished steps, and the number of its steps:
    /// two for each kernel.
    #[must_use]
    pub fn observer(self, observer: impl Fn(&Path, u64, u64) + Send + Sync + 'static) -> Self {
        Self { observer: Box::new(observer), ..self }
    }

    /// Returns the current time by the store's clock.
    fn now(&self) -> SystemTime {
        self.store.clock.as_ref().map_or_else(SystemTime::now, |clock| clock.now())
    }

    /// Imports the kernels of all caches at and below `paths`.
    ///
    /// # Errors
    /// The store cannot be used. Other problems are in the report.
    pub fn import(&self, paths: &[PathBuf]) -> Result<ImportReport, ImportError> {
        let access = if self.dry_run { Access::ReadOnly } else { Access::ReadWrite };
        let store = match Store::open(self.store.clone().with_access(access)) {
            Err(StoreError::NoStore { .. }) if self.dry_run => None,
            opened => Some(opened?),
        };
        let run = ImportRun {
            importer: self,
            store,
            targets: Mutex::default(),
            planned: Mutex::default(),
            stopped: AtomicBool::new(false),
        };
        let (mut report, mut seen) = (ImportReport::default(), HashSet::new());
        let notices = run.store.iter().flat_map(Store::limit_warnings);
        report.warnings = notices.map(ToString::to_string).collect();
        for path in paths {
            match find_through_links(path) {
                Ok(found) => {
                    report.add_unreadable_dirs(&found, &mut seen);
                    for dir in &found.caches {
                        run.cache(dir, &mut report);
                    }
                }
                Err(error) => report.add_unreadable(path, &error, &mut seen),
            }
        }
        report.interrupted = self.cancel.is_cancelled();
        run.finish(&report);
        Ok(report)
    }
}

impl ImportRun<'_> {
    /// Imports the kernels of one cache.
    fn cache(&self, dir: &CacheDir, report: &mut ImportReport) {
        if self.importer.cancel.is_cancelled() {
            return;
        }
        let mut cache = CacheImport::new(dir);
        match dir.kind {
            Kind::Cann | Kind::Package | Kind::Work => {
                cache.skip_reason = Some(SkipReason::NoDescriptors(dir.kind.to_string()))
            }
            _ => {
                if let Err(error) = self.kernels(dir, &mut cache) {
                    report.unreadable_dirs.push((dir.path.clone(), error.to_string()));
                }
            }
        }
        report.caches.push(cache);
    }

    fn kernels(&self, dir: &CacheDir, cache: &mut CacheImport) -> std::io::Result<()> {
        let Importer { threads, cancel, observer, .. } = self.importer;
        // Each kernel is counted twice: the scan is the first half of the steps.
        let scanned = |done, of| observer(&dir.path, done, 2 * of);
        let is_cancelled = || cancel.is_cancelled();
        let mut options = ScanOptions::new(*threads);
        (options.progress, options.is_cancelled) = (&scanned, &is_cancelled);
        let scan = scan(dir, &options)?;
        let store_target = CacheReader::open(dir)?;
        cache.unreadable_dirs =
            scan.unreadable_dirs.iter().map(|(path, error)| (path.clone(), error.to_string())).collect();
        let items: Vec<&Item> = scan.items.iter().filter(|item| item.kind == ItemKind::Kernel).collect();
        let done = AtomicU64::new(0);
        let of = items.len() as u64;
        let import = |at: usize| {
            let outcome = self.item(dir, &store_target, items[at]);
            observer(&dir.path, of + done.fetch_add(1, Ordering::Relaxed) + 1, 2 * of);
            outcome
        };
        for outcome in opkeep_fs::map(items.len(), *threads, || false, import).results {
            match outcome {
                Outcome::New(kernel) => cache.imported.push(kernel),
                Outcome::Replaced(kernel) => cache.replaced.push(kernel),
                Outcome::ExistingEntry => cache.existing += 1,
                Outcome::Duplicate => cache.duplicates += 1,
                Outcome::Not(not) => cache.skipped.push(not),
                Outcome::Unprocessed => cache.unprocessed += 1,
            }
        }
        Ok(())
    }

    /// Imports one kernel.
    fn item(&self, dir: &CacheDir, store_target: &CacheReader, item: &Item) -> Outcome {
        if self.importer.cancel.is_cancelled() || self.stopped.load(Ordering::Relaxed) {
            return Outcome::Unprocessed;
        }
        let outcome =
            self.candidate(store_target, item).and_then(|candidate| self.keep(dir, item, &candidate));
        outcome.unwrap_or_else(|why| Outcome::Not(SkippedKernel { name: item.name.clone(), why }))
    }

    /// Reads a kernel. Returns an error unless the kernel is intact and its descriptor describes it.
    fn candidate(&self, store_target: &CacheReader, item: &Item) -> Result<ImportCandidate, SkipReason> {
        if !matches!(item.state, ItemState::Intact) {
            return Err(SkipReason::of_item(item));
        }
        if item.kernel.is_none() {
            return Err(SkipReason::InParts);
        }
        let ExtractedKernel { json, object, info, is_begun_anew, compiled_at, is_ours } =
            store_target.extract(item).map_err(|error| match error {
                ExtractError::Missing { file } if file.ends_with(".info") => SkipReason::NoDescriptor,
                ExtractError::Missing { file } if file.ends_with(".o") => SkipReason::NoObject,
                ExtractError::Missing { .. } | ExtractError::Changing { .. } => {
                    SkipReason::InUse(error.to_string())
                }
                error => SkipReason::Unreadable(error.to_string()),
            })?;
        if is_ours {
            return Err(SkipReason::Ours);
        }
        let descriptor = read_info(&info).map_err(|error| SkipReason::TornDescriptor(error.to_string()))?;
        let generation = named_by(&descriptor, &item.name).ok_or_else(|| other_name(&descriptor))?;
        let target = &descriptor.spec.target;
        if targets::named(target).is_some_and(|expect| targets::is_ai_core(&expect)) && !is_chip(target) {
            return Err(SkipReason::UnknownChip(target.clone()));
        }
        let no_backend = || SkipReason::NoBackend(target.clone());
        let mut spec =
            (self.importer.read)(&descriptor.spec).ok_or_else(no_backend)?.map_err(SkipReason::Options)?;
        let validator = Validator::builtin();
        let expect = targets::named(&spec.target).ok_or_else(no_backend)?;
        let expected = StoredExpectations::new(expect, &validator);
        if spec.debug {
            return Err(SkipReason::Debug);
        }
        if let Some(source) = descriptor.job.custom_op_source() {
            return Err(SkipReason::OwnSource(source.to_owned()));
        }
        if is_begun_anew {
            return Err(SkipReason::BegunAnew);
        }
        let artifact = Artifact { metadata: json, object, extra: Vec::new() };
        let report = KernelBundle::of(&artifact).validate(None, expected.expectations(), &validator);
        let Some(meta) = report.meta.as_ref().filter(|_| report.is_valid()) else {
            return Err(SkipReason::Invalid(report.errors().map(ToString::to_string).collect()));
        };
        if let Some(other) = other_kernel(&descriptor, &item.name, meta) {
            return Err(SkipReason::OtherKernel(other));
        }
        let said = spec.split_unkeyed_options();
        Ok(ImportCandidate { descriptor, generation, spec, said, artifact, expected, compiled_at })
    }

    /// Publishes a kernel, unless the store has one of the same job that is not older.
    fn keep(&self, dir: &CacheDir, item: &Item, candidate: &ImportCandidate) -> Result<Outcome, SkipReason> {
        let ImportCandidate { descriptor, generation, spec, said, expected, .. } = candidate;
        let artifact = &candidate.artifact;
        let job = descriptor.job.digest();
        let key = import_key(&job, spec);
        let new = ImportedKernel {
            name: item.name.clone(),
            key,
            op_type: descriptor.job.op_types(),
            target: spec.target.clone(),
            bytes: artifact.object.len() + artifact.metadata.len(),
        };
        let store_target = self.store_target(&spec.target)?;
        let Some(store_target) = store_target.as_deref().filter(|_| !self.importer.dry_run) else {
            return Ok(self.plan(store_target.as_deref(), new, candidate));
        };
        let path = std::path::absolute(&dir.path).unwrap_or_else(|_| dir.path.clone());
        let path = item.below.map_or_else(|| path.clone(), |below| path.join(below));
        let imported = Provenance {
            directory: path.to_string_lossy().into_owned(),
            name: item.name.clone(),
            framework: generation.to_string(),
            toolchain: said.clone(),
            has_options: *generation != Generation::R1_0,
            imported_at: self.importer.now(),
        };
        let origin = Origin::Imported(&imported);
        let record = KernelRecord { job: &descriptor.job, spec, key, origin };
        let entry = encode_entry(&KernelBundle::of(artifact), expected, &record);
        let draft = entry.builder();
        let put = |replace| {
            store_target.put_replacing(key.digest(), &draft, replace).map_err(|error| self.not_kept(&error))
        };
        if put(Overwrite::Never)? == PutOutcome::Published {
            return Ok(Outcome::New(new));
        }
        match self.existing(store_target, key.digest(), candidate) {
            Some(ExistingEntry::Older) => self.renew(store_target, new, candidate, put),
            Some(ExistingEntry::Duplicate) => Ok(Outcome::Duplicate),
            // An entry existed, even if it was evicted since.
            Some(ExistingEntry::Same) | None => Ok(Outcome::ExistingEntry),
        }
    }

    /// Replaces the older kernel of a job.
    fn renew(
        &self,
        store_target: &TargetStore,
        new: ImportedKernel,
        candidate: &ImportCandidate,
        put: impl Fn(Overwrite) -> Result<PutOutcome, SkipReason>,
    ) -> Result<Outcome, SkipReason> {
        // Under this lock, no other process rewrites the older entry to mark it as validated.
        let cancelled = || self.importer.cancel.is_cancelled();
        let deadline = Instant::now().checked_add(LOCK_TIMEOUT);
        let wait_options = WaitOptions::new(&cancelled).with_deadline(deadline);
        let held =
            store_target.lock(new.key.digest(), wait_options).map_err(|error| self.not_kept(&error))?;
        if matches!(held, LockOutcome::Cancelled) {
            return Ok(Outcome::Unprocessed);
        }
        // Another import may have published this kernel, or a newer one, meanwhile.
        match self.existing(store_target, new.key.digest(), candidate) {
            Some(ExistingEntry::Older) | None => put(Overwrite::Always).map(|_| Outcome::Replaced(new)),
            Some(ExistingEntry::Same) => Ok(Outcome::ExistingEntry),
            Some(ExistingEntry::Duplicate) => Ok(Outcome::Duplicate),
        }
    }

    /// Returns the outcome of a kernel in a dry run. Of several kernels of one job, the first would stay.
    fn plan(
        &self,
        store_target: Option<&TargetStore>,
        new: ImportedKernel,
        candidate: &ImportCandidate,
    ) -> Outcome {
        let ImportCandidate { artifact, .. } = candidate;
        let bytes = [&artifact.metadata, &artifact.object].map(|bytes| Digest::of(bytes));
        let mut planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        let existing = match planned.get(new.key.digest()) {
            Some(first) if *first == bytes => Some(ExistingEntry::Same),
            Some(_) => Some(ExistingEntry::Duplicate),
            None => {
                store_target.and_then(|store_target| self.existing(store_target, new.key.digest(), candidate))
            }
        };
        if matches!(existing, None | Some(ExistingEntry::Older)) {
            planned.insert(*new.key.digest(), bytes);
        }
        match existing {
            None => Outcome::New(new),
            Some(ExistingEntry::Older) => Outcome::Replaced(new),
            Some(ExistingEntry::Same) => Outcome::ExistingEntry,
            Some(ExistingEntry::Duplicate) => Outcome::Duplicate,
        }
    }

    /// Compares the candidate with the kernel of the same job in the store, if there is one.
    fn existing(
        &self,
        store_target: &TargetStore,
        key: &Digest,
        candidate: &ImportCandidate,
    ) -> Option<ExistingEntry> {
        let Lookup::Hit(entry) = store_target.peek(key) else { return None };
        let ImportCandidate { artifact, compiled_at, .. } = candidate;
        let same = entry.member(OBJECT) == Some(&artifact.object[..])
            && entry.member(JSON) == Some(&artifact.metadata[..]);
        Some(match () {
            () if same => ExistingEntry::Same,
            () if Provenance::of(&entry)
                .is_some_and(|imported| imported.is_older(*compiled_at, self.importer.now())) =>
            {
                ExistingEntry::Older
            }
            () => ExistingEntry::Duplicate,
        })
    }

    /// Returns the store's part for `target`; `None` in a dry run without a store.
    fn store_target(&self, target: &str) -> Result<Option<Arc<TargetStore>>, SkipReason> {
        let Some(store) = &self.store else { return Ok(None) };
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store_target) = targets.get(target) {
            return Ok(Some(Arc::clone(store_target)));
        }
        let store_target = Arc::new(store.target(target).map_err(|error| self.not_kept(&error))?);
        targets.insert(target.to_owned(), Arc::clone(&store_target));
        Ok(Some(store_target))
    }

    fn not_kept(&self, error: &StoreError) -> SkipReason {
        if error.stops_every_write() {
            self.stopped.store(true, Ordering::Relaxed);
        }
        SkipReason::NotKept(error.to_string())
    }

    /// Makes the published entries durable, and writes the statistics.
    fn finish(&self, report: &ImportReport) {
        if self.importer.dry_run {
            return;
        }
        for (target, store_target) in &*self.targets.lock().unwrap_or_else(PoisonError::into_inner) {
            let kernels = report.caches.iter().flat_map(|cache| cache.imported.iter().chain(&cache.replaced));
            let keys: Vec<Digest> = kernels
                .filter(|kernel| kernel.target == *target)
                .map(|kernel| *kernel.key.digest())
                .collect();
            store_target.sync(&keys);
            // If the statistics are locked now, the next flush writes them.
            let _ = store_target.flush();
        }
    }
}

/// Returns the generation whose rules result in the kernel's name. If the descriptor has the name, and the rules for it
/// are unknown, the generation is the descriptor's. If the rules are known and result in another name, the descriptor
/// was changed.
fn named_by(descriptor: &Descriptor, stem: &str) -> Option<Generation> {
    let borne = &descriptor.envelope.fusion_op_name;
    let is_borne = || {
        let unknown = descriptor.kernel_meta_stem().is_err()
            || matches!(ForeignName::parse(borne), Some(ForeignName::Cann { .. }));
        descriptor.envelope.generation.filter(|_| unknown && borne == stem)
    };
    descriptor.named_by(stem).or_else(is_borne)
}

/// Returns the kernel's name in its `.json`, if that is the name of another kernel: it has a hash, and no generation
/// computes that hash from the descriptor. Names without a hash depend on the compiler and prove nothing.
fn other_kernel(descriptor: &Descriptor, stem: &str, meta: &KernelMeta) -> Option<String> {
    let device = descriptor.device_id();
    let name_by = |generation| KernelName::mindspore(descriptor, generation, device).ok();
    let computed = Generation::ALL.into_iter().filter_map(name_by);
    let own: Vec<u64> = computed.flat_map(|name| hashes(name.as_str())).chain(hashes(stem)).collect();
    let named = [meta.kernel_name.as_deref(), meta.bin_file_name.as_deref()];
    let said = meta.entry_names().into_iter().chain(named.into_iter().flatten());
    let other = |name: &str| {
        let hashes = hashes(name);
        !hashes.is_empty() && !hashes.iter().any(|hash| own.contains(hash))
    };
    said.into_iter().find(|name| other(name)).map(str::to_owned)
}

/// Returns the numbers in a name that are large enough to be hashes: numbers of devices, tiles and parts are small.
fn hashes(name: &str) -> Vec<u64> {
    let numbers = name.split('_').filter_map(|part| part.parse::<u64>().ok());
    numbers.filter(|number| *number > u64::from(u32::MAX)).collect()
}

fn other_name(descriptor: &Descriptor) -> SkipReason {
    SkipReason::OtherName(descriptor.kernel_meta_stem().ok().map(|name| name.to_string()))
}

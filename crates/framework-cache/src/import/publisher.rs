//! Publishes imported kernels in the store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::import::candidate::ImportCandidate;
use crate::import::report::{ImportReport, ImportedKernel, SkipReason};
use crate::scan::{CacheDir, Item};
use opkeep_descriptor::{Generation, import_key};
use opkeep_digest::Digest;
use opkeep_fs::{CancelToken, Clock};
use opkeep_kernel_entry::member::{JSON, OBJECT};
use opkeep_kernel_entry::{KernelBundle, KernelRecord, Origin, Provenance, encode_entry};
use opkeep_store::{
    Access, LockOutcome, Lookup, Overwrite, PutOutcome, Store, StoreConfig, StoreError, TargetStore,
    WaitOptions,
};

/// The maximum time to wait for the lock of an entry.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The store of one import.
pub(super) struct Publisher {
    /// The store; `None` in a dry run if it does not exist.
    store: Option<Store>,
    dry_run: bool,
    cancel: CancelToken,
    clock: Option<Arc<dyn Clock>>,
    targets: Mutex<BTreeMap<String, Arc<TargetStore>>>,
    /// For each key, the digests of the `.json` and the object that a dry run would have published.
    planned: Mutex<BTreeMap<Digest, [Digest; 2]>>,
    /// Whether the store cannot be written any more.
    stopped: AtomicBool,
}

/// The outcome of the import of one kernel.
pub(super) enum Outcome {
    New(ImportedKernel),
    Replaced(ImportedKernel),
    ExistingEntry,
    Duplicate,
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

impl Publisher {
    /// Opens the store.
    ///
    /// # Errors
    /// The store cannot be used. In a dry run, it may be missing.
    pub(super) fn open(
        config: &StoreConfig,
        dry_run: bool,
        cancel: &CancelToken,
    ) -> Result<Self, StoreError> {
        let access = if dry_run { Access::ReadOnly } else { Access::ReadWrite };
        let store = match Store::open(config.clone().with_access(access)) {
            Err(StoreError::NoStore { .. }) if dry_run => None,
            opened => Some(opened?),
        };
        Ok(Self {
            store,
            dry_run,
            cancel: cancel.clone(),
            clock: config.clock.clone(),
            targets: Mutex::default(),
            planned: Mutex::default(),
            stopped: AtomicBool::new(false),
        })
    }

    /// Returns the warnings about settings of the store's limits that do not count.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.store.iter().flat_map(Store::limit_warnings).map(ToString::to_string).collect()
    }

    /// Returns whether no more kernels are published: the import was cancelled, or the store cannot be written.
    pub(super) fn is_stopped(&self) -> bool {
        self.cancel.is_cancelled() || self.stopped.load(Ordering::Relaxed)
    }

    fn now(&self) -> SystemTime {
        self.clock.as_ref().map_or_else(SystemTime::now, |clock| clock.now())
    }

    /// Publishes a kernel, unless the store has one of the same job that is not older.
    pub(super) fn publish(
        &self,
        dir: &CacheDir,
        item: &Item,
        candidate: &ImportCandidate,
    ) -> Result<Outcome, SkipReason> {
        let ImportCandidate { descriptor, generation, spec, unkeyed_options, expected, .. } = candidate;
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
        let Some(store_target) = store_target.as_deref().filter(|_| !self.dry_run) else {
            return Ok(self.plan(store_target.as_deref(), new, candidate));
        };
        let path = std::path::absolute(&dir.path).unwrap_or_else(|_| dir.path.clone());
        let path = item.below.map_or_else(|| path.clone(), |below| path.join(below));
        let imported = Provenance {
            directory: path.to_string_lossy().into_owned(),
            name: item.name.clone(),
            framework: generation.to_string(),
            toolchain: unkeyed_options.clone(),
            has_options: *generation != Generation::R1_0,
            imported_at: self.now(),
        };
        let origin = Origin::Imported(&imported);
        let record = KernelRecord { job: &descriptor.job, spec, key, origin };
        let entry = encode_entry(&KernelBundle::of(artifact), expected, &record);
        let builder = entry.builder();
        let put = |replace| {
            store_target
                .put_replacing(key.digest(), &builder, replace)
                .map_err(|error| self.not_published(&error, store_target.stops_every_write(&error)))
        };
        if put(Overwrite::Never)? == PutOutcome::Published {
            return Ok(Outcome::New(new));
        }
        match self.existing(store_target, key.digest(), candidate) {
            Some(ExistingEntry::Older) => self.replace_older(store_target, new, candidate, put),
            Some(ExistingEntry::Duplicate) => Ok(Outcome::Duplicate),
            // An entry existed, even if it was evicted since.
            Some(ExistingEntry::Same) | None => Ok(Outcome::ExistingEntry),
        }
    }

    /// Replaces the older kernel of a job.
    fn replace_older(
        &self,
        store_target: &TargetStore,
        new: ImportedKernel,
        candidate: &ImportCandidate,
        put: impl Fn(Overwrite) -> Result<PutOutcome, SkipReason>,
    ) -> Result<Outcome, SkipReason> {
        // Under this lock, no other process rewrites the older entry to mark it as validated.
        let cancelled = || self.cancel.is_cancelled();
        let deadline = Instant::now().checked_add(LOCK_TIMEOUT);
        let wait_options = WaitOptions::new(&cancelled).with_deadline(deadline);
        let held = store_target
            .lock(new.key.digest(), wait_options)
            .map_err(|error| self.not_published(&error, store_target.stops_every_write(&error)))?;
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
                .is_some_and(|imported| imported.is_older(*compiled_at, self.now())) =>
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
        let store_target = Arc::new(
            store.target(target).map_err(|error| self.not_published(&error, error.stops_every_write()))?,
        );
        targets.insert(target.to_owned(), Arc::clone(&store_target));
        Ok(Some(store_target))
    }

    fn not_published(&self, error: &StoreError, stops_every_write: bool) -> SkipReason {
        if stops_every_write {
            self.stopped.store(true, Ordering::Relaxed);
        }
        SkipReason::NotPublished(error.to_string())
    }

    /// Makes the published entries durable, and writes the statistics.
    pub(super) fn finish(&self, report: &ImportReport) {
        if self.dry_run {
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

//! Imports kernels of frameworks into a store.
//!
//! ```text
//! scan ──intact──> descriptor: names it? older than it? ──> options, target ──> validate ──> key ──> put
//! ```
//!
//! Each kernel that is not imported is reported with the reason. The caches are not changed. [`Provenance`](opkeep_kernel_entry::Provenance) keeps
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

mod candidate;
mod publisher;
mod report;

pub use report::{CacheImport, ImportError, ImportReport, ImportedKernel, SkipReason, SkippedKernel};

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::scan::{
    CacheDir, CacheReader, CacheScan, Item, ItemKind, Kind, ScanOptions, find_through_links, scan,
};
use candidate::{ImportCandidate, ResolveOptions};
use opkeep_descriptor::{BuildSpec, ResolvedSpec};
use opkeep_fs::CancelToken;
use opkeep_store::StoreConfig;
use publisher::{Outcome, Publisher};

/// Called with the cache, the number of its finished steps, and the number of its steps: two for each kernel.
type Observer = dyn Fn(&Path, u64, u64) + Send + Sync;

/// Imports kernels from the caches of frameworks into a store.
///
/// Each kernel is stored under a key for imports, with its provenance: no build mistakes it for a kernel that opkeep
/// compiled, and only builds that trust imported kernels use it. Builds and other imports may run at the same time.
pub struct Importer {
    store: StoreConfig,
    resolve: Box<ResolveOptions>,
    threads: NonZeroUsize,
    dry_run: bool,
    cancel: CancelToken,
    observer: Box<Observer>,
}

impl Importer {
    /// Returns an importer into the store at `store.root`. `resolve` resolves the options of a descriptor like the
    /// backend of its target: `None` if there is no such backend, an error if the options are invalid.
    pub fn new(
        store: StoreConfig,
        resolve: impl Fn(&BuildSpec) -> Option<Result<ResolvedSpec, String>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            store,
            resolve: Box::new(resolve),
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

    /// Imports the kernels of all caches at and below `paths`.
    ///
    /// # Errors
    /// The store cannot be used. Other problems are in the report.
    pub fn import(&self, paths: &[PathBuf]) -> Result<ImportReport, ImportError> {
        let publisher = Publisher::open(&self.store, self.dry_run, &self.cancel)?;
        let (mut report, mut seen) = (ImportReport::default(), HashSet::new());
        report.warnings = publisher.warnings();
        for path in paths {
            match find_through_links(path) {
                Ok(found) => {
                    report.add_unreadable_dirs(&found, &mut seen);
                    for dir in &found.caches {
                        self.import_cache(dir, &publisher, &mut report);
                    }
                }
                Err(error) => report.add_unreadable(path, &error, &mut seen),
            }
        }
        report.interrupted = self.cancel.is_cancelled();
        publisher.finish(&report);
        Ok(report)
    }

    /// Whether an import would store a kernel of the cache `dir`, of which `scan` is known. Stores nothing, and ends with the first such
    /// kernel.
    ///
    /// # Errors
    /// The store or the cache cannot be read.
    pub fn would_import(&self, dir: &CacheDir, scan: &CacheScan) -> Result<bool, ImportError> {
        if has_no_descriptors(dir.kind) {
            return Ok(false);
        }
        let publisher = Publisher::open(&self.store, true, &self.cancel)?;
        let reader =
            CacheReader::open(dir).map_err(|source| ImportError::Cache { path: dir.path.clone(), source })?;
        let items: Vec<&Item> = scan.items.iter().filter(|item| item.kind == ItemKind::Kernel).collect();
        let (found, done) = (AtomicBool::new(false), AtomicU64::new(0));
        let ends = || found.load(Ordering::Relaxed) || publisher.is_stopped();
        let look = |at: usize| {
            let candidate = ImportCandidate::read(&reader, items[at], &self.resolve);
            let outcome = candidate.and_then(|candidate| publisher.publish(dir, items[at], &candidate));
            (self.observer)(&dir.path, done.fetch_add(1, Ordering::Relaxed) + 1, items.len() as u64);
            match outcome {
                Ok(Outcome::New(_) | Outcome::Replaced(_)) => found.store(true, Ordering::Relaxed),
                Err(SkipReason::NotPublished(why)) => return Some(why),
                _ => {}
            }
            None
        };
        let looked = opkeep_fs::map(items.len(), self.threads, ends, look).results;
        match looked.into_iter().flatten().next() {
            Some(why) if !found.load(Ordering::Relaxed) => Err(ImportError::Target(why)),
            _ => Ok(found.load(Ordering::Relaxed)),
        }
    }

    fn import_cache(&self, dir: &CacheDir, publisher: &Publisher, report: &mut ImportReport) {
        if self.cancel.is_cancelled() {
            return;
        }
        let mut cache = CacheImport::new(dir);
        if has_no_descriptors(dir.kind) {
            cache.skip_reason = Some(SkipReason::NoDescriptors(dir.kind.to_string()));
        } else if let Err(error) = self.import_kernels(dir, publisher, &mut cache) {
            report.unreadable_dirs.push((dir.path.clone(), error.to_string()));
        }
        report.caches.push(cache);
    }

    fn import_kernels(
        &self,
        dir: &CacheDir,
        publisher: &Publisher,
        cache: &mut CacheImport,
    ) -> std::io::Result<()> {
        let Self { threads, cancel, observer, .. } = self;
        // Each kernel is counted twice: the scan is the first half of the steps.
        let scanned = |done, of| observer(&dir.path, done, 2 * of);
        let is_cancelled = || cancel.is_cancelled();
        let mut options = ScanOptions::new(*threads);
        (options.progress, options.is_cancelled) = (&scanned, &is_cancelled);
        let scan = scan(dir, &options)?;
        let reader = CacheReader::open(dir)?;
        cache.unreadable_dirs =
            scan.unreadable_dirs.iter().map(|(path, error)| (path.clone(), error.to_string())).collect();
        let items: Vec<&Item> = scan.items.iter().filter(|item| item.kind == ItemKind::Kernel).collect();
        let done = AtomicU64::new(0);
        let of = items.len() as u64;
        let import = |at: usize| {
            let item = items[at];
            let outcome = if publisher.is_stopped() {
                Ok(Outcome::Unprocessed)
            } else {
                ImportCandidate::read(&reader, item, &self.resolve)
                    .and_then(|candidate| publisher.publish(dir, item, &candidate))
            };
            observer(&dir.path, of + done.fetch_add(1, Ordering::Relaxed) + 1, 2 * of);
            (item, outcome)
        };
        for (item, outcome) in opkeep_fs::map(items.len(), *threads, || false, import).results {
            match outcome {
                Ok(Outcome::New(kernel)) => cache.imported.push(kernel),
                Ok(Outcome::Replaced(kernel)) => cache.replaced.push(kernel),
                Ok(Outcome::ExistingEntry) => cache.existing += 1,
                Ok(Outcome::Duplicate) => cache.duplicates += 1,
                Ok(Outcome::Unprocessed) => cache.unprocessed += 1,
                Err(why) => cache.skipped.push(SkippedKernel { name: item.name.clone(), why }),
            }
        }
        Ok(())
    }
}

/// Whether the caches of a kind have no descriptors, without which nothing is imported.
fn has_no_descriptors(kind: Kind) -> bool {
    matches!(kind, Kind::Cann | Kind::Package | Kind::Work)
}

//! The import and the reuse of kernels that frameworks compiled.
#![expect(clippy::disallowed_methods, reason = "tests")]

mod judged;
mod reused;
mod skipped;
mod store;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use crate::common::Bench;
use opkeep::{BuildReport, Engine, Request};
use opkeep_artifact::{Artifact, Expectations};
use opkeep_backend::{Backend, BackendError, CompileRequest, Context, Unsupported};
use opkeep_cann_meta::targets;
use opkeep_descriptor::{BuildSpec, Job, ResolvedSpec, debug_enabled, read_info};
use opkeep_digest::Fingerprint;
use opkeep_framework_cache::import::{CacheImport, ImportReport, Importer};
use opkeep_fs::Clock;
use opkeep_store::{Store, StoreConfig, TargetStore};
use opkeep_testkit::TestClock;
use opkeep_testkit::ascend::{Chip, Kernel};
use opkeep_testkit::caches::{CachedKernelFiles, Rank};

const TARGET: &str = "Ascend910A";

/// A compiler for chips, with two options.
#[derive(Default)]
struct Compiler {
    compiles: AtomicUsize,
    /// The compiler refuses all jobs.
    refuses: AtomicBool,
}

/// The resolved spec of a job for a chip.
fn effective(spec: &BuildSpec) -> Result<ResolvedSpec, BackendError> {
    let option = |name: &str| Some((name.to_owned(), spec.option(name)?));
    let options = ["op_impl_mode", "te_version"].iter().filter_map(|name| option(name)).collect();
    if let Some(value) = spec.option("autoTilingMode").filter(|value| value != "NO_TUNE") {
        let (name, expected) = ("autoTilingMode".to_owned(), "NO_TUNE".to_owned());
        return Err(BackendError::Option { name, value, expected });
    }
    Ok(ResolvedSpec { target: spec.target.clone(), options, debug: debug_enabled(spec) })
}

impl Backend for Compiler {
    fn name(&self) -> &'static str {
        "chips"
    }

    fn toolchain(&self, _cx: &Context<'_>) -> Result<Fingerprint, BackendError> {
        Ok(Fingerprint::new())
    }

    fn op_sources(
        &self,
        _cx: &Context<'_>,
        job: &Job,
        _spec: &ResolvedSpec,
    ) -> Result<Fingerprint, BackendError> {
        match self.refuses.load(Ordering::Relaxed) {
            true => Err(Unsupported::Fused { backend: "chips", ops: job.ops.len() }.into()),
            false => Ok(Fingerprint::new()),
        }
    }

    fn expectations(&self, spec: &ResolvedSpec) -> Expectations {
        targets::ascend(&spec.target)
    }

    fn resolve(&self, _cx: &Context<'_>, spec: &BuildSpec) -> Result<ResolvedSpec, BackendError> {
        effective(spec)
    }

    fn compile(&self, _cx: &Context<'_>, request: &CompileRequest<'_>) -> Result<Artifact, BackendError> {
        self.compiles.fetch_add(1, Ordering::Relaxed);
        let chip = Chip::of_soc(&request.spec.target).unwrap_or(Chip::Ascend910);
        let pair = Kernel::new(chip, request.name.as_str()).build();
        Ok(Artifact { metadata: pair.json, object: pair.object, extra: Vec::new() })
    }
}

/// A framework's directory, and a store.
struct Place {
    bench: Bench,
    compiler: Arc<Compiler>,
    /// The clock of imports: behind the machine's, so that tests can move it.
    clock: Arc<TestClock>,
}

impl Place {
    fn new() -> Self {
        let clock = TestClock::behind(Duration::from_secs(3600));
        Self { bench: Bench::new(), compiler: Arc::default(), clock: Arc::new(clock) }
    }

    /// Returns the directory with the ranks' directories.
    fn base(&self) -> PathBuf {
        self.bench.dir.path().join("run")
    }

    /// Creates a cache of rank 0 with kernels for the lengths from 1 to this number.
    fn with_squares(lengths: u32) -> Self {
        let place = Self::new();
        (1..=lengths).for_each(|length| place.keep(&Rank::new(0), length));
        place
    }

    fn keep(&self, rank: &Rank, length: u32) {
        rank.square(length).write(&rank.dir(&self.base())).unwrap();
    }

    fn file(&self, length: u32, ending: &str) -> PathBuf {
        let rank = Rank::new(0);
        rank.dir(&self.base()).join(format!("{}.{ending}", rank.square(length).stem))
    }

    fn importer(&self) -> Importer {
        let read = |spec: &BuildSpec| {
            spec.target.starts_with("Ascend").then(|| effective(spec).map_err(|error| error.to_string()))
        };
        let mut store = StoreConfig::new(self.bench.root());
        store.clock = Some(Arc::<TestClock>::clone(&self.clock));
        Importer::new(store, read).threads(NonZeroUsize::new(2).unwrap())
    }

    /// Returns a time after the import, whose time is recorded in whole seconds.
    fn after_an_import(&self) -> SystemTime {
        self.clock.advance(Duration::from_secs(2));
        self.clock.now()
    }

    fn import(&self) -> ImportReport {
        self.importer().import(&[self.base()]).unwrap()
    }

    fn engine(&self) -> Engine {
        self.bench.engine_of(Arc::<Compiler>::clone(&self.compiler))
    }

    fn trusting(&self) -> Engine {
        self.engine().with_config(|config| config.trust_imported = true)
    }

    fn build(&self, engine: &Engine, requests: &[Request]) -> BuildReport {
        let before = self.compiler.compiles.load(Ordering::Relaxed);
        let report = engine.build(requests).unwrap();
        let compiled = report.kernels.iter().filter(|kernel| kernel.compile_time.is_some()).count();
        assert_eq!(self.compiler.compiles.load(Ordering::Relaxed) - before, compiled);
        report
    }

    /// Returns the outcome of one request, and whether the kernel is imported.
    fn outcome(&self, engine: &Engine, request: &Request) -> (&'static str, bool) {
        let report = self.build(engine, std::slice::from_ref(request));
        (report.kernels[0].outcome.name(), report.kernels[0].imported.is_some())
    }

    fn shelf(&self) -> TargetStore {
        Store::open(StoreConfig::new(self.bench.root())).unwrap().target(TARGET).unwrap()
    }
}

/// Returns the request of a rank's framework.
fn request(kept: &CachedKernelFiles) -> Request {
    Request::new(read_info(kept.info.as_ref().unwrap()).unwrap())
}

fn square(length: u32) -> Request {
    request(&Rank::new(0).square(length))
}

/// Returns the only cache that was found.
fn only(report: &ImportReport) -> &CacheImport {
    assert!(report.unreadable_dirs.is_empty() && report.caches.len() == 1, "{report:?}");
    &report.caches[0]
}

/// Returns the numbers of imported kernels, existing ones and duplicates, and why the rest was not imported.
fn counts(report: &ImportReport) -> (usize, usize, usize, Vec<&'static str>) {
    let cache = only(report);
    let reasons = cache.skipped.iter().map(|not| not.why.name()).collect();
    (cache.imported.len(), cache.existing, cache.duplicates, reasons)
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    std::fs::write(path, bytes).unwrap();
}

//! Kernels that are fetched from a remote cache into an empty store, and the least work for that.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep_artifact::Expectations;
use opkeep_benches::{Turns, directory, is_measured, thousands};
use opkeep_cache::{
    Accept, Cache, CacheConfig, Digest, Entry, EntryBuilder, Namespace, ObjectName, ObjectNames, Query,
    RemoteConfig, RemoteContext, RemoteEngine, RemoteObject, TargetCache,
};
use opkeep_remote::OpenOptions;
use opkeep_testkit::ascend::{Chip, Kernel};
use opkeep_validator::{RULES_VERSION, expectations_of, validate};

use crate::common::{self, AMPLE, config};

const TARGET: &str = "ascend910";
const KERNELS: usize = 148;
const KERNEL_BYTES: usize = 15 << 10;
/// One kernel of the build.
pub(crate) struct Stored {
    pub(crate) key: Digest,
    json: Vec<u8>,
    object: Vec<u8>,
    expectations: Expectations,
}

impl Stored {
    fn new(number: usize) -> Self {
        let pair = Kernel::new(Chip::Ascend910, &format!("kernel_{number}"));
        let pair = pair.code_bytes(KERNEL_BYTES - 2500 + number).build();
        let expectations = expectations_of(Some(&pair.json), &pair.object);
        let key = Digest::of(pair.stem.as_bytes());
        Self { key, json: pair.json, object: pair.object, expectations }
    }

    fn members(&self) -> EntryBuilder<'_> {
        EntryBuilder::new(RULES_VERSION).eager("json", &self.json).eager("object", &self.object)
    }
}

/// The kernels; few of them if nothing is measured.
pub(crate) fn kernels() -> Vec<Stored> {
    (0..if is_measured() { KERNELS } else { 5 }).map(Stored::new).collect()
}

/// Stores the kernels. Returns the size of all.
pub(crate) fn store(engine: &Arc<dyn RemoteEngine>, kernels: &[Stored]) -> usize {
    let names = names(kernels);
    let files: Vec<Vec<u8>> =
        kernels.iter().map(|kernel| kernel.members().encode(&kernel.key).unwrap()).collect();
    let objects: Vec<_> =
        names.iter().zip(&files).map(|(name, file)| RemoteObject::new(name, file)).collect();
    let context = RemoteContext::new(Instant::now() + Duration::from_secs(60), None);
    engine.put_if_absent(&objects, &context).unwrap();
    files.iter().map(Vec::len).sum()
}

pub(crate) fn engine(url: &str) -> Arc<dyn RemoteEngine> {
    opkeep_remote::open(url, &OpenOptions::default()).unwrap()
}

pub(crate) fn names(kernels: &[Stored]) -> Vec<ObjectName> {
    let names = ObjectNames::new(&Namespace::default(), TARGET).unwrap();
    kernels.iter().map(|kernel| names.entry(&kernel.key)).collect()
}

pub(crate) fn keys(kernels: &[Stored]) -> Vec<Digest> {
    kernels.iter().map(|kernel| kernel.key).collect()
}

pub(crate) fn cache(root: &Path, engine: &Arc<dyn RemoteEngine>) -> TargetCache {
    let mut settings = CacheConfig::new(config(root, AMPLE));
    settings.is_for_others = |_| true;
    settings.remote = Some(RemoteConfig::new(Arc::clone(engine)));
    settings.on_warning = Some(Arc::new(|kind, text| panic!("{kind:?}: {text}")));
    Cache::open(settings).unwrap().target(TARGET).unwrap()
}

/// The time of a fetch into a new store.
pub(crate) fn fetch(engine: &Arc<dyn RemoteEngine>, kernels: &[Stored]) -> Duration {
    let directory = directory().unwrap();
    let (cache, keys) = (cache(directory.path(), engine), keys(kernels));
    let accept = |entry: &Entry| {
        let kernel = kernels.iter().find(|kernel| kernel.key == *entry.key()).unwrap();
        accept(entry, kernel)
    };
    let query = Query::new(&accept);
    let began = Instant::now();
    let report = cache.fetch(&keys, &query);
    let took = began.elapsed();
    assert_eq!((report.fetched.len(), report.missing.len()), (kernels.len(), 0));
    took
}

pub(crate) fn accept(entry: &Entry, kernel: &Stored) -> Accept {
    let (json, object) = (entry.member("json").unwrap(), entry.member("object").unwrap());
    match validate(json, object, &kernel.expectations).is_valid() {
        true => Accept::Validated { stamp: RULES_VERSION, renewed: Vec::new() },
        false => panic!("the kernel is not valid"),
    }
}

/// The least work: `get`, SHA-256 of each entry, the validator on each kernel, and a put of each into an empty store. Returns the sum of
/// all parts, each of which is added to `parts`.
pub(crate) fn least_work(
    kernels: &[Stored],
    get: impl FnOnce() -> Vec<Vec<u8>>,
    parts: &mut [Vec<Duration>; 4],
) -> Duration {
    let directory = directory().unwrap();
    let store = common::open(config(directory.path(), AMPLE));
    let mut times = Vec::new();
    let mut began = Instant::now();
    let mut lap = || {
        let now = Instant::now();
        times.push(now - std::mem::replace(&mut began, now));
    };
    let files = get();
    lap();
    let digests: Vec<_> = files.iter().map(|file| Digest::of(file)).collect();
    lap();
    let are_valid =
        kernels.iter().all(|kernel| validate(&kernel.json, &kernel.object, &kernel.expectations).is_valid());
    lap();
    for kernel in kernels {
        store.put(&kernel.key, &kernel.members()).unwrap();
    }
    lap();
    assert!(are_valid && digests.len() == kernels.len());
    parts.iter_mut().zip(&times).for_each(|(all, time)| all.push(*time));
    times.iter().sum()
}

/// Prints the parts of the least work, of which `get` is the first.
pub(crate) fn print(
    kernels: &[Stored],
    bytes: usize,
    turns: &Turns<2>,
    get: &str,
    parts: [Vec<Duration>; 4],
) {
    let parts = parts.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    println!("{} kernels, {} bytes in all; {} turns", kernels.len(), thousands(bytes as u64), turns.count());
    println!(
        "  floor {:.1?}: {get} {:.1?}, SHA-256 {:.1?}, validator {:.1?}, puts {:.1?}",
        turns.median(0),
        parts[0],
        parts[1],
        parts[2],
        parts[3]
    );
}

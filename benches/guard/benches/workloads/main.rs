//! Question: how many instructions do a hit, a put, a key, a validation and a warm build take?
//!
//! One workload for each process: `workloads NAME TIMES` prepares it, runs it once, so that the first run does not
//! count, and then TIMES times in [`measured`]. Nothing is timed; `cargo xtask guard` counts. One thread does the work,
//! and only it is counted. Without arguments, as `cargo bench` runs it, each workload runs once, and nothing is
//! counted.
//!
//! The process keeps to one processor, so that a build has no reason to start threads.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a workload that cannot be set up is not counted")]
#![expect(clippy::print_stdout, reason = "the names are printed")]

mod backend;

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Arc;

use backend::{NullBackend, square};
use opkeep::{Config, Engine, Outcome, Request, ViewConfig};
use opkeep_descriptor::{Descriptor, KeyParts, ResolvedSpec, read_info};
use opkeep_digest::{Digest, Fingerprint};
use opkeep_guard::measured;
use opkeep_store::{EntryBuilder, Lookup, Miss, Overwrite, Store, StoreConfig, TargetStore};
use opkeep_validator::{expectations_of, validate};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;

/// The work of one run.
type Work = Box<dyn FnMut()>;
/// Prepares the work.
type Prepare = fn() -> Work;

/// The workloads: the name, and the preparation.
const WORKLOADS: &[(&str, Prepare)] = &[
    ("hit", || hit(usual())),
    ("hit_small", || hit(small())),
    ("miss", miss),
    ("put", || put(usual())),
    ("put_small", || put(small())),
    ("key", key),
    ("parse_and_key", parse_and_key),
    ("validate_2k", || validation(KERNEL_2K)),
    ("validate_64k", || validation(KERNEL_64K)),
    ("warm_build", || warm_build(false)),
    ("warm_build_view", || warm_build(true)),
];

/// The vendor's own example.
const SQUARE: &[u8] = include_bytes!("../../../../fixtures/mindspore/square_12484080525657478220_2.info");
/// Kernels of an Ascend chip: the `.json`, and the object.
const KERNEL_2K: [&[u8]; 2] = [include_bytes!("../../kernels/2k.json"), include_bytes!("../../kernels/2k.o")];
const KERNEL_64K: [&[u8]; 2] =
    [include_bytes!("../../kernels/64k.json"), include_bytes!("../../kernels/64k.o")];
/// Kernels of a warm build.
const KERNELS: i64 = 100;

fn main() {
    keep_to_one_processor();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [name, times] if !name.starts_with("--") => {
            let found = WORKLOADS.iter().find(|(known, _)| known == name);
            let (_, prepare) = found.unwrap_or_else(|| panic!("there is no workload `{name}`"));
            let mut work = prepare();
            work();
            measured(times.parse().unwrap(), &mut work);
        }
        [list] if list == "--names" => WORKLOADS.iter().for_each(|(name, _)| println!("{name}")),
        _ => {
            for (name, prepare) in WORKLOADS {
                measured(1, &mut prepare());
                println!("{name}: done");
            }
        }
    }
}

fn keep_to_one_processor() {
    let allowed = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|&processor| allowed.is_set(processor)).unwrap());
    sched_setaffinity(None, &one).unwrap();
}

const KEY: Digest = Digest::from_bytes([7; 32]);

fn draft(kernel: &Kernel) -> EntryBuilder<'_> {
    EntryBuilder::new(1)
        .eager("json", &kernel.json)
        .eager("object", &kernel.object)
        .lazy("info", &kernel.info)
}

/// The members of an entry.
struct Kernel {
    object: Vec<u8>,
    json: Vec<u8>,
    info: Vec<u8>,
}

/// A kernel of the usual size: an object of 8 KiB, 1 KiB of metadata, a descriptor of 6 KiB.
fn usual() -> Kernel {
    Kernel { object: vec![b'o'; 8 << 10], json: vec![b'j'; 1 << 10], info: vec![b'i'; 6 << 10] }
}

/// A kernel so small that hashing it does not hide the other work.
fn small() -> Kernel {
    Kernel { object: vec![1; 64], json: vec![2; 64], info: vec![3; 64] }
}

/// A directory in memory, if the machine has one.
fn directory() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

/// A store with a kernel in it, and its directory.
fn stored(kernel: &Kernel) -> (TargetStore, TempDir) {
    let directory = directory();
    let store =
        Store::open(StoreConfig::new(directory.path().join("store"))).unwrap().target("bench").unwrap();
    store.put(&KEY, &draft(kernel)).unwrap();
    (store, directory)
}

fn hit(kernel: Kernel) -> Work {
    let (store, directory) = stored(&kernel);
    Box::new(move || {
        assert!(directory.path().is_absolute());
        assert!(matches!(black_box(store.get(&KEY)), Lookup::Hit(_)));
    })
}

fn miss() -> Work {
    let (store, directory) = stored(&small());
    let absent = Digest::from_bytes([7 ^ 1; 32]);
    Box::new(move || {
        assert!(directory.path().is_absolute());
        assert!(matches!(black_box(store.get(&absent)), Lookup::Miss(Miss::Absent)));
    })
}

fn put(kernel: Kernel) -> Work {
    let (store, directory) = stored(&kernel);
    Box::new(move || {
        assert!(directory.path().is_absolute());
        store.put_replacing(&KEY, &draft(&kernel), Overwrite::Always).unwrap();
    })
}

/// Computes the key for the vendor's descriptor.
fn key_of(descriptor: &Descriptor, toolchain: &Arc<Fingerprint>) {
    let spec = ResolvedSpec { target: "Ascend910A".into(), ..ResolvedSpec::default() };
    let parts = KeyParts::new("bench", &descriptor.job, &spec, toolchain.clone(), Fingerprint::new());
    black_box(parts.key());
}

fn toolchain() -> Arc<Fingerprint> {
    let mut toolchain = Fingerprint::new();
    toolchain.text("version", "7.7.0.1.238");
    Arc::new(toolchain)
}

fn key() -> Work {
    let (square, toolchain) = (read_info(SQUARE).unwrap(), toolchain());
    Box::new(move || key_of(&square, &toolchain))
}

fn parse_and_key() -> Work {
    let toolchain = toolchain();
    Box::new(move || key_of(&read_info(black_box(SQUARE)).unwrap(), &toolchain))
}

fn validation([json, object]: [&'static [u8]; 2]) -> Work {
    let expect = expectations_of(Some(json), object);
    Box::new(move || assert!(validate(black_box(json), object, &expect).is_valid()))
}

/// A build in which every kernel is stored, of a backend without cost.
fn warm_build(view: bool) -> Work {
    let directory = directory();
    let shapes = 1..=KERNELS;
    let requests: Vec<Request> = shapes.map(|length| Request::new(square(length))).collect();
    let engine = Engine::new(
        Arc::new(NullBackend),
        Config::with_store(StoreConfig::new(directory.path().join("store"))),
    )
    .with_config(|config| {
        config.jobs = Some(NonZeroUsize::MIN);
        config.work_dir = Some(directory.path().to_owned());
    });
    let engine = match view {
        true => engine.with_config(|config| {
            config.view = Some(ViewConfig::rank(directory.path().to_owned(), "0".to_owned()))
        }),
        false => engine,
    };
    assert_eq!(engine.build(&requests).unwrap().count(Outcome::Compiled), requests.len());
    if view {
        // Files that changed a moment ago are read again, which would happen in some runs and not in others.
        std::thread::sleep(std::time::Duration::from_millis(2200));
    }
    Box::new(move || {
        assert!(directory.path().is_absolute());
        assert_eq!(engine.build(&requests).unwrap().count(Outcome::Reused), requests.len());
    })
}

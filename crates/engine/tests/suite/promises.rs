//! The engine's part of the store's promises: validation, syncs, waits and warnings.
#![expect(clippy::disallowed_methods, reason = "tests look at what is on the disk")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use crate::common::{Bench, build, outcomes, request};
use opkeep::{Config, Engine, Request, WarningKind};
use opkeep_descriptor::BuildSpec;
use opkeep_digest::Digest;
use opkeep_fs::{FsCall, FsOp, Permit, Watcher};
use opkeep_store::{
    Entry, EntryBuilder, LockOutcome, Lookup, Overwrite, Store, StoreConfig, TargetStore, WaitOptions,
};
use opkeep_testkit::NullBackend;

/// A watcher that sees every access to the store's disk, and fails some.
struct Watch {
    seen: Mutex<Vec<(FsOp, PathBuf)>>,
    refuses: Option<(FsOp, i32)>,
}

impl Watch {
    fn refusing(refuses: Option<(FsOp, i32)>) -> Arc<Self> {
        Arc::new(Self { seen: Mutex::default(), refuses })
    }

    /// Returns the paths of this operation since the last call.
    fn take(&self, wanted: FsOp) -> Vec<PathBuf> {
        let seen = std::mem::take(&mut *self.seen.lock().unwrap());
        seen.into_iter().filter(|(op, _)| *op == wanted).map(|(_, path)| path).collect()
    }
}

impl Watcher for Watch {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        self.seen.lock().unwrap().push((call.op, call.path.to_owned()));
        match self.refuses.filter(|(op, _)| *op == call.op) {
            Some((_, error)) => Permit::Fail(std::io::Error::from_raw_os_error(error)),
            None => Permit::Go,
        }
    }
}

/// An engine on a store that is watched.
fn watched(bench: &Bench, backend: &Arc<NullBackend>, watch: &Arc<Watch>) -> Engine {
    let config = StoreConfig::new(bench.root()).with_watcher(Arc::<Watch>::clone(watch));
    Engine::new(Arc::<NullBackend>::clone(backend), Config::with_store(config))
        .with_config(|config| config.work_dir = Some(bench.dir.path().to_owned()))
}

fn shelf(bench: &Bench) -> TargetStore {
    Store::open(StoreConfig::new(bench.root())).unwrap().target("cpu").unwrap()
}

/// The only entry of a store, and its key.
fn only_entry(shelf: &TargetStore) -> (Digest, Entry) {
    let keys = shelf.keys(2);
    assert_eq!(keys.len(), 1);
    let Lookup::Hit(entry) = shelf.get(&keys[0]) else { panic!("it was just listed") };
    (keys[0], *entry)
}

/// A validation is recorded. The bytes are checked at each look-up, the rules are not.
#[test]
fn a_hit_is_not_validated_again() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3])];
    build(&bench.engine(&backend), &requests);
    let shelf = shelf(&bench);
    let (key, entry) = only_entry(&shelf);
    assert_eq!(entry.validation(), opkeep_validator::RULES_VERSION);
    let stamped = |stamp: u32| {
        let json = entry.member("json").unwrap();
        let draft = EntryBuilder::new(stamp).eager("json", json).eager("object", b"no ELF at all");
        shelf.put_replacing(&key, &draft, Overwrite::Always).unwrap();
        build(&bench.engine(&backend), &requests)
    };
    assert_eq!(stamped(opkeep_validator::RULES_VERSION), ["reused"]);
    assert_eq!(stamped(opkeep_validator::RULES_VERSION - 1), ["compiled"]);
}

#[test]
fn an_entry_states_its_parts_and_its_origin() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let began = SystemTime::now();
    let report = bench.engine(&backend).build(&[request("Square", &[3])]).unwrap();
    let (key, entry) = only_entry(&shelf(&bench));
    let text = |name: &str| String::from_utf8(entry.lazy_member(name).unwrap().unwrap().to_vec()).unwrap();
    let header = text("header");
    let toolchain = "\"toolchain\":{\"digest\":";
    for said in [
        format!("\"name\":\"{}\"", report.kernels[0].name),
        format!("\"key\":\"{key}\""),
        "\"op_type\":\"Square\"".to_owned(),
        "\"job\":".to_owned(),
        "\"spec\":".to_owned(),
        toolchain.to_owned(),
        "\"op_sources\":{\"digest\":".to_owned(),
        "\"note\":\"1\"".to_owned(),
        "\"compile_us\":".to_owned(),
        format!("\"validated_by_rules\":{}", opkeep_validator::RULES_VERSION),
        "\"made_by\":\"opkeep ".to_owned(),
        "\"provenance\":\"compiled\"".to_owned(),
    ] {
        assert!(header.contains(&said), "expected {said} in {header}");
    }
    // The job, and nothing of the request.
    let info = text("info");
    assert!(info.contains("Square") && !info.contains("net/Square"), "{info}");
    assert!((began..=SystemTime::now()).contains(&entry.created()));
    assert!(entry.cost() > Duration::ZERO);
}

/// Published entries survive a power cut, at one sync a directory; entries that are only read cost none.
#[test]
fn directories_are_synced_at_the_end_of_a_build_that_published() {
    let (bench, backend, watch) = (Bench::new(), Arc::new(NullBackend::default()), Watch::refusing(None));
    let requests: Vec<_> = (1..=6).map(|length| request("Square", &[length])).collect();
    assert_eq!(build(&watched(&bench, &backend, &watch), &requests), ["compiled"; 6]);
    let mut synced = watch.take(FsOp::SyncDir);
    // The marked directories are synced when they are created.
    synced.retain(|path| path.iter().any(|part| part == "entries"));
    synced.sort();
    let mut dirs: Vec<_> = bench.entries().iter().map(|path| path.parent().unwrap().to_owned()).collect();
    dirs.dedup();
    // And the directory of those, since the build made them.
    dirs.insert(0, dirs[0].parent().unwrap().to_owned());
    assert_eq!(synced, dirs);
    assert_eq!(build(&watched(&bench, &backend, &watch), &requests), ["reused"; 6]);
    assert!(watch.take(FsOp::SyncDir).is_empty());

    // Best effort: a failed sync is not reported.
    let (other, eio) = (Bench::new(), 5);
    let watch = Watch::refusing(Some((FsOp::SyncDir, eio)));
    let report = watched(&other, &backend, &watch).build(&requests).unwrap();
    assert_eq!((outcomes(&report), report.warnings.len()), (vec!["compiled"; 6], 0));
}

/// For example, a stopped holder.
#[test]
fn a_kernel_is_compiled_without_the_lock_of_a_stale_holder() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3])];
    build(&bench.engine(&backend), &requests);
    let shelf = shelf(&bench);
    let (key, _) = only_entry(&shelf);
    std::fs::remove_file(shelf.path(&key)).unwrap();
    let patience = WaitOptions::new(&|| false).with_deadline(Instant::now());
    let Ok(LockOutcome::Acquired(held)) = shelf.lock(&key, patience) else { panic!("nobody holds it") };
    let report = bench
        .engine(&backend)
        .with_config(|config| config.compile_timeout = Some(Duration::from_millis(300)))
        .build(&requests)
        .unwrap();
    assert_eq!(outcomes(&report), ["compiled"]);
    assert!(
        report.warnings.len() == 1 && report.warnings[0].text.contains("gave no heartbeat"),
        "{:?}",
        report.warnings
    );
    assert!(matches!(shelf.get(&key), Lookup::Hit(_)), "it is kept all the same");
    drop(held);
}

/// Also if only the source of the operator changed.
#[test]
fn an_operator_that_is_edited_while_it_is_compiled_is_not_kept() {
    let bench = Bench::new();
    let cell: Arc<OnceLock<Arc<NullBackend>>> = Arc::default();
    let backend = Arc::new(NullBackend::new({
        let cell = Arc::clone(&cell);
        move |_, artifact| {
            cell.get().unwrap().edit("edited meanwhile");
            Ok(artifact)
        }
    }));
    cell.set(Arc::clone(&backend)).ok();
    let requests = [request("Square", &[3])];
    let report = bench.engine(&backend).build(&requests).unwrap();
    assert_eq!(outcomes(&report), ["compiled"]);
    assert!(report.warnings[0].text.contains("edited meanwhile"), "{:?}", report.warnings);
    assert!(bench.entries().is_empty());
    // From now on the source does not change.
    assert_eq!(build(&bench.engine(&backend), &requests), ["compiled"]);
    assert_eq!(build(&bench.engine(&backend), &requests), ["reused"]);
}

#[test]
fn that_there_are_no_locks_is_said_once() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let enolck = 37;
    let watch = Watch::refusing(Some((FsOp::Lock, enolck)));
    let requests: Vec<_> = (1..=6).map(|length| request("Square", &[length])).collect();
    let report = watched(&bench, &backend, &watch).build(&requests).unwrap();
    assert_eq!(outcomes(&report), ["compiled"; 6]);
    let [warning] = &report.warnings[..] else { panic!("{:?}", report.warnings) };
    assert_eq!(warning.kind, WarningKind::Locks);
    let text = &warning.text;
    assert!(text.contains("has no locks") && !text.contains("more like it"), "{text}");
    assert_eq!(build(&watched(&bench, &backend, &watch), &requests), ["reused"; 6]);
    let damaged = bench.entries()[0].clone();
    std::fs::write(damaged, "damaged").unwrap();
    let again = watched(&bench, &backend, &watch).build(&requests).unwrap();
    assert_eq!(again.count(opkeep::Outcome::Compiled), 1);
    assert_eq!(build(&bench.engine(&backend), &requests), ["reused"; 6]);
}

/// Debug options are part of the key, and so of the name, although the kernel is not stored.
#[test]
fn a_kernel_for_debugging_has_a_name_of_its_own() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let spec = |name: &str, value: &str| {
        let mut spec = BuildSpec::new("null");
        spec.options.insert(name.to_owned(), value.into());
        spec
    };
    let plain = || request("Square", &[3]);
    let requests: Vec<Request> = [
        plain(),
        plain().with_spec(spec("op_debug_level", "1")),
        plain().with_spec(spec("op_debug_level", "2")),
        plain().with_spec(spec("op_debug_config", "oom")),
    ]
    .into();
    let report = bench.engine(&backend).build(&requests).unwrap();
    let mut names: Vec<_> = report.kernels.iter().map(|kernel| kernel.name.clone()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(bench.entries().len(), 1);
}

/// Files of processes that ended are removed; those of processes that live, or may live, are not.
#[test]
fn work_directories_of_exited_processes_are_removed() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    build(&bench.engine(&backend), &[request("Square", &[3])]);
    let work = std::fs::read_dir(bench.dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let is_work = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("opkeep-");
    let work = work.into_iter().find(is_work).unwrap();
    let left = |name: &str, age: u64| {
        std::fs::create_dir(work.join(name)).unwrap();
        std::fs::write(work.join(name).join("kernel.c"), "int").unwrap();
        let lock = File::create(work.join(format!("{name}.lock"))).unwrap();
        lock.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        lock
    };
    let (dead, live) = (left("work-4000000-0", 3600), left("work-4000000-1", 3600));
    let _young = left("work-4000000-2", 1);
    live.lock().unwrap();
    drop(dead);
    build(&bench.engine(&backend), &[request("Relu", &[3])]);
    let there = |name: &str| Path::new(&work.join(name).join("kernel.c")).exists();
    let found = ["work-4000000-0", "work-4000000-1", "work-4000000-2"].map(there);
    assert_eq!(found, [false, true, true]);
    assert!(!work.join("work-4000000-0.lock").exists() && work.join("work-4000000-1.lock").exists());
}

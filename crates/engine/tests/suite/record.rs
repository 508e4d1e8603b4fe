//! The records that builds make of themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use opkeep::{
    BuildRecord, BuildReport, CacheMode, Engine, Outcome, RecordConfig, RecordedBuilds, SegmentKind,
};
use opkeep_fs::{FsCall, Permit, Watcher};
use opkeep_store::{Access, Store, StoreConfig};
use opkeep_testkit::NullBackend;
use opkeep_testkit::remote::FakeRemote;

use crate::common::{Bench, Gate, failure, request};

fn recorded(engine: Engine) -> Engine {
    engine.with_config(|config| config.record = Some(RecordConfig::stored("model.onnx")))
}

/// The records in the store, the latest first.
fn stored(bench: &Bench) -> RecordedBuilds {
    let config = StoreConfig::new(bench.root()).with_access(Access::ReadOnly);
    RecordedBuilds::read(&Store::open(config).unwrap(), usize::MAX).unwrap()
}

/// The only record of a build.
fn record(report: &BuildReport) -> &BuildRecord {
    let [record] = report.records.as_slice() else { panic!("{:?}", report.records) };
    record
}

#[test]
fn each_build_adds_the_record_that_it_returns() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let engine = recorded(bench.engine(&backend));
    let requests =
        [request("Square", &[3]), request("Square", &[4]), request("Neg", &[3]), request("Neg", &[3])];
    let cold = engine.build(&requests).unwrap();
    let build = record(&cold);
    assert_eq!((build.label.as_str(), build.backend.as_str(), build.operators), ("model.onnx", "null", 4));
    assert_eq!((build.count(Outcome::Compiled), build.kernels.len(), build.kernel_count()), (3, 3, 3));
    assert!(
        !build.host.is_empty() && build.process == std::process::id() && build.began_ms > 1_700_000_000_000
    );
    for kernel in &build.kernels {
        let report = cold.kernels.iter().find(|report| report.name == kernel.name).unwrap();
        assert_eq!(kernel.key.as_deref(), Some(report.key.unwrap().to_string().as_str()));
        assert_eq!((&kernel.op_type, kernel.outcome.as_str()), (&report.op_type, "compiled"));
        assert_eq!(kernel.compile_time_us, report.compile_time.map(|time| time.as_micros() as u64));
        assert!(kernel.bytes == report.bytes && kernel.worker.is_some());
        let began = kernel.compile_us.unwrap();
        assert!(build.phases.fetched_us <= kernel.begin_us && kernel.begin_us == kernel.last_us);
        assert!(kernel.last_us <= began && began + kernel.compile_time_us.unwrap() <= kernel.end_us + 1);
        assert!(kernel.end_us <= build.phases.made_us && build.phases.made_us <= build.elapsed_us);
    }
    assert_eq!(stored(&bench).builds, cold.records);
    // The second build needs no details.
    let warm = engine.build(&requests).unwrap();
    let build = record(&warm);
    assert_eq!((build.kernels.len(), build.hit_count(), build.count(Outcome::Reused)), (0, 3, 3));
    assert_eq!(build.hits["Square"].kernels, 2);
    assert_eq!(stored(&bench).builds, [build.clone(), record(&cold).clone()]);
    // A mixed one has details of what was compiled.
    let more = engine.build(&[request("Square", &[3]), request("Abs", &[3])]).unwrap();
    assert_eq!((record(&more).hit_count(), record(&more).kernels.len()), (1, 1));
}

#[test]
fn failures_are_recorded() {
    let bench = Bench::new();
    let backend = Arc::new(NullBackend::new(|request, artifact| match request.job.op_types().as_str() {
        "Neg" => Err(failure("no such operator")),
        _ => Ok(artifact),
    }));
    let report =
        recorded(bench.engine(&backend)).build(&[request("Neg", &[3]), request("Abs", &[3])]).unwrap();
    let build = record(&report);
    let failed: Vec<_> = build.kernels.iter().filter(|kernel| kernel.outcome == "failed").collect();
    assert_eq!((failed.len(), failed[0].op_type.as_str(), failed[0].compile_time_us), (1, "Neg", None));
    assert!(failed[0].end_us > 0 && failed[0].bytes.is_none());
    assert_eq!(stored(&bench).builds, report.records);
    let path = build.critical_path();
    assert_eq!(path.segments.last().unwrap().end_us, build.elapsed_us);
}

#[test]
fn a_kernel_that_another_build_compiles_is_a_wait() {
    let (bench, gate) = (Bench::new(), Arc::<Gate>::default());
    let wait = Arc::clone(&gate);
    let slow = Arc::new(NullBackend::new(move |_, artifact| {
        wait.wait_for(1);
        Ok(artifact)
    }));
    let (started, requests) = (Arc::<Gate>::default(), [request("Square", &[3])]);
    let has_started = Arc::clone(&started);
    let first = bench.engine(&slow).with_observer(move |event| {
        if matches!(event, opkeep::Event::Started { .. }) {
            has_started.signal();
        }
    });
    let waiting = gate.waiting(recorded(bench.engine(&Arc::new(NullBackend::default()))));
    let report = std::thread::scope(|scope| {
        let first = scope.spawn(|| first.build(&requests).unwrap());
        started.wait_for(1);
        let report = waiting.build(&requests).unwrap();
        first.join().unwrap();
        report
    });
    let build = record(&report);
    let [kernel] = build.kernels.as_slice() else { panic!("{build:?}") };
    assert_eq!((kernel.outcome.as_str(), kernel.compile_us, kernel.waited_for_host), ("shared", None, false));
    assert!(kernel.waited_us() > 0 && kernel.saved_us.is_some());
    let waits =
        build.critical_path().segments.into_iter().filter(|segment| segment.kind == SegmentKind::Wait);
    assert_eq!(waits.count(), 1);
}

#[test]
fn kernels_from_the_remote_tier_are_recorded() {
    let (one, other, remote) = (Bench::new(), Bench::new(), FakeRemote::new());
    let backend = Arc::new(NullBackend::default());
    let engine = |bench: &Bench| {
        recorded(bench.engine(&backend)).with_config(|config| {
            config.remote = Some(opkeep::RemoteConfig::new(Arc::new(remote.clone())));
        })
    };
    let requests = [request("Square", &[3])];
    engine(&one).build(&requests).unwrap();
    let report = engine(&other).build(&requests).unwrap();
    let build = record(&report);
    let [kernel] = build.kernels.as_slice() else { panic!("{build:?}") };
    assert_eq!((kernel.outcome.as_str(), kernel.from_remote, kernel.worker), ("reused", true, None));
    assert_eq!((build.from_remote, build.hit_count()), (1, 0));
    assert!(build.phases.looked_up_us <= kernel.end_us && kernel.end_us <= build.phases.fetched_us);
}

#[test]
fn no_record_is_written_unless_the_store_is() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3])];
    bench.engine(&backend).build(&requests).unwrap();
    for mode in [CacheMode::ReadOnly, CacheMode::Require, CacheMode::Disable] {
        let engine = recorded(bench.engine(&backend)).with_config(|config| config.mode = mode);
        assert_eq!(engine.build(&requests).unwrap().records.len(), 1, "{mode}");
    }
    let only_returned = recorded(bench.engine(&backend)).with_config(|config| {
        config.record.as_mut().unwrap().is_stored = false;
    });
    assert_eq!(only_returned.build(&requests).unwrap().records.len(), 1);
    assert!(stored(&bench).builds.is_empty() && !bench.root().join("v1/.builds").exists());
}

/// Fails every call to the directory of the records.
struct NoRecords(AtomicBool);

impl Watcher for NoRecords {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        match call.path.to_string_lossy().contains(".builds") {
            true => {
                self.0.store(true, Ordering::Relaxed);
                Permit::Fail(std::io::ErrorKind::StorageFull.into())
            }
            false => Permit::Go,
        }
    }
}

#[test]
fn a_record_that_cannot_be_written_is_no_problem() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let watcher = Arc::new(NoRecords(AtomicBool::new(false)));
    let engine = recorded(bench.engine(&backend)).with_config(|config| {
        config.store.as_mut().unwrap().watcher = Some(Arc::<NoRecords>::clone(&watcher));
    });
    let report = engine.build(&[request("Square", &[3])]).unwrap();
    assert!(watcher.0.load(Ordering::Relaxed));
    assert_eq!((report.count(Outcome::Compiled), report.warnings.len(), report.records.len()), (1, 0, 1));
    assert!(stored(&bench).builds.is_empty());
}

/// A thousand ranks begin in a second, and the last one fails.
#[test]
fn a_build_that_fails_has_a_record_beside_those_of_its_second() {
    let bench = Bench::new();
    let backend = Arc::new(NullBackend::new(|request, artifact| match request.job.ops[0].op_type.as_str() {
        "Abs" => Err(failure("it is broken")),
        _ => Ok(artifact),
    }));
    let engine = recorded(bench.engine(&backend));
    engine.build(&[request("Square", &[3])]).unwrap();
    let store = Store::open(StoreConfig::new(bench.root())).unwrap();
    // The builds begin within these seconds.
    let now = std::time::SystemTime::now();
    for second in 0..9 {
        for _ in 0..Store::MAX_BUILD_RECORDS_PER_SECOND {
            let began = now + std::time::Duration::from_secs(second);
            store.add_build_record(began, opkeep_store::BuildRecordKind::Full, b"{}").unwrap();
        }
    }
    let builds = || stored(&bench).builds.len();
    let before = builds();
    engine.build(&[request("Abs", &[3])]).unwrap();
    assert_eq!(builds(), before + 1);
}

/// A store is read by older versions, too, and files may be damaged.
#[test]
fn damaged_and_newer_records_are_counted() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let engine = recorded(bench.engine(&backend));
    let report = engine.build(&[request("Square", &[3])]).unwrap();
    let store = Store::open(StoreConfig::new(bench.root())).unwrap();
    let now = std::time::SystemTime::now();
    for text in [r#"{"schema":9,"builds":[]}"#, "{}", r#"{"schema":1,"build":3}"#] {
        store.add_build_record(now, opkeep_store::BuildRecordKind::Brief, text.as_bytes()).unwrap();
    }
    let read = stored(&bench);
    assert_eq!((read.builds, read.newer, read.damaged), (report.records, 1, 2));
}

//! Builds with damaged entries, failures and wrong kernels.
#![expect(clippy::disallowed_methods, reason = "tests damage what is on the disk")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use crate::common::{Bench, build, failure, outcomes, request, with_mode};
use opkeep::{CacheMode, Engine, Event, KernelError, WarningKind};
use opkeep_cann_meta::KernelMeta;
use opkeep_fs::{FsCall, FsOp, Permit, Watcher};
use opkeep_store::{EntryBuilder, Store, StoreConfig};
use opkeep_testkit::NullBackend;

/// An entry with any changed byte is never served, and is built again each time.
#[test]
fn any_changed_byte_is_rebuilt() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3])];
    let engine = bench.engine(&backend);
    build(&engine, &requests);
    let entry = bench.entries()[0].clone();
    let mut changed = 0;
    // The entry contains the compile time in decimal digits, so the lengths of entries differ.
    while let Some(bytes) = Some(std::fs::read(&entry).unwrap()).filter(|bytes| changed < bytes.len()) {
        let (at, mut bytes) = (changed, bytes);
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&entry, bytes).unwrap();
        assert_eq!(build(&engine, &requests), ["compiled"], "byte {at}");
        changed += 1;
    }
    assert!(changed > 4000, "{changed}");
    assert_eq!(backend.compiles(), 1 + changed);
    assert_eq!(build(&engine, &requests), ["reused"]);
}

#[test]
fn damage_is_quarantined_with_its_reason_and_reported_once() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3])];
    build(&bench.engine(&backend), &requests);
    let entry = bench.entries()[0].clone();
    let whole = std::fs::read(&entry).unwrap();
    std::fs::write(&entry, &whole[..100]).unwrap();
    let report = bench.engine(&backend).build(&requests).unwrap();
    assert_eq!(outcomes(&report), ["compiled"]);
    assert_eq!(report.warnings.len(), 1, "{:?}", report.warnings);
    assert!(
        report.warnings[0].text.contains("damaged") && report.warnings[0].text.contains("100"),
        "{}",
        report.warnings[0]
    );
    assert_eq!(bench.quarantined(), 1);
    assert!(bench.engine(&backend).build(&requests).unwrap().warnings.is_empty());
}

/// A valid entry under the right key that older rules accepted is validated again.
#[test]
fn entries_of_older_rules_are_validated_again() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3])];
    let first = bench.engine(&backend).build(&requests).unwrap();
    let key = *first.kernels[0].key.unwrap().digest();
    let artifact = first.kernels[0].artifact.clone().unwrap();
    let shelf = Store::open(StoreConfig::new(bench.root())).unwrap().target("cpu").unwrap();
    let put = |object: &[u8]| {
        std::fs::remove_file(shelf.path(&key)).unwrap();
        shelf
            .put(&key, &EntryBuilder::new(0).eager("json", &artifact.metadata).eager("object", object))
            .unwrap();
    };
    put(&artifact.object);
    assert_eq!(build(&bench.engine(&backend), &requests), ["reused"]);
    // Only once, since the entry has the stamp of the current rules now.
    let opkeep_store::Lookup::Hit(entry) = shelf.get(&key) else { panic!("it was just reused") };
    assert_eq!(entry.validation(), opkeep_validator::RULES_VERSION);
    put(b"no ELF at all");
    assert_eq!(build(&bench.engine(&backend), &requests), ["compiled"]);
    assert_eq!(build(&bench.engine(&backend), &requests), ["reused"]);
    assert_eq!(backend.compiles(), 2);
}

/// An intact entry without a kernel is not used.
#[test]
fn entries_without_a_kernel_are_built_again() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3])];
    let first = bench.engine(&backend).build(&requests).unwrap();
    let key = *first.kernels[0].key.unwrap().digest();
    let shelf = Store::open(StoreConfig::new(bench.root())).unwrap().target("cpu").unwrap();
    std::fs::remove_file(shelf.path(&key)).unwrap();
    let json = &first.kernels[0].artifact.as_ref().unwrap().metadata;
    shelf.put(&key, &EntryBuilder::new(opkeep_validator::RULES_VERSION).eager("json", json)).unwrap();
    assert_eq!(build(&bench.engine(&backend), &requests), ["compiled"]);
    assert_eq!(build(&bench.engine(&backend), &requests), ["reused"]);
}

#[test]
fn nothing_invalid_enters_the_store() {
    let bench = Bench::new();
    let lies: [fn(&mut opkeep_artifact::Artifact); 4] = [
        |artifact| artifact.object = b"hello".to_vec(),
        |artifact| {
            artifact.object.pop();
        },
        |artifact| artifact.metadata.truncate(20),
        |artifact| {
            let mut meta = KernelMeta::parse(&artifact.metadata).unwrap();
            meta.kernel_name = Some("another__kernel0".into());
            artifact.metadata = meta.to_json().into_bytes();
        },
    ];
    for lie in lies {
        let backend = Arc::new(NullBackend::new(move |_, mut artifact| {
            lie(&mut artifact);
            Ok(artifact)
        }));
        let report = bench.engine(&backend).build(&[request("Square", &[3])]).unwrap();
        assert_eq!(outcomes(&report), ["failed"]);
        assert!(matches!(report.kernels[0].error.as_deref(), Some(KernelError::Invalid { .. })));
        assert!(report.kernels[0].artifact.is_none());
        assert!(bench.entries().is_empty());
    }
}

/// All errors are reported at once, and not one by one in several builds.
#[test]
fn all_errors_of_a_refused_kernel_are_reported() {
    let bench = Bench::new();
    let backend = Arc::new(NullBackend::new(|_, mut artifact| {
        let mut meta = KernelMeta::parse(&artifact.metadata).unwrap();
        meta.bin_file_name = Some("../up".into());
        artifact.metadata = meta.to_json().into_bytes();
        artifact.object[18] = 0x29;
        Ok(artifact)
    }));
    let report = bench.engine(&backend).build(&[request("Square", &[3])]).unwrap();
    let told = report.kernels[0].reason.as_deref().unwrap();
    assert!(["OPV004", "OPV005", "OPV023"].iter().all(|code| told.contains(code)), "{told}");
    assert!(told.contains("`../up`") && told.contains("build the kernel again"), "{told}");
}

#[test]
fn an_odd_kernel_is_kept_with_a_warning() {
    let bench = Bench::new();
    let backend = Arc::new(NullBackend::new(|_, mut artifact| {
        let cores = "{ \"coreType\": \"VectorCore\", \"core_type\": \"AIC\",";
        let text = String::from_utf8(artifact.metadata).unwrap().replacen('{', cores, 1);
        artifact.metadata = text.into_bytes();
        Ok(artifact)
    }));
    let report = bench.engine(&backend).build(&[request("Square", &[3]), request("Neg", &[3])]).unwrap();
    assert_eq!(outcomes(&report), ["compiled", "compiled"]);
    let [warning] = &report.warnings[..] else { panic!("{:?}", report.warnings) };
    assert_eq!(warning.kind, WarningKind::UnusualKernel);
    let text = &warning.text;
    assert!(text.contains("OPV009") && text.contains("(and 1 more like it)"), "{text}");
    assert_eq!(bench.entries().len(), 2);
}

#[test]
fn a_failure_stops_no_other_kernel_and_is_tried_again() {
    let bench = Bench::new();
    let backend = Arc::new(NullBackend::new(|request, artifact| match request.job.ops[0].op_type.as_str() {
        "Relu" => Err(failure("kernel.c:1: error: no")),
        _ => Ok(artifact),
    }));
    let mut unknown = request("Square", &[9]);
    unknown.descriptor.job.ops[0].op_type = "Conv9D".into();
    let requests = [request("Square", &[3]), request("Relu", &[3]), unknown, request("Neg", &[3])];
    let report = bench.engine(&backend).build(&requests).unwrap();
    assert_eq!(outcomes(&report), ["compiled", "failed", "failed", "compiled"]);
    assert!(report.kernels[1].reason.as_deref().unwrap().contains("kernel.c:1: error: no"));
    assert!(report.kernels[2].reason.as_deref().unwrap().contains("Conv9D"));
    assert_eq!((report.kernels[2].key, report.kernels[2].name.as_str()), (None, "net/Square[9]"));
    assert_eq!(report.counts().values().sum::<usize>(), report.kernels.len());
    // No failure is stored on disk.
    assert_eq!(build(&bench.engine(&backend), &requests), ["reused", "failed", "failed", "reused"]);
    assert_eq!(backend.compiles(), 4);
}

#[test]
fn a_toolchain_that_changes_while_compiling_is_not_trusted() {
    let bench = Bench::new();
    let cell: Arc<std::sync::OnceLock<Arc<NullBackend>>> = Arc::default();
    let backend = Arc::new(NullBackend::new({
        let cell = Arc::clone(&cell);
        move |_, artifact| {
            cell.get().unwrap().upgrade("upgraded meanwhile");
            Ok(artifact)
        }
    }));
    cell.set(Arc::clone(&backend)).ok();
    let report = bench.engine(&backend).build(&[request("Square", &[3])]).unwrap();
    assert_eq!(outcomes(&report), ["compiled"]);
    assert_eq!(report.warnings[0].kind, WarningKind::ToolchainChanged);
    assert!(report.warnings[0].text.contains("upgraded meanwhile"), "{:?}", report.warnings);
    assert!(bench.entries().is_empty());
}

#[test]
fn work_directories_are_removed_after_the_build() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    build(&bench.engine(&backend), &[request("Square", &[3]), request("Relu", &[3])]);
    let left = crate::common::files(bench.dir.path());
    assert!(left.iter().all(|path| !path.to_string_lossy().contains("/work-")), "{left:?}");
}

/// A valid kernel with another name is not the requested one.
#[test]
fn another_kernel_is_not_kept_under_this_key() {
    let bench = Bench::new();
    let other = Arc::new(NullBackend::default());
    let taken =
        bench.engine(&other).build(&[request("Neg", &[7])]).unwrap().kernels[0].artifact.clone().unwrap();
    let backend = Arc::new(NullBackend::new(move |_, _| Ok((*taken).clone())));
    let report = bench.engine(&backend).build(&[request("Square", &[3])]).unwrap();
    assert!(
        matches!(report.kernels[0].error.as_deref(), Some(KernelError::NameMismatch { .. })),
        "{report:?}"
    );
    assert_eq!(bench.entries().len(), 1);
}

#[test]
fn require_does_not_compile_for_debugging_either() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let mut debugged = request("Square", &[3]);
    debugged.spec.options.insert("op_debug_level".into(), "1".into());
    build(&bench.engine(&backend), &[request("Square", &[3])]);
    assert_eq!(build(&with_mode(&bench, &backend, CacheMode::Require), &[debugged]), ["failed"]);
    assert_eq!(backend.compiles(), 1);
}

/// If the lock of one kernel cannot be taken, all other kernels are still stored.
#[test]
fn one_bad_lock_concerns_one_kernel() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests: Vec<_> = (1..=5).map(|length| request("Square", &[length])).collect();
    let first = build(&bench.engine(&backend), &requests);
    assert_eq!(first, ["compiled"; 5]);
    let key = bench.entries()[0].file_stem().unwrap().to_owned();
    std::fs::create_dir(bench.root().join("v1/cpu/locks").join(key)).unwrap();
    bench.entries().iter().for_each(|entry| std::fs::remove_file(entry).unwrap());
    let report = bench.engine(&backend).build(&requests).unwrap();
    assert_eq!(report.warnings.len(), 1, "{:?}", report.warnings);
    assert_eq!(bench.entries().len(), 5);
}

/// The lock file of a killed process of another user does no more harm.
#[test]
fn a_lock_that_is_closed_to_us_concerns_one_kernel() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests: Vec<_> = (1..=5).map(|length| request("Square", &[length])).collect();
    build(&bench.engine(&backend), &requests);
    let closed = bench.root().join("v1/cpu/locks").join(bench.entries()[0].file_stem().unwrap());
    std::fs::write(&closed, "").unwrap();
    bench.entries().iter().for_each(|entry| std::fs::remove_file(entry).unwrap());
    let config = StoreConfig::new(bench.root()).with_watcher(Arc::new(Closed(closed.clone())));
    let report = bench.engine(&backend).with_config(|it| it.store = Some(config)).build(&requests).unwrap();
    assert_eq!(report.warnings.len(), 1, "{:?}", report.warnings);
    let said = format!("the lock `{}` belongs to another user", closed.display());
    assert!(report.warnings[0].text.contains(&said), "{:?}", report.warnings);
    assert_eq!(bench.entries().len(), 5);
}

/// A disk on which one file belongs to another user.
struct Closed(PathBuf);

impl Watcher for Closed {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        let is_closed = call.op == FsOp::OpenLock && call.path == self.0;
        if is_closed { Permit::Fail(std::io::ErrorKind::PermissionDenied.into()) } else { Permit::Go }
    }
}

/// Four hundred operators on an unreadable store cause one warning.
#[test]
fn many_kernels_with_one_cause_are_one_warning() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests: Vec<_> = (1..=9).map(|length| request("Square", &[length])).collect();
    build(&bench.engine(&backend), &requests);
    for entry in bench.entries() {
        std::fs::write(entry, "damaged").unwrap();
    }
    let report = bench.engine(&backend).build(&requests).unwrap();
    assert_eq!((report.warnings.len(), report.count(opkeep::Outcome::Compiled)), (1, 9));
    assert!(report.warnings[0].text.ends_with("(and 8 more like it)"), "{:?}", report.warnings);
}

/// Stored kernels can be used without a work directory.
#[test]
fn a_warm_build_needs_no_work_directory() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let (known, unknown) = (request("Square", &[3]), request("Relu", &[3]));
    build(&bench.engine(&backend), std::slice::from_ref(&known));
    let nowhere = bench.dir.path().join("not/there");
    let report = bench
        .engine(&backend)
        .with_config(|config| config.work_dir = Some(nowhere.to_owned()))
        .build(&[known, unknown])
        .unwrap();
    assert_eq!(outcomes(&report), ["reused", "failed"]);
    assert!(matches!(report.kernels[1].error.as_deref(), Some(KernelError::WorkDir { .. })));
    assert!(!nowhere.exists());
}

/// The first warning comes while the engine opens its store.
#[test]
fn an_observer_may_request_kernels_when_it_is_warned() {
    let bench = Bench::new();
    std::fs::write(bench.root(), "not a directory").unwrap();
    let (own, warnings) = (Arc::<OnceLock<Engine>>::default(), Arc::new(AtomicUsize::new(0)));
    let (engine, seen) = (Arc::clone(&own), Arc::clone(&warnings));
    let observed = bench.engine(&Arc::default()).with_observer(move |event| {
        if let Event::Warning { .. } = event {
            seen.fetch_add(1, Ordering::SeqCst);
            engine.get().unwrap().get_or_build(&request("Square", &[4])).unwrap();
        }
    });
    own.set(observed).unwrap();
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        own.get().unwrap().get_or_build(&request("Square", &[3])).unwrap();
        own.get().unwrap().build(&[request("Square", &[5])]).unwrap();
        done.send(()).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(60)).expect("the observer's request ends");
    // One warning of the runtime of single kernels, and one of the build.
    assert_eq!(warnings.load(Ordering::SeqCst), 2);
}

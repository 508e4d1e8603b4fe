//! What a build makes of damage, failures and lies.
#![expect(clippy::disallowed_methods, reason = "tests damage what is on the disk")]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Bench, build, outcomes, request};
use opbuild::{JobError, Mode, Outcome, ViewConfig};
use opbuild_artifact::KernelMeta;
use opbuild_backend::{BackendError, Cancel};
use opbuild_digest::Digest;
use opbuild_store::{Config, Draft, Store};
use opbuild_testkit::NullBackend;

fn failure(log_tail: &str) -> BackendError {
    BackendError::Compile {
        command: "cc kernel.c".into(),
        status: "exit status: 1".into(),
        log_tail: log_tail.into(),
        log: None,
    }
}

/// Whichever byte of an entry changes: it is never served, and built again each time.
#[test]
fn any_changed_byte_is_rebuilt() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3])];
    let builder = bench.builder(&backend);
    build(&builder, &requests);
    let entry = bench.entries()[0].clone();
    let length = std::fs::metadata(&entry).unwrap().len() as usize;
    assert!(length > 4000, "{length}");
    for at in 0..length {
        let mut bytes = std::fs::read(&entry).unwrap();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&entry, bytes).unwrap();
        assert_eq!(build(&builder, &requests), ["compiled"], "byte {at}");
    }
    assert_eq!(backend.compiles(), 1 + length);
    assert_eq!(build(&builder, &requests), ["reused"]);
}

#[test]
fn damage_is_set_aside_with_its_reason_and_told_once() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3])];
    build(&bench.builder(&backend), &requests);
    let entry = bench.entries()[0].clone();
    let whole = std::fs::read(&entry).unwrap();
    std::fs::write(&entry, &whole[..100]).unwrap();
    let report = bench.builder(&backend).build(&requests).unwrap();
    assert_eq!(outcomes(&report), ["compiled"]);
    assert_eq!(report.warnings.len(), 1, "{:?}", report.warnings);
    assert!(
        report.warnings[0].contains("damaged") && report.warnings[0].contains("100"),
        "{}",
        report.warnings[0]
    );
    assert_eq!(bench.quarantined(), 1);
    assert!(bench.builder(&backend).build(&requests).unwrap().warnings.is_empty());
}

/// A whole entry, under the right key, that rules older than ours let in: it is validated again, not trusted.
#[test]
fn entries_of_older_rules_are_validated_again() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3])];
    let first = bench.builder(&backend).build(&requests).unwrap();
    let key = *first.kernels[0].key.unwrap().digest();
    let artifact = first.kernels[0].artifact.clone().unwrap();
    let shelf = Store::open(Config::new(bench.root())).unwrap().target("cpu").unwrap();
    let put = |object: &[u8]| {
        std::fs::remove_file(shelf.path(&key)).unwrap();
        shelf.put(&key, &Draft::new(0).eager("json", &artifact.json).eager("object", object)).unwrap();
    };
    put(&artifact.object);
    assert_eq!(build(&bench.builder(&backend), &requests), ["reused"]);
    put(b"no ELF at all");
    assert_eq!(build(&bench.builder(&backend), &requests), ["compiled"]);
    assert_eq!(build(&bench.builder(&backend), &requests), ["reused"]);
    assert_eq!(backend.compiles(), 2);
}

/// An entry that is whole but is no kernel is not taken for one.
#[test]
fn entries_without_a_kernel_are_built_again() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3])];
    let first = bench.builder(&backend).build(&requests).unwrap();
    let key = *first.kernels[0].key.unwrap().digest();
    let shelf = Store::open(Config::new(bench.root())).unwrap().target("cpu").unwrap();
    std::fs::remove_file(shelf.path(&key)).unwrap();
    let json = &first.kernels[0].artifact.as_ref().unwrap().json;
    shelf.put(&key, &Draft::new(opbuild_validator::RULES_VERSION).eager("json", json)).unwrap();
    assert_eq!(build(&bench.builder(&backend), &requests), ["compiled"]);
    assert_eq!(build(&bench.builder(&backend), &requests), ["reused"]);
}

#[test]
fn nothing_invalid_enters_the_store() {
    let bench = Bench::new();
    let lies: [fn(&mut opbuild_artifact::Artifact); 4] = [
        |artifact| artifact.object = b"hello".to_vec(),
        |artifact| {
            artifact.object.pop();
        },
        |artifact| artifact.json.truncate(20),
        |artifact| {
            let mut meta = KernelMeta::parse(&artifact.json).unwrap();
            meta.kernel_name = Some("another__kernel0".into());
            artifact.json = meta.to_json().into_bytes();
        },
    ];
    for lie in lies {
        let backend = Arc::new(NullBackend::new(move |_, mut artifact| {
            lie(&mut artifact);
            Ok(artifact)
        }));
        let report = bench.builder(&backend).build(&[request("Square", &[3])]).unwrap();
        assert_eq!(outcomes(&report), ["failed"]);
        assert!(matches!(report.kernels[0].error.as_deref(), Some(JobError::Invalid { .. })));
        assert!(report.kernels[0].artifact.is_none());
        assert!(bench.entries().is_empty());
    }
}

#[test]
fn one_failure_stops_nobody_else_and_is_tried_again() {
    let bench = Bench::new();
    let backend = Arc::new(NullBackend::new(|request, artifact| match request.job.ops[0].op_type.as_str() {
        "Relu" => Err(failure("kernel.c:1: error: no")),
        _ => Ok(artifact),
    }));
    let mut unknown = request("Square", &[9]);
    unknown.descriptor.job.ops[0].op_type = "Conv9D".into();
    let requests = [request("Square", &[3]), request("Relu", &[3]), unknown, request("Neg", &[3])];
    let report = bench.builder(&backend).build(&requests).unwrap();
    assert_eq!(outcomes(&report), ["compiled", "failed", "failed", "compiled"]);
    assert!(report.kernels[1].reason.as_deref().unwrap().contains("kernel.c:1: error: no"));
    assert!(report.kernels[2].reason.as_deref().unwrap().contains("Conv9D"));
    assert_eq!((report.kernels[2].key, report.kernels[2].name.as_str()), (None, "net/Square[9]"));
    assert_eq!(report.counts().values().sum::<usize>(), report.kernels.len());
    // No failure is a verdict on disk.
    assert_eq!(build(&bench.builder(&backend), &requests), ["reused", "failed", "failed", "reused"]);
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
    let report = bench.builder(&backend).build(&[request("Square", &[3])]).unwrap();
    assert_eq!(outcomes(&report), ["compiled"]);
    assert!(report.warnings[0].contains("upgraded meanwhile"), "{:?}", report.warnings);
    assert!(bench.entries().is_empty());
}

#[test]
fn who_waits_shares_the_kernel() {
    let bench = Bench::new();
    let backend = Arc::new(NullBackend::new(|_, artifact| {
        std::thread::sleep(Duration::from_millis(300));
        Ok(artifact)
    }));
    let requests = [request("Square", &[3])];
    let mut found: Vec<&str> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|_| scope.spawn(|| build(&bench.builder(&backend), &requests)[0])).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    found.sort_unstable();
    assert_eq!(found, ["compiled", "shared", "shared", "shared"]);
    assert_eq!(backend.compiles(), 1);
}

#[test]
fn who_waits_takes_the_failure_and_who_comes_later_tries() {
    let bench = Bench::new();
    let backend = Arc::new(NullBackend::new(|_, _| {
        std::thread::sleep(Duration::from_millis(500));
        Err(failure("it is broken"))
    }));
    let requests = [request("Square", &[3])];
    let reasons: Vec<String> = std::thread::scope(|scope| {
        let run = || bench.builder(&backend).build(&requests).unwrap().kernels[0].reason.clone().unwrap();
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(reasons.iter().all(|reason| reason.contains("it is broken")), "{reasons:?}");
    assert_eq!(backend.compiles(), 1);
    build(&bench.builder(&backend), &requests);
    assert_eq!(backend.compiles(), 2);
}

#[test]
fn force_of_many_at_once_compiles_once() {
    let bench = Bench::new();
    let backend = Arc::new(NullBackend::new(|_, artifact| {
        std::thread::sleep(Duration::from_millis(400));
        Ok(artifact)
    }));
    let requests = [request("Square", &[3])];
    build(&bench.builder(&backend), &requests);
    let mut found: Vec<&str> = std::thread::scope(|scope| {
        let run = || build(&bench.builder(&backend).mode(Mode::Force), &requests)[0];
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    found.sort_unstable();
    assert_eq!(found, ["compiled", "shared", "shared", "shared"]);
    assert_eq!(backend.compiles(), 2);
}

#[test]
fn cancel_ends_a_wait() {
    let bench = Bench::new();
    let slow = Arc::new(NullBackend::new(|_, artifact| {
        std::thread::sleep(Duration::from_secs(3));
        Ok(artifact)
    }));
    let requests = [request("Square", &[3])];
    std::thread::scope(|scope| {
        scope.spawn(|| build(&bench.builder(&slow), &requests));
        while slow.compiles() == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let cancel = Cancel::new();
        let waiter = scope.spawn({
            let cancel = cancel.clone();
            let (bench, slow, requests) = (&bench, &slow, &requests);
            move || {
                let began = Instant::now();
                let report = bench.builder(slow).cancel(cancel).build(requests).unwrap();
                (report.kernels[0].outcome, began.elapsed())
            }
        });
        std::thread::sleep(Duration::from_millis(200));
        cancel.cancel();
        let (outcome, waited) = waiter.join().unwrap();
        assert_eq!(outcome, Outcome::Failed);
        assert!(waited < Duration::from_secs(2), "{waited:?}");
    });
    assert_eq!(slow.compiles(), 1);
}

#[test]
fn the_view_is_whole_again_without_compiling() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let base = bench.folder.path().join("view");
    let requests = [request("Square", &[3]), request("Relu", &[3])];
    let view = |rank: &str| {
        let config = ViewConfig { base: base.clone(), rank: rank.to_owned() };
        bench.builder(&backend).view(config).build(&requests).unwrap().view.unwrap().unwrap()
    };
    let first = view("0");
    let names = |folder: &std::path::Path| {
        let names = common::files(folder).into_iter().map(|path| path.file_name().unwrap().to_owned());
        names.filter(|name| !name.to_string_lossy().starts_with('.')).collect::<Vec<_>>()
    };
    assert_eq!(names(&first).len(), 6);
    std::fs::remove_dir_all(&first).unwrap();
    assert_eq!(names(&view("0")), names(&view("3")));
    assert_eq!(backend.compiles(), 2);
    for object in common::files(&first).iter().filter(|path| path.extension().is_some_and(|e| e == "o")) {
        let meta = KernelMeta::parse(&std::fs::read(object.with_extension("json")).unwrap()).unwrap();
        assert_eq!(meta.sha256.unwrap(), Digest::of(&std::fs::read(object).unwrap()).to_string());
    }
}

#[test]
fn work_folders_are_gone_after_the_build() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    build(&bench.builder(&backend), &[request("Square", &[3]), request("Relu", &[3])]);
    let left = common::files(bench.folder.path());
    assert!(left.iter().all(|path| !path.to_string_lossy().contains("/work-")), "{left:?}");
}

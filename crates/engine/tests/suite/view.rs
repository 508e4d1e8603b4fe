//! Kernels where a framework looks for them.
#![expect(clippy::disallowed_methods, reason = "tests look at what is on the disk")]

use std::path::PathBuf;
use std::sync::Arc;

use crate::common::{Bench, failure, request};
use opkeep::{BuildReport, Request, ViewConfig, ViewPlacement};
use opkeep_cann_meta::KernelMeta;
use opkeep_digest::Digest;
use opkeep_framework_cache::FrameworkFiles;
use opkeep_testkit::NullBackend;
use opkeep_testkit::elf::host_object;

/// Builds `requests` for a rank.
fn build(
    bench: &Bench,
    backend: &Arc<NullBackend>,
    rank: &str,
    requests: &[Request],
) -> (BuildReport, ViewPlacement) {
    let view = ViewConfig::rank(bench.dir.path().join("view"), rank.to_owned());
    let mut report =
        bench.engine(backend).with_config(|config| config.view = Some(view)).build(requests).unwrap();
    let placed = report.view.take().unwrap().unwrap();
    (report, placed)
}

/// Names of the files a framework sees.
fn names(placed: &ViewPlacement) -> Vec<String> {
    let names = crate::common::files(&placed.directory).into_iter();
    let names = names.map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with('.')).collect()
}

/// A request that a framework made, with its own name for the kernel.
fn named(op_type: &str, length: i64, stem: &str) -> Request {
    let mut request = request(op_type, &[length]);
    request.descriptor.envelope.fusion_op_name = stem.to_owned();
    request
}

fn kernel_name(placed: &ViewPlacement, stem: &str) -> String {
    let path: PathBuf = placed.directory.join(format!("{stem}.json"));
    KernelMeta::parse(&std::fs::read(path).unwrap()).unwrap().kernel_name.unwrap()
}

#[test]
fn the_view_is_restored_without_compiling() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3]), request("Relu", &[3])];
    let (_, first) = build(&bench, &backend, "0", &requests);
    assert_eq!((names(&first).len(), first.names.len()), (6, 2));
    std::fs::remove_dir_all(&first.directory).unwrap();
    let (again, other) =
        (build(&bench, &backend, "0", &requests).1, build(&bench, &backend, "3", &requests).1);
    assert_eq!(names(&again), names(&other));
    assert_ne!(again.directory, other.directory);
    assert_eq!(backend.compiles(), 2);
    for object in crate::common::files(&first.directory)
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "o"))
    {
        let meta = KernelMeta::parse(&std::fs::read(object.with_extension("json")).unwrap()).unwrap();
        assert_eq!(meta.sha256.unwrap(), Digest::of(&std::fs::read(object).unwrap()).to_string());
    }
}

/// One kernel under each name that a framework looks for.
#[test]
fn equal_operators_of_two_names_are_found_under_both() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [named("Square", 3, "square_1_0"), named("Square", 3, "square_1_1")];
    let (report, placed) = build(&bench, &backend, "0", &requests);
    assert_eq!((report.kernels.len(), placed.names.len()), (1, 2));
    assert_eq!(kernel_name(&placed, "square_1_0"), kernel_name(&placed, "square_1_1"));
}

/// A framework would run the wrong kernel, so it must find none.
#[test]
fn a_name_of_two_kernels_is_given_to_none() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let (one, two) = (named("Square", 3, "same"), named("Relu", 3, "same"));
    let (_, alone) = build(&bench, &backend, "0", std::slice::from_ref(&one));
    assert_eq!(names(&alone).len(), 3);
    for requests in [[one.clone(), two.clone()], [two, one]] {
        let (_, placed) = build(&bench, &backend, "0", &requests);
        assert_eq!((names(&placed), placed.names.len()), (Vec::new(), 0));
        assert_eq!(placed.conflicting_names, ["same"]);
    }
}

/// If the new kernel cannot be built, the old one must not be run in its place.
#[test]
fn a_failed_rebuild_removes_the_old_kernel() {
    let bench = Bench::new();
    let requests = [named("Square", 3, "square_1_0"), named("Relu", 3, "relu_1_0")];
    let good = Arc::new(NullBackend::default());
    assert_eq!(names(&build(&bench, &good, "0", &requests).1).len(), 6);
    let broken = Arc::new(NullBackend::new(|request, artifact| {
        if request.job.ops[0].op_type == "Relu" { Err(failure("no")) } else { Ok(artifact) }
    }));
    broken.upgrade("2");
    let (_, placed) = build(&bench, &broken, "0", &requests);
    assert_eq!(names(&placed), ["square_1_0.info", "square_1_0.json", "square_1_0.o"]);
    // A file of another program under the name stays.
    std::fs::write(placed.directory.join("relu_1_0.json"), "{}").unwrap();
    assert_eq!(names(&build(&bench, &broken, "0", &requests).1).len(), 4);
}

/// A build that does not finish leaves correct kernels as they are.
#[test]
fn a_failure_or_a_cancel_keeps_the_kernel_that_belongs_there() {
    let bench = Bench::new();
    let requests = [named("Square", 3, "square_1_0"), named("Relu", 3, "relu_1_0")];
    let good = Arc::new(NullBackend::default());
    assert_eq!(names(&build(&bench, &good, "0", &requests).1).len(), 6);
    let view = ViewConfig::rank(bench.dir.path().join("view"), "0".to_owned());
    let broken = Arc::new(NullBackend::new(|_, _| Err(failure("no"))));
    let cancel = opkeep_fs::CancelToken::new();
    let token = cancel.clone();
    let cancelling = Arc::new(NullBackend::new(move |_, _| {
        token.cancel();
        Err(opkeep_backend::BackendError::Cancelled)
    }));
    for engine in [
        bench.engine(&broken).with_config(|config| config.mode = opkeep::CacheMode::Force),
        bench
            .engine(&cancelling)
            .with_config(|config| config.mode = opkeep::CacheMode::Disable)
            .with_cancel(cancel),
    ] {
        let report = engine.with_config(|config| config.view = Some(view.clone())).build(&requests).unwrap();
        let unbuilt =
            [opkeep::Outcome::Failed, opkeep::Outcome::Cancelled].map(|outcome| report.count(outcome));
        assert!(unbuilt == [2, 0] || unbuilt == [0, 2], "{unbuilt:?}");
        assert_eq!(names(&report.view.unwrap().unwrap()).len(), 6);
    }
}

/// Without a check of foreign files, a view can neither judge a file of another program nor quarantine it.
#[test]
fn without_a_judge_no_foreign_file_is_replaced() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [named("Square", 3, "square_1_0"), named("Relu", 3, "relu_1_0")];
    let (_, placed) = build(&bench, &backend, "0", &requests);
    // A kernel that another program damaged, and one that another program wrote.
    let foreign = [("square_1_0.o", &b"cut"[..]), ("relu_1_0.o", b"theirs"), ("relu_1_0.json", b"{}")];
    let path = |name: &str| placed.directory.join(name);
    foreign.iter().for_each(|(name, bytes)| std::fs::write(path(name), bytes).unwrap());
    let with = |replace, judged| {
        let mut view = ViewConfig::directory(&placed.directory);
        view.policy.replace = replace;
        if judged {
            view.foreign_files = Arc::new(FrameworkFiles);
        }
        let engine = bench.engine(&backend).with_config(|config| config.view = Some(view));
        engine.build(&requests).unwrap().view.unwrap().unwrap()
    };
    for replace in [false, true] {
        let there = with(replace, false);
        assert_eq!((there.left.len(), there.names.len(), there.quarantine), (2, 0, None), "{:?}", there.left);
        for (name, bytes) in foreign {
            assert_eq!(std::fs::read(path(name)).unwrap(), bytes, "{name}");
        }
    }
    // With the check they are quarantined and replaced.
    let there = with(true, true);
    assert_eq!((there.left.len(), there.names.len()), (0, 2), "{:?}", there.left);
    let kept = crate::common::files(&there.quarantine.unwrap());
    let kept: Vec<Vec<u8>> = kept.into_iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(foreign.iter().all(|(_, bytes)| kept.iter().any(|kept| kept == bytes)));
}

/// A framework that extended a description of ours must not keep the kernel of another toolchain, or of none, whether or not
/// the view has a quarantine.
#[test]
fn without_a_judge_no_outdated_kernel_stays_because_a_framework_extended_it() {
    let bench = Bench::new();
    let requests = [named("Square", 3, "square_1_0"), named("Relu", 3, "relu_1_0")];
    let good = Arc::new(NullBackend::default());
    let (_, placed) = build(&bench, &good, "0", &requests);
    let path = |stem: &str| placed.directory.join(format!("{stem}.json"));
    let extended = ["square_1_0", "relu_1_0"].map(|stem| {
        let json = std::fs::read_to_string(path(stem)).unwrap();
        let extended = json.replacen('{', r#"{"build_result": "{}", "#, 1);
        std::fs::write(path(stem), &extended).unwrap();
        extended
    });
    let old = kernel_name(&placed, "square_1_0");
    let broken = Arc::new(NullBackend::new(|request, artifact| {
        if request.job.ops[0].op_type == "Relu" { Err(failure("no")) } else { Ok(artifact) }
    }));
    broken.upgrade("2");
    let (_, placed) = build(&bench, &broken, "0", &requests);
    // A descriptor alone is not a kernel.
    let there = ["relu_1_0.info", "square_1_0.info", "square_1_0.json", "square_1_0.o"];
    assert_eq!(names(&placed), there, "{:?}", placed.left);
    assert_ne!(kernel_name(&placed, "square_1_0"), old);
    assert_eq!((placed.left.len(), placed.displaced.len()), (0, 2), "{:?}", placed.left);
    let mut kept: Vec<String> = placed
        .displaced
        .iter()
        .map(|name| std::fs::read_to_string(placed.directory.join(name)).unwrap())
        .collect();
    kept.sort_by_key(|json| *json != extended[0]);
    assert_eq!(kept, extended);
}

/// After an error of the view, no more kernels are written; the outdated ones under their names are still removed.
#[test]
fn after_an_error_of_the_view_no_outdated_kernel_of_a_later_batch_stays() {
    let bench = Bench::new();
    let requests = [named("Square", 3, "square_1_0"), named("Relu", 3, "relu_1_0")];
    // Each kernel is a batch of its own.
    let backend = Arc::new(NullBackend::new(|request, mut artifact| {
        let version = Digest::of(&artifact.object).to_string();
        let object = host_object(&[&request.name.symbol()], &version.repeat((17 << 20) / version.len()));
        let mut meta = KernelMeta::parse(&artifact.metadata).unwrap();
        meta.sha256 = Some(Digest::of(&object).to_string());
        (artifact.object, artifact.metadata) = (object, meta.to_json().into_bytes());
        Ok(artifact)
    }));
    let (_, placed) = build(&bench, &backend, "0", &requests);
    assert_eq!(names(&placed).len(), 6);
    // The manifest cannot be written.
    let manifest = placed.directory.join(".opkeep-manifest");
    std::fs::remove_file(&manifest).unwrap();
    std::fs::create_dir(&manifest).unwrap();
    backend.upgrade("2");
    let view = ViewConfig::rank(bench.dir.path().join("view"), "0".to_owned());
    let engine = bench.engine(&backend).with_config(|config| config.view = Some(view));
    let report = engine.build(&requests).unwrap();
    assert!(report.view.as_ref().unwrap().is_err(), "{:?}", report.view);
    let found = names(&placed);
    assert!(found.iter().all(|name| name.ends_with(".info")), "{found:?}");
}

#[test]
fn a_name_that_no_file_can_have_is_reported() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let (_, placed) = build(&bench, &backend, "0", &[named("Square", 3, "../../evil")]);
    assert_eq!((placed.invalid_names.as_slice(), placed.names.len()), (&["../../evil".to_owned()][..], 1));
}

//! The conditions under which a kernel is reused or compiled.
#![expect(clippy::disallowed_methods, reason = "tests look at what is on the disk")]

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use crate::common::{Bench, build, outcomes, request, with_mode};
use opkeep::{BuildError, CacheMode, KernelError, Outcome};
use opkeep_backend_cpu::{CpuBackend, CpuConfig};
use opkeep_cache::CacheError;
use opkeep_descriptor::BuildSpec;
use opkeep_store::StoreConfig;
use opkeep_testkit::NullBackend;

#[test]
fn the_second_build_compiles_nothing() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3]), request("Relu", &[3])];
    assert_eq!(build(&bench.engine(&backend), &requests), ["compiled", "compiled"]);
    let second = bench.engine(&backend).build(&requests).unwrap();
    assert_eq!(outcomes(&second), ["reused", "reused"]);
    assert_eq!(backend.compiles(), 2);
    assert!(second.kernels.iter().all(|kernel| kernel.artifact.is_some()));
}

#[test]
fn equal_jobs_are_one_kernel() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let mut renamed = request("Square", &[3]);
    renamed.descriptor.envelope.full_name = "another/node".to_owned();
    let requests = [request("Square", &[3]), request("Square", &[4]), renamed];
    let report = bench.engine(&backend).build(&requests).unwrap();
    assert_eq!((report.requests, report.kernels.len(), backend.compiles()), (3, 2, 2));
    assert_eq!(report.kernel_of, [0, 1, 0]);
    assert_eq!(report.kernels[0].requested_by, ["net/Square[3]", "another/node"]);
}

#[test]
fn an_upgraded_toolchain_rebuilds_everything_and_going_back_rebuilds_nothing() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3]), request("Relu", &[3])];
    build(&bench.engine(&backend), &requests);
    backend.upgrade("2");
    assert_eq!(build(&bench.engine(&backend), &requests), ["compiled", "compiled"]);
    backend.upgrade("1");
    assert_eq!(build(&bench.engine(&backend), &requests), ["reused", "reused"]);
}

/// Another expression for one operator has the effect of an edit of the C generator.
#[test]
fn editing_the_generator_of_one_operator_rebuilds_only_that() {
    let bench = Bench::new();
    let requests = [request("Square", &[3]), request("Relu", &[3]), request("Neg", &[5])];
    let cpu = |config: CpuConfig| bench.engine_of(Arc::new(CpuBackend::new(config)));
    let config = CpuConfig::new("/usr/local/bin:/usr/bin:/bin");
    assert_eq!(build(&cpu(config.clone()), &requests), ["compiled"; 3]);
    let mut edited = config.clone();
    edited.expressions.insert("Relu".to_owned(), "x > 0.0f ? x : 0.0f".to_owned());
    assert_eq!(build(&cpu(edited), &requests), ["reused", "compiled", "reused"]);
    assert_eq!(build(&cpu(config), &requests), ["reused"; 3]);
}

#[test]
fn force_replaces_each_entry() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3])];
    build(&bench.engine(&backend), &requests);
    let inode = || std::fs::metadata(&bench.entries()[0]).unwrap().ino();
    let before = inode();
    assert_eq!(build(&with_mode(&bench, &backend, CacheMode::Force), &requests), ["compiled"]);
    assert_ne!(inode(), before);
    assert_eq!((backend.compiles(), bench.entries().len()), (2, 1));
    assert_eq!(build(&bench.engine(&backend), &requests), ["reused"]);
}

/// An entry from the future has the time of another clock, so it does not count as new.
#[test]
fn force_is_not_put_off_by_an_entry_from_the_future() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3])];
    let first = bench.engine(&backend).build(&requests).unwrap();
    let key = *first.kernels[0].key.unwrap().digest();
    let artifact = first.kernels[0].artifact.clone().unwrap();
    let shelf = opkeep_store::Store::open(StoreConfig::new(bench.root())).unwrap().target("cpu").unwrap();
    let future = std::time::SystemTime::now() + std::time::Duration::from_secs(86_400);
    let draft = opkeep_store::EntryBuilder::new(opkeep_validator::RULES_VERSION).created(future);
    let draft = draft.eager("json", &artifact.metadata).eager("object", &artifact.object);
    shelf.put_replacing(&key, &draft, opkeep_store::Overwrite::Always).unwrap();
    assert_eq!(build(&bench.engine(&backend), &requests), ["reused"]);
    assert_eq!(build(&with_mode(&bench, &backend, CacheMode::Force), &requests), ["compiled"]);
}

#[test]
fn disable_neither_takes_nor_keeps() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3])];
    let disabled = with_mode(&bench, &backend, CacheMode::Disable);
    assert_eq!(build(&disabled, &requests), ["compiled"]);
    assert!(!bench.root().exists());
    build(&bench.engine(&backend), &requests);
    assert_eq!(build(&disabled, &requests), ["compiled"]);
    assert_eq!(backend.compiles(), 3);
}

#[test]
fn read_only_takes_and_keeps_nothing() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let (known, unknown) = (request("Square", &[3]), request("Relu", &[3]));
    build(&bench.engine(&backend), std::slice::from_ref(&known));
    let before = crate::common::files(&bench.root());
    let read_only = with_mode(&bench, &backend, CacheMode::ReadOnly);
    assert_eq!(build(&read_only, &[known, unknown]), ["reused", "compiled"]);
    assert_eq!(crate::common::files(&bench.root()), before);
}

#[test]
fn require_never_compiles() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let (known, unknown) = (request("Square", &[3]), request("Relu", &[3]));
    build(&bench.engine(&backend), std::slice::from_ref(&known));
    let report = with_mode(&bench, &backend, CacheMode::Require).build(&[known, unknown]).unwrap();
    assert_eq!(outcomes(&report), ["reused", "failed"]);
    assert!(matches!(report.kernels[1].error.as_deref(), Some(KernelError::NotCached { .. })));
    // The reason is reported once.
    let reason = report.kernels[1].reason.as_deref().unwrap();
    assert_eq!(reason.matches("not in the store").count(), 1, "{reason}");
    assert_eq!(backend.compiles(), 1);
}

#[test]
fn modes_that_insist_fail_without_a_store_and_others_do_not() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    std::fs::write(bench.root(), "a file stands where the store should be").unwrap();
    let requests = [request("Square", &[3])];
    for mode in [CacheMode::ReadOnly, CacheMode::Require] {
        let error = with_mode(&bench, &backend, mode).build(&requests).unwrap_err();
        assert!(matches!(error, BuildError::Cache(CacheError::Store { .. })), "{error}");
        let error = opkeep::Engine::new(Arc::new(NullBackend::default()), opkeep::Config::default())
            .with_config(|config| config.mode = mode)
            .build(&requests);
        assert!(matches!(error, Err(BuildError::Cache(CacheError::NoStore { .. }))));
    }
    for mode in [CacheMode::Enable, CacheMode::Force] {
        let report = with_mode(&bench, &backend, mode).build(&requests).unwrap();
        assert_eq!(
            (outcomes(&report), report.warnings.len()),
            (vec!["compiled"], 1),
            "{:?}",
            report.warnings
        );
    }
}

#[test]
fn debug_kernels_bypass_the_store() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let plain = request("Square", &[3]);
    let mut spec = BuildSpec::new("null");
    spec.options.insert("op_debug_level".into(), "1".into());
    let debugged = plain.clone().with_spec(spec);
    let engine = bench.engine(&backend);
    for _ in 0..2 {
        assert_eq!(build(&engine, &[plain.clone(), debugged.clone()])[1], Outcome::Bypassed.name());
    }
    assert_eq!((bench.entries().len(), backend.compiles()), (1, 3));
}

#[test]
fn one_store_serves_two_targets_apart() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let to = |target: &str| request("Square", &[3]).with_spec(BuildSpec::new(target));
    assert_eq!(build(&bench.engine(&backend), &[to("A1"), to("A2")]), ["compiled", "compiled"]);
    assert_eq!(build(&bench.engine(&backend), &[to("A1"), to("A2")]), ["reused", "reused"]);
    let store = opkeep_store::Store::open(StoreConfig::new(bench.root())).unwrap();
    assert!(store.root().join("v1/A1/entries").is_dir() && store.root().join("v1/A2/entries").is_dir());
}

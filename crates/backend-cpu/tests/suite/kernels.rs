//! The results of a compile: the same bytes every time, a `.json` as the vendor's, and a valid object.
#![expect(clippy::disallowed_methods, reason = "tests look into the work dir")]

use std::collections::BTreeSet;

use crate::common::{backend, compile_in, job};
use opkeep_backend::Backend;
use opkeep_cann_meta::{BlockDim, KernelMeta};
use opkeep_digest::Digest;
use opkeep_fs::CancelToken;
use opkeep_testkit::TestContext;

const VENDOR: &str = include_str!("../../../../fixtures/mindspore/square_12484080525657478220_2.json");

fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

#[test]
fn two_compiles_in_different_dirs_give_equal_bytes() {
    for compiler in ["gcc", "clang"].into_iter().filter(|name| crate::common::program(name).is_some()) {
        let one_backend = crate::common::backend_with(Some(compiler));
        let other_backend = crate::common::backend_with(Some(compiler));
        for job in [
            job("Square", &[&[3]], &[]),
            job("Gelu", &[&[64, 1000]], &[]),
            job("Add", &[&[5, 1, 7], &[6, 1]], &[]),
        ] {
            let (one, two) =
                (tempfile::tempdir().unwrap(), tempfile::Builder::new().prefix("longer-").tempdir().unwrap());
            let deeper = two.path().join("and/deeper");
            std::fs::create_dir_all(&deeper).unwrap();
            let first = compile_in(&one_backend, &job, one.path(), None, &CancelToken::new()).unwrap();
            let second = compile_in(&other_backend, &job, &deeper, None, &CancelToken::new()).unwrap();
            assert_eq!(first, second, "{compiler}");
            let temp = std::env::temp_dir();
            for path in [one.path(), two.path(), &temp] {
                let path = path.to_str().unwrap();
                assert!(!contains(&first.object, path) && !contains(&first.metadata, path), "{path}");
            }
            assert!(!contains(&first.object, "kernel.c"), "{compiler}");
        }
    }
}

/// The keys of a `.json` as the vendors indent it.
fn keys(json: &str) -> BTreeSet<&str> {
    let lines = json.lines().filter_map(|line| line.strip_prefix("    \""));
    lines.filter_map(|line| line.split_once("\":")).map(|(key, _)| key).collect()
}

#[test]
fn the_json_has_the_vendors_fields_and_describes_the_object() {
    let job = job("Sub", &[&[2, 3], &[3]], &[]);
    let artifact = crate::common::compile(backend(), &job).unwrap();
    let json = std::str::from_utf8(&artifact.metadata).unwrap();
    // The vendor's keys, and one of our own for the loader.
    let ours: BTreeSet<&str> = keys(VENDOR).into_iter().chain(["opkeepJob"]).collect();
    assert_eq!(keys(json), ours);
    assert_eq!(keys(json).len(), 11);

    let meta = KernelMeta::parse(&artifact.metadata).unwrap();
    let name = crate::common::name(&job);
    assert_eq!(meta.bin_file_name.as_deref(), Some(name.as_str()));
    assert_eq!(meta.kernel_name, Some(format!("{name}__kernel0")));
    assert_eq!(meta.sha256, Some(Digest::of(&artifact.object).to_string()));
    assert_eq!(meta.block_dim, Some(BlockDim::Fixed(1)));
    // Two inputs and an output.
    assert_eq!(meta.parameters.map(|parameters| parameters.len()), Some(3));

    let expectations = backend().expectations(&crate::common::spec(backend()));
    let report = opkeep_validator::validate(&artifact.metadata, &artifact.object, &expectations);
    assert!(report.findings.is_empty(), "{report:?}");
    let kernels = report.object.unwrap().kernels;
    assert!(kernels.iter().map(|kernel| &kernel.name).eq([&name.symbol()]), "{kernels:?}");
    assert_eq!(expectations.target, crate::common::spec(backend()).target);
}

#[test]
fn every_operator_validates() {
    let expectations = backend().expectations(&crate::common::spec(backend()));
    for row in crate::common::on_floats().step_by(7) {
        let required = row.attrs.iter().filter(|attr| attr.default_value().is_none());
        let attrs: Vec<_> = required.map(|attr| crate::common::float(attr.name, 0.5)).collect();
        let job = job(row.op_type, &vec![&[3, 5][..]; row.inputs.len()], &attrs);
        let artifact = crate::common::compile(backend(), &job).unwrap();
        let report = opkeep_validator::validate(&artifact.metadata, &artifact.object, &expectations);
        assert!(report.findings.is_empty(), "{}: {report:?}", row.op_type);
    }
}

/// The fingerprint of the sources covers everything that decides the C: the expression, but not the name.
#[test]
fn sources_depend_on_the_job_and_not_on_its_name() {
    let spec = crate::common::spec(backend());
    let sources = |backend: &opkeep_backend_cpu::CpuBackend, shape: &[i64]| {
        backend.op_sources(&TestContext::new().cx(), &job("Neg", &[shape], &[]), &spec).unwrap()
    };
    assert_eq!(sources(backend(), &[3]), sources(backend(), &[3]));
    assert_ne!(sources(backend(), &[3]), sources(backend(), &[4]));
    let mut config = opkeep_backend_cpu::CpuConfig::new(crate::common::path());
    config.expressions.insert("Neg".to_owned(), "0.0f - x".to_owned());
    let other = opkeep_backend_cpu::CpuBackend::new(config);
    assert_ne!(sources(&other, &[3]), sources(backend(), &[3]));
    let kernel = crate::common::kernel(&other, &job("Neg", &[&[1]], &[]));
    let found = crate::common::floats(&crate::common::launch(&*kernel, &[&[0.0]], 1))[0];
    assert_eq!(found.to_bits(), 0);
}

/// A compile writes only to its work directory.
#[test]
fn a_compile_leaves_its_files_in_the_work_dir() {
    let dir = tempfile::tempdir().unwrap();
    compile_in(backend(), &job("Neg", &[&[3]], &[]), dir.path(), None, &CancelToken::new()).unwrap();
    let mut left: Vec<String> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["kernel.c", "kernel.o"]);
}

/// Generated C is free of warnings, also for tensors without elements.
#[test]
fn generated_c_has_no_warnings() {
    for shapes in [
        &[&[3, 0][..], &[3, 1]][..],
        &[&[0, 3], &[1, 3]],
        &[&[2, 0, 3], &[2, 1, 1]],
        &[&[0], &[1]],
        &[&[], &[]],
        &[&[40_000, 2], &[40_000, 1]],
        &[&[2, 40_000], &[40_000]],
        &[&[2, 3, 4], &[2, 1, 4]],
    ] {
        for strict in crate::common::strict() {
            if let Err(error) = crate::common::compile(strict, &job("FloorMod", shapes, &[])) {
                panic!("{shapes:?}: {error}");
            }
        }
    }
    for (op_type, attrs) in [("Fills", vec![crate::common::float("value", 1e-40)]), ("IsNan", vec![])] {
        for strict in crate::common::strict() {
            crate::common::compile(strict, &job(op_type, &[&[4]], &attrs)).unwrap();
        }
    }
}

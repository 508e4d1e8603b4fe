//! The reasons why kernels would be hits or misses.

use std::sync::Arc;

use crate::common::{Bench, build, request, with_mode};
use opkeep::{CacheMode, CacheStatus, Config, Engine, Explanation, NearestEntry, Request};
use opkeep_descriptor::BuildSpec;
use opkeep_testkit::NullBackend;

fn explained(engine: &Engine, request: Request) -> Explanation {
    let mut kernels = engine.explain(&[request]).unwrap();
    assert_eq!(kernels.len(), 1);
    kernels.remove(0)
}

/// The nearest kernel of one that is absent.
fn nearest(engine: &Engine, request: Request) -> Option<NearestEntry> {
    match explained(engine, request).status {
        CacheStatus::Miss { why, nearest } => {
            assert_eq!(why, "not in the store");
            nearest.map(|nearest| *nearest)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn stored_kernels_are_hits_and_equal_jobs_share_one_kernel() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let mut renamed = request("Square", &[3]);
    renamed.descriptor.envelope.full_name = "another/node".to_owned();
    let requests = [request("Square", &[3]), renamed];
    let report = bench.engine(&backend).build(&requests).unwrap();
    let kernels = bench.engine(&backend).explain(&requests).unwrap();
    assert_eq!(kernels.len(), 1);
    assert!(matches!(kernels[0].status, CacheStatus::Hit));
    assert_eq!(kernels[0].requested_by, ["net/Square[3]", "another/node"]);
    // It has the name of the kernel that a build makes.
    assert_eq!((&kernels[0].name, kernels[0].key), (&report.kernels[0].name, report.kernels[0].key));
    assert_eq!(backend.compiles(), 1);
}

#[test]
fn a_miss_names_the_nearest_kernel_and_its_differences() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    build(
        &bench.engine(&backend),
        &[
            request("Square", &[3]),
            request("Square", &[3, 5]),
            request("Square", &[3, 5, 5]),
            request("Relu", &[4]),
        ],
    );
    let entries = bench.entries();
    let near = nearest(&bench.engine(&backend), request("Square", &[3, 7])).unwrap();
    let paths: Vec<String> = near.job.changes.iter().map(ToString::to_string).collect();
    assert!(paths.contains(&"ops[0].inputs[0].shape: [3, 5] -> [3, 7]".to_owned()), "{paths:?}");
    assert!(near.spec.is_empty() && near.toolchain.is_empty() && near.op_sources.is_empty());
    assert!(nearest(&bench.engine(&backend), request("Neg", &[3])).is_none(), "of other operators");

    // A change outside the job is reported with its part.
    backend.upgrade("2");
    let near = nearest(&bench.engine(&backend), request("Relu", &[4])).unwrap();
    assert!(near.job.is_empty());
    assert_eq!((near.toolchain.len(), near.distance()), (1, 1));
    assert_eq!(bench.entries(), entries, "explaining writes nothing");
}

#[test]
fn a_kernel_that_is_not_looked_up_has_a_reason() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let square = || request("Square", &[3]);
    let why = |engine: &Engine| match explained(engine, square()).status {
        CacheStatus::Miss { why, nearest: None } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        why(&Engine::new(Arc::<NullBackend>::clone(&backend), Config::default())),
        "there is no store"
    );
    assert!(why(&bench.engine(&backend)).contains(bench.root().to_str().unwrap()));
    assert!(!bench.root().exists(), "explaining makes no store");
    build(&bench.engine(&backend), &[square()]);
    assert_eq!(why(&with_mode(&bench, &backend, CacheMode::Force)), "cache mode is force");

    let mut debug = BuildSpec::new("null");
    debug.options.insert("op_debug_level".to_owned(), "1".into());
    let debug = explained(&bench.engine(&backend), square().with_spec(debug));
    assert!(matches!(debug.status, CacheStatus::Bypassed), "{debug:?}");
}

/// For any number of kernels, and any position of the nearest one among them.
#[test]
fn the_nearest_of_thousands_is_found() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests: Vec<Request> = (1..=4200).map(|length| request("Square", &[length, 3])).collect();
    let report =
        bench.engine(&backend).with_config(|config| config.keep_artifacts = false).build(&requests).unwrap();
    // The kernel that is compared last differs only in an option.
    let last = (0..requests.len()).max_by_key(|at| report.kernels[*at].key.map(|key| *key.digest())).unwrap();
    let mut twin = requests[last].clone();
    twin.spec.options.insert("precision".to_owned(), "high".into());
    let near = nearest(&bench.engine(&backend), twin).unwrap();
    assert_eq!((&near.name, near.distance()), (&report.kernels[last].name, 1));
    assert!(near.job.is_empty() && near.spec.changes.len() == 1);
}

//! The reasons why kernels would be hits or misses.
#![expect(clippy::disallowed_methods, reason = "a test damages a file")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::common::{Bench, build, request, with_mode};
use opkeep::{
    CacheMode, CacheStatus, Config, Engine, Event, Explanation, MissCause, MissGroup, NearestEntry, Outcome,
    Request,
};
use opkeep_descriptor::{Attr, AttrValue, BuildSpec, Change};
use opkeep_testkit::NullBackend;

fn explained(engine: &Engine, request: Request) -> Explanation {
    let mut kernels = engine.explain(&[request]).unwrap();
    assert_eq!(kernels.len(), 1);
    kernels.remove(0)
}

/// The nearest kernel of one that is absent.
fn nearest(engine: &Engine, request: Request) -> Option<NearestEntry> {
    match explained(engine, request).status {
        CacheStatus::Miss(miss) => {
            assert_eq!((miss.why.as_str(), miss.is_searched), ("not in the store", true));
            miss.nearest.map(|nearest| *nearest)
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

/// The search reads what explains a miss, and no object: damage there, which a look-up would find, does not matter to it.
#[test]
fn the_object_of_a_stored_kernel_is_not_read() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    build(&bench.engine(&backend), &[request("Square", &[3])]);
    let path = bench.entries().remove(0);
    let bytes = std::fs::read(&path).unwrap();
    let object = bytes.windows(4).position(|bytes| bytes == b"\x7fELF").unwrap();
    let mut damaged = bytes.clone();
    damaged[object + 20] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    assert!(nearest(&bench.engine(&backend), request("Square", &[7])).is_some());
}

#[test]
fn a_kernel_that_is_not_looked_up_has_a_reason() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let square = || request("Square", &[3]);
    let why = |engine: &Engine| match explained(engine, square()).status {
        CacheStatus::Miss(miss) if miss.nearest.is_none() && !miss.is_searched => miss.why,
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
    backend.upgrade("2");
    assert_eq!(
        why(&with_mode(&bench, &backend, CacheMode::Force)),
        "cache mode is force",
        "not the toolchain"
    );
    backend.upgrade("1");

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

/// A request with an option.
fn with_option(mut request: Request) -> Request {
    request.spec.options.insert("precision".to_owned(), "high".into());
    request
}

/// What was stored, each by a toolchain, and which of it explains a miss.
#[test]
fn the_same_job_explains_more_than_a_similar_one() {
    let square = |length: i64| request("Square", &[length, 4]);
    let (old, new) = ("1,1,1,1,1", "2,2,2,2,2");
    for (case, stored, wanted, nearest) in [
        ("five changes of a toolchain", vec![(square(3), old), (square(4), new)], square(3), 0),
        ("the order of storing does not matter", vec![(square(4), new), (square(3), old)], square(3), 1),
        ("an option and a toolchain", vec![(square(4), new), (with_option(square(3)), old)], square(3), 1),
        ("an option", vec![(square(4), new), (square(3), new)], with_option(square(3)), 1),
        (
            "of two of the same job, the one with fewer changes",
            vec![(square(3), old), (square(3), "2,2,2,2,1"), (square(4), new)],
            square(3),
            1,
        ),
        (
            "without one of the same job, the same toolchain",
            vec![(square(5), old), (square(4), new)],
            square(3),
            1,
        ),
    ] {
        let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
        let mut names = Vec::new();
        for (request, version) in stored {
            backend.upgrade(version);
            names.push(bench.engine(&backend).build(&[request]).unwrap().kernels.remove(0).key.unwrap());
        }
        backend.upgrade(new);
        let found = self::nearest(&bench.engine(&backend), wanted).unwrap();
        assert_eq!(names.iter().position(|key| *key == found.key), Some(nearest), "{case}: {found:?}");
    }
}

/// A build says what an explanation before it says, and looks for no reason if nothing is missing.
#[test]
fn a_build_explains_its_misses() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3]), request("Abs", &[3]), request("Abs", &[4])];
    build(&bench.engine(&backend), &requests[..2]);
    backend.upgrade("2");
    let explained = bench.engine(&backend).explain(&requests).unwrap();
    let explained: Vec<MissCause> = explained
        .into_iter()
        .map(|kernel| match kernel.status {
            CacheStatus::Miss(miss) => miss.cause(),
            other => panic!("{other:?}"),
        })
        .collect();

    let events = Arc::new(Mutex::new(BTreeMap::new()));
    let seen = Arc::clone(&events);
    let observed = move |event: Event<'_>| {
        if let Event::Explained { kernel, miss, .. } = event {
            assert_eq!(seen.lock().unwrap().insert(kernel.to_owned(), miss.cause()), None);
        }
    };
    let engine =
        bench.engine(&backend).with_config(|config| config.explain_misses = true).with_observer(observed);
    let report = engine.build(&requests).unwrap();
    let causes: Vec<MissCause> =
        report.kernels.iter().map(|kernel| kernel.miss.as_ref().unwrap().cause()).collect();
    assert_eq!(causes, explained);
    let seen = std::mem::take(&mut *events.lock().unwrap());
    assert!(
        report
            .kernels
            .iter()
            .all(|kernel| seen.get(&kernel.name) == Some(&kernel.miss.as_ref().unwrap().cause()))
    );
    let misses = report.kernels.iter().enumerate().map(|(at, kernel)| (at, kernel.miss.as_ref().unwrap()));
    let groups: Vec<_> =
        MissGroup::of(misses).into_iter().map(|group| (group.cause.to_string(), group.kernels)).collect();
    let expected = [("compiler 1 -> 2", vec![0, 1]), ("no kernel of this job is stored", vec![2])];
    assert_eq!(groups, expected.map(|(text, kernels)| (text.to_owned(), kernels)));

    let warm = engine.build(&requests).unwrap();
    assert!(warm.kernels.iter().all(|kernel| kernel.miss.is_none() && kernel.outcome == Outcome::Reused));
    assert!(events.lock().unwrap().is_empty());
    // A reason that is no search's, and a build without the setting.
    let forced = engine.with_config(|config| config.mode = CacheMode::Force).build(&requests[..1]).unwrap();
    assert_eq!(
        forced.kernels[0].miss.as_ref().unwrap().cause(),
        MissCause::Other("cache mode is force".to_owned())
    );
    backend.upgrade("3");
    assert!(
        bench.engine(&backend).build(&requests).unwrap().kernels.iter().all(|kernel| kernel.miss.is_none())
    );
}

/// The changes of a job for people have the names of attributes.
#[test]
fn changed_attributes_are_named() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let with_keep = |keep: bool| {
        let mut request = request("Square", &[3]);
        let attr = Attr::new("keep_dims", "bool", AttrValue::Bool(keep));
        request.descriptor.job.ops[0].attrs = Some(vec![attr]);
        request
    };
    build(&bench.engine(&backend), &[with_keep(false)]);
    let near = nearest(&bench.engine(&backend), with_keep(true)).unwrap();
    let shown = |changes: &[Change]| changes.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(shown(&near.job.changes), ["ops[0].attrs[0].value: false -> true"]);
    assert_eq!(shown(near.main_changes()), ["keep_dims: false -> true"]);
}

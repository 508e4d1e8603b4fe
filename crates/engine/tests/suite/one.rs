//! Kernels that are requested one at a time.

#![expect(clippy::disallowed_methods, reason = "tests")]

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use crate::common::{Bench, build, eventually, failure, files, outcomes, request};
use opkeep::{BuildError, CacheMode, Config, Engine, KernelError, Outcome, Request, ViewConfig};
use opkeep_backend::BackendError;
use opkeep_descriptor::{Arg, Attr, AttrValue, Key, Tensor};
use opkeep_fs::{CancelToken, Fs};
use opkeep_store::Lookup;
use opkeep_testkit::{NullBackend, TestClock};

/// An engine without a store: a kernel that is not compiled again was in memory.
fn alone(bench: &Bench, backend: &Arc<NullBackend>) -> Engine {
    Engine::new(Arc::<NullBackend>::clone(backend), Config::default())
        .with_config(|config| config.work_dir = Some(bench.dir.path().to_owned()))
}

fn slow(millis: u64) -> Arc<NullBackend> {
    Arc::new(NullBackend::new(move |_, artifact| {
        std::thread::sleep(Duration::from_millis(millis));
        Ok(artifact)
    }))
}

/// The answers to `count` threads that request one kernel at once.
fn at_once<T: Send>(count: usize, ask: impl Fn() -> T + Sync) -> Vec<T> {
    let start = Barrier::new(count);
    std::thread::scope(|scope| {
        let run = || {
            start.wait();
            ask()
        };
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn of_many_threads_one_compiles_and_all_have_the_same_kernel() {
    let bench = Bench::new();
    let backend = slow(100);
    let engine = alone(&bench, &backend);
    let request = request("Square", &[3]);
    let built = at_once(8, || engine.get_or_build(&request).unwrap());
    assert_eq!(backend.compiles(), 1);
    assert!(built.iter().all(|one| Arc::ptr_eq(&one.artifact, &built[0].artifact)));
    assert_eq!((built[0].outcome, built[0].key), (Outcome::Compiled, bench_key(&bench, &request)));
    // Equal jobs of other nodes are the same kernel, other shapes are not.
    let mut twin = request.clone();
    twin.descriptor.envelope.full_name = "another/node".to_owned();
    assert!(Arc::ptr_eq(&engine.get_or_build(&twin).unwrap(), &built[0]));
    let other = engine.get_or_build(&crate::common::request("Square", &[4])).unwrap();
    assert_ne!(other.key, built[0].key);
    assert_eq!(backend.compiles(), 2);
}

/// Only some fields of a request are hashed, but all of them are compared.
#[test]
fn requests_that_differ_in_anything_that_counts_are_different_kernels() {
    let bench = Bench::new();
    let backend = Arc::new(NullBackend::default());
    let engine = alone(&bench, &backend);
    let of = |edit: &dyn Fn(&mut Request)| {
        let mut request = request("Square", &[3]);
        edit(&mut request);
        request
    };
    let tensor = |request: &mut Request, edit: &dyn Fn(&mut Tensor)| {
        request.descriptor.job.ops[0]
            .inputs
            .iter_mut()
            .flat_map(Arg::iter_mut)
            .for_each(|input| edit(&mut input.tensor));
    };
    let attr = |name: &str| vec![Attr::new(name, "int32", AttrValue::Int(1))];
    let requests = [
        of(&|_| {}),
        of(&|request| tensor(request, &|tensor| tensor.format = "NHWC".to_owned())),
        of(&|request| tensor(request, &|tensor| tensor.dtype = "float16".to_owned())),
        of(&|request| request.descriptor.job.ops[0].func_name.push('2')),
        of(&|request| request.descriptor.job.ops[0].attrs = Some(attr("axis"))),
        of(&|request| request.descriptor.job.ops[0].attrs = Some(attr("keep"))),
        of(&|request| drop(request.spec.options.insert("impl_mode".to_owned(), "high_precision".into()))),
    ];
    let keys = || requests.iter().map(|request| engine.get_or_build(request).unwrap().key);
    let first: Vec<Key> = keys().collect();
    assert_eq!(first.iter().collect::<HashSet<_>>().len(), requests.len(), "{first:?}");
    let expected: Vec<Key> = requests.iter().map(|request| bench_key(&bench, request)).collect();
    assert_eq!(first, expected);
    assert!(keys().eq(first.iter().copied()));
}

/// The key as a build has it.
fn bench_key(bench: &Bench, request: &opkeep::Request) -> opkeep_descriptor::Key {
    let report = bench.engine(&Arc::default()).build(std::slice::from_ref(request)).unwrap();
    report.kernels[0].key.unwrap()
}

#[test]
fn kernels_in_memory_need_no_store_and_stored_kernels_no_compiler() {
    let bench = Bench::new();
    let backend = Arc::<NullBackend>::default();
    let request = request("Square", &[3]);
    let first = bench.engine(&backend);
    assert_eq!(first.get_or_build(&request).unwrap().outcome, Outcome::Compiled);
    let second = bench.engine(&backend);
    assert_eq!(second.get_or_build(&request).unwrap().outcome, Outcome::Reused);
    std::fs::remove_dir_all(bench.root()).unwrap();
    let kernel = second.get_or_build(&request).unwrap();
    assert_eq!((kernel.outcome, backend.compiles()), (Outcome::Reused, 1));
    // A reset clears the memory.
    second.reset();
    assert_eq!(second.get_or_build(&request).unwrap().outcome, Outcome::Compiled);
    assert_eq!(backend.compiles(), 2);
}

#[test]
fn the_cache_of_an_engine_has_its_kernels() {
    let bench = Bench::new();
    let engine = bench.engine(&Arc::default());
    let built = engine.get_or_build(&request("Square", &[3])).unwrap();
    let cache = engine.cache().unwrap();
    let found = cache.target("cpu").unwrap().get(built.key.digest());
    assert!(matches!(found, Lookup::Hit(_)), "{found:?}");
    // It is the cache that the engine keeps open until it is reset.
    assert!(Arc::ptr_eq(&cache, &engine.cache().unwrap()));
    engine.reset();
    assert!(!Arc::ptr_eq(&cache, &engine.cache().unwrap()));
}

#[test]
fn statistics_and_entries_remain_when_the_engine_is_dropped() {
    let bench = Bench::new();
    let request = request("Square", &[3]);
    for _ in 0..2 {
        let engine = bench.engine(&Arc::default());
        for _ in 0..3 {
            engine.get_or_build(&request).unwrap();
        }
    }
    let store = opkeep_store::Store::open(opkeep_store::StoreConfig::new(bench.root())).unwrap();
    let targets = store.targets().unwrap();
    let statistics = store.target(&targets[0]).unwrap().statistics();
    // A kernel from memory is not a hit of the store.
    assert_eq!((statistics.compiles, statistics.hits), (1, 1));
}

#[test]
fn failures_that_would_repeat_are_remembered_and_others_are_not() {
    let bench = Bench::new();
    for (text, compiles) in [("error: no such function", 1), ("cc1: No space left on device", 3)] {
        let backend = Arc::new(NullBackend::new(move |_, _| Err(failure(text))));
        let engine = alone(&bench, &backend);
        let request = request("Square", &[3]);
        for _ in 0..3 {
            let error = engine.get_or_build(&request).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
        assert_eq!(backend.compiles(), compiles, "{text}");
        engine.reset();
        engine.get_or_build(&request).unwrap_err();
        assert_eq!(backend.compiles(), compiles + 1, "{text}");
    }
    // The failure is not stored on disk.
    let ok = Arc::<NullBackend>::default();
    bench
        .engine(&Arc::new(NullBackend::new(|_, _| Err(failure("no")))))
        .get_or_build(&request("Square", &[3]))
        .unwrap_err();
    assert_eq!(bench.engine(&ok).get_or_build(&request("Square", &[3])).unwrap().outcome, Outcome::Compiled);
}

#[test]
fn a_panic_or_a_killed_compiler_releases_the_waiters() {
    let bench = Bench::new();
    for panics in [true, false] {
        let first = AtomicUsize::new(0);
        let backend = Arc::new(NullBackend::new(move |_, artifact| {
            std::thread::sleep(Duration::from_millis(100));
            if first.fetch_add(1, Ordering::SeqCst) > 0 {
                return Ok(artifact);
            }
            assert!(!panics, "on purpose");
            Err(BackendError::Compile {
                command: "cc".into(),
                status: "signal: 9 (SIGKILL)".into(),
                log_tail: String::new(),
                log: None,
            })
        }));
        let engine = alone(&bench, &backend);
        let request = request("Square", &[3]);
        let answers = at_once(4, || engine.get_or_build(&request));
        let failed: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
        assert_eq!((failed.len(), backend.compiles()), (1, 2));
        assert_eq!(matches!(**failed[0], KernelError::Panicked { .. }), panics, "{}", failed[0]);
        assert_eq!(failed[0].to_string().contains("on purpose"), panics, "{}", failed[0]);
    }
}

#[test]
fn cancel_ends_every_wait() {
    let bench = Bench::new();
    let cancel = CancelToken::new();
    let seen = cancel.clone();
    let backend = Arc::new(NullBackend::new(move |_, _| {
        eventually(|| seen.is_cancelled());
        Err(BackendError::Cancelled)
    }));
    let engine = alone(&bench, &backend).with_cancel(cancel.clone());
    let request = request("Square", &[3]);
    let answers = std::thread::scope(|scope| {
        let asking = scope.spawn(|| at_once(3, || engine.get_or_build(&request)));
        eventually(|| backend.compiles() > 0);
        cancel.cancel();
        asking.join().unwrap()
    });
    for answer in answers {
        let error = answer.unwrap_err();
        assert!(matches!(*error, KernelError::Cancelled), "{error}");
    }
    assert_eq!(backend.compiles(), 1);
}

/// Cancelling a call ends that call: neither other handles nor later calls notice.
#[test]
fn a_cancelled_call_leaves_the_engine_usable() {
    let bench = Bench::new();
    let cancel = CancelToken::new();
    // Its first kernel is finished, and the second one is cancelled while it compiles.
    let (token, is_wanted) = (cancel.clone(), Arc::new(AtomicBool::new(false)));
    let wanted = Arc::clone(&is_wanted);
    let backend = Arc::new(NullBackend::new(move |request, artifact| {
        if request.job.ops[0].op_type == "Square" || wanted.load(Ordering::Relaxed) {
            return Ok(artifact);
        }
        token.cancel();
        Err(BackendError::Cancelled)
    }));
    let one = NonZeroUsize::MIN;
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let engine = bench.engine(&backend).with_config(|config| config.jobs = Some(one));
    let engine = engine.with_observer(move |event| seen.lock().unwrap().push(event.name()));
    let requests = ["Square", "Relu", "Abs"].map(|op_type| request(op_type, &[3]));
    let [square, relu, _] = &requests;
    build(&engine, std::slice::from_ref(square));
    events.lock().unwrap().clear();

    let handle = engine.with_cancel(cancel.clone());
    let report = handle.build(&requests).unwrap();
    assert_eq!(outcomes(&report), ["reused", "cancelled", "cancelled"]);
    assert!(report.cancelled && report.count(Outcome::Failed) == 0);
    assert_eq!(*events.lock().unwrap(), ["planned", "hit", "looked-up", "started", "cancelled", "cancelled"]);
    // No later call by this handle can make a key, so nothing can be built at all.
    assert!(matches!(handle.build(&requests).unwrap_err(), BuildError::Cancelled));
    assert!(matches!(*handle.get_or_build(relu).unwrap_err(), KernelError::Cancelled));

    // Without the token, and with one of its own, the engine builds as before.
    is_wanted.store(true, Ordering::Relaxed);
    engine.get_or_build(square).unwrap();
    engine.with_cancel(CancelToken::new()).get_or_build(relu).unwrap();
    let report = engine.build(&requests).unwrap();
    assert_eq!((outcomes(&report), report.cancelled), (vec!["reused", "reused", "compiled"], false));
    // A kernel in memory needs no work.
    handle.get_or_build(square).unwrap();
}

#[test]
fn memory_is_bounded_and_the_last_used_kernels_stay() {
    let bench = Bench::new();
    let backend = Arc::<NullBackend>::default();
    let requests: Vec<_> = (1..=40).map(|length| request("Square", &[length])).collect();
    let size = {
        let built = alone(&bench, &backend).get_or_build(&requests[0]).unwrap();
        // In addition, roughly the size of the requests.
        built.artifact.object.len() + built.artifact.metadata.len() + 2048 + 2560
    };
    let engine = alone(&bench, &backend).with_config(|config| config.memory_bytes = size * 20);
    let compiles = |range: std::ops::Range<usize>| {
        let before = backend.compiles();
        requests[range].iter().for_each(|request| drop(engine.get_or_build(request).unwrap()));
        backend.compiles() - before
    };
    assert_eq!(compiles(0..16), 16);
    // The first four are used again, so that the next ones are older.
    assert_eq!(compiles(0..4), 0);
    assert_eq!(compiles(16..24), 8);
    assert_eq!(compiles(0..4), 0);
    assert!(compiles(4..8) > 0);
    // For any number of requests.
    assert_eq!(compiles(24..40), 16);
    assert!(compiles(0..16) >= 12);
    let nothing = alone(&bench, &backend).with_config(|config| config.memory_bytes = 0);
    let before = backend.compiles();
    (0..3).for_each(|_| drop(nothing.get_or_build(&requests[0]).unwrap()));
    assert_eq!(backend.compiles() - before, 3);
}

#[test]
fn another_toolchain_is_noticed_after_a_moment() {
    let (bench, clock) = (Bench::new(), Arc::<TestClock>::default());
    let backend = Arc::<NullBackend>::default();
    let fs = Fs::new().with_clock(Arc::<TestClock>::clone(&clock));
    let engine = alone(&bench, &backend).with_config(|config| config.fs = fs);
    let request = request("Square", &[3]);
    let old = engine.get_or_build(&request).unwrap();
    clock.advance(Duration::from_millis(2100));
    // Nothing changed: the key is computed again, and nothing is compiled.
    assert!(Arc::ptr_eq(&engine.get_or_build(&request).unwrap(), &old));
    backend.upgrade("2");
    clock.advance(Duration::from_millis(2100));
    let new = engine.get_or_build(&request).unwrap();
    assert_ne!(new.key, old.key);
    assert_eq!(backend.compiles(), 2);
    assert!(Arc::ptr_eq(&engine.get_or_build(&request).unwrap(), &new));
}

#[test]
fn kernels_for_debugging_are_never_remembered() {
    let bench = Bench::new();
    let backend = Arc::<NullBackend>::default();
    let engine = bench.engine(&backend);
    let mut request = request("Square", &[3]);
    request.spec.options.insert("op_debug_level".to_owned(), "1".into());
    for compiles in 1..=3 {
        assert_eq!(engine.get_or_build(&request).unwrap().outcome, Outcome::Bypassed);
        assert_eq!(backend.compiles(), compiles);
    }
    assert!(bench.entries().is_empty());
}

#[test]
fn modes_and_views_hold_as_for_a_build() {
    let bench = Bench::new();
    let backend = Arc::<NullBackend>::default();
    let request = request("Square", &[3]);
    let error = bench
        .engine(&backend)
        .with_config(|config| config.mode = CacheMode::Require)
        .get_or_build(&request)
        .unwrap_err();
    assert!(error.to_string().contains("needs the store"), "{error}");

    let view = ViewConfig::rank(bench.dir.path().to_owned(), "3".to_owned());
    let engine = bench.engine(&backend).with_config(|config| config.view = Some(view));
    let name = engine.get_or_build(&request).unwrap().name.clone();
    assert!(
        files(&bench.dir.path().join("rank_3/kernel_meta"))
            .iter()
            .any(|file| file.ends_with(format!("{name}.o")))
    );

    // With force, kernels of this engine are new enough, and existing ones are not.
    let forcing = bench.engine(&backend).with_config(|config| config.mode = CacheMode::Force);
    for _ in 0..2 {
        assert_eq!(forcing.get_or_build(&request).unwrap().outcome, Outcome::Compiled);
    }
    assert_eq!(backend.compiles(), 2);
    let requiring = bench.engine(&backend).with_config(|config| config.mode = CacheMode::Require);
    assert_eq!(requiring.get_or_build(&request).unwrap().outcome, Outcome::Reused);
    let error = requiring.get_or_build(&crate::common::request("Square", &[4])).unwrap_err();
    assert!(matches!(*error, KernelError::NotCached { .. }), "{error}");
}

/// Changed settings apply.
#[test]
fn an_engine_with_other_settings_has_an_empty_memory() {
    let bench = Bench::new();
    let backend = Arc::<NullBackend>::default();
    let request = request("Square", &[3]);
    let engine = alone(&bench, &backend);
    engine.get_or_build(&request).unwrap();
    let engine =
        engine.with_config(|config| config.store = Some(opkeep_store::StoreConfig::new(bench.root())));
    engine.get_or_build(&request).unwrap();
    assert_eq!((backend.compiles(), bench.entries().len()), (2, 1));
}

/// Two operators of the same kernel, each looked for under a name of its own.
#[test]
fn every_operator_finds_its_kernel_also_when_it_is_remembered() {
    let bench = Bench::new();
    let backend = Arc::<NullBackend>::default();
    let view = ViewConfig::rank(bench.dir.path().to_owned(), "0".to_owned());
    let engine = bench.engine(&backend).with_config(|config| config.view = Some(view));
    let named = |name: &str| {
        let mut request = request("Square", &[3]);
        request.descriptor.envelope.fusion_op_name = name.to_owned();
        request
    };
    let there = || files(&bench.dir.path().join("rank_0/kernel_meta"));
    for name in ["square_1_0", "square_2_0", "square_1_0"] {
        engine.get_or_build(&named(name)).unwrap();
        assert!(there().iter().any(|file| file.ends_with(format!("{name}.json"))), "{name}: {:?}", there());
    }
    assert_eq!(backend.compiles(), 1);
}

/// A framework runs the kernel that it finds under a name. It must be the last one that was built.
#[test]
fn a_name_leads_to_the_kernel_that_was_asked_for_last() {
    let bench = Bench::new();
    let backend = Arc::<NullBackend>::default();
    let view = ViewConfig::rank(bench.dir.path().to_owned(), "0".to_owned());
    let engine = bench.engine(&backend).with_config(|config| config.view = Some(view));
    let named = |node: &str, length: i64| {
        let mut request = request("Square", &[length]);
        request.descriptor.envelope.full_name = node.to_owned();
        request.descriptor.envelope.fusion_op_name = "square_1_0".to_owned();
        request
    };
    let object = bench.dir.path().join("rank_0/kernel_meta/square_1_0.o");
    for (node, length) in [("a", 3), ("a", 4), ("a", 3), ("b", 4), ("a", 3), ("a", 3), ("b", 4)] {
        let built = engine.get_or_build(&named(node, length)).unwrap();
        assert!(std::fs::read(&object).unwrap() == built.artifact.object, "{node} {length}");
    }
    assert_eq!(backend.compiles(), 2);
}

/// Directories for temporary files are cleaned up, and a process may run for long.
#[test]
fn a_deleted_work_directory_is_created_again() {
    let bench = Bench::new();
    let engine = alone(&bench, &Arc::default());
    engine.get_or_build(&request("Square", &[3])).unwrap();
    for entry in std::fs::read_dir(bench.dir.path()).unwrap() {
        std::fs::remove_dir_all(entry.unwrap().path()).unwrap();
    }
    engine.get_or_build(&request("Square", &[4])).unwrap();
}

/// A kernel that timed out is tried again with a longer limit.
#[test]
fn more_time_is_another_builder() {
    let bench = Bench::new();
    let slow = |cx: &opkeep_backend::Context<'_>, _: &opkeep_backend::CompileRequest<'_>, artifact| {
        let left = cx.deadline.unwrap().saturating_duration_since(std::time::Instant::now());
        match left > Duration::from_secs(30) {
            true => Ok(artifact),
            false => {
                let log_tail = String::new();
                Err(BackendError::TimedOut { command: "cc".into(), seconds: 1.0, log_tail, log: None })
            }
        }
    };
    let engine = alone(&bench, &Arc::new(NullBackend::in_context(slow)))
        .with_config(|config| config.compile_timeout = Some(Duration::from_secs(5)));
    engine.get_or_build(&request("Square", &[3])).unwrap_err();
    engine
        .with_config(|config| config.compile_timeout = Some(Duration::from_secs(60)))
        .get_or_build(&request("Square", &[3]))
        .unwrap();
}

#[test]
fn a_kernel_that_is_finished_when_its_build_is_cancelled_is_kept() {
    let (bench, cancel) = (Bench::new(), CancelToken::new());
    let token = cancel.clone();
    let backend = Arc::new(NullBackend::new(move |_, artifact| {
        token.cancel();
        Ok(artifact)
    }));
    let report = bench.engine(&backend).with_cancel(cancel).build(&[request("Square", &[3])]).unwrap();
    assert_eq!((outcomes(&report), report.warnings.as_slice()), (vec!["compiled"], &[][..]));
    assert_eq!(build(&bench.engine(&backend), &[request("Square", &[3])]), ["reused"]);
}

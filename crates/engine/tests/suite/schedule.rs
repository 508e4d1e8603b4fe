//! The order of compiles, the number of compilers, and the events.
#![expect(clippy::disallowed_methods, reason = "tests")]

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Bench, build, failure, outcomes, request};
use opkeep::{CacheMode, Engine, Event, KernelError, Outcome, Request, ViewConfig};
use opkeep_testkit::NullBackend;

fn threads(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

/// One operator of each of these types, and two shapes of the second one.
const OP_TYPES: [&str; 4] = ["Square", "Abs", "Neg", "Exp"];

#[test]
fn the_longest_is_begun_first() {
    let bench = Bench::new();
    let order = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&order);
    let backend = Arc::new(NullBackend::new(move |request, artifact| {
        log.lock().unwrap().push(request.job.ops[0].op_type.clone());
        Ok(artifact)
    }));
    let order_of = |requests: &[Request]| {
        let engine = bench.engine(&backend).with_config(|config| {
            config.jobs = Some(threads(1));
            config.machine_jobs = Some(threads(1));
        });
        build(&engine, requests);
        std::mem::take(&mut *order.lock().unwrap())
    };
    let all = |length| OP_TYPES.map(|op_type| request(op_type, &[length]));
    // No compile time is known yet, so the order is that of the requests.
    assert_eq!(order_of(&all(1)), OP_TYPES);
    // Each compile was measured.
    let costs = bench.dir.path().join(format!("opkeep-{}/costs", rustix::process::geteuid().as_raw()));
    let measured = std::fs::read_to_string(&costs).unwrap();
    assert!(
        OP_TYPES.iter().all(|op_type| measured.contains(&format!(" null cpu {op_type}\n"))),
        "{measured}"
    );
    let injected = [("Neg", 300), ("Exp", 160), ("Square", 60), ("Abs", 10)];
    let lines: String =
        injected.iter().map(|(op_type, millis)| format!("{millis}000 null cpu {op_type}\n")).collect();
    std::fs::write(&costs, format!("opkeep costs 1\n{lines}")).unwrap();
    // Kernels of other shapes are other kernels, and take as long. A type that was never measured counts as average.
    let mut requests = all(2).to_vec();
    requests.push(request("Sqrt", &[2]));
    assert_eq!(order_of(&requests), ["Neg", "Exp", "Sqrt", "Square", "Abs"]);
}

/// Counts the compiles that run at once.
#[derive(Default)]
struct AtOnce {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl AtOnce {
    fn backend(self: &Arc<Self>, millis: u64) -> Arc<NullBackend> {
        let counts = Arc::clone(self);
        Arc::new(NullBackend::new(move |_, artifact| {
            let now = counts.now.fetch_add(1, Ordering::SeqCst) + 1;
            counts.most.fetch_max(now, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(millis));
            counts.now.fetch_sub(1, Ordering::SeqCst);
            Ok(artifact)
        }))
    }
}

/// Engines that share only the directory, as processes do.
#[test]
fn all_builds_together_run_so_many_compilers() {
    let bench = Bench::new();
    let counts = Arc::<AtOnce>::default();
    let backend = counts.backend(10);
    std::thread::scope(|scope| {
        for rank in 0..6 {
            let (bench, backend) = (&bench, &backend);
            scope.spawn(move || {
                // Half of the kernels are common to all.
                let requests: Vec<Request> = (0..10)
                    .map(|at| request("Square", &[if at % 2 == 0 { at } else { 100 * rank + at } + 1]))
                    .collect();
                let engine = bench.engine(backend).with_config(|config| {
                    config.jobs = Some(threads(4));
                    config.machine_jobs = Some(threads(3));
                });
                let found = build(&engine, &requests);
                assert!(!found.contains(&"failed"), "{found:?}");
            });
        }
    });
    assert_eq!(backend.compiles(), 5 + 6 * 5);
    assert_eq!(counts.most.load(Ordering::SeqCst), 3);
}

/// Builds that may run one compiler share it, in whatever order they request kernels and tokens.
#[test]
fn one_compiler_for_many_builds_of_the_same_network_is_no_deadlock() {
    let bench = Bench::new();
    let counts = Arc::<AtOnce>::default();
    let backend = counts.backend(3);
    let found: Vec<Vec<&str>> = std::thread::scope(|scope| {
        let run = |rank: usize| {
            let (bench, backend) = (&bench, &backend);
            scope.spawn(move || {
                let mut requests: Vec<Request> =
                    (1..=20).map(|length| request("Square", &[length])).collect();
                requests.rotate_left(rank * 3);
                build(
                    &bench.engine(backend).with_config(|config| {
                        config.jobs = Some(threads(3));
                        config.machine_jobs = Some(threads(1));
                    }),
                    &requests,
                )
            })
        };
        let threads: Vec<_> = (0..6).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!((backend.compiles(), counts.most.load(Ordering::SeqCst)), (20, 1));
    let compiled = found.iter().flatten().filter(|outcome| **outcome == "compiled").count();
    assert_eq!(compiled, 20);
    assert!(found.iter().flatten().all(|outcome| matches!(*outcome, "compiled" | "shared" | "reused")));
}

/// While other builds compile kernels that this one needs, it compiles kernels that they need.
#[test]
fn no_thread_waits_while_there_is_work() {
    let bench = Bench::new();
    let counts = Arc::<AtOnce>::default();
    let backend = counts.backend(60);
    let requests: Vec<Request> = (1..=12).map(|length| request("Square", &[length])).collect();
    let found: Vec<Vec<&str>> = std::thread::scope(|scope| {
        let run = || {
            build(
                &bench.engine(&backend).with_config(|config| {
                    config.jobs = Some(threads(1));
                    config.machine_jobs = Some(threads(4));
                }),
                &requests,
            )
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(backend.compiles(), 12);
    // Each of the four builds made about three of the twelve kernels. If they ran one after the other, one build would make all.
    for own in found {
        let compiled = own.iter().filter(|outcome| **outcome == "compiled").count();
        assert!((1..=6).contains(&compiled), "{own:?}");
    }
    assert!(counts.most.load(Ordering::SeqCst) >= 3);
}

#[test]
fn the_first_failure_ends_the_build_if_that_is_wanted() {
    let bench = Bench::new();
    let backend = Arc::new(NullBackend::new(|request, artifact| match request.job.ops[0].op_type.as_str() {
        "Abs" => Err(failure("it is broken")),
        _ => Ok(artifact),
    }));
    let requests: Vec<Request> = OP_TYPES.map(|op_type| request(op_type, &[3])).into();
    let engine = || {
        bench.engine(&backend).with_config(|config| {
            config.jobs = Some(threads(1));
            config.machine_jobs = Some(threads(1));
        })
    };
    let report = engine().with_config(|config| config.fail_fast = true).build(&requests).unwrap();
    assert_eq!(outcomes(&report), ["compiled", "failed", "skipped", "skipped"]);
    assert_eq!(backend.compiles(), 2);
    for stopped in &report.kernels[2..] {
        let error = stopped.error.as_deref().unwrap();
        assert!(
            matches!(error, KernelError::Skipped { first } if *first == report.kernels[1].name),
            "{error}"
        );
    }
    // Finished kernels are kept; without the setting everything else is built.
    assert_eq!(build(&engine(), &requests), ["reused", "failed", "compiled", "compiled"]);
    // Stored kernels are used nevertheless.
    assert_eq!(
        build(&engine().with_config(|config| config.fail_fast = true), &requests),
        ["reused", "failed", "reused", "reused"]
    );
}

#[test]
fn a_backend_that_panics_loses_one_kernel() {
    let bench = Bench::new();
    let backend = Arc::new(NullBackend::new(|request, artifact| {
        assert_ne!(request.job.ops[0].op_type, "Abs", "on purpose");
        Ok(artifact)
    }));
    let requests: Vec<Request> = OP_TYPES.map(|op_type| request(op_type, &[3])).into();
    let report = bench.engine(&backend).build(&requests).unwrap();
    assert_eq!(outcomes(&report), ["compiled", "failed", "compiled", "compiled"]);
    assert!(report.kernels[1].reason.as_ref().unwrap().contains("on purpose"));
    // Its work directory is removed, and its lock is free.
    let again = bench.engine(&Arc::default()).build(&requests).unwrap();
    assert_eq!(outcomes(&again), ["reused", "compiled", "reused", "reused"]);
    assert!(
        crate::common::files(bench.dir.path()).iter().all(|path| !path.to_string_lossy().contains("/work-"))
    );
}

/// The times of a build with more compilers than processors are remembered as those of a whole processor, and an estimate counts the
/// compilers of its own build.
#[test]
fn the_number_of_compilers_counts_in_estimates() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let requests: Vec<Request> = (1..=64).map(|length| request("Square", &[length])).collect();
    build(&bench.engine(&backend), &[request("Square", &[100])]);
    let expected = |jobs: usize| {
        let seen = Arc::new(Mutex::new(None));
        let log = Arc::clone(&seen);
        let observer = move |event: Event<'_>| {
            if let Event::LookedUp { missing, .. } = event {
                assert!(missing.len() == 64 && missing.iter().all(|kernel| kernel.is_measured));
                *log.lock().unwrap() = missing[0].expected;
            }
        };
        // Nothing is compiled, so nothing new is measured.
        let engine = bench.engine(&backend).with_config(|config| {
            config.mode = CacheMode::Require;
            config.jobs = Some(threads(jobs));
        });
        engine.with_observer(observer).build(&requests).unwrap();
        seen.lock().unwrap().unwrap()
    };
    let alone = expected(1);
    let processors = std::thread::available_parallelism().unwrap().get();
    for jobs in [processors, 4 * processors] {
        let share = (processors as f64 / jobs.min(64) as f64).min(1.0);
        let difference = expected(jobs).as_secs_f64() - alone.as_secs_f64() / share;
        assert!(difference.abs() < 1e-6, "{jobs} compilers: {difference}");
    }
}

/// Each kernel ends with one event, and the kernel itself comes with it.
#[test]
fn every_kernel_ends_with_one_event() {
    let bench = Bench::new();
    let backend = Arc::new(NullBackend::new(|request, artifact| match request.job.ops[0].op_type.as_str() {
        "Abs" => Err(failure("it is broken")),
        _ => Ok(artifact),
    }));
    let requests: Vec<Request> = OP_TYPES.map(|op_type| request(op_type, &[3])).into();
    build(&bench.engine(&backend), &requests[..1]);

    let events = Arc::new(Mutex::new(Vec::<(String, String, usize)>::new()));
    let log = Arc::clone(&events);
    let observer = move |event: Event<'_>| {
        let of = |kernel: &str, bytes| (event.name().to_owned(), kernel.to_owned(), bytes);
        log.lock().unwrap().push(match &event {
            Event::Planned { operators, kernels } => of("", operators * 10 + kernels),
            Event::LookedUp { missing, threads, .. } => of("", missing.len() * 10 + threads),
            Event::Hit { kernel, artifact, .. } | Event::Finished { kernel, artifact, .. } => {
                of(kernel, artifact.object.len() + artifact.metadata.len())
            }
            Event::Started { kernel } | Event::Waiting { kernel } | Event::Failed { kernel, .. } => {
                of(kernel, 0)
            }
            other => of(&other.to_string(), 0),
        });
    };
    let report = bench
        .engine(&backend)
        .with_config(|config| {
            config.jobs = Some(threads(1));
            config.keep_artifacts = false;
        })
        .with_observer(observer)
        .build(&requests)
        .unwrap();
    let events = std::mem::take(&mut *events.lock().unwrap());
    assert_eq!(events[0], ("planned".to_owned(), String::new(), 44));
    assert!(events.contains(&("looked-up".to_owned(), String::new(), 31)), "{events:?}");
    for kernel in &report.kernels {
        let own: Vec<(&str, usize)> = events
            .iter()
            .filter(|event| event.1 == kernel.name)
            .map(|event| (event.0.as_str(), event.2))
            .collect();
        let expected = match kernel.outcome {
            Outcome::Reused => vec![("hit", kernel.bytes.unwrap())],
            Outcome::Failed => vec![("started", 0), ("failed", 0)],
            _ => vec![("started", 0), ("finished", kernel.bytes.unwrap())],
        };
        assert_eq!(own, expected, "{}", kernel.name);
        // Artifacts are not kept.
        assert!(kernel.artifact.is_none());
    }
    assert_eq!(events.len(), 1 + 1 + 1 + 3 * 2);
}

/// Kernels are written to the view while others are still built.
#[test]
fn a_large_build_needs_no_more_memory_than_a_few_kernels() {
    let bench = Bench::new();
    // The kernels have unused bytes: 80 of them are 80 MiB.
    let backend = Arc::new(NullBackend::new(|_, artifact| Ok(crate::common::padded(artifact, 1 << 20))));
    let requests: Vec<Request> = (1..=80).map(|length| request("Square", &[length])).collect();
    let view = ViewConfig::rank(bench.dir.path().to_owned(), "0".to_owned());
    // Another process writes to the view: batches wait for it, and more kernels must not become ready meanwhile.
    let dir = bench.dir.path().join("rank_0/kernel_meta");
    std::fs::create_dir_all(&dir).unwrap();
    let lock = std::fs::File::create(dir.join(".opkeep.lock")).unwrap();
    lock.lock().unwrap();
    let release = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        drop(lock);
    });
    let alive = Arc::new(Mutex::new(Vec::new()));
    let most = Arc::new(AtomicUsize::new(0));
    let (log, peak) = (Arc::clone(&alive), Arc::clone(&most));
    let observer = move |event: Event<'_>| {
        if let Event::Finished { artifact, .. } = event {
            let mut alive = log.lock().unwrap();
            alive.push(Arc::downgrade(artifact));
            alive.retain(|artifact: &std::sync::Weak<_>| artifact.strong_count() > 0);
            peak.fetch_max(alive.len(), Ordering::SeqCst);
        }
    };
    let engine = bench.engine(&backend).with_config(|config| {
        config.jobs = Some(NonZeroUsize::new(4).unwrap());
        config.keep_artifacts = false;
    });
    let report = engine
        .with_config(|config| config.view = Some(view))
        .with_observer(observer)
        .build(&requests)
        .unwrap();
    release.join().unwrap();
    assert_eq!(report.count(Outcome::Compiled), 80);
    let placed = report.view.unwrap().unwrap();
    assert_eq!(placed.names.len(), 80);
    assert_eq!(
        crate::common::files(&placed.directory)
            .iter()
            .filter(|path| path.extension().is_some_and(|e| e == "o"))
            .count(),
        80
    );
    // 16 MiB are written, 16 MiB wait, and each of the four threads adds one to both and has one.
    assert!(most.load(Ordering::SeqCst) <= 44, "{most:?}");
}

/// The reason of a miss names the nearest kernel, if there is one.
#[test]
fn a_miss_is_explained_by_the_nearest_kernel() {
    let bench = Bench::new();
    let backend = Arc::new(NullBackend::new(|_, artifact| {
        std::thread::sleep(Duration::from_millis(150));
        Ok(artifact)
    }));
    build(&bench.engine(&backend), &[request("Square", &[3]), request("Abs", &[5])]);
    let reason = |engine: Engine, wanted: &Request| {
        engine.build(std::slice::from_ref(wanted)).unwrap().kernels[0].reason.clone().unwrap()
    };
    // The search has only the time of the compile: on a busy machine it may find nothing.
    let explained = |ask: &dyn Fn(i64) -> String| {
        let mut answers = (0..100).map(|attempt| (attempt, ask(attempt)));
        answers.find(|(_, answer)| answer.contains("; ")).expect("no nearest kernel was named")
    };
    let (attempt, answer) = explained(&|at| reason(bench.engine(&backend), &request("Square", &[4 + at])));
    assert!(answer.starts_with("not in the store; new job, like square_"), "{answer}");
    assert!(
        answer.contains(" but for inputs[0].shape: [") && answer.contains(&format!("] -> [{}]", 4 + attempt)),
        "{answer}"
    );
    // Kernels of other operators are never the nearest.
    assert_eq!(reason(bench.engine(&backend), &request("Neg", &[3])), "not in the store");
    let (attempt, answer) = explained(&|at| {
        backend.upgrade(&format!("{}", 2 + at));
        reason(bench.engine(&backend), &request("Square", &[3]))
    });
    assert!(answer.starts_with("not in the store; compiler "), "{answer}");
    assert!(answer.ends_with(&format!(" -> {}", 2 + attempt)), "{answer}");
    let told = reason(
        bench.engine(&backend).with_config(|config| config.mode = CacheMode::Force),
        &request("Square", &[3]),
    );
    assert_eq!(told, "cache mode is force");
}

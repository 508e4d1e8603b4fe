//! Several builds that want the same kernels at once.

#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{Bench, build, failure, request};
use opkeep::{CacheMode, Outcome};
use opkeep_backend::BackendError;
use opkeep_fs::CancelToken;
use opkeep_testkit::NullBackend;

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
            (0..4).map(|_| scope.spawn(|| build(&bench.engine(&backend), &requests)[0])).collect();
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
        let run = || bench.engine(&backend).build(&requests).unwrap().kernels[0].reason.clone().unwrap();
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(reasons.iter().all(|reason| reason.contains("it is broken")), "{reasons:?}");
    assert_eq!(backend.compiles(), 1);
    build(&bench.engine(&backend), &requests);
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
    build(&bench.engine(&backend), &requests);
    let mut found: Vec<&str> = std::thread::scope(|scope| {
        let run = || {
            build(&bench.engine(&backend).with_config(|config| config.mode = CacheMode::Force), &requests)[0]
        };
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
        scope.spawn(|| build(&bench.engine(&slow), &requests));
        while slow.compiles() == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let cancel = CancelToken::new();
        let waiter = scope.spawn({
            let cancel = cancel.clone();
            let (bench, slow, requests) = (&bench, &slow, &requests);
            move || {
                let began = Instant::now();
                let report = bench.engine(slow).with_cancel(cancel).build(requests).unwrap();
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

/// Has one build compile and fail as `end` says, while another waits; gives how that one came out.
fn after_a_failure(
    end: impl Fn() -> BackendError + Send + Sync + 'static,
    holders_limit: f64,
    waiters_limit: f64,
) -> (Outcome, usize) {
    let bench = Bench::new();
    let first = AtomicUsize::new(0);
    let backend = Arc::new(NullBackend::new(move |_, artifact| {
        if first.fetch_add(1, Ordering::SeqCst) > 0 {
            return Ok(artifact);
        }
        std::thread::sleep(Duration::from_millis(400));
        Err(end())
    }));
    let requests = [request("Square", &[3])];
    let outcome = std::thread::scope(|scope| {
        let limited = |seconds: f64| {
            bench
                .engine(&backend)
                .with_config(|config| config.compile_timeout = Some(Duration::from_secs_f64(seconds)))
        };
        let holder = limited(holders_limit);
        let requests = &requests;
        scope.spawn(move || holder.build(requests).unwrap());
        while backend.compiles() == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        limited(waiters_limit).build(requests).unwrap().kernels[0].outcome
    });
    (outcome, backend.compiles())
}

fn out_of_time() -> BackendError {
    BackendError::TimedOut { command: "cc".into(), seconds: 5.0, log_tail: String::new(), log: None }
}

/// Who has as little time takes the failure; who has more tries for itself.
#[test]
fn a_lack_of_time_is_nobody_elses_verdict() {
    assert_eq!(after_a_failure(out_of_time, 5.0, 5.0), (Outcome::Failed, 1));
    assert_eq!(after_a_failure(out_of_time, 5.0, 60.0), (Outcome::Compiled, 2));
}

/// A compiler that was killed, or had no room, says nothing of the next attempt.
#[test]
fn a_killed_or_starved_compiler_is_nobody_elses_verdict() {
    let killed = || BackendError::Compile {
        command: "cc".into(),
        status: "signal: 9 (SIGKILL)".into(),
        log_tail: String::new(),
        log: None,
    };
    assert_eq!(after_a_failure(killed, 5.0, 5.0), (Outcome::Compiled, 2));
    assert_eq!(after_a_failure(|| failure("cc1: No space left on device"), 5.0, 5.0), (Outcome::Compiled, 2));
    assert_eq!(after_a_failure(|| failure("error: no"), 5.0, 5.0), (Outcome::Failed, 1));
}

/// Ranks do not begin at the same instant: what the first has made is new enough for those that come a little later.
#[test]
fn forcing_builds_that_overlap_compile_once() {
    let bench = Bench::new();
    let backend = Arc::new(NullBackend::new(|_, artifact| {
        std::thread::sleep(Duration::from_millis(150));
        Ok(artifact)
    }));
    let requests: Vec<_> = (1..=4).map(|length| request("Square", &[length])).collect();
    build(&bench.engine(&backend), &requests);
    let force = || {
        let one = std::num::NonZeroUsize::MIN;
        build(
            &bench.engine(&backend).with_config(|config| {
                config.mode = CacheMode::Force;
                config.jobs = Some(one);
                config.machine_jobs = Some(one);
            }),
            &requests,
        )
    };
    let late = std::thread::scope(|scope| {
        scope.spawn(force);
        while backend.compiles() < 4 + 3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        force()
    });
    // The one that was left it may have made itself.
    assert_eq!(late[..2], ["shared", "shared"], "{late:?}");
    assert_eq!(backend.compiles(), 4 + 4);
    // Once they are done, force means force.
    assert_eq!(force(), ["compiled"; 4]);
}

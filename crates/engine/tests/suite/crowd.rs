//! Several builds that need the same kernels at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{Bench, Gate, build, eventually, failure, request};
use opkeep::{CacheMode, Event, Outcome};
use opkeep_backend::BackendError;
use opkeep_fs::CancelToken;
use opkeep_testkit::NullBackend;

#[test]
fn a_waiter_shares_the_kernel() {
    let bench = Bench::new();
    let gate = Arc::<Gate>::default();
    let waiters = Arc::clone(&gate);
    let backend = Arc::new(NullBackend::new(move |_, artifact| {
        waiters.wait_for(3);
        Ok(artifact)
    }));
    let requests = [request("Square", &[3])];
    let mut found: Vec<&str> = std::thread::scope(|scope| {
        let run = || build(&gate.waiting(bench.engine(&backend)), &requests)[0];
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    found.sort_unstable();
    assert_eq!(found, ["compiled", "shared", "shared", "shared"]);
    assert_eq!(backend.compiles(), 1);
}

#[test]
fn a_waiter_shares_the_failure_and_a_later_caller_tries() {
    let bench = Bench::new();
    let gate = Arc::<Gate>::default();
    let waiters = Arc::clone(&gate);
    let backend = Arc::new(NullBackend::new(move |_, _| {
        waiters.wait_for(2);
        Err(failure("it is broken"))
    }));
    let requests = [request("Square", &[3])];
    let reasons: Vec<String> = std::thread::scope(|scope| {
        let run = || {
            let report = gate.waiting(bench.engine(&backend)).build(&requests).unwrap();
            report.kernels[0].reason.clone().unwrap()
        };
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
    let (gate, is_first) = (Arc::<Gate>::default(), AtomicBool::new(true));
    let waiters = Arc::clone(&gate);
    let backend = Arc::new(NullBackend::new(move |_, artifact| {
        if !is_first.swap(false, Ordering::SeqCst) {
            waiters.wait_for(3);
        }
        Ok(artifact)
    }));
    let requests = [request("Square", &[3])];
    build(&bench.engine(&backend), &requests);
    let mut found: Vec<&str> = std::thread::scope(|scope| {
        let run = || {
            let engine = bench.engine(&backend).with_config(|config| config.mode = CacheMode::Force);
            build(&gate.waiting(engine), &requests)[0]
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
    let (gate, done) = (Arc::<Gate>::default(), Arc::<Gate>::default());
    let end = Arc::clone(&done);
    let slow = Arc::new(NullBackend::new(move |_, artifact| {
        end.wait_for(1);
        Ok(artifact)
    }));
    let requests = [request("Square", &[3])];
    let cancel = CancelToken::new();
    std::thread::scope(|scope| {
        scope.spawn(|| build(&bench.engine(&slow), &requests));
        eventually(|| slow.compiles() > 0);
        let waiter = gate.waiting(bench.engine(&slow)).with_cancel(cancel.clone());
        let requests = &requests;
        let waiter = scope.spawn(move || waiter.build(requests).unwrap());
        gate.wait_for(1);
        cancel.cancel();
        // The wait ends although the compile continues.
        let report = waiter.join().unwrap();
        assert_eq!((report.kernels[0].outcome, report.cancelled), (Outcome::Cancelled, true));
        done.signal();
    });
    assert_eq!(slow.compiles(), 1);
}

/// Runs a build that compiles and fails with the error of `end`, while another build waits. Returns the waiter's outcome.
fn after_a_failure(
    end: impl Fn() -> BackendError + Send + Sync + 'static,
    holders_limit: f64,
    waiters_limit: f64,
) -> (Outcome, usize) {
    let bench = Bench::new();
    let (gate, is_first) = (Arc::<Gate>::default(), AtomicBool::new(true));
    let waiters = Arc::clone(&gate);
    let backend = Arc::new(NullBackend::new(move |_, artifact| {
        if !is_first.swap(false, Ordering::SeqCst) {
            return Ok(artifact);
        }
        waiters.wait_for(1);
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
        eventually(|| backend.compiles() > 0);
        gate.waiting(limited(waiters_limit)).build(requests).unwrap().kernels[0].outcome
    });
    (outcome, backend.compiles())
}

fn out_of_time() -> BackendError {
    BackendError::TimedOut { command: "cc".into(), seconds: 5.0, log_tail: String::new(), log: None }
}

/// A waiter with the same time limit takes over the failure; one with a longer limit tries itself.
#[test]
fn a_timeout_is_passed_on_to_equal_limits_only() {
    assert_eq!(after_a_failure(out_of_time, 5.0, 5.0), (Outcome::Failed, 1));
    assert_eq!(after_a_failure(out_of_time, 5.0, 60.0), (Outcome::Compiled, 2));
}

/// After the failure of a compiler that was killed, or had no space, the next attempt may succeed.
#[test]
fn the_failure_of_a_killed_or_starved_compiler_is_not_passed_on() {
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

/// Ranks do not start at the same instant: kernels of the first rank are new enough for those that start a little later.
#[test]
fn forcing_builds_that_overlap_compile_once() {
    let bench = Bench::new();
    let (late_has_begun, compiles) = (Arc::<Gate>::default(), AtomicUsize::new(0));
    let begun = Arc::clone(&late_has_begun);
    let backend = Arc::new(NullBackend::new(move |_, artifact| {
        // The third kernel of the first build, which is thus not finished when the second build begins.
        if compiles.fetch_add(1, Ordering::SeqCst) == 4 + 2 {
            begun.wait_for(1);
        }
        Ok(artifact)
    }));
    let requests: Vec<_> = (1..=4).map(|length| request("Square", &[length])).collect();
    build(&bench.engine(&backend), &requests);
    let force = || {
        let one = std::num::NonZeroUsize::MIN;
        bench.engine(&backend).with_config(|config| {
            config.mode = CacheMode::Force;
            config.jobs = Some(one);
            config.machine_jobs = Some(one);
        })
    };
    let late = std::thread::scope(|scope| {
        scope.spawn(|| build(&force(), &requests));
        eventually(|| backend.compiles() >= 4 + 3);
        let late = force().with_observer(move |event| {
            if let Event::Planned { .. } = event {
                late_has_begun.signal();
            }
        });
        build(&late, &requests)
    });
    // The fourth kernel may have been compiled by either build.
    assert_eq!(late[..2], ["shared", "shared"], "{late:?}");
    assert_eq!(backend.compiles(), 4 + 4);
    // After these builds have ended, a build with force compiles everything.
    assert_eq!(build(&force(), &requests), ["compiled"; 4]);
}

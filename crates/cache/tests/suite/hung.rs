//! Engines that hang, and engines whose answers are slow: the calls that callers make to them, and the waits that they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use opkeep_cache::{Cache, CancelToken, Query, RemoteConfig, Source, TargetCache, WaitBudget, WarningKind};
use opkeep_testkit::remote::{FakeRemote, RemoteCall::Get, RemoteCall::Put, RemoteFaults};

use crate::common::{
    Host, TARGET, build, builder, claim, hit, key, keys, pending, publish, settle, sharing, take, text, until,
};

/// The duration of a call that nothing ends, longer than any test may take.
const LONG: Duration = Duration::from_secs(3600);
const IDLE: Duration = Duration::from_millis(100);

fn config(remote: &FakeRemote) -> RemoteConfig {
    let mut config = RemoteConfig::new(Arc::new(remote.clone()));
    (config.call_timeout, config.idle_timeout) = (LONG, IDLE);
    config
}

/// Has all calls take `delay`.
fn delay(remote: &FakeRemote, delay: Duration) {
    remote.set_faults(RemoteFaults { delay, ..RemoteFaults::default() });
}

fn opened(host: &Host, remote: &RemoteConfig) -> (Arc<Cache>, TargetCache) {
    let mut settings = sharing(host.config());
    settings.remote = Some(remote.clone());
    let cache = Arc::new(Cache::open(settings).unwrap());
    let target = cache.target(TARGET).unwrap();
    (cache, target)
}

/// Nothing but the idle timeout ends its calls.
#[test]
fn an_engine_that_hangs_is_called_once() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    delay(&remote, LONG);
    let cache = host.with_remote(&config(&remote));
    for number in 0..5 {
        publish(build(claim(&cache, &format!("relu {number}"))), number);
    }
    assert_eq!(remote.calls(), [Get]);
    let warnings = host.warnings();
    let [(WarningKind::Remote, text)] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(text.starts_with("the remote cache sent nothing for 0.1 s"), "{text}");
    assert_eq!((cache.activity().remote_errors, cache.activity().remote_failures), (1, 1));
}

/// Other callers that share the settings learn the reason without a call.
#[test]
fn a_pause_has_a_reason() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    delay(&remote, LONG);
    let config = config(&remote);
    drop(build(claim(&host.with_remote(&config), "relu")));
    host.warnings();
    drop(build(claim(&host.with_remote(&config), "tanh")));
    assert_eq!(remote.calls(), [Get]);
    let warnings = host.warnings();
    let [(_, text)] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(
        text.contains("is not used: the remote cache sent nothing for") && text.contains("30 s"),
        "{text}"
    );
}

/// Each of its answers comes before the timeouts.
#[test]
fn an_engine_with_slow_answers_is_paused() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let mut config = config(&remote);
    config.idle_timeout = Duration::from_millis(300);
    delay(&remote, config.idle_timeout * 3 / 5);
    let cache = host.with_remote(&config);
    for number in 0..5 {
        drop(build(claim(&cache, &format!("relu {number}"))));
    }
    let calls = remote.calls().len();
    assert!(calls <= 3, "{calls}");
    assert_eq!(host.warned(), [WarningKind::Remote]);
}

/// The thread that asks for a caller who waits for another host meets the engine that hangs.
#[test]
fn a_wait_for_another_host_ends_when_the_engine_hangs() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let _ticket = build(claim(&one.with_remote(&RemoteConfig::new(Arc::new(remote.clone()))), "relu"));
    let cache = other.with_remote(&config(&remote));
    let waiter = pending(claim(&cache, "relu"));
    delay(&remote, LONG);
    drop(build(settle(&cache, opkeep_cache::Claim::Pending(waiter))));
}

/// A large object takes long to send, and its answer comes at the end.
#[test]
fn a_call_that_stores_may_be_idle() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let cache = host.with_remote(&config(&remote));
    let ticket = build(claim(&cache, "relu"));
    delay(&remote, IDLE * 5);
    assert!(publish(ticket, 1).remote);
    assert!(host.warnings().is_empty());
}

/// But no caller waits at its end for an upload that does not go on.
#[test]
fn the_end_of_a_program_waits_for_no_upload_without_progress() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (cache, target) = opened(&host, &config(&remote));
    let ticket = build(claim(&target, "relu"));
    delay(&remote, LONG);
    let object = text(1);
    assert!(ticket.publish(&builder(&object)).unwrap().remote);
    assert_eq!(cache.finish_uploads(Instant::now() + LONG, None), 1);
    assert_eq!(target.store().unwrap().unsent().len(), 1);
    // Nor does the next step of its end, which reports it once.
    let calls = remote.calls().len();
    for is_first in [true, false] {
        assert_eq!((cache.push_unsent(None, None).left, remote.calls().len()), (1, calls));
        warns_of_unsent(&host, is_first.then_some("it took nothing for 0.1 s"));
    }
}

/// Fails unless there is one warning that an entry is not sent, with the reason, or none.
#[track_caller]
fn warns_of_unsent(host: &Host, why: Option<&str>) {
    let warnings = host.warnings();
    let expected = why.map(|why| {
        let text = format!("1 kernel is not sent to the remote cache: {why}; a later build sends it");
        (WarningKind::Remote, text)
    });
    assert_eq!(warnings, Vec::from_iter(expected));
}

/// The same for what an earlier process left. The engine may only be slow, so it is not paused.
#[test]
fn the_end_of_a_program_waits_for_no_push_without_progress() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let config = config(&remote);
    let (cache, target) = opened(&host, &config);
    publish(build(claim(&target, "relu")), 1);
    target.store().unwrap().mark_unsent(&key("relu"), &config.destination(), false).unwrap();
    delay(&remote, LONG);
    for is_first in [true, false] {
        assert_eq!(cache.push_unsent(Some(Instant::now() + LONG), None).left, 1);
        warns_of_unsent(&host, is_first.then_some("it took nothing for 0.1 s"));
    }
    delay(&remote, Duration::ZERO);
    assert_eq!(cache.push_unsent(Some(Instant::now() + LONG), None).sent, 1);
    // The next time is another problem.
    target.store().unwrap().mark_unsent(&key("relu"), &config.destination(), false).unwrap();
    assert_eq!(cache.push_unsent(Some(Instant::now()), None).left, 1);
    warns_of_unsent(&host, Some("the time for it is over"));
}

/// The reads of the next process are answered, so nothing else says that the engine stores nothing.
#[test]
fn an_engine_that_hangs_only_when_it_stores_is_a_warning() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (cache, target) = opened(&host, &config(&remote));
    let hangs = remote.clone();
    remote.on_call(move |call, _| {
        delay(&hangs, if call == Put { LONG } else { Duration::ZERO });
    });
    let object = text(1);
    assert!(build(claim(&target, "relu")).publish(&builder(&object)).unwrap().remote);
    assert_eq!(cache.finish_uploads(Instant::now() + LONG, None), 1);
    drop(build(claim(&target, "tanh")));
    assert_eq!(cache.push_unsent(None, None).left, 1);
    warns_of_unsent(&host, Some("it took nothing for 0.1 s"));
}

/// An interrupted build has said enough.
#[test]
fn a_cancelled_push_is_no_warning() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let config = config(&remote);
    let (cache, target) = opened(&host, &config);
    target.store().unwrap().mark_unsent(&key("relu"), &config.destination(), false).unwrap();
    let cancel = CancelToken::new();
    cancel.cancel();
    assert_eq!(cache.push_unsent(None, Some(&cancel)).left, 1);
    assert!(host.warnings().is_empty());
}

/// What earlier processes left is not sent during a pause, and the reason is reported once.
#[test]
fn what_is_not_sent_in_a_pause_is_a_warning() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let config = config(&remote);
    delay(&remote, LONG);
    drop(build(claim(&Host::new().with_remote(&config), "tanh")));
    let (cache, target) = opened(&host, &config);
    assert_eq!(cache.push_unsent(None, None).left, 0);
    assert!(host.warnings().is_empty(), "there is nothing to send");
    target.store().unwrap().mark_unsent(&key("relu"), &config.destination(), false).unwrap();
    for expected in [1, 0] {
        assert_eq!(cache.push_unsent(None, None).left, 1);
        let warnings = host.warnings();
        assert_eq!(warnings.len(), expected, "{warnings:?}");
        assert!(warnings.iter().all(|(_, text)| text.contains("sent nothing for")), "{warnings:?}");
    }
    assert_eq!(remote.calls(), [Get]);
}

/// A caller that cannot build waits for the answer.
#[test]
fn a_caller_that_must_wait_does_so() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    publish(build(claim(&one.with_remote(&config(&remote)), "relu")), 1);
    delay(&remote, IDLE * 3);
    let budget = WaitBudget::unlimited();
    let mut query = Query::new(&take);
    query.wait_budget = Some(&budget);
    let cache = other.with_remote(&config(&remote));
    assert_eq!(hit(cache.get_or_begin(&key("relu"), &query).unwrap()), (1, Source::Remote));
}

/// The number in the warning is that of the summary, whichever threads wait.
#[test]
fn a_budget_that_is_used_up_is_reported_with_the_time_that_was_lost() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    delay(&remote, LONG);
    let mut config = config(&remote);
    config.idle_timeout = LONG;
    let cache = host.with_remote(&config);
    let budget = WaitBudget::new(Duration::from_millis(150));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (cache, budget) = (&cache, &budget);
            scope.spawn(move || {
                let mut query = Query::new(&take);
                query.wait_budget = Some(budget);
                drop(build(cache.get_or_begin(&key(&format!("relu {number}")), &query).unwrap()));
            });
        }
    });
    let warnings = host.warnings();
    let [(_, text)] = &warnings[..] else { panic!("{warnings:?}") };
    let lost = Duration::from_micros(cache.activity().lost_remote_micros).as_secs_f64();
    assert!(text.contains(&format!("took {lost:.1} s")), "{text}, {lost}");
    assert_eq!(remote.count(Put), 0);
}

/// A call that began later ends later: its time belongs to the number as well.
#[test]
fn the_time_that_was_lost_has_that_of_the_last_call() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    delay(&remote, LONG);
    let mut config = config(&remote);
    config.idle_timeout = LONG;
    let cache = host.with_remote(&config);
    let budget = WaitBudget::new(Duration::from_secs(1));
    thread::scope(|scope| {
        let call = |name: &'static str| {
            let (cache, budget) = (&cache, &budget);
            scope.spawn(move || {
                let mut query = Query::new(&take);
                query.wait_budget = Some(budget);
                drop(build(cache.get_or_begin(&key(name), &query).unwrap()));
            })
        };
        let first = call("relu");
        until("the first call", || remote.calls().len() == 1);
        // The budget of each call is what is left when it begins.
        thread::sleep(Duration::from_millis(300));
        let second = call("tanh");
        until("the second call", || remote.calls().len() == 2);
        first.join().unwrap();
        second.join().unwrap();
    });
    let warnings = host.warnings();
    let [(_, text)] = &warnings[..] else { panic!("{warnings:?}") };
    let lost = Duration::from_micros(cache.activity().lost_remote_micros);
    assert!(lost >= Duration::from_millis(1200), "{lost:?}");
    assert!(text.contains(&format!("took {:.1} s", lost.as_secs_f64())), "{text}, {lost:?}");
}

/// Each would wait for the engine until it is given up, one after the other.
#[test]
#[expect(clippy::disallowed_methods, reason = "the open files show who waits")]
fn processes_that_wait_for_the_fetch_of_another_one_share_its_failure() {
    const OTHERS: usize = 2;
    let (remote, host) = (FakeRemote::new(), Host::new());
    // Each process has its own settings of the engine, so that only the turn is shared.
    let open = || {
        let mut config = RemoteConfig::new(Arc::new(remote.clone()));
        (config.call_timeout, config.idle_timeout) = (LONG, Duration::from_secs(5));
        opened(&host, &config)
    };
    let waiting = || {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let paths = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        paths
            .filter(|path| path.starts_with(host.dir.path()) && path.parent().unwrap().ends_with("locks"))
            .count()
    };
    let fetch = |target: &TargetCache| target.fetch(&keys(20), &Query::new(&take)).missing.len();
    let (_first_cache, first) = open();
    let others: Vec<_> = (0..OTHERS).map(|_| open()).collect();
    delay(&remote, LONG);
    let began = Arc::new(AtomicBool::new(false));
    remote.on_call({
        let began = Arc::clone(&began);
        move |_, _| began.store(true, Ordering::SeqCst)
    });
    thread::scope(|scope| {
        let holder = scope.spawn(|| fetch(&first));
        until("the first call", || began.load(Ordering::SeqCst));
        let others: Vec<_> = others.iter().map(|(_, target)| scope.spawn(|| fetch(target))).collect();
        until("the others", || waiting() > OTHERS);
        assert_eq!(holder.join().unwrap(), 20);
        others.into_iter().for_each(|other| assert_eq!(other.join().unwrap(), 20));
    });
    assert_eq!(remote.calls(), [Get], "one process called the engine, for all of them");
    let warnings = host.warnings();
    let of_others =
        warnings.iter().filter(|(_, text)| text.contains("is not used: the remote cache sent nothing"));
    assert_eq!((warnings.len(), of_others.count()), (1 + OTHERS, OTHERS), "{warnings:?}");
    // One that comes later finds out for itself.
    let (_cache, later) = open();
    assert_eq!((fetch(&later), remote.calls().len()), (20, 2));
}

//! The limits of calls to a remote tier: the caller's deadline and token, and the tier's health.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opkeep_cache::{
    Cache, Claim, PendingKey, Query, RemoteConfig, Source, TargetCache, Ticket, WaitBudget, WarningKind,
};
use opkeep_fs::CancelToken;
use opkeep_testkit::remote::RemoteCall::{Capabilities, Claim as ClaimCall, Get, Put, Release};
use opkeep_testkit::remote::{FakeRemote, RemoteCall, RemoteFaults};

use crate::common::{Host, build, builder, claim, hit, key, publish, take, text};

/// The duration of a call that its caller does not end, longer than any test may take.
const LONG: Duration = Duration::from_secs(3600);

fn config(remote: &FakeRemote) -> RemoteConfig {
    let mut config = RemoteConfig::new(Arc::new(remote.clone()));
    config.call_timeout = LONG;
    config
}

/// A tier whose calls `slow` never answer, and call `end` when they begin.
fn never_answers(slow: RemoteCall, end: impl Fn() + Send + Sync + 'static) -> FakeRemote {
    let remote = FakeRemote::new();
    let tier = remote.clone();
    remote.on_call(move |call, _| {
        let delay = if call == slow { LONG } else { Duration::ZERO };
        tier.set_faults(RemoteFaults { delay, ..RemoteFaults::default() });
        if call == slow {
            end();
        }
    });
    remote
}

#[test]
fn a_token_ends_each_call() {
    for slow in [Get, Capabilities, ClaimCall, Put] {
        let (host, cancel) = (Host::new(), CancelToken::new());
        let remote = never_answers(slow, {
            let cancel = cancel.clone();
            move || cancel.cancel()
        });
        let cache = host.with_remote(&config(&remote));
        let mut query = Query::new(&take);
        query.cancel = Some(&cancel);
        let claimed = cache.get_or_begin(&key("relu"), &query).unwrap();
        if slow == Put {
            // The kernel is in the local store nevertheless.
            assert!(!publish(build(claimed), 1).remote);
            assert_eq!(hit(claim(&cache, "relu")), (1, Source::Local));
        } else {
            assert!(matches!(claimed, Claim::Cancelled), "{slow:?}: {claimed:?}");
        }
        assert_eq!(remote.count(slow), 1);
        // The tier's health does not change.
        assert!(host.warnings().is_empty(), "{slow:?}");
        assert_eq!(cache.store().unwrap().statistics().remote_errors, 0);
    }
}

/// The last look before a build, with the lease.
#[test]
fn a_caller_that_is_cancelled_with_its_lease_builds_nothing() {
    let (remote, host, cancel) = (FakeRemote::new(), Host::new(), CancelToken::new());
    let (tier, token) = (remote.clone(), cancel.clone());
    remote.on_call(move |call, _| {
        if call == Get && tier.count(ClaimCall) == 1 {
            token.cancel();
        }
    });
    let mut query = Query::new(&take);
    query.cancel = Some(&cancel);
    let claimed = host.with_remote(&config(&remote)).get_or_begin(&key("relu"), &query).unwrap();
    assert!(matches!(claimed, Claim::Cancelled), "{claimed:?}");
    assert_eq!(remote.calls(), [Get, Capabilities, ClaimCall, Get, Release]);
}

#[test]
fn a_deadline_ends_each_call() {
    for slow in [Get, Capabilities, ClaimCall, Put] {
        let (host, remote) = (Host::new(), never_answers(slow, || {}));
        let cache = host.with_remote(&config(&remote));
        let soon = || Instant::now() + Duration::from_millis(20);
        let mut query = Query::new(&take);
        query.deadline = Some(soon());
        // An answer that is not in time counts as a miss.
        let ticket = build(cache.get_or_begin(&key("relu"), &query).unwrap());
        let object = text(1);
        // The deadline of the query was that of the wait. A call that is answered has time, however many programs run beside it.
        let end = if slow == Put { soon() } else { Instant::now() + LONG };
        let published = ticket.publish_before(&builder(&object), end).unwrap();
        assert_eq!(published.remote, slow != Put, "{slow:?}");
        assert_eq!(remote.count(slow), 1);
        assert!(host.warnings().is_empty(), "{slow:?}");
    }
}

/// A budget that ends a call, and one that answers use up: one warning, whatever the number of calls.
#[test]
fn a_budget_that_is_used_up_is_one_warning() {
    for delay in [LONG, Duration::from_millis(60)] {
        let (remote, host) = (FakeRemote::new(), Host::new());
        remote.set_faults(RemoteFaults { delay, ..RemoteFaults::default() });
        let cache = host.with_remote(&config(&remote));
        let budget = WaitBudget::new(Duration::from_millis(50));
        for number in 0..4 {
            let mut query = Query::new(&take);
            query.wait_budget = Some(&budget);
            drop(build(cache.get_or_begin(&key(&format!("relu {number}")), &query).unwrap()));
        }
        let warnings = host.warnings();
        assert!(
            matches!(&warnings[..], [(WarningKind::Remote, text)] if text.contains("s, and the limit is ")),
            "{delay:?}: {warnings:?}"
        );
        assert_eq!(remote.count(Get), 1, "{delay:?}");
    }
}

/// Callers with short deadlines do not pause a slow tier for others.
#[test]
fn callers_that_end_their_calls_pause_no_tier() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    remote.set_faults(RemoteFaults { delay: LONG, ..RemoteFaults::default() });
    let cache = host.with_remote(&config(&remote));
    for number in 0..5 {
        let mut query = Query::new(&take);
        query.deadline = Some(Instant::now() + Duration::from_millis(1));
        drop(cache.get_or_begin(&key(&format!("relu {number}")), &query).unwrap());
    }
    remote.set_faults(RemoteFaults::default());
    assert!(publish(build(claim(&cache, "relu")), 1).remote);
}

#[test]
fn a_cancelled_caller_calls_nothing_and_builds_nothing() {
    let (remote, host, cancel) = (FakeRemote::new(), Host::new(), CancelToken::new());
    let cache = host.with_remote(&config(&remote));
    publish(build(claim(&cache, "sigmoid")), 1);
    let calls = remote.calls().len();
    cancel.cancel();
    let mut query = Query::new(&take);
    query.cancel = Some(&cancel);
    assert!(matches!(cache.get_or_begin(&key("relu"), &query).unwrap(), Claim::Cancelled));
    assert_eq!(hit(cache.get_or_begin(&key("sigmoid"), &query).unwrap()), (1, Source::Local));
    assert_eq!(remote.calls().len(), calls);
    drop(build(claim(&cache, "relu")));
}

/// Each build of an engine opens a cache.
#[test]
fn a_tier_that_is_gone_is_not_called_by_caches_that_are_opened_meanwhile() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    remote.set_faults(RemoteFaults { is_gone: true, ..RemoteFaults::default() });
    let config = config(&remote);
    for name in ["a", "b", "c"] {
        drop(build(claim(&host.with_remote(&config), name)));
    }
    // The third failure is that of a look-up of `b`; from then on, each cache warns once that the tier is not used. Each warns once.
    assert_eq!(remote.calls(), [Get, Capabilities, Get]);
    assert_eq!(host.warned(), [WarningKind::Remote; 3]);
    let cache = host.with_remote(&config);
    for name in ["d", "e"] {
        publish(build(claim(&cache, name)), 1);
    }
    assert_eq!(remote.calls().len(), 3);
    let warnings = host.warnings();
    assert!(
        matches!(&warnings[..], [(WarningKind::Remote, text)] if text.contains("is not used")),
        "{warnings:?}"
    );
    assert_eq!(cache.store().unwrap().statistics().remote_errors, 3);
    // Another tier, or the same one newly configured, is called.
    remote.set_faults(RemoteFaults::default());
    assert!(publish(build(claim(&host.with_remote(&self::config(&remote)), "f")), 1).remote);
}

/// A binding to another language may wait on any thread, without the lock of its interpreter.
#[test]
fn the_types_that_bindings_share_are_send_and_sync() {
    fn both<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    both::<Cache>();
    both::<TargetCache>();
    both::<Query<'_>>();
    sent::<Ticket>();
    sent::<PendingKey>();
}

/// The cache holds none of its locks in memory while it calls a function of the caller.
#[test]
fn functions_of_the_caller_may_use_the_cache() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    publish(build(claim(&Host::new().with_remote(&config(&remote)), "relu")), 1);
    let again: Arc<Mutex<Option<Arc<Cache>>>> = Arc::default();
    let calls = Arc::new(AtomicUsize::new(0));
    let use_it = {
        let (again, calls) = (Arc::clone(&again), Arc::clone(&calls));
        move || {
            let cache = again.lock().unwrap().clone().unwrap();
            let number = calls.fetch_add(1, Ordering::SeqCst);
            if number < 8 {
                let target = cache.target("cpu-x86_64").unwrap();
                drop(claim(&target, &format!("sigmoid {number}")));
                drop(cache.target(&format!("other-{number}")).unwrap());
            }
        }
    };
    let mut settings = host.config();
    settings.remote = Some(config(&remote));
    let warn = use_it.clone();
    settings.on_warning = Some(Arc::new(move |_, _| warn()));
    let cache = Arc::new(Cache::open(settings).unwrap());
    *again.lock().unwrap() = Some(Arc::clone(&cache));
    let accept = |_: &opkeep_store::Entry| {
        use_it();
        opkeep_cache::Accept::Take
    };
    let target = cache.target("cpu-x86_64").unwrap();
    assert_eq!(hit(target.get_or_begin(&key("relu"), &Query::new(&accept)).unwrap()), (1, Source::Remote));
    let accepted = calls.load(Ordering::SeqCst);
    assert!(accepted > 0);
    remote.set_faults(RemoteFaults { is_gone: true, ..RemoteFaults::default() });
    drop(build(target.get_or_begin(&key("tanh"), &Query::new(&accept)).unwrap()));
    assert!(calls.load(Ordering::SeqCst) > accepted, "no warning");
    *again.lock().unwrap() = None;
}

//! What a build reports of the remote tier: events, the report, and explanations that ask it.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opkeep::{CacheMode, CacheStatus, Engine, Event, Explanation, RefusalKind, RemoteStatus, Tier};
use opkeep_cache::{LeaseToken, LeaseValue, RemoteConfig};
use opkeep_store::Entry;
use opkeep_testkit::NullBackend;
use opkeep_testkit::remote::{FakeRemote, RemoteCall, RemoteFaults, names};

use crate::common::{Bench, build, request};

fn with_remote(engine: &Engine, remote: &FakeRemote, ttl: Duration) -> Engine {
    let mut remote = RemoteConfig::new(Arc::new(remote.clone()));
    remote.lease_ttl = ttl;
    engine.with_config(|config| {
        config.remote = Some(remote);
        config.jobs = NonZeroUsize::new(1);
    })
}

const TTL: Duration = Duration::from_secs(30);

/// An engine whose events are kept as text.
fn observed(engine: Engine) -> (Engine, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let events = Arc::clone(&seen);
    let engine = engine.with_observer(move |event| {
        let text = match event {
            Event::Hit { tier, .. } => format!("hit {tier}"),
            Event::Finished { outcome, tier, .. } => format!("{outcome} {}", tier.map_or("here", Tier::name)),
            Event::Sent { kernels, .. } => format!("sent {kernels}"),
            Event::NotSent { kernels, is_refused, .. } => format!("not sent {kernels} {is_refused}"),
            other => other.name().to_owned(),
        };
        events.lock().unwrap().push(text);
    });
    (engine, seen)
}

/// The events in their order. An upload has a thread of its own: it is before the end of the build, and its event is moved there.
fn in_order(seen: &Mutex<Vec<String>>) -> Vec<String> {
    let mut events = seen.lock().unwrap().clone();
    events.sort_by_key(|event| event.starts_with("sent"));
    events
}

#[test]
fn events_and_the_report_name_the_tier() {
    let (one, other, remote) = (Bench::new(), Bench::new(), FakeRemote::new());
    let backend = Arc::new(NullBackend::default());
    let requests = [request("Square", &[3])];
    let run = |bench: &Bench| {
        let (engine, seen) = observed(with_remote(&bench.engine(&backend), &remote, TTL));
        let report = engine.build(&requests).unwrap();
        (report.activity, in_order(&seen))
    };
    let (cold, events) = run(&one);
    assert_eq!(events, ["planned", "looked-up", "started", "compiled here", "sent 1"]);
    let bytes = cold.remote_bytes_sent;
    assert_eq!((cold.remote_puts, cold.remote_hits, bytes > 0), (1, 0, true));
    let (warm, events) = run(&other);
    assert_eq!(events, ["planned", "hit remote"]);
    assert_eq!((warm.remote_hits, warm.remote_shared, warm.remote_bytes_received), (1, 0, bytes));
    let (local, events) = run(&other);
    assert_eq!(events, ["planned", "hit local"]);
    assert_eq!((local.remote_hits, local.remote_bytes_received, local.lost_remote_micros), (0, 0, 0));
}

#[test]
fn a_host_that_gives_no_heartbeat_is_waited_for_and_taken_over() {
    let (bench, remote) = (Bench::new(), FakeRemote::new());
    let backend = Arc::new(NullBackend::default());
    let requests = [request("Square", &[3])];
    let plan = Bench::new().engine(&backend).build(&requests).unwrap();
    let lease = names(&plan.targets[0]).lease(plan.kernels[0].key.unwrap().digest(), 0);
    let value = LeaseValue::new(LeaseToken::new([9; 16]), 0).to_string();
    remote.set_object(&lease, value.into_bytes());
    let ttl = Duration::from_millis(400);
    let (engine, seen) = observed(with_remote(&bench.engine(&backend), &remote, ttl));
    let report = engine.build(&requests).unwrap();
    let events = in_order(&seen);
    let expected = [
        "planned",
        "looked-up",
        "waiting-for",
        "waiting-for-host",
        "wait-ended",
        "lease-taken-over",
        "started",
        "compiled here",
        "sent 1",
    ];
    assert_eq!(events, expected);
    let activity = &report.activity;
    assert_eq!((activity.takeovers, activity.host_waits, activity.remote_shared), (1, 1, 0));
    // The build had nothing else to do.
    let lost = Duration::from_micros(activity.lost_host_micros);
    assert!(lost > ttl / 4 && lost < report.elapsed, "{lost:?} of {:?}", report.elapsed);
    assert_eq!(activity.lost_process_micros, 0);
}

#[test]
fn a_kernel_that_another_host_finishes_is_shared() {
    let (one, other, remote) = (Bench::new(), Bench::new(), FakeRemote::new());
    let backend = Arc::new(NullBackend::default());
    let requests = [request("Square", &[3])];
    build(&with_remote(&one.engine(&backend), &remote, TTL), &requests);
    let plan = one.engine(&backend).build(&requests).unwrap();
    let names = names(&plan.targets[0]);
    let key = *plan.kernels[0].key.unwrap().digest();
    let entry = remote.object(&names.entry(&key)).unwrap();
    remote.remove_object(&names.entry(&key));
    let value = LeaseValue::new(LeaseToken::new([9; 16]), 0).to_string();
    remote.set_object(&names.lease(&key, 0), value.into_bytes());
    let (engine, seen) = observed(with_remote(&other.engine(&backend), &remote, TTL));
    let (tier, entry_name) = (remote.clone(), names.entry(&key));
    let waits = Arc::clone(&seen);
    remote.on_call(move |call, _| {
        let is_waiting = waits.lock().unwrap().iter().any(|event| event == "waiting-for-host");
        if call == RemoteCall::Get && is_waiting {
            tier.set_object(&entry_name, entry.clone());
        }
    });
    let report = engine.build(&requests).unwrap();
    let events = seen.lock().unwrap().clone();
    assert_eq!(
        events,
        ["planned", "looked-up", "waiting-for", "waiting-for-host", "wait-ended", "shared remote"]
    );
    let activity = &report.activity;
    assert_eq!((activity.remote_hits, activity.remote_shared, activity.takeovers), (1, 1, 0));
}

fn statuses(explained: Vec<Explanation>) -> Vec<Option<RemoteStatus>> {
    explained.into_iter().map(|kernel| kernel.remote).collect()
}

/// A miss is asked for in the remote tier, with the judgement of a build: one call, and nothing changes.
#[test]
fn an_explanation_asks_the_remote_tier_once() {
    let (one, other, remote) = (Bench::new(), Bench::new(), FakeRemote::new());
    let backend = Arc::new(NullBackend::default());
    let requests: Vec<_> = (3..=6).map(|length| request("Square", &[length])).collect();
    let report = with_remote(&one.engine(&backend), &remote, TTL).build(&requests[..3]).unwrap();
    let key = |at: usize| *report.kernels[at].key.unwrap().digest();
    let name = |at: usize| names(&report.targets[0]).entry(&key(at));
    // Under the key of the second is the kernel of the first; the third is cut.
    let first = Entry::decode(remote.object(&name(0)).unwrap(), Some(&key(0))).unwrap();
    remote.set_object(&name(1), first.to_builder().encode(&key(1)).unwrap());
    let third = remote.object(&name(2)).unwrap();
    remote.set_object(&name(2), third[..third.len() - 1].to_vec());
    let engine = with_remote(&other.engine(&backend), &remote, TTL);
    let (calls, objects, compiles) = (remote.calls().len(), remote.object_names(), backend.compiles());
    let explained = engine.explain(&requests).unwrap();
    assert!(explained.iter().all(|kernel| matches!(kernel.status, CacheStatus::Miss { .. })));
    let found = statuses(explained);
    let size = remote.object(&name(0)).unwrap().len() as u64;
    assert!(
        matches!(
            &found[..],
            [
                Some(RemoteStatus::Available { bytes, .. }),
                Some(RemoteStatus::Refused { kind: RefusalKind::Invalid, .. }),
                Some(RemoteStatus::Refused { kind: RefusalKind::Damaged, .. }),
                Some(RemoteStatus::Absent),
            ] if *bytes == size
        ),
        "{found:?}"
    );
    assert_eq!(&remote.calls()[calls..], [RemoteCall::Get]);
    assert_eq!((remote.object_names(), backend.compiles()), (objects, compiles));
    assert!(!other.root().exists(), "explaining makes no store");
    // What a build does agrees.
    assert_eq!(build(&engine, &requests), ["reused", "compiled", "compiled", "compiled"]);
    // All is in the store now: nothing is asked.
    let calls = remote.calls().len();
    assert_eq!(statuses(engine.explain(&requests).unwrap()), [None, None, None, None]);
    assert_eq!(remote.calls().len(), calls);
    for mode in [CacheMode::Force, CacheMode::Disable] {
        let engine = engine.with_config(|config| config.mode = mode);
        assert_eq!(statuses(engine.explain(&requests[..1]).unwrap()), [None]);
    }
    assert_eq!(remote.calls().len(), calls);
}

#[test]
fn a_tier_that_does_not_answer_is_no_error_of_an_explanation() {
    let (bench, remote) = (Bench::new(), FakeRemote::new());
    remote.set_faults(RemoteFaults { is_gone: true, ..RemoteFaults::default() });
    let engine = with_remote(&bench.engine(&Arc::default()), &remote, TTL);
    let found = statuses(engine.explain(&[request("Square", &[3]), request("Square", &[4])]).unwrap());
    for status in found {
        let Some(RemoteStatus::Unknown { reason, .. }) = status else { panic!("{status:?}") };
        assert!(reason.contains("cannot be reached"), "{reason}");
    }
    assert_eq!(remote.count(RemoteCall::Get), 1);
}

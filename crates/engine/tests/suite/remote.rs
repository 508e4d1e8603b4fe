//! Engines on several hosts that share a remote tier.

#![expect(clippy::disallowed_methods, reason = "tests look at locks")]

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opkeep::{CacheMode, Engine, Event, Outcome, WarningKind};
use opkeep_cache::{LeaseToken, LeaseValue, RemoteConfig, RemoteEngine};
use opkeep_descriptor::Key;
use opkeep_fs::CancelToken;
use opkeep_store::Entry;
use opkeep_testkit::NullBackend;
use opkeep_testkit::remote::{FakeRemote, RemoteCall, RemoteFaults, names};

use crate::common::{Bench, build, files, request};

fn engine(bench: &Bench, backend: &Arc<NullBackend>, remote: &FakeRemote) -> Engine {
    let remote = RemoteConfig::new(Arc::new(remote.clone()));
    bench.engine(backend).with_config(|config| config.remote = Some(remote))
}

#[test]
fn a_kernel_of_one_host_is_reused_on_the_others() {
    let (one, other, remote) = (Bench::new(), Bench::new(), FakeRemote::new());
    let backend = Arc::new(NullBackend::default());
    let requests = [request("Square", &[3]), request("Square", &[4])];
    assert_eq!(build(&engine(&one, &backend, &remote), &requests), ["compiled"; 2]);
    let report = engine(&other, &backend, &remote).build(&requests).unwrap();
    assert!(report.kernels.iter().all(|kernel| kernel.outcome == Outcome::Reused));
    assert_eq!((backend.compiles(), report.warnings.len()), (2, 0));
    // The kernels are in this host's store now, with their validation.
    assert_eq!(other.entries().len(), 2);
    let calls = remote.calls().len();
    assert_eq!(build(&engine(&other, &backend, &remote), &requests), ["reused"; 2]);
    assert_eq!(remote.calls().len(), calls);
    // A host that must not compile uses them as well.
    let third = Bench::new();
    drop(build(&third.engine(&backend), &[request("Square", &[5])]));
    let required = engine(&third, &backend, &remote).with_config(|config| config.mode = CacheMode::Require);
    assert_eq!(build(&required, &requests), ["reused"; 2]);
    assert_eq!(build(&required, &[request("Square", &[6])]), ["failed"]);
    // It needs no store, and a miss names both places.
    let fourth = Bench::new();
    let required = engine(&fourth, &backend, &remote).with_config(|config| config.mode = CacheMode::Require);
    let report = required.build(&[request("Square", &[3]), request("Square", &[6])]).unwrap();
    let outcomes: Vec<_> = report.kernels.iter().map(|kernel| kernel.outcome).collect();
    assert_eq!((outcomes, fourth.root().exists()), (vec![Outcome::Reused, Outcome::Failed], false));
    let reason = report.kernels[1].reason.as_deref().unwrap();
    let location = format!("the remote cache `{}` did not return it", remote.location());
    assert!(reason.contains(&location) && reason.contains("same store or remote cache"), "{reason}");
}

/// What a build compiled although there is a remote tier is counted, unless the tier could not be asked.
#[test]
fn what_the_remote_tier_lacks_is_counted() {
    let (remote, backend) = (FakeRemote::new(), Arc::new(NullBackend::default()));
    let requests = [request("Square", &[3]), request("Square", &[4])];
    let absent = |change: &dyn Fn(&mut opkeep::Config), requests: &[opkeep::Request]| {
        let bench = Bench::new();
        let engine = engine(&bench, &backend, &remote).with_config(|config| change(config));
        engine.build(requests).unwrap().remote_absent
    };
    assert_eq!(absent(&|config| config.mode = CacheMode::Force, &requests[..1]), 0);
    assert_eq!(absent(&|config| config.remote = None, &requests), 0);
    assert_eq!((absent(&|_| {}, &requests), absent(&|_| {}, &requests)), (1, 0));
    remote.set_faults(RemoteFaults { is_gone: true, ..RemoteFaults::default() });
    assert_eq!(absent(&|_| {}, &[request("Square", &[5])]), 0);
}

/// The host that finishes a plan stores its bundle at the end of the build.
#[test]
fn the_kernels_of_a_plan_are_one_object_for_the_other_hosts() {
    let (one, other, remote) = (Bench::new(), Bench::new(), FakeRemote::new());
    let backend = Arc::new(NullBackend::default());
    let requests: Vec<_> = (1..=20).map(|length| request("Square", &[length])).collect();
    assert_eq!(build(&engine(&one, &backend, &remote), &requests), ["compiled"; 20]);
    let before = remote.calls().len();
    let report = engine(&other, &backend, &remote).build(&requests).unwrap();
    assert!(report.kernels.iter().all(|kernel| kernel.outcome == Outcome::Reused));
    assert_eq!((backend.compiles(), report.warnings.len()), (20, 0));
    assert_eq!((&remote.calls()[before..], other.entries().len()), (&[RemoteCall::Get][..], 20));
}

/// An entry with correct digests and the kernel of another key.
#[test]
fn a_kernel_of_another_key_is_not_taken_from_the_tier() {
    let (one, other, remote) = (Bench::new(), Bench::new(), FakeRemote::new());
    let backend = Arc::new(NullBackend::default());
    let requests = [request("Square", &[3]), request("Square", &[4])];
    let report = engine(&one, &backend, &remote).build(&requests).unwrap();
    let key = |at: usize| report.kernels[at].key.unwrap();
    let name = |key: Key| names(&report.targets[0]).entry(key.digest());
    let entry = Entry::decode(remote.object(&name(key(0))).unwrap(), Some(key(0).digest())).unwrap();
    let forged = entry.to_builder().encode(key(1).digest()).unwrap();
    remote.set_object(&name(key(1)), forged);
    let report = engine(&other, &backend, &remote).build(&requests).unwrap();
    assert_eq!([report.kernels[0].outcome, report.kernels[1].outcome], [Outcome::Reused, Outcome::Compiled]);
    assert!(
        report.warnings.iter().any(|warning| warning.text.contains("remote cache")),
        "{:?}",
        report.warnings
    );
    // The compiled kernel has replaced it.
    let third = Bench::new();
    assert_eq!(build(&engine(&third, &backend, &remote), &requests), ["reused"; 2]);
}

#[test]
fn a_tier_that_is_gone_is_one_warning() {
    let (bench, remote) = (Bench::new(), FakeRemote::new());
    remote.set_faults(RemoteFaults { is_gone: true, ..RemoteFaults::default() });
    let backend = Arc::new(NullBackend::default());
    let requests: Vec<_> = (1..=6).map(|length| request("Square", &[length])).collect();
    let report = engine(&bench, &backend, &remote).build(&requests).unwrap();
    assert!(report.kernels.iter().all(|kernel| kernel.outcome == Outcome::Compiled));
    let [warning] = &report.warnings[..] else { panic!("{:?}", report.warnings) };
    assert_eq!(warning.kind, WarningKind::Remote);
    assert!(warning.text.contains("cannot be reached"), "{warning}");
}

/// Key lock, job token, lease: a host that has a lease must be able to compile, or the other hosts would wait for its token.
#[test]
fn a_lease_is_claimed_with_a_job_token_in_hand() {
    let (bench, remote) = (Bench::new(), FakeRemote::new());
    let work = bench.dir.path().to_owned();
    let busy_tokens = move || {
        let tokens = files(&work).into_iter().filter(|path| path.to_string_lossy().contains("/slots/"));
        let is_busy = |path: &std::path::PathBuf| File::open(path).unwrap().try_lock().is_err();
        tokens.filter(is_busy).count()
    };
    let (leases, busy) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(busy_tokens)));
    let (count, tokens) = (Arc::clone(&leases), Arc::clone(&busy));
    remote.on_call(move |call, _| {
        if call == RemoteCall::Claim {
            assert_eq!(tokens.lock().unwrap()(), 1, "no token is held");
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let backend = Arc::new(NullBackend::default());
    let started = Arc::new(AtomicUsize::new(0));
    let (begun, leased) = (Arc::clone(&started), Arc::clone(&leases));
    let engine = engine(&bench, &backend, &remote).with_observer(move |event| {
        if let Event::Started { .. } = event {
            assert_eq!(leased.load(Ordering::SeqCst), 1);
            assert_eq!(busy.lock().unwrap()(), 1, "no token is held");
            begun.fetch_add(1, Ordering::SeqCst);
        }
    });
    assert_eq!(build(&engine, &[request("Square", &[3])]), ["compiled"]);
    assert_eq!((leases.load(Ordering::SeqCst), started.load(Ordering::SeqCst)), (1, 1));
}

#[test]
fn a_tier_that_is_gone_is_not_called_by_the_next_builds() {
    let (bench, remote) = (Bench::new(), FakeRemote::new());
    remote.set_faults(RemoteFaults { is_gone: true, ..RemoteFaults::default() });
    let backend = Arc::new(NullBackend::default());
    let engine = engine(&bench, &backend, &remote);
    for length in 1..=4 {
        let report = engine.build(&[request("Square", &[length])]).unwrap();
        assert_eq!(report.warnings.len(), 1, "{length}: {:?}", report.warnings);
    }
    assert_eq!(remote.calls().len(), 3);
}

/// A build waits for a tier no longer than its compiles may take.
#[test]
fn a_tier_that_never_answers_is_waited_for_once() {
    let (bench, remote) = (Bench::new(), FakeRemote::new());
    remote.set_faults(RemoteFaults { delay: Duration::from_secs(3600), ..RemoteFaults::default() });
    let backend = Arc::new(NullBackend::default());
    let requests: Vec<_> = (1..=6).map(|length| request("Square", &[length])).collect();
    let report = engine(&bench, &backend, &remote).build(&requests).unwrap();
    assert!(report.kernels.iter().all(|kernel| kernel.outcome == Outcome::Compiled));
    let [warning] = &report.warnings[..] else { panic!("{:?}", report.warnings) };
    assert_eq!(warning.kind, WarningKind::Remote);
    // A thread sends the kernels, for which the build waits for a time of its own.
    let calls: Vec<_> = remote.calls().into_iter().filter(|call| *call != RemoteCall::Put).collect();
    assert_eq!(calls, [RemoteCall::Get]);
}

#[test]
fn a_tier_that_answers_slowly_is_given_up() {
    let (bench, remote) = (Bench::new(), FakeRemote::new());
    remote.set_faults(RemoteFaults { delay: Duration::from_millis(400), ..RemoteFaults::default() });
    let backend = Arc::new(NullBackend::default());
    let requests: Vec<_> = (1..=40).map(|length| request("Square", &[length])).collect();
    let engine = engine(&bench, &backend, &remote).with_config(|config| config.jobs = NonZeroUsize::new(1));
    // The compiles of the first build are measured: they take no time.
    build(&bench.engine(&backend), &[request("Square", &[99])]);
    let report = engine.build(&requests).unwrap();
    assert!(report.kernels.iter().all(|kernel| kernel.outcome == Outcome::Compiled));
    let [warning] = &report.warnings[..] else { panic!("{:?}", report.warnings) };
    assert!(warning.text.contains("s, and the limit is "), "{warning}");
    // Some of them are those of the bundle, at the end.
    let calls = remote.calls().into_iter().filter(|call| *call != RemoteCall::Put).count();
    assert!(calls < 13, "{calls}");
}

/// A host that must not compile waits longer than compiling takes.
#[test]
fn a_build_that_must_not_compile_waits_for_a_slow_tier() {
    let (one, other, remote) = (Bench::new(), Bench::new(), FakeRemote::new());
    let backend = Arc::new(NullBackend::default());
    let requests = [request("Square", &[3]), request("Square", &[4])];
    build(&engine(&one, &backend, &remote), &requests);
    // The compiles are measured: they take no time.
    build(&other.engine(&backend), &[request("Square", &[99])]);
    remote.set_faults(RemoteFaults { delay: Duration::from_millis(2500), ..RemoteFaults::default() });
    let required = engine(&other, &backend, &remote).with_config(|config| config.mode = CacheMode::Require);
    assert_eq!(build(&required, &requests), ["reused"; 2]);
}

#[test]
fn a_cancelled_build_waits_for_no_call_to_the_tier() {
    const LONG: Duration = Duration::from_secs(3600);
    for call in [RemoteCall::Get, RemoteCall::Claim, RemoteCall::Put] {
        let (bench, remote, cancel) = (Bench::new(), FakeRemote::new(), CancelToken::new());
        let backend = Arc::new(NullBackend::default());
        let mut tier = RemoteConfig::new(Arc::new(remote.clone()));
        tier.call_timeout = LONG;
        let engine = bench.engine(&backend).with_config(|config| config.remote = Some(tier));
        let (slow, token) = (remote.clone(), cancel.clone());
        remote.on_call(move |made, _| {
            if made == call {
                slow.set_faults(RemoteFaults { delay: LONG, ..RemoteFaults::default() });
                token.cancel();
            }
        });
        let outcomes = build(&engine.with_cancel(cancel), &[request("Square", &[3])]);
        // A finished kernel is kept.
        let expected = if call == RemoteCall::Put { "compiled" } else { "cancelled" };
        assert_eq!(outcomes, [expected], "{call:?}");
        assert_eq!(bench.entries().len(), usize::from(call == RemoteCall::Put));
    }
}

/// Returns the number of locked keys in the store at `root`.
fn count_locked(root: &Path) -> usize {
    let is_locked = |path: &PathBuf| {
        let is_lock = path.to_string_lossy().contains("/locks/");
        // The file may have been removed in the meantime.
        is_lock && File::open(path).is_ok_and(|file| file.try_lock().is_err())
    };
    files(root).into_iter().filter(is_locked).count()
}

/// The only thread compiles one kernel while another host compiles the other one. Soon after the compile began, other processes
/// of this host can lock that other kernel.
#[test]
fn a_key_of_another_host_is_not_locked_while_all_threads_compile() {
    // Each build begins with a random kernel: only one that begins with the other host's has to wait.
    let waits_first = |seen: &[(&str, usize)]| seen.first() == Some(&("waiting", 0));
    let seen = (0..64).map(|_| compile_beside_another_host()).find(|seen| waits_first(seen)).unwrap();
    assert_eq!(seen, [("waiting", 0), ("compiling", 1), ("compiling", 1)]);
}

/// Builds two kernels, the first of which another host compiles. Returns the events, with the number of locked keys.
fn compile_beside_another_host() -> Vec<(&'static str, usize)> {
    let (bench, remote) = (Bench::new(), FakeRemote::new());
    let backend = Arc::new(NullBackend::default());
    let requests = [1, 2].map(|length| request("Square", &[length]));
    let plan = Bench::new().engine(&backend).build(&requests[..1]).unwrap();
    let lease = names(&plan.targets[0]).lease(plan.kernels[0].key.unwrap().digest(), 0);
    let value = LeaseValue::new(LeaseToken::new([9; 16]), 0).to_string();
    remote.set_object(&lease, value.into_bytes());
    let (root, tier) = (bench.root(), remote.clone());
    let engine = engine(&bench, &backend, &remote).with_config(|config| {
        config.jobs = NonZeroUsize::new(1);
        config.machine_jobs = NonZeroUsize::new(1);
    });
    let seen = Arc::new(Mutex::new(Vec::new()));
    let events = Arc::clone(&seen);
    let engine = engine.with_observer(move |event| match event {
        Event::Waiting { .. } => events.lock().unwrap().push(("waiting", 0)),
        Event::Started { .. } => {
            let began = Instant::now();
            let mut locked = count_locked(&root);
            while locked > 1 && began.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(20));
                locked = count_locked(&root);
            }
            events.lock().unwrap().push(("compiling", locked));
            tier.remove_object(&lease);
        }
        _ => {}
    });
    assert_eq!(build(&engine, &requests), ["compiled"; 2]);
    std::mem::take(&mut *seen.lock().unwrap())
}

/// Hosts that start together compile each kernel once, and each host fetches each kernel of another one once, although its own
/// compilers are busy when it arrives.
#[test]
fn hosts_that_build_together_fetch_each_kernel_once() {
    const HOSTS: usize = 3;
    let remote = FakeRemote::new();
    let backend = Arc::new(NullBackend::sleeping(|_| Duration::from_millis(60)));
    let requests: Vec<_> = (1..=24).map(|length| request("Square", &[length])).collect();
    std::thread::scope(|scope| {
        for _ in 0..HOSTS {
            scope.spawn(|| {
                let bench = Bench::new();
                let engine = engine(&bench, &backend, &remote);
                let engine = engine.with_config(|config| config.jobs = NonZeroUsize::new(2));
                let report = engine.build(&requests).unwrap();
                let is_there =
                    |outcome| matches!(outcome, Outcome::Compiled | Outcome::Reused | Outcome::Shared);
                assert!(report.kernels.iter().all(|kernel| is_there(kernel.outcome)), "{report:?}");
                let fetched = report.activity.remote_hits;
                let compiled = report.kernels.iter().filter(|kernel| kernel.outcome == Outcome::Compiled);
                assert_eq!((bench.entries().len(), fetched), (24, 24 - compiled.count() as u64));
            });
        }
    });
    assert_eq!(backend.compiles(), 24);
    let entries = remote.returned().into_iter().filter(|(name, _)| name.as_str().contains("/e/"));
    let more: Vec<_> = entries.filter(|(_, times)| *times > HOSTS - 1).collect();
    assert!(more.is_empty(), "{more:?}");
}

/// The kernels of a build that could send nothing are sent by the next one, and so is the bundle of its plan.
#[test]
fn a_build_that_sends_what_an_earlier_one_left_stores_a_bundle() {
    let (one, other, remote) = (Bench::new(), Bench::new(), FakeRemote::new());
    let backend = Arc::new(NullBackend::default());
    let requests: Vec<_> = (1..=20).map(|length| request("Square", &[length])).collect();
    remote.set_faults(RemoteFaults { is_full: true, ..RemoteFaults::default() });
    assert_eq!(engine(&one, &backend, &remote).build(&requests).unwrap().unsent, 20);
    remote.set_faults(RemoteFaults::default());
    let report = engine(&one, &backend, &remote).build(&requests).unwrap();
    assert_eq!((report.unsent, backend.compiles()), (0, 20));
    let before = remote.calls().len();
    assert_eq!(build(&engine(&other, &backend, &remote), &requests), ["reused"; 20]);
    assert_eq!(remote.calls()[before..], [RemoteCall::Get]);
    // A build that sends nothing looks for no bundle.
    let before = remote.calls().len();
    build(&engine(&one, &backend, &remote), &requests);
    assert_eq!(remote.calls().len(), before);
}

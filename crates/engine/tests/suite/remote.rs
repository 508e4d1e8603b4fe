//! Engines on several hosts that share a remote tier.

#![expect(clippy::disallowed_methods, reason = "tests look at locks")]

use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use opkeep::{CacheMode, Engine, Event, Outcome, WarningKind};
use opkeep_cache::{RemoteConfig, RemoteKey};
use opkeep_descriptor::Key;
use opkeep_store::Entry;
use opkeep_testkit::NullBackend;
use opkeep_testkit::remote::{FakeRemote, RemoteCall, RemoteFaults};

use crate::common::{Bench, build, files, request};

fn engine(bench: &Bench, backend: &Arc<NullBackend>, remote: &FakeRemote) -> Engine {
    let remote = RemoteConfig::new(Arc::new(remote.clone()));
    bench.engine(backend).with_config(|config| config.remote = Some(remote))
}

#[test]
fn what_one_host_compiles_the_others_reuse() {
    let (one, other, remote) = (Bench::new(), Bench::new(), FakeRemote::new());
    let backend = Arc::new(NullBackend::default());
    let requests = [request("Square", &[3]), request("Square", &[4])];
    assert_eq!(build(&engine(&one, &backend, &remote), &requests), ["compiled"; 2]);
    let report = engine(&other, &backend, &remote).build(&requests).unwrap();
    assert!(report.kernels.iter().all(|kernel| kernel.outcome == Outcome::Reused));
    assert_eq!((backend.compiles(), report.warnings.len()), (2, 0));
    // They are in this host's store now, and validated there.
    assert_eq!(other.entries().len(), 2);
    let calls = remote.calls().len();
    assert_eq!(build(&engine(&other, &backend, &remote), &requests), ["reused"; 2]);
    assert_eq!(remote.calls().len(), calls);
    // A host that must not compile takes them as well.
    let third = Bench::new();
    drop(build(&third.engine(&backend), &[request("Square", &[5])]));
    let required = engine(&third, &backend, &remote).with_config(|config| config.mode = CacheMode::Require);
    assert_eq!(build(&required, &requests), ["reused"; 2]);
    assert_eq!(build(&required, &[request("Square", &[6])]), ["failed"]);
}

/// An entry whose digests are right and whose kernel is another one's.
#[test]
fn a_kernel_of_another_key_is_not_taken_from_the_tier() {
    let (one, other, remote) = (Bench::new(), Bench::new(), FakeRemote::new());
    let backend = Arc::new(NullBackend::default());
    let requests = [request("Square", &[3]), request("Square", &[4])];
    let report = engine(&one, &backend, &remote).build(&requests).unwrap();
    let key = |at: usize| report.kernels[at].key.unwrap();
    let name = |key: Key| RemoteKey::new(&*report.targets[0], *key.digest());
    let entry = Entry::decode(remote.file(&name(key(0))).unwrap(), Some(key(0).digest())).unwrap();
    let forged = entry.to_builder().encode(key(1).digest()).unwrap();
    remote.set_file(&name(key(1)), forged);
    let report = engine(&other, &backend, &remote).build(&requests).unwrap();
    assert_eq!([report.kernels[0].outcome, report.kernels[1].outcome], [Outcome::Reused, Outcome::Compiled]);
    assert!(
        report.warnings.iter().any(|warning| warning.text.contains("remote cache")),
        "{:?}",
        report.warnings
    );
    // What was compiled has replaced it.
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

/// Key lock, lease, job token: a process that waits for a lease must not keep others from compiling.
#[test]
fn a_job_token_is_taken_after_the_lease() {
    let (bench, remote) = (Bench::new(), FakeRemote::new());
    let work = bench.folder.path().to_owned();
    let busy_tokens = move || {
        let tokens = files(&work).into_iter().filter(|path| path.to_string_lossy().contains("/slots/"));
        let is_busy = |path: &std::path::PathBuf| File::open(path).unwrap().try_lock().is_err();
        tokens.filter(is_busy).count()
    };
    let (leases, busy) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(busy_tokens)));
    let (count, tokens) = (Arc::clone(&leases), Arc::clone(&busy));
    remote.on_call(move |call, _| {
        if call == RemoteCall::Lease {
            assert_eq!(tokens.lock().unwrap()(), 0, "a token is held");
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

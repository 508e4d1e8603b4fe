//! A cache that hosts share: each directory is the store of a host, and the engine is in memory.

mod exits;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use opkeep_artifact::{Expectations, Format, MetadataRules, OpaqueRules};
use opkeep_cache::trust::{SignaturePolicy, SigningKey, TrustedKeys};
use opkeep_cache::{CancelToken, RemoteConfig, TrustConfig};
use opkeep_embed::{
    EmbedError, FileCache, FileCacheConfig, FileGroup, FileKey, FoundError, GroupClaim, GroupTicket,
    NewGroup, Options, PublishError, StoreConfig, TargetFiles, UnsharedReason, WaitBudget, encode_rules,
};
use opkeep_store::Lookup;
use opkeep_testkit::remote::RemoteCall::{self, Claim, Get, Put, Release};
use opkeep_testkit::remote::{FakeRemote, RemoteFaults, names};
use tempfile::TempDir;

use crate::ticket;

const TARGET: &str = "cuda-sm_90";

/// A machine with a store of its own.
struct Host {
    dir: TempDir,
    warnings: Arc<Mutex<Vec<String>>>,
}

impl Host {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), warnings: Arc::default() }
    }

    fn config(&self, remote: &FakeRemote) -> FileCacheConfig {
        let log = Arc::clone(&self.warnings);
        let store = StoreConfig::new(self.dir.path().join("store"));
        let on_warning = Arc::new(move |_, text: &str| log.lock().unwrap().push(text.to_owned()));
        let mut config = FileCacheConfig::new(store, "test").with_on_warning(on_warning);
        config.cache.remote = Some(RemoteConfig::new(Arc::new(remote.clone())));
        config
    }

    fn open(&self, remote: &FakeRemote) -> (FileCache, TargetFiles) {
        open(self.config(remote))
    }

    fn warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock().unwrap())
    }

    /// The stamp of a group in the store.
    fn stamp(files: &TargetFiles, dir: &TempDir, key: &FileKey) -> u32 {
        let store = opkeep_store::Store::open(StoreConfig::new(dir.path().join("store"))).unwrap();
        let Lookup::Hit(entry) = store.target(TARGET).unwrap().peek(&files.entry_key(key)) else { panic!() };
        entry.validation()
    }
}

fn open(config: FileCacheConfig) -> (FileCache, TargetFiles) {
    let cache = FileCache::open(config).unwrap();
    let files = cache.target(TARGET).unwrap();
    (cache, files)
}

fn key(number: u8) -> FileKey {
    FileKey::new([number; 32])
}

fn group() -> NewGroup<'static> {
    NewGroup::new([("add.ptx", &b".version 8.0"[..]), ("add.json", b"{}")])
}

fn rules() -> opkeep_embed::StoredExpectations {
    let format = Format::Opaque(OpaqueRules::new(*b".version", 1 << 20));
    encode_rules(Expectations::new(TARGET, format, MetadataRules::None))
}

fn hit(claim: GroupClaim) -> FileGroup {
    match claim {
        GroupClaim::Hit(group) => group,
        other => panic!("expected a hit: {other:?}"),
    }
}

fn request(files: &TargetFiles, number: u8) -> GroupClaim {
    files.get_or_begin(&key(number), &Options::default()).unwrap()
}

const SOON: Duration = Duration::from_secs(20);

/// Has a host make and share the group `number`.
fn share(remote: &FakeRemote, number: u8, group: &NewGroup<'_>) {
    let host = Host::new();
    let (cache, files) = host.open(remote);
    assert!(ticket(request(&files, number)).publish(group).unwrap());
    assert_eq!((cache.finish_uploads(SOON, None), host.warnings()), (0, Vec::<String>::new()));
}

#[test]
fn a_group_that_another_host_made_is_a_hit_and_then_a_local_one() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    share(&remote, 1, &group());
    let rules = rules();
    share(&remote, 2, &group().with_object("add.ptx", None).with_expectations(&rules));
    let (_, files) = host.open(&remote);
    // One is requested with a ticket in mind, one without.
    let found = [hit(request(&files, 1)), files.get(&key(2)).unwrap().unwrap()];
    for found in &found {
        assert!(found.from_remote() && !found.waited());
        assert_eq!(found.get("add.ptx"), Some(&b".version 8.0"[..]));
    }
    // What was validated is recorded, as when it is published.
    assert_eq!([1, 2].map(|number| Host::stamp(&files, &host.dir, &key(number))), [1, rules.stamp()]);
    let calls = remote.calls().len();
    assert!(!hit(request(&files, 1)).from_remote() && !files.get(&key(2)).unwrap().unwrap().from_remote());
    assert_eq!((remote.calls().len(), host.warnings()), (calls, Vec::<String>::new()));
}

#[test]
fn a_request_without_time_for_the_remote_cache_makes_no_call() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    share(&remote, 1, &group());
    let (_, files) = host.open(&remote);
    let (calls, budget) = (remote.calls().len(), WaitBudget::new(Duration::ZERO));
    let mut options = Options::default();
    options.wait_budget = Some(&budget);
    assert!(files.get_with(&key(1), &options).unwrap().is_none());
    drop(ticket(files.get_or_begin(&key(1), &options).unwrap()));
    assert_eq!(remote.calls().len(), calls);
    // With time, it is a hit.
    let budget = WaitBudget::new(Duration::from_secs(20));
    options.wait_budget = Some(&budget);
    assert!(hit(files.get_or_begin(&key(1), &options).unwrap()).from_remote());
}

#[test]
fn a_kernel_that_breaks_its_rules_is_refused_and_made_again() {
    let (remote, host, rules) = (FakeRemote::new(), Host::new(), rules());
    // A host that shares it with other rules, as an attacker would.
    let any = Format::Opaque(OpaqueRules::new(*b"", 1 << 20));
    let lax = encode_rules(Expectations::new(TARGET, any, MetadataRules::None));
    let other = NewGroup::new([("add.ptx", &b"another kernel"[..])]).with_object("add.ptx", None);
    share(&remote, 1, &other.with_expectations(&lax));
    let (cache, files) = host.open(&remote);
    let options = Options::default().with_expectations(&rules);
    assert!(files.get_with(&key(1), &options).unwrap().is_none());
    let ticket = ticket(files.get_or_begin(&key(1), &options).unwrap());
    assert!(ticket.publish(&group().with_object("add.ptx", None).with_expectations(&rules)).unwrap());
    assert_eq!(cache.finish_uploads(SOON, None), 0);
    let warnings = host.warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("cannot be used"), "{warnings:?}");
    // The wrong one was replaced.
    let (_, third) = Host::new().open(&remote);
    assert!(hit(third.get_or_begin(&key(1), &options).unwrap()).from_remote());
}

#[test]
fn a_group_under_the_key_of_another_is_refused() {
    let remote = FakeRemote::new();
    share(&remote, 1, &group());
    let (_, files) = Host::new().open(&remote);
    let name = |number| names(TARGET).entry(&files.entry_key(&key(number)));
    let store = Host::new();
    let (_, forger) = store.open(&FakeRemote::new());
    assert!(ticket(request(&forger, 1)).publish(&group()).unwrap());
    let opened = opkeep_store::Store::open(StoreConfig::new(store.dir.path().join("store"))).unwrap();
    let Lookup::Hit(entry) = opened.target(TARGET).unwrap().peek(&forger.entry_key(&key(1))) else {
        panic!()
    };
    // The bytes of one group as an intact entry of the other's key.
    remote.set_object(&name(2), entry.to_builder().encode(&files.entry_key(&key(2))).unwrap());
    let reader = Host::new();
    let (_, files) = reader.open(&remote);
    assert!(files.get(&key(2)).unwrap().is_none());
    drop(ticket(request(&files, 2)));
    assert_eq!(reader.warnings().len(), 1);
    assert!(hit(request(&files, 1)).from_remote());
}

/// Triton's launchers: neither the request nor the files leave the machine, whichever of the two says so.
#[test]
fn files_for_this_machine_stay_here() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (cache, files) = host.open(&remote);
    let mut options = Options::default();
    options.stays_here = true;
    assert!(files.get_with(&key(1), &options).unwrap().is_none());
    let began = ticket(files.get_or_begin(&key(1), &options).unwrap());
    assert!(began.publish(&group()).unwrap());
    for claim in files.get_or_begin_many(&[key(1), key(2)], 1, &options).unwrap() {
        drop(claim);
    }
    assert_eq!((cache.finish_uploads(SOON, None), remote.calls()), (0, Vec::new()));
    assert!(hit(request(&files, 1)).record().unwrap().is_local);

    // Only the group says so.
    let mut local = group();
    local.is_local = true;
    assert!(ticket(request(&files, 3)).publish(&local).unwrap());
    assert!(files.publish(&key(4), &local).unwrap());
    assert_eq!((cache.finish_uploads(SOON, None), remote.object_names()), (0, Vec::new()));
    // Nor does another host take one that is there nevertheless.
    let opened = opkeep_store::Store::open(StoreConfig::new(host.dir.path().join("store"))).unwrap();
    let digest = files.entry_key(&key(3));
    let Lookup::Hit(entry) = opened.target(TARGET).unwrap().peek(&digest) else { panic!() };
    remote.set_object(&names(TARGET).entry(&digest), entry.to_builder().encode(&digest).unwrap());
    let other = Host::new();
    let (_, files) = other.open(&remote);
    assert!(files.get(&key(3)).unwrap().is_none());
    assert!(other.warnings()[0].contains("only by the machine that made it"));
}

/// A file beside a framework's files says what they are. Anyone who can write there can write that file.
#[test]
fn files_that_were_found_stay_here_and_are_taken_only_without_keys() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (cache, files) = host.open(&remote);
    assert!(files.keeps_found().unwrap());
    assert!(ticket(request(&files, 1)).keep_found(&group()).unwrap());
    assert!(hit(request(&files, 1)).record().unwrap().is_local);
    let pushed = cache.finish_uploads(SOON, None);
    assert_eq!((pushed, remote.object_names()), (0, Vec::new()));

    let signer = new_key("signer");
    let signs = TrustConfig::default().with_signing_key(Arc::clone(&signer));
    for trust in [signs, trusting(&signer), trusting(&signer).with_signing_key(Arc::clone(&signer))] {
        let (remote, host) = (FakeRemote::new(), Host::new());
        let mut config = host.config(&remote);
        config.cache.trust = trust;
        let (cache, files) = open(config);
        assert!(!files.keeps_found().unwrap());
        let began = ticket(request(&files, 1));
        let refused = began.keep_found(&group());
        assert!(matches!(refused, Err(EmbedError::Publish(PublishError::Found(FoundError::Keys)))));
        assert_eq!((cache.finish_uploads(SOON, None), files.get(&key(1)).unwrap().is_none()), (0, true));
        assert!(
            remote.object_names().iter().all(|name| *name != names(TARGET).entry(&files.entry_key(&key(1))))
        );
        // The caller makes the files, with the same ticket.
        assert!(began.publish(&group()).unwrap());
        assert!(!hit(request(&files, 1)).record().unwrap().is_local);
    }
}

#[test]
fn a_publisher_does_not_wait_and_the_end_of_a_program_does() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let go = Arc::new(AtomicBool::new(false));
    let may_go = Arc::clone(&go);
    remote.on_call(move |call, _| {
        while call == Put && !may_go.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
    });
    let mut config = host.config(&remote);
    config.close_limit = Duration::from_millis(50);
    let (cache, files) = open(config);
    assert!(ticket(request(&files, 1)).publish(&group()).unwrap());
    assert!(files.publish(&key(2), &group()).unwrap());
    let began = Instant::now();
    assert_eq!(cache.close(), 2);
    assert!(began.elapsed() < Duration::from_secs(10));
    go.store(true, Ordering::SeqCst);
    assert_eq!((cache.close(), cache.finish_uploads(SOON, None)), (0, 0));
    assert_eq!(Host::new().open(&remote).1.get(&key(2)).unwrap().unwrap().names().count(), 2);
}

/// What could not be sent has a mark. It is sent once the engine is well: by the same program, or by the next one if that was killed.
#[test]
fn what_failed_is_sent_once_the_engine_is_well() {
    for is_killed in [false, true] {
        let (remote, host) = (FakeRemote::new(), Host::new());
        let (cache, files) = host.open(&remote);
        let began = ticket(request(&files, 1));
        remote.set_faults(RemoteFaults { is_gone: true, ..RemoteFaults::default() });
        assert!(began.publish(&group()).unwrap());
        assert_eq!(cache.finish_uploads(SOON, None), 1);
        // The upload failed, and so did one more attempt at the end: one outage.
        assert_eq!(host.warnings().len(), 1);
        remote.set_faults(RemoteFaults::default());
        let left = if is_killed { host.open(&remote).0.close() } else { cache.finish_uploads(SOON, None) };
        assert_eq!((left, cache.close()), (0, 0), "{is_killed}");
        assert!(hit(request(&Host::new().open(&remote).1, 1)).from_remote());
    }
}

#[test]
fn another_host_waits_for_the_lease_with_the_limits_of_the_caller() {
    let (remote, [one, other]) = (FakeRemote::new(), [Host::new(), Host::new()]);
    let (_, holder) = one.open(&remote);
    let began = ticket(request(&holder, 1));
    assert!(remote.is_leased(&holder.entry_key(&key(1))));

    let (_, files) = other.open(&remote);
    // A thread that holds a ticket would not wait.
    let on_another_thread =
        |body: &(dyn Fn() + Sync)| thread::scope(|scope| scope.spawn(body).join().unwrap());
    on_another_thread(&|| {
        let with_timeout = Options::default().with_timeout(Duration::from_millis(600));
        let claim = files.get_or_begin(&key(1), &with_timeout).unwrap();
        assert!(matches!(claim, GroupClaim::TimedOut), "{claim:?}");
    });
    on_another_thread(&|| {
        let cancel = CancelToken::new();
        let (cancels, waits) = (cancel.clone(), AtomicBool::new(false));
        let on_wait = || waits.store(true, Ordering::SeqCst);
        let on_poll = || cancels.cancel();
        let options = Options::default().with_cancel(&cancel).with_on_wait(&on_wait).with_on_poll(&on_poll);
        let claim = files.get_or_begin(&key(1), &options).unwrap();
        assert!(matches!(claim, GroupClaim::Cancelled), "{claim:?}");
        assert!(waits.load(Ordering::SeqCst));
    });
    on_another_thread(&|| {
        let claim = files.get_or_begin(&key(1), &Options::default().without_wait()).unwrap();
        assert!(matches!(claim, GroupClaim::Unshared(_, UnsharedReason::NoWait)), "{claim:?}");
    });

    // A ticket that is abandoned releases its lease, and the host that waits makes the files.
    let waiter = thread::spawn(move || {
        let begun = ticket(request(&files, 1));
        begun.publish(&group()).unwrap()
    });
    thread::sleep(Duration::from_millis(30));
    began.abandon(None).unwrap();
    assert!(waiter.join().unwrap());
    assert!(remote.count(Release) > 0);
    let found = hit(request(&holder, 1));
    assert!(found.from_remote() || found.waited());
}

/// The holder's process was killed: nothing renews its lease.
#[test]
fn the_lease_of_a_killed_holder_is_taken_over() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let key = key(1);
    let mut config = host.config(&remote);
    config.cache.remote.as_mut().unwrap().lease_ttl = Duration::from_millis(200);
    let (_, files) = open(config);
    let lease = names(TARGET).lease(&files.entry_key(&key), 0);
    let value = opkeep_cache::LeaseValue::new(opkeep_cache::LeaseToken::new([7; 16]), 0);
    remote.set_object(&lease, value.to_string().into_bytes());
    let waited = AtomicBool::new(false);
    let on_wait = || waited.store(true, Ordering::SeqCst);
    let claim = files.get_or_begin(&key, &Options::default().with_on_wait(&on_wait)).unwrap();
    assert!(waited.load(Ordering::SeqCst));
    assert!(ticket(claim).publish(&group()).unwrap());
}

/// A process of another host that hangs, such as in a collective operation that waits for this one, while its lease is renewed.
#[test]
fn a_held_lease_of_another_host_is_waited_for_a_limited_time() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    remote.set_faults(RemoteFaults { renews_every_lease: true, ..RemoteFaults::default() });
    let mut config = host.config(&remote);
    config.cache.remote.as_mut().unwrap().lease_ttl = Duration::from_millis(100);
    let (_, files) = open(config);
    let mut options = Options::default().with_timeout(SOON);
    assert_eq!(options.wait_for_host, Duration::from_secs(60));
    options.wait_for_host = Duration::from_millis(300);
    let began = Instant::now();
    let own = ticket(files.get_or_begin(&key(1), &options).unwrap());
    assert!(began.elapsed() >= options.wait_for_host);
    // A holder on this host is waited for as without a remote cache.
    thread::scope(|scope| {
        let waits = || {
            let mut options = Options::default().with_timeout(Duration::from_millis(600));
            options.wait_for_host = Duration::from_millis(1);
            files.get_or_begin(&key(1), &options).unwrap()
        };
        let claim = scope.spawn(waits).join().unwrap();
        assert!(matches!(claim, GroupClaim::TimedOut), "{claim:?}");
    });
    assert!(own.publish(&group()).unwrap());
    let warnings = host.warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("for too long"), "{warnings:?}");
}

/// Its answers come before the timeout of a call, so it never fails.
#[test]
fn a_slow_engine_costs_a_request_a_limited_time() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    remote.set_faults(RemoteFaults { delay: SOON * 2, ..RemoteFaults::default() });
    let mut config = host.config(&remote);
    assert_eq!(config.remote_limit, Duration::from_secs(10));
    config.remote_limit = Duration::from_millis(100);
    config.cache.remote.as_mut().unwrap().call_timeout = SOON * 3;
    let (_, files) = open(config);
    let began = Instant::now();
    assert!(files.get(&key(1)).unwrap().is_none());
    drop(request(&files, 2));
    drop(files.get_or_begin_many(&[key(3)], 1, &Options::default()).unwrap());
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(remote.calls().len(), 3, "each request made a call: {:?}", remote.calls());
}

#[test]
fn many_keys_are_requested_in_one_call() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (maker, files) = Host::new().open(&remote);
    for number in 0..100 {
        files.publish(&key(number), &group()).unwrap();
    }
    assert_eq!(maker.finish_uploads(SOON, None), 0);
    let (cache, files) = host.open(&remote);
    files.publish(&key(100), &group()).unwrap();
    assert_eq!(cache.finish_uploads(SOON, None), 0);
    let held = remote.calls().len();
    let keys: Vec<_> = (0..=110).map(key).collect();
    let claims = files.get_or_begin_many(&keys, 3, &Options::default()).unwrap();
    let fetches = remote.calls()[held..].iter().take_while(|call| **call == Get).count();
    // The bundle of the plan, the entries, and the leases on those that are missing.
    assert!(fetches <= 3, "{:?}", &remote.calls()[held..]);
    let leases = remote.object_names().into_iter().filter(|name| name.as_str().contains("/l/"));
    assert_eq!((remote.count(Claim), leases.count()), (1, 3), "no more leases than tickets");
    let mut begun = Vec::new();
    for (number, claim) in claims.into_iter().enumerate() {
        match claim {
            GroupClaim::Hit(group) => {
                assert_eq!((number <= 100, group.get("add.json")), (true, Some(&b"{}"[..])));
                assert_eq!(group.from_remote(), number < 100, "{number}");
            }
            GroupClaim::Begin(ticket) => {
                assert!((101..104).contains(&number));
                begun.push(ticket);
            }
            GroupClaim::Pending => assert!(number >= 104),
            other => panic!("{other:?}"),
        }
    }
    // Another host gets others of them.
    let (_, other) = Host::new().open(&remote);
    let claims = other.get_or_begin_many(&keys[101..], 3, &Options::default()).unwrap();
    let tickets = claims.iter().map(|claim| matches!(claim, GroupClaim::Begin(_)));
    assert_eq!(tickets.collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1, 0, 0, 0, 0].map(|begun| begun == 1));
    drop(claims);
    for ticket in begun {
        assert!(ticket.publish(&group()).unwrap());
    }
    assert_eq!(cache.finish_uploads(SOON, None), 0);
    assert!(hit(request(&other, 101)).from_remote());
}

/// The calls do not grow with the number of keys.
#[test]
fn many_tickets_are_begun_in_a_few_calls() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (_, files) = host.open(&remote);
    let keys: Vec<_> = (0..148).map(key).collect();
    let claims = files.get_or_begin_many(&keys, 148, &Options::default()).unwrap();
    assert!(claims.iter().all(|claim| matches!(claim, GroupClaim::Begin(_))), "{claims:?}");
    // The bundle of the plan, the entries, the leases, the claims, and the entries with the leases in hand.
    let calls: Vec<_> = remote.calls().into_iter().filter(|call| *call != RemoteCall::Capabilities).collect();
    assert_eq!(calls, [Get, Get, Get, Claim, Get]);
    drop(claims);
    // Another host claims half of them at the same moment: those are its keys, and two more calls bring the rest.
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (_, files) = host.open(&remote);
    let (is_first, tier) = (AtomicBool::new(true), remote.clone());
    remote.on_call(move |call, names| {
        if call == Claim && is_first.swap(false, Ordering::SeqCst) {
            names.iter().step_by(2).for_each(|name| tier.set_object(name, vec![b'0'; 48]));
        }
    });
    let claims = files.get_or_begin_many(&keys, 74, &Options::default()).unwrap();
    let begun = claims.iter().filter(|claim| matches!(claim, GroupClaim::Begin(_)));
    assert_eq!((begun.count(), remote.count(Claim)), (74, 2));
}

/// A thousand tickets that Ctrl-C ends would be a thousand calls, one after the other.
#[test]
fn many_tickets_end_in_one_call() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (_, files) = host.open(&remote);
    let keys: Vec<_> = (0..20).map(key).collect();
    let claims = files.get_or_begin_many(&keys, 20, &Options::default()).unwrap();
    let mut tickets: Vec<_> = claims.into_iter().map(ticket).collect();
    let (ended, kept) = (tickets.pop().unwrap(), tickets.pop().unwrap());
    ended.abandon(None).unwrap();
    assert_eq!(remote.count(Release), 1);
    GroupTicket::abandon_all(tickets.iter().cloned().chain([ended]));
    assert_eq!(remote.count(Release), 2);
    assert!(tickets.iter().all(|ticket| !ticket.is_held()));
    // Other hosts, and other callers of this one, get all of them.
    let (_, other) = Host::new().open(&remote);
    let claims = other.get_or_begin_many(&keys, 20, &Options::default()).unwrap();
    let begun = claims.iter().filter(|claim| matches!(claim, GroupClaim::Begin(_)));
    assert_eq!(begun.count(), 19);
    GroupTicket::abandon_all(claims.into_iter().filter_map(|claim| match claim {
        GroupClaim::Begin(ticket) => Some(ticket),
        _ => None,
    }));
    assert!(kept.is_held());
    let _again = ticket(request(&files, 1));
}

#[test]
fn many_keys_without_a_remote_cache() {
    let dir = tempfile::tempdir().unwrap();
    let files = crate::cache(&dir);
    let keys = [key(1), key(2), key(1)];
    let claims = files.get_or_begin_many(&keys, 9, &Options::default()).unwrap();
    let [GroupClaim::Begin(one), GroupClaim::Begin(_), GroupClaim::Pending] = &claims[..] else {
        panic!("{claims:?}")
    };
    assert!(one.publish(&group()).unwrap());
    drop(claims);
    let claims = files.get_or_begin_many(&keys, 0, &Options::default()).unwrap();
    assert!(
        matches!(&claims[..], [GroupClaim::Hit(_), GroupClaim::Pending, GroupClaim::Hit(_)]),
        "{claims:?}"
    );
    assert_eq!(files.get_or_begin_many(&[], 1, &Options::default()).unwrap().len(), 0);
}

/// A request that takes no ticket records what it validated, and counts what it uses.
#[test]
fn a_look_up_without_a_ticket_records_validations_and_counts_what_it_uses() {
    let dir = tempfile::tempdir().unwrap();
    let files = crate::cache(&dir);
    let store = || opkeep_store::Store::open(StoreConfig::new(dir.path().join("store"))).unwrap();
    for number in [1, 2] {
        files.publish(&key(number), &group()).unwrap();
        // As the store has it that an import wrote.
        let entry = files.entry_key(&key(number));
        let target = store().target(TARGET).unwrap();
        let Lookup::Hit(found) = target.peek(&entry) else { panic!() };
        let unvalidated = found.to_builder().with_validation(0);
        target.put_replacing(&entry, &unvalidated, opkeep_store::Overwrite::Always).unwrap();
        assert_eq!(Host::stamp(&files, &dir, &key(number)), 0);
    }
    let many = |options: &Options<'_>| files.get_or_begin_many(&[key(1)], 0, options).unwrap();
    let rules = rules();
    // The group has no kernel that could follow them.
    let refused = many(&Options::default().with_expectations(&rules));
    assert!(matches!(&refused[..], [GroupClaim::Pending]), "{refused:?}");
    assert!(matches!(&many(&Options::default())[..], [GroupClaim::Hit(_)]));
    assert!(files.get(&key(2)).unwrap().is_some());
    assert_eq!([1, 2].map(|number| Host::stamp(&files, &dir, &key(number))), [1, 1]);
    files.flush();
    assert_eq!(store().target(TARGET).unwrap().statistics().hits, 2);
}

#[test]
fn an_engine_that_is_gone_is_one_warning_and_costs_nothing_else() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    remote.set_faults(RemoteFaults { is_gone: true, ..RemoteFaults::default() });
    let (cache, files) = host.open(&remote);
    for number in 0..9 {
        assert!(files.get(&key(number)).unwrap().is_none());
        assert!(ticket(request(&files, number)).publish(&group()).unwrap());
        assert!(!hit(request(&files, number)).from_remote());
    }
    assert_eq!(cache.close(), 9);
    // After three failures it is paused.
    assert_eq!(remote.calls().len(), 3, "{:?}", remote.calls());
    let warnings = host.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

fn new_key(name: &str) -> Arc<SigningKey> {
    Arc::new(SigningKey::generate(name.parse().unwrap()).unwrap())
}

fn trusting(key: &SigningKey) -> TrustConfig {
    let keys: TrustedKeys = [key.public_key().clone()].into_iter().collect();
    TrustConfig::new(SignaturePolicy::Required(keys))
}

#[test]
fn only_what_a_trusted_key_signed_is_taken() {
    let (remote, builds, other) = (FakeRemote::new(), new_key("builds"), new_key("other"));
    for (number, signer) in [(1, None), (2, Some(&other)), (3, Some(&builds))] {
        let host = Host::new();
        let mut config = host.config(&remote);
        config.cache.trust.signing_key = signer.cloned();
        let (cache, files) = open(config);
        assert!(ticket(request(&files, number)).publish(&group()).unwrap());
        assert_eq!(cache.finish_uploads(SOON, None), 0);
    }
    let host = Host::new();
    let mut config = host.config(&remote);
    config.cache.trust = trusting(&builds);
    let (cache, files) = open(config);
    let keys = [1, 2, 3].map(key);
    assert!(files.get(&keys[0]).unwrap().is_none() && files.get(&keys[1]).unwrap().is_none());
    let claims = files.get_or_begin_many(&keys, 9, &Options::default()).unwrap();
    let [GroupClaim::Begin(_), GroupClaim::Begin(_), GroupClaim::Hit(found)] = &claims[..] else {
        panic!("{claims:?}")
    };
    assert!(found.get("add.ptx").is_some());
    // What it makes itself it takes, and it sends nothing, since it has no key.
    let GroupClaim::Begin(ticket) = &claims[0] else { panic!() };
    assert!(ticket.publish(&group()).unwrap());
    assert!(!hit(request(&files, 1)).from_remote());
    let stored = remote.object_names().len();
    assert_eq!((cache.finish_uploads(SOON, None), remote.object_names().len()), (0, stored));
}

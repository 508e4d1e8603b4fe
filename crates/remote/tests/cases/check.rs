//! The check of an engine: what it finds of each server, and of engines that do not do what they should.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use opkeep_cache::fs::CancelToken;
use opkeep_cache::{ExclusiveCreate, ObjectName, RemoteContext, RemoteEngine, RemoteError, RemoteObject};
use opkeep_remote::check::{
    Access, CheckError, CheckOptions, CheckReport, LeaseUse, Untested, check, check_clients,
};
use opkeep_remote::{OpenOptions, list_all, open};
use opkeep_testkit::remote::{FakeRemote, RemoteCall, RemoteFaults};
use opkeep_testkit::servers::{
    BuildGridOptions, RedisOptions, S3_ACCESS_KEY, S3_SECRET_KEY, Server, ServerKind, trial,
};

use crate::contract::{content, limits};
use crate::redis::send;
use crate::s3::options;

pub(crate) fn trials() -> Vec<Trial> {
    let full = RedisOptions { memory: Some((1, "noeviction")), ..RedisOptions::default() };
    let small = RedisOptions { memory: Some((1 << 20, "allkeys-lru")), ..RedisOptions::default() };
    let fills_up = RedisOptions { memory: Some((2 << 20, "noeviction")), ..RedisOptions::default() };
    let test = |name: &str, run: fn()| {
        Trial::test(format!("check/{name}"), move || {
            run();
            Ok::<(), Failed>(())
        })
    };
    vec![
        trial("check/Redis has leases that are proven", ServerKind::redis(), redis),
        trial("check/a user of Redis who may only read", ServerKind::redis(), reader),
        trial("check/a user of Redis who may use one namespace", ServerKind::redis(), of_one_namespace),
        trial("check/a Redis that is full", ServerKind::Redis(full), out_of_memory),
        trial("check/a user of Redis who may not see its space", ServerKind::redis(), unknown_space),
        trial("check/a Redis of 100 MB keeps the data of other programs", evicting(100), |server| {
            keeps_other_data(&server, 100 << 20, 1 << 20)
        }),
        trial("check/a Redis of 40 MB keeps the data of other programs", evicting(40), |server| {
            keeps_other_data(&server, 40 << 20, 256 << 10)
        }),
        trial("check/moto has leases that nothing proves", ServerKind::Moto, moto),
        trial("check/s3s-fs gives one lease to several clients", ServerKind::S3sFs, s3s_fs),
        trial("check/BuildGrid has no leases", grid(false), |server| build_grid(&server, Some(true))),
        trial("check/a BuildGrid that writes once replaces nothing", grid(true), |server| {
            build_grid(&server, None)
        }),
        trial("check/a Redis that evicts almost everything", ServerKind::Redis(small), almost_full),
        test("a directory has leases that nothing proves", directory),
        test("an engine that is gone", gone),
        trial("check/a Redis that is full after the first objects", ServerKind::Redis(fills_up), fills),
        test("an engine that is full after the first objects", full_later),
        test("an engine that hangs is called once", hangs),
        test("an interrupted check leaves nothing", interrupted),
        test("engines that do not do what they should", liars),
        test("an engine that stores and does not answer", lost_answers),
        test("leases of an engine that deletes nothing", kept),
        test("a listing of many parts", many_parts),
        test("a listing without an end", endless_listing),
    ]
}

fn of_server(server: &Server) -> CheckReport {
    let keys = [("AWS_ACCESS_KEY_ID", S3_ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", S3_SECRET_KEY)];
    check(&server.url(), &options(&keys), &CheckOptions::default()).unwrap()
}

/// What every engine must do that stores objects.
#[track_caller]
fn assert_stores(report: &CheckReport) {
    assert!(report.is_usable(), "{report:#?}");
    let objects = report.objects.clone().unwrap().unwrap();
    assert!(objects.is_intact, "{objects:?}");
    let yes = Some(true);
    assert_eq!((objects.is_kept, objects.is_replaced, objects.is_removed), (yes, yes, yes));
    let batch = report.batch.clone().unwrap().unwrap();
    assert_eq!((batch.objects, batch.intact), (64, 64));
    let largest = report.largest.clone().unwrap().unwrap();
    let most = if report.space.is_ok() { 32 << 20 } else { 1 << 20 };
    assert_eq!((largest.bytes, largest.failed), (most, None));
    let listing = report.listing.clone().unwrap().unwrap();
    assert_eq!((listing.expected, listing.found), (64, 64));
    assert!(listing.age.unwrap() <= listing.elapsed + Duration::from_secs(3), "{listing:?}");
    assert_eq!((report.left.objects, &report.left.error), (0, &None));
    assert!(report.round_trip.requests > 0 && report.round_trip.median <= report.round_trip.worst);
}

/// What the leases of every engine do that has them.
#[track_caller]
fn assert_leases(report: &CheckReport) {
    let leases = report.leases.clone().unwrap().unwrap();
    assert!(leases.is_renewed && leases.renewal_compares, "{leases:?}");
    assert!(leases.release_compares && leases.is_released, "{leases:?}");
}

#[track_caller]
fn assert_one_winner(report: &CheckReport) {
    let race = report.race.clone().unwrap().unwrap();
    assert!(race.rounds > 0 && race.rounds <= 20, "{race:?}");
    assert_eq!((race.most, race.shared_rounds, race.lost_rounds, race.errors), ((1, 1), 0, 0, 0));
}

fn redis(server: Server) -> Result<(), Failed> {
    let report = of_server(&server);
    assert_stores(&report);
    assert_leases(&report);
    assert_one_winner(&report);
    assert_eq!((report.lease_use(), report.clients), (LeaseUse::Proven, 16));
    let counters = report.counters.clone().unwrap().unwrap();
    assert_eq!((counters.added, counters.counted), (16, 16));
    let expiry = report.expiry.clone().unwrap().unwrap().unwrap();
    assert!(expiry >= Duration::from_millis(900), "{expiry:?}");
    assert!(send(&server, "DBSIZE").starts_with(":0"));
    Ok(())
}

fn reader(server: Server) -> Result<(), Failed> {
    send(&server, "ACL SETUSER reader on >hunter2 ~opkeep/* +mget +get");
    let url = format!("redis://reader:hunter2@{}", server.address());
    let report = check(&url, &OpenOptions::default(), &CheckOptions::default()).unwrap();
    assert!(matches!(report.access, Access::ReadOnly { .. }), "{report:?}");
    assert!(report.is_usable() && report.race.is_none() && report.batch.is_none());
    assert!(matches!(report.listing, Some(Err(RemoteError::Refused { .. }))), "{:?}", report.listing);
    assert!(!format!("{report:?}").contains("hunter2"));
    Ok(())
}

fn of_one_namespace(server: Server) -> Result<(), Failed> {
    let rights = "+mget +get +set +del +unlink +incrby +pexpire +eval +scan +object +memory";
    send(&server, &format!("ACL SETUSER team on >hunter2 ~opkeep/v1/team/* {rights}"));
    let url = format!("redis://team:hunter2@{}", server.address());
    let refused = check(&url, &OpenOptions::default(), &CheckOptions::default());
    let Err(CheckError::Remote { source: RemoteError::Refused { reason }, .. }) = refused else {
        return Err(format!("{refused:?}").into());
    };
    assert!(reason.contains("NOPERM") && reason.contains("namespace"), "{reason}");
    let namespace = "team".parse().unwrap();
    let mut options = CheckOptions::default();
    options.namespace = Some(&namespace);
    let report = check(&url, &OpenOptions::default(), &options).unwrap();
    assert!(report.prefix.starts_with("v1/team/check-"), "{report:?}");
    assert_stores(&report);
    assert_leases(&report);
    assert_eq!(report.lease_use(), LeaseUse::Proven);
    assert!(send(&server, "DBSIZE").starts_with(":0"));
    Ok(())
}

fn evicting(megabytes: u64) -> ServerKind {
    let memory = Some((megabytes << 20, "allkeys-lru"));
    ServerKind::Redis(RedisOptions { memory, ..RedisOptions::default() })
}

/// Returns a figure of `INFO`.
#[track_caller]
fn info(server: &Server, section: &str, field: &str) -> u64 {
    let info = send(server, &format!("INFO {section}"));
    let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {field}: {info}")).trim().parse().unwrap()
}

/// A check of a server that evicts what was not used for the longest time, and of which 59 % are in use.
fn keeps_other_data(server: &Server, memory: u64, largest: u64) -> Result<(), Failed> {
    let other = open(&format!("{}/0?prefix=other", server.url()), &OpenOptions::default())?;
    let bytes = content(256 << 10, 1);
    for number in 0.. {
        if info(server, "memory", "used_memory") >= memory / 100 * 59 {
            break;
        }
        let name = ObjectName::new(format!("e/{number}"))?;
        other.put_if_absent(&[RemoteObject::new(&name, &bytes)], &limits())?;
    }
    let keys = send(server, "DBSIZE");
    let used = info(server, "memory", "used_memory");
    let report = of_server(server);
    assert!(report.is_usable() && report.access == Access::ReadWrite, "{report:#?}");
    assert_eq!((info(server, "stats", "evicted_keys"), send(server, "DBSIZE")), (0, keys));
    // The largest part of what the check needs is its largest object.
    let peak = info(server, "memory", "used_memory_peak");
    assert!(peak - used <= (memory - used) / 4, "{used} {peak} {memory}");
    let found = report.largest.clone().unwrap().unwrap();
    assert_eq!((found.bytes, found.failed), (largest, None));
    let Some(Untested::Space { free }) = found.untested else {
        return Err(format!("{:?}", report.largest).into());
    };
    // What was in use before the check stored anything.
    let space = report.space.clone().unwrap().unwrap();
    assert!(space.used.abs_diff(used) < 128 << 10, "{space:?} {used}");
    assert_eq!((space.limit, space.limit - space.used, space.evicts), (memory, free, true));
    Ok(())
}

fn unknown_space(server: Server) -> Result<(), Failed> {
    let rights = "+mget +get +set +del +unlink +incrby +pexpire +eval";
    send(&server, &format!("ACL SETUSER writer on >hunter2 ~opkeep/* {rights}"));
    let url = format!("redis://writer:hunter2@{}", server.address());
    let report = check(&url, &OpenOptions::default(), &CheckOptions::default()).unwrap();
    assert!(matches!(report.space, Err(RemoteError::Refused { .. })), "{report:?}");
    let largest = report.largest.unwrap().unwrap();
    assert_eq!((largest.bytes, largest.untested), (1 << 20, Some(Untested::Unknown)));
    Ok(())
}

fn out_of_memory(server: Server) -> Result<(), Failed> {
    let report = of_server(&server);
    assert!(matches!(report.access, Access::Full { .. }), "{report:?}");
    assert!(report.is_usable() && report.objects.is_none());
    Ok(())
}

/// Builds use what it stores, and compile what it refuses or evicts.
fn almost_full(server: Server) -> Result<(), Failed> {
    let report = of_server(&server);
    assert!(report.is_usable(), "{report:#?}");
    assert_ne!(report.lease_use(), LeaseUse::Shared);
    assert!(report.largest.as_ref().is_none_or(|largest| largest.as_ref().unwrap().bytes < 8 << 20));
    Ok(())
}

fn moto(server: Server) -> Result<(), Failed> {
    let report = of_server(&server);
    assert_stores(&report);
    assert_leases(&report);
    assert_one_winner(&report);
    assert_eq!(report.lease_use(), LeaseUse::Unproven);
    assert!(report.counters.is_none() && report.expiry.is_none());
    Ok(())
}

fn s3s_fs(server: Server) -> Result<(), Failed> {
    let report = of_server(&server);
    assert_stores(&report);
    assert_eq!(report.lease_use(), LeaseUse::Shared, "{:?}", report.race);
    let race = report.race.clone().unwrap().unwrap();
    assert!(race.most.0 > 1 && race.most.1 > 0 && race.shared_rounds > 0, "{race:?}");
    Ok(())
}

fn grid(is_write_once: bool) -> ServerKind {
    ServerKind::BuildGrid(BuildGridOptions { is_write_once })
}

/// Neither deletes objects, nor lists them.
fn build_grid(server: &Server, is_replaced: Option<bool>) -> Result<(), Failed> {
    let report = of_server(server);
    let objects = report.objects.clone().unwrap().unwrap();
    assert_eq!((objects.is_kept, objects.is_removed), (Some(true), None));
    assert_eq!(objects.is_replaced, is_replaced);
    assert!(report.is_usable() && report.access == Access::ReadWrite, "{report:#?}");
    assert_eq!(report.lease_use(), LeaseUse::None);
    assert!(report.race.clone().unwrap().unwrap().rounds > 0);
    assert!(report.leases.is_none() && report.counters.is_none() && report.listing.is_none());
    let batch = report.batch.clone().unwrap().unwrap();
    assert_eq!((batch.objects, batch.intact), (64, 64));
    assert!(report.left.objects > 64);
    assert!(matches!(report.left.error, Some(RemoteError::Unsupported { .. })), "{:?}", report.left);
    Ok(())
}

fn file(directory: &Path) -> String {
    format!("file://{}", directory.display())
}

fn directory() {
    let directory = tempfile::tempdir().unwrap();
    let report = check(&file(directory.path()), &OpenOptions::default(), &CheckOptions::default()).unwrap();
    assert_stores(&report);
    assert_leases(&report);
    assert_one_winner(&report);
    assert_eq!(report.lease_use(), LeaseUse::Unproven);
    let counters = report.counters.clone().unwrap().unwrap();
    assert_eq!((counters.added, counters.counted), (16, 16));
    let left = opkeep_cache::fs::Fs::new().list(directory.path()).unwrap();
    let left: Vec<_> = left.into_iter().map(|(name, _)| name).collect();
    assert_eq!(left, ["+tmp"], "not even directories are left");
}

fn gone() {
    for (url, is_gone) in
        [("redis://:hunter2@127.0.0.1:1", true), ("file:///missing/directory", true), ("redis://", false)]
    {
        let error = check(url, &OpenOptions::default(), &CheckOptions::default()).unwrap_err();
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        match error {
            CheckError::Remote { source: RemoteError::Unreachable { .. }, .. } => assert!(is_gone, "{url}"),
            CheckError::Open(_) => assert!(!is_gone, "{url}"),
            error => panic!("{url}: {error}"),
        }
    }
}

/// Runs a check of clients of one fake engine.
fn of_fake(remote: &FakeRemote, cancel: Option<&CancelToken>) -> Result<CheckReport, CheckError> {
    let clients = (0..4).map(|_| Arc::new(remote.clone()) as Arc<dyn RemoteEngine>).collect();
    let mut options = CheckOptions::default();
    (options.rounds, options.max_object_bytes, options.cancel) = (3, 1 << 20, cancel);
    check_clients(clients, &options)
}

/// Small kernels are stored until the memory is used up, so an object alone proves nothing.
fn fills(server: Server) -> Result<(), Failed> {
    // The server uses about one of its two MiB for itself.
    for number in 0..40 {
        send(&server, &format!("SET filler{number} {}", "x".repeat(32 << 10)));
    }
    let report = of_server(&server);
    assert!(matches!(&report.access, Access::Full { reason } if reason.starts_with("OOM ")), "{report:#?}");
    assert!(report.is_usable() && report.race.is_none() && report.batch.is_none());
    let space = report.space.unwrap().unwrap();
    assert_eq!((space.limit, space.evicts, space.is_nearly_full()), (2 << 20, false, true));
    Ok(())
}

fn full_later() {
    let remote = FakeRemote::new();
    let (tier, puts) = (remote.clone(), AtomicUsize::new(0));
    remote.on_call(move |call, _| {
        let is_full = call == RemoteCall::Put && puts.fetch_add(1, Ordering::SeqCst) >= 2;
        tier.set_faults(RemoteFaults { is_full, ..RemoteFaults::default() });
    });
    let report = of_fake(&remote, None).unwrap();
    assert_eq!(report.access, Access::Full { reason: "a test".to_owned() });
    assert!(report.objects.as_ref().unwrap().is_ok() && report.batch.is_none() && report.is_usable());
    assert_eq!((report.left.objects, report.space), (0, Ok(None)));
}

/// It is not asked to delete what was not stored.
fn hangs() {
    let remote = faulty(RemoteFaults { delay: Duration::from_secs(3600), ..RemoteFaults::default() });
    let clients = (0..2).map(|_| Arc::new(remote.clone()) as Arc<dyn RemoteEngine>).collect();
    let mut options = CheckOptions::default();
    options.call_timeout = Duration::from_millis(50);
    let error = check_clients(clients, &options).unwrap_err();
    assert!(matches!(error, CheckError::Remote { source: RemoteError::TimedOut, .. }), "{error:?}");
    assert_eq!(remote.calls(), [RemoteCall::Get]);
}

fn interrupted() {
    let (remote, cancel) = (FakeRemote::new(), CancelToken::new());
    let token = cancel.clone();
    remote.on_call(move |call, _| {
        if call == RemoteCall::Claim {
            token.cancel();
        }
    });
    let error = of_fake(&remote, Some(&cancel)).unwrap_err();
    assert!(matches!(error, CheckError::Remote { source: RemoteError::Cancelled, .. }), "{error:?}");
    assert!(remote.object_names().is_empty());
}

fn liars() {
    let report = |faults: RemoteFaults| {
        let remote = FakeRemote::new();
        remote.set_faults(faults);
        of_fake(&remote, None)
    };
    let honest = report(RemoteFaults::default()).unwrap();
    assert!(honest.is_usable() && honest.lease_use() == LeaseUse::Proven, "{honest:#?}");
    assert_leases(&honest);
    let flips = report(RemoteFaults { flips_bit: Some(7), ..RemoteFaults::default() }).unwrap();
    assert!(!flips.is_usable(), "{flips:#?}");
    let cuts = report(RemoteFaults { cuts: 1, ..RemoteFaults::default() }).unwrap();
    assert!(!cuts.is_usable());
    let grants = report(RemoteFaults { grants_every_lease: true, ..RemoteFaults::default() }).unwrap();
    let race = grants.race.clone().unwrap().unwrap();
    assert_eq!((grants.lease_use(), race.most, race.shared_rounds), (LeaseUse::Shared, (4, 1), 3));
    assert!(grants.is_usable());
    let none = RemoteFaults { exclusive_create: Some(ExclusiveCreate::None), ..RemoteFaults::default() };
    let none = report(none).unwrap();
    assert_eq!((none.lease_use(), none.is_usable(), none.leases.is_none()), (LeaseUse::None, true, true));
    let held = report(RemoteFaults { holds_every_lease: true, ..RemoteFaults::default() }).unwrap();
    let race = held.race.clone().unwrap().unwrap();
    assert_eq!((held.lease_use(), race.lost_rounds, race.most.0), (LeaseUse::None, 3, 0));
    let full = report(RemoteFaults { is_full: true, ..RemoteFaults::default() }).unwrap();
    assert!(matches!(full.access, Access::Full { .. }) && full.is_usable());
    let one = FakeRemote::new();
    let error = check_clients(vec![Arc::new(one)], &CheckOptions::default()).unwrap_err();
    assert!(matches!(error, CheckError::TooFewClients { clients: 1 }));
}

fn faulty(faults: RemoteFaults) -> FakeRemote {
    let remote = FakeRemote::new();
    remote.set_faults(faults);
    remote
}

/// What a call stored that failed is deleted as well, or shows as left behind.
fn lost_answers() {
    let faults = RemoteFaults { loses_answers_to_puts: true, ..RemoteFaults::default() };
    let remote = faulty(faults.clone());
    let report = of_fake(&remote, None).unwrap();
    assert!(matches!(report.access, Access::Failed(RemoteError::TimedOut)), "{report:#?}");
    assert_eq!((remote.object_names().len(), report.left.objects), (0, 0));
    let remote = faulty(RemoteFaults { keeps_all: true, ..faults });
    let report = of_fake(&remote, None).unwrap();
    assert_eq!((remote.object_names().len(), report.left.objects), (1, 1));
    assert!(matches!(report.left.error, Some(RemoteError::Refused { .. })), "{:?}", report.left);
}

/// Builds use these leases, which end without a release.
fn kept() {
    let remote = faulty(RemoteFaults { keeps_all: true, ..RemoteFaults::default() });
    let report = of_fake(&remote, None).unwrap();
    let race = report.race.clone().unwrap().unwrap();
    assert_eq!((race.rounds, race.most, race.errors), (3, (1, 1), 0));
    assert_eq!(report.lease_use(), LeaseUse::Proven);
    let leases = report.leases.clone().unwrap().unwrap();
    assert!(leases.is_renewed && leases.release_compares && !leases.is_released, "{leases:?}");
    assert_eq!(report.left.objects, remote.object_names().len());
    assert!(report.left.objects > 64);
}

/// A Redis server of other programs has many parts without an object of the check.
fn many_parts() {
    let remote = faulty(RemoteFaults { empty_parts: 1500, ..RemoteFaults::default() });
    let report = of_fake(&remote, None).unwrap();
    let listing = report.listing.clone().unwrap().unwrap();
    assert_eq!((listing.expected, listing.found), (64, 64));
}

fn endless_listing() {
    for last in [1, 2, 3] {
        let faults =
            RemoteFaults { empty_parts: 9, repeats_listing_after: Some(last), ..RemoteFaults::default() };
        let remote = faulty(faults);
        let context = || RemoteContext::new(Instant::now() + Duration::from_secs(60), None);
        let listed = list_all(&remote, "v1/", None, context, |_| ());
        assert!(matches!(listed, Err(RemoteError::Invalid { .. })), "{listed:?}");
        assert_eq!(remote.count(RemoteCall::List), last + 1);
    }
}

//! Bundles of plans: a host takes all entries of a plan in one object, and nothing that it would not take one by one.

use std::sync::{Arc, Barrier};
use std::time::{Duration, SystemTime};

use opkeep_bundle::{BundleReader, BundleWriter};
use opkeep_cache::{
    Accept, Digest, ExclusiveCreate, FetchReport, Lookup, ObjectName, ObjectNames, Query, RemotePolicy,
    TargetCache, WarningKind,
};
use opkeep_store::{Entry, EntryBuilder};
use opkeep_testkit::remote::RemoteCall::{Claim as ClaimCall, Get, Put, Replace};
use opkeep_testkit::remote::{FakeRemote, RemoteFaults, names};

use crate::common::{
    Host, STAMP, TARGET, builder, config, entry_name, key, keys, name, publish, take, text, writer,
};
use crate::signing::{self, Key, new_key, signer, trust};

const COUNT: usize = 40;

fn entry(number: usize) -> Entry {
    let (key, object) = (key(&name(number)), text(number));
    Entry::decode(builder(&object).encode(&key).unwrap(), Some(&key)).unwrap()
}

/// Puts the entries of a plan into the engine, one by one.
fn fill(remote: &FakeRemote, numbers: impl IntoIterator<Item = usize>) {
    for number in numbers {
        remote.set_object(
            &entry_name(&name(number)),
            entry(number).to_builder().encode(&key(&name(number))).unwrap(),
        );
    }
}

fn bundle_name(count: usize) -> ObjectName {
    names(TARGET).bundle(&ObjectNames::plan(&keys(count)), None)
}

/// A bundle of `entries` that states this plan and this target.
fn bundle(plan: Option<Digest>, target: &str, entries: impl IntoIterator<Item = Entry>) -> Vec<u8> {
    let mut entries: Vec<Entry> = entries.into_iter().collect();
    entries.sort_by_key(|entry| *entry.key());
    let mut writer = BundleWriter::new(Vec::new(), plan, None).unwrap();
    entries.iter().for_each(|entry| writer.add(target, entry).unwrap());
    writer.finish().unwrap().out
}

/// Takes what a build takes: entries of the right writer, which it validates.
fn judge(entry: &Entry) -> Accept {
    assert_eq!(entry.validation(), 0, "another host's validation does not count");
    match (0..).zip(keys(2 * COUNT)).find(|(_, key)| key == entry.key()) {
        Some((number, _)) if number == writer(entry) => {
            Accept::Validated { stamp: STAMP, renewed: Vec::new() }
        }
        _ => Accept::Replace("it is the kernel of another key".to_owned()),
    }
}

fn fetch(cache: &TargetCache, count: usize) -> FetchReport {
    cache.fetch(&keys(count), &Query::new(&judge))
}

fn share(cache: &TargetCache) -> usize {
    cache.share_plans(None, None)
}

#[track_caller]
fn has(cache: &TargetCache, numbers: impl IntoIterator<Item = usize>) {
    for number in numbers {
        match cache.get(&key(&name(number))) {
            Lookup::Hit(entry) => assert_eq!((writer(&entry), entry.validation()), (number, STAMP)),
            Lookup::Miss(miss) => panic!("{number}: {miss}"),
        }
    }
}

/// An engine with the entries of a plan and their bundle, as the host leaves it that fetched them first.
fn warm(count: usize) -> FakeRemote {
    let (remote, host) = (FakeRemote::new(), Host::new());
    fill(&remote, 0..count);
    let cache = host.with_remote(&config(&remote));
    assert_eq!(fetch(&cache, count).fetched.len(), count);
    assert_eq!((share(&cache), share(&cache)), (1, 0), "{:?}", host.warnings());
    assert_eq!(remote.count(Put), 1);
    remote
}

#[test]
fn a_warm_cluster_fetches_one_object() {
    let remote = warm(COUNT);
    let (host, before, began) = (Host::new(), remote.calls().len(), SystemTime::now());
    let cache = host.with_remote(&config(&remote));
    let report = fetch(&cache, COUNT);
    assert_eq!((report.fetched.len(), report.refused.len(), report.missing.len()), (COUNT, 0, 0));
    assert_eq!(remote.calls()[before..], [Get]);
    assert_eq!(report.bytes, remote.object(&bundle_name(COUNT)).unwrap().len() as u64);
    has(&cache, 0..COUNT);
    assert_eq!(cache.store().unwrap().statistics().remote_hits, COUNT as u64);
    // Entries in a bundle have no time, those in a store have one.
    let Lookup::Hit(entry) = cache.get(&key(&name(0))) else { unreachable!() };
    assert!(entry.created() >= began - Duration::from_secs(2), "{:?}", entry.created());
    // There is a bundle, so no host stores one again.
    assert_eq!((share(&cache), remote.count(Put), host.warnings()), (0, 1, Vec::new()));
}

#[test]
fn the_order_of_the_keys_does_not_matter() {
    let remote = warm(COUNT);
    let (host, gets) = (Host::new(), remote.count(Get));
    let mut reversed = keys(COUNT);
    reversed.reverse();
    let report = host.with_remote(&config(&remote)).fetch(&reversed, &Query::new(&judge));
    assert_eq!((report.fetched.len(), remote.count(Get) - gets), (COUNT, 1));
}

#[test]
fn few_missing_entries_are_fetched_one_by_one() {
    let remote = warm(COUNT);
    let bundle = bundle_name(COUNT);
    remote.on_call(move |_, names| assert!(!names.contains(&bundle), "{names:?}"));
    // A short plan, and one of which most is there.
    let host = Host::new();
    let cache = host.with_remote(&config(&remote));
    assert_eq!(fetch(&cache, 15).fetched.len(), 15);
    let one_by_one: Vec<_> = keys(COUNT)[15..22].to_vec();
    assert_eq!(cache.fetch(&one_by_one, &Query::new(&judge)).fetched.len(), 7);
    assert_eq!(fetch(&cache, COUNT).fetched.len(), COUNT - 22);
    assert_eq!(share(&cache), 0);
}

/// An entry of zeros, of which a bundle has a few thousand bytes.
fn zeros(number: usize, bytes: usize) -> Entry {
    let (key, zeros) = (key(&name(number)), "\0".repeat(bytes));
    Entry::decode(builder(&zeros).encode(&key).unwrap(), Some(&key)).unwrap()
}

/// A hostile bundle may have very many blocks without a wanted entry.
#[test]
fn blocks_without_wanted_entries_end_at_the_limits() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let first = (0..COUNT).min_by_key(|number| key(&name(*number))).unwrap();
    let unwanted = (COUNT..).find(|number| key(&name(*number)) > key(&name(first))).unwrap();
    let plan = Some(ObjectNames::plan(&keys(COUNT)));
    let content = bundle(plan, TARGET, [entry(first), zeros(unwanted, 9 << 20)]);
    let reader = BundleReader::open(std::io::Cursor::new(content.clone())).unwrap();
    assert_eq!(reader.index().block_count(), 2);
    assert_eq!(reader.index().block_entries(1).map(|entry| entry.block).collect::<Vec<_>>(), [1]);
    remote.set_object(&bundle_name(COUNT), content);
    let cancel = opkeep_cache::CancelToken::new();
    let cancels = |entry: &Entry| {
        cancel.cancel();
        judge(entry)
    };
    let mut query = Query::new(&cancels);
    query.cancel = Some(&cancel);
    let report = host.with_remote(&config(&remote)).fetch(&keys(COUNT), &query);
    assert_eq!(report.fetched, [key(&name(first))]);
    // After the end, nothing is judged: not even that the bundle lacks entries.
    let warnings = host.warnings();
    assert!(!warnings.iter().any(|warning| format!("{warning:?}").contains("lacks")), "{warnings:?}");
}

/// A few thousand bytes can be decompressed to a gigabyte.
#[test]
fn a_bundle_with_a_large_block_is_refused_and_never_stored() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let plan = Some(ObjectNames::plan(&keys(COUNT)));
    let large = bundle(plan, TARGET, (1..COUNT).map(entry).chain([zeros(0, 65 << 20)]));
    assert!(large.len() < 1 << 20, "{}", large.len());
    remote.set_object(&bundle_name(COUNT), large.clone());
    fill(&remote, 1..COUNT);
    let zeros = zeros(0, 65 << 20);
    remote.set_object(&entry_name(&name(0)), zeros.to_builder().encode(zeros.key()).unwrap());
    let accepts = |_: &Entry| Accept::Validated { stamp: STAMP, renewed: Vec::new() };
    let cache = host.with_remote(&config(&remote));
    let report = cache.fetch(&keys(COUNT), &Query::new(&accepts));
    assert_eq!(report.fetched.len(), COUNT, "{:?}", host.warnings());
    let warnings = host.warnings();
    assert!(
        warnings.iter().any(|warning| format!("{warning:?}").contains("it has a block of")),
        "{warnings:?}"
    );
    assert_eq!(share(&cache), 0);
    assert!(remote.object(&bundle_name(COUNT)).unwrap()[..] == large[..]);
}

#[test]
fn what_is_not_in_the_plan_is_ignored() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let plan = Some(ObjectNames::plan(&keys(COUNT)));
    remote.set_object(&bundle_name(COUNT), bundle(plan, TARGET, (0..COUNT + 5).map(entry)));
    let cache = host.with_remote(&config(&remote));
    assert_eq!(fetch(&cache, COUNT).fetched.len(), COUNT);
    for number in COUNT..COUNT + 5 {
        assert!(matches!(cache.get(&key(&name(number))), Lookup::Miss(_)), "{number}");
    }
}

/// What a bundle lacks comes one by one, and the next host finds a whole bundle.
#[test]
fn a_bundle_that_lacks_entries_is_used_and_replaced() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    fill(&remote, 0..COUNT);
    let plan = Some(ObjectNames::plan(&keys(COUNT)));
    remote.set_object(&bundle_name(COUNT), bundle(plan, TARGET, (0..COUNT - 3).map(entry)));
    let cache = host.with_remote(&config(&remote));
    assert_eq!((fetch(&cache, COUNT).fetched.len(), remote.count(Get)), (COUNT, 2));
    has(&cache, 0..COUNT);
    assert!(host.warnings()[0].1.contains("it lacks 3 entries"));
    assert_eq!((share(&cache), remote.count(Replace)), (1, 1));
    let (other, gets) = (Host::new(), remote.count(Get));
    assert_eq!(fetch(&other.with_remote(&config(&remote)), COUNT).fetched.len(), COUNT);
    assert_eq!((remote.count(Get) - gets, other.warnings()), (1, Vec::new()));
}

/// Bundles that are wrong in every way: none of it enters the store, the entries come one by one, and the finisher replaces it.
#[test]
fn a_wrong_bundle_is_refused_and_healed() {
    let right = warm(COUNT).object(&bundle_name(COUNT)).unwrap();
    let plan = ObjectNames::plan(&keys(COUNT));
    let all = || (0..COUNT).map(entry);
    // The entry of key 3 holds the kernel of another key.
    let poisoned = all().map(|entry| match entry.key() == &key(&name(3)) {
        false => entry,
        true => {
            let (key, object) = (*entry.key(), text(4));
            Entry::decode(builder(&object).encode(&key).unwrap(), Some(&key)).unwrap()
        }
    });
    let mut damaged = right.clone();
    damaged[50] ^= 1;
    for (wrong, reason, expected) in [
        (b"no bundle".to_vec(), "it is not a bundle", 0),
        (Vec::new(), "it is not a bundle", 0),
        (right[..right.len() - 1].to_vec(), "is incomplete", 0),
        (damaged, "block 0", 0),
        (bundle(None, TARGET, all()), "another plan", 0),
        (bundle(Some(ObjectNames::plan(&keys(COUNT - 1))), TARGET, all()), "another plan", 0),
        (bundle(Some(plan), "npu", all()), "another plan", 0),
        (bundle(Some(plan), TARGET, []), "another plan", 0),
        (bundle(Some(plan), TARGET, poisoned), "the kernel of another key", COUNT - 1),
    ] {
        let (remote, host) = (FakeRemote::new(), Host::new());
        remote.set_object(&bundle_name(COUNT), wrong);
        let cache = host.with_remote(&config(&remote));
        // Without the single entries, it is seen what is taken of the bundle.
        assert_eq!(fetch(&cache, COUNT).fetched.len(), expected, "{reason}");
        let warnings = host.warnings();
        assert_eq!((warnings.len(), warnings[0].0), (1, WarningKind::Remote), "{warnings:?}");
        assert!(warnings[0].1.contains(reason), "{warnings:?}");
        assert_eq!(share(&cache), 0, "the plan is not finished");
        fill(&remote, 0..COUNT);
        assert_eq!(fetch(&cache, COUNT).missing.len(), 0);
        has(&cache, 0..COUNT);
        host.warnings();
        if expected > 0 {
            // Most of the plan was there, so the bundle was not looked up again: the next host heals it.
            continue;
        }
        assert_eq!((share(&cache), remote.count(Replace)), (1, 1), "{reason}: {:?}", host.warnings());
        assert!(remote.object(&bundle_name(COUNT)).unwrap() == right, "the same entries give the same bytes");
    }
}

/// A poisoned bundle does not hide the right entry, and the host that refused it replaces it.
#[test]
fn a_poisoned_entry_is_taken_from_its_own_object() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    fill(&remote, 0..COUNT);
    let forged = {
        let (key, object) = (key(&name(3)), text(4));
        Entry::decode(builder(&object).encode(&key).unwrap(), Some(&key)).unwrap()
    };
    let entries = (0..COUNT).map(|number| if number == 3 { forged.clone() } else { entry(number) });
    remote.set_object(&bundle_name(COUNT), bundle(Some(ObjectNames::plan(&keys(COUNT))), TARGET, entries));
    let cache = host.with_remote(&config(&remote));
    let report = fetch(&cache, COUNT);
    assert_eq!((report.fetched.len(), report.refused.len()), (COUNT, 0));
    has(&cache, 0..COUNT);
    assert_eq!((host.warnings().len(), share(&cache), remote.count(Replace)), (1, 1, 1));
    assert!(remote.object(&bundle_name(COUNT)).unwrap() == warm(COUNT).object(&bundle_name(COUNT)).unwrap());
}

/// Each cut, and a change of each byte: no panic, and no wrong entry.
#[test]
fn damage_of_any_byte_costs_a_warning() {
    let right = warm(16).object(&bundle_name(16)).unwrap();
    let (remote, host) = (FakeRemote::new(), Host::new());
    let mut settings = host.config();
    settings.store = None;
    settings.remote = Some(config(&remote));
    let cache = crate::common::open(settings);
    for at in (0..right.len()).step_by(7) {
        let mut changed = right.clone();
        changed[at] ^= 0x10;
        for wrong in [changed, right[..at].to_vec()] {
            remote.set_object(&bundle_name(16), wrong);
            let report = fetch(&cache, 16);
            assert_eq!((report.fetched.len(), report.missing.len()), (0, 16), "byte {at}");
            assert_eq!(host.warnings().len(), 1, "byte {at}");
        }
    }
    remote.set_object(&bundle_name(16), right);
    assert_eq!(fetch(&cache, 16).fetched.len(), 16);
}

#[test]
fn of_many_finishers_one_stores_the_bundle() {
    const HOSTS: usize = 8;
    let remote = FakeRemote::new();
    fill(&remote, 0..COUNT);
    let barrier = Barrier::new(HOSTS);
    let shared: usize = std::thread::scope(|scope| {
        let finish = || {
            let host = Host::new();
            let cache = host.with_remote(&config(&remote));
            fetch(&cache, COUNT);
            barrier.wait();
            share(&cache)
        };
        let hosts: Vec<_> = (0..HOSTS).map(|_| scope.spawn(finish)).collect();
        hosts.into_iter().map(|host| host.join().unwrap()).sum()
    });
    assert!(remote.object(&bundle_name(COUNT)).is_some());
    assert_eq!((shared, remote.count(Put)), (1, 1));
    assert!(!has_leases(&remote));
}

fn has_leases(remote: &FakeRemote) -> bool {
    remote.object_names().iter().any(|name| name.as_str().contains("/l/"))
}

/// The lease on a plan ends with its bundle, and a host that finishes a moment later does not send the same again.
#[test]
fn no_lease_is_left_of_a_bundle() {
    let remote = FakeRemote::new();
    fill(&remote, 0..COUNT);
    let hosts: Vec<_> = (0..3).map(|_| Host::new()).collect();
    let caches: Vec<_> = hosts.iter().map(|host| host.with_remote(&config(&remote))).collect();
    caches.iter().for_each(|cache| assert_eq!(fetch(cache, COUNT).fetched.len(), COUNT));
    for (cache, shared) in caches.iter().zip([1, 0, 0]) {
        assert_eq!((share(cache), has_leases(&remote), remote.count(Put)), (shared, false, 1));
    }
    // Nor of one that is not stored: the engine is full, or the plan is not finished.
    for faults in [RemoteFaults { is_full: true, ..RemoteFaults::default() }, RemoteFaults::default()] {
        let (remote, host) = (FakeRemote::new(), Host::new());
        fill(&remote, usize::from(!faults.is_full)..COUNT);
        remote.set_faults(faults);
        let cache = host.with_remote(&config(&remote));
        fetch(&cache, COUNT);
        assert_eq!((share(&cache), remote.count(ClaimCall), has_leases(&remote)), (0, 1, false));
    }
}

/// A lease of another host keeps this one from doing the same. Without leases, both may.
#[test]
fn leases_save_work() {
    for (faults, shared) in [
        (RemoteFaults { holds_every_lease: true, ..RemoteFaults::default() }, 0),
        (RemoteFaults { exclusive_create: Some(ExclusiveCreate::None), ..RemoteFaults::default() }, 1),
    ] {
        let (remote, host) = (FakeRemote::new(), Host::new());
        fill(&remote, 0..COUNT);
        remote.set_faults(faults);
        let cache = host.with_remote(&config(&remote));
        fetch(&cache, COUNT);
        assert_eq!((share(&cache), remote.count(Put)), (shared, shared));
    }
}

#[test]
fn only_a_finished_plan_of_valid_kernels_is_shared() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    fill(&remote, 0..COUNT - 1);
    let cache = host.with_remote(&config(&remote));
    assert_eq!(fetch(&cache, COUNT).missing.len(), 1);
    assert_eq!((share(&cache), remote.count(Put)), (0, 0), "one is missing");
    // The host that builds the rest finishes the plan.
    let other = Host::new();
    let cache = other.with_remote(&config(&remote));
    fetch(&cache, COUNT);
    publish(crate::common::build(crate::common::claim(&cache, &name(COUNT - 1))), COUNT - 1);
    let puts = remote.count(Put);
    assert_eq!((share(&cache), remote.count(Put) - puts), (1, 1));

    // An entry that no rules have judged is not given to others.
    let unjudged = Host::new();
    let remote = FakeRemote::new();
    fill(&remote, 0..COUNT);
    let cache = unjudged.with_remote(&config(&remote));
    assert_eq!(cache.fetch(&keys(COUNT), &Query::new(&take)).fetched.len(), COUNT);
    assert_eq!((share(&cache), remote.count(Put)), (0, 0));
    // A reader stores nothing.
    let (reader, mut read_only) = (Host::new(), config(&remote));
    read_only.policy = RemotePolicy::Read;
    let cache = reader.with_remote(&read_only);
    assert_eq!(fetch(&cache, COUNT).fetched.len(), COUNT);
    assert_eq!((share(&cache), remote.count(Put)), (0, 0));
}

/// An engine that fails costs warnings, never the build.
#[test]
fn a_failing_engine_is_survived() {
    let large = |host: &Host, remote: &FakeRemote| host.with_remote(&config(remote));
    for faults in [
        RemoteFaults { is_gone: true, ..RemoteFaults::default() },
        RemoteFaults { repeats: true, ..RemoteFaults::default() },
        RemoteFaults { answers_too_much: true, ..RemoteFaults::default() },
    ] {
        let (remote, host) = (warm(COUNT), Host::new());
        remote.set_faults(faults.clone());
        let cache = large(&host, &remote);
        let report = fetch(&cache, COUNT);
        assert_eq!(report.fetched.len() + report.missing.len(), COUNT, "{faults:?}");
        share(&cache);
        assert!(!host.warnings().is_empty(), "{faults:?}");
    }
    let (remote, host) = (FakeRemote::new(), Host::new());
    fill(&remote, 0..COUNT);
    let cache = large(&host, &remote);
    fetch(&cache, COUNT);
    remote.set_faults(RemoteFaults { is_full: true, ..RemoteFaults::default() });
    assert_eq!((share(&cache), host.warned()), (0, vec![WarningKind::Remote]));
    has(&cache, 0..COUNT);
}

/// The host key of a signer that built and shared a plan.
fn signed_plan(remote: &FakeRemote, key: &Key) {
    let host = Host::new();
    let cache = signing::cache(&host, remote, &trust(Some(key), Some(&[key])));
    fetch(&cache, COUNT);
    for number in 0..COUNT {
        publish(crate::common::build(crate::common::claim(&cache, &name(number))), number);
    }
    assert_eq!(share(&cache), 1, "{:?}", host.warnings());
}

fn signed_name(key: &Key) -> ObjectName {
    names(TARGET).bundle(&ObjectNames::plan(&keys(COUNT)), Some(signer(key)))
}

#[test]
fn a_host_with_trusted_keys_takes_signed_bundles_only() {
    let (remote, key, other) = (FakeRemote::new(), new_key("builds-1"), new_key("builds-2"));
    signed_plan(&remote, &key);
    assert_eq!(remote.object(&bundle_name(COUNT)), None, "it has the name of its signer");
    let (consumer, gets) = (Host::new(), remote.count(Get));
    let cache = signing::cache(&consumer, &remote, &trust(None, Some(&[&key])));
    assert_eq!(fetch(&cache, COUNT).fetched.len(), COUNT);
    assert_eq!((remote.count(Get) - gets, consumer.warnings()), (1, Vec::new()));
    // It is a hit in the store as well, which checks the signatures again.
    assert_eq!(fetch(&cache, COUNT).missing.len(), 0);

    // A bundle without a signature, of another signer, and entries without signatures in a signed list.
    let signed = remote.object(&signed_name(&key)).unwrap();
    let plan = Some(ObjectNames::plan(&keys(COUNT)));
    let unsigned = bundle(plan, TARGET, (0..COUNT).map(entry));
    let list_only = {
        let mut entries: Vec<Entry> = (0..COUNT).map(entry).collect();
        entries.sort_by_key(|entry| *entry.key());
        let signer = opkeep_bundle::Signer::new(Arc::clone(&key), "default").of_index_only();
        let mut writer = BundleWriter::new(Vec::new(), plan, Some(signer)).unwrap();
        entries.iter().for_each(|entry| writer.add(TARGET, entry).unwrap());
        writer.finish().unwrap().out
    };
    assert!(BundleReader::open(std::io::Cursor::new(&signed)).is_ok());
    for (content, trusted) in [(unsigned.clone(), &key), (signed.clone(), &other), (list_only, &key)] {
        let (remote, host) = (FakeRemote::new(), Host::new());
        remote.set_object(&signed_name(trusted), content);
        let cache = signing::cache(&host, &remote, &trust(None, Some(&[trusted])));
        assert_eq!(fetch(&cache, COUNT).missing.len(), COUNT);
        let warnings = host.warnings();
        assert!(warnings.len() == 1 && warnings[0].1.contains("signed"), "{warnings:?}");
    }
    // One of an unknown name is not even looked up.
    let (remote, host) = (FakeRemote::new(), Host::new());
    remote.set_object(&bundle_name(COUNT), unsigned);
    remote.set_object(&signed_name(&key), signed);
    let cache = signing::cache(&host, &remote, &trust(None, Some(&[&other])));
    assert_eq!((fetch(&cache, COUNT).missing.len(), host.warnings()), (COUNT, Vec::new()));
}

/// An entry of a plan that does not fit an object of the engine is no reason for a warning.
#[test]
fn the_entries_of_a_bundle_may_be_of_any_size() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let object = "written by 0, ".to_owned();
    let builder = EntryBuilder::new(STAMP).eager("object", object.as_bytes());
    let large = vec![7; 20 << 20];
    for number in 0..COUNT {
        let builder = if number == 0 { builder.clone().lazy("large", &large) } else { builder.clone() };
        remote.set_object(&entry_name(&name(number)), builder.encode(&key(&name(number))).unwrap());
    }
    let accept = |_: &Entry| Accept::Validated { stamp: STAMP, renewed: Vec::new() };
    let cache = host.with_remote(&config(&remote));
    assert_eq!(cache.fetch(&keys(COUNT), &Query::new(&accept)).fetched.len(), COUNT);
    assert_eq!(share(&cache), 1);
    let other = Host::new();
    let cache = other.with_remote(&config(&remote));
    assert_eq!(cache.fetch(&keys(COUNT), &Query::new(&accept)).fetched.len(), COUNT);
}

//! Hosts that sign, hosts that trust, and keys that are replaced.

use super::*;

#[test]
fn what_a_trusted_key_signed_is_taken_and_nothing_else_is_asked_for() {
    let (remote, one, consumer) = (FakeRemote::new(), new_key("one"), Host::new());
    let builds = trust(Some(&one), None);
    let published = publish(build(claim(&cache(&Host::new(), &remote, &builds), "relu")), 1);
    assert!(published.remote);
    assert!(remote.object(&entry_name("relu")).is_none());
    let sent = signatures_of(remote.object(&name_of("relu", &one)).unwrap());
    assert_eq!(signers_in(&sent), ["one"]);

    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    remote.on_call(move |call, names| {
        log.lock().unwrap().extend(names.iter().filter(|_| call == Get).cloned());
    });
    let mut read = remote_config(&remote);
    read.policy = RemotePolicy::Read;
    let retired = new_key("retired");
    let takes = open(config(&consumer, &read, &trust(None, Some(&[&retired, &one]))));
    assert_eq!(hit(claim(&takes, "relu")), (1, Source::Remote));
    assert_eq!(hit(claim(&takes, "relu")), (1, Source::Local));
    // One call, with the name of each signer, and not the unsigned one.
    let mut asked = std::mem::take(&mut *asked.lock().unwrap());
    asked.sort();
    let mut expected = [name_of("relu", &one), name_of("relu", &retired)];
    expected.sort();
    assert_eq!((asked, remote.count(Get)), (expected.to_vec(), 3));
    assert!(consumer.warnings().is_empty());
    // The signature stays with the entry, and counts for the next process.
    assert_eq!(stored_signers(&takes, "relu"), ["one"]);
    let next = cache(&consumer, &FakeRemote::new(), &trust(None, Some(&[&one])));
    assert_eq!(hit(claim(&next, "relu")), (1, Source::Local));
    // A host without trusted keys that does not sign finds nothing.
    let other = cache(&Host::new(), &remote, &TrustConfig::default());
    drop(build(claim(&other, "relu")));
}

#[test]
fn an_unsigned_entry_hides_no_signed_one() {
    let (remote, one) = (FakeRemote::new(), new_key("one"));
    let (unsigned, signed) = (text(2), text(1));
    remote.set_object(&entry_name("relu"), builder(&unsigned).encode(&key("relu")).unwrap());
    // A host that trusts `one` builds, since the kernel has no signature of `one`.
    let builds = cache(&Host::new(), &remote, &trust(Some(&one), Some(&[&one])));
    publish(build(claim(&builds, "relu")), 1);
    let takes = cache(&Host::new(), &remote, &trust(None, Some(&[&one])));
    assert_eq!(hit(claim(&takes, "relu")), (1, Source::Remote));
    let other = cache(&Host::new(), &remote, &TrustConfig::default());
    assert_eq!(hit(claim(&other, "relu")), (2, Source::Remote));
    assert_eq!(signed, text(1));
}

/// What was found gets no signature, of whichever key, and is not sent, now or later.
#[test]
fn what_was_found_is_neither_signed_nor_sent() {
    let one = new_key("one");
    let found = text(1);
    for (signs, trusted) in
        [(Some(&one), None), (None, Some(&[&one][..])), (Some(&one), Some(&[&one][..])), (None, None)]
    {
        let (remote, host) = (FakeRemote::new(), Host::new());
        let target = cache(&host, &remote, &trust(signs, trusted));
        let has_keys = signs.is_some() || trusted.is_some();
        assert_eq!(target.keeps_found(), !has_keys);
        // The caller must say that it stays here: a later process would send it.
        for (members, stays) in [(builder(&found), false), (local_builder(&found), true)] {
            let ticket = build(claim(&target, "relu"));
            let expected = match (has_keys, stays) {
                (true, _) => Err(FoundError::Keys),
                (false, false) => Err(FoundError::ForOthers),
                (false, true) => Ok(()),
            };
            assert_eq!(ticket.check_found(&members), expected);
            match ticket.keep_found(&members) {
                Ok(put) => assert_eq!((expected, put), (Ok(()), Some(PutOutcome::Published))),
                Err(PublishError::Found(reason)) => assert_eq!(Err(reason), expected),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(target.push_all(&|_| false, None, None).sent, 0);
        assert!(remote.object_names().is_empty(), "{:?}", remote.object_names());
        match has_keys {
            true => publish(build(claim(&target, "relu")), 2).local.map(drop).unwrap(),
            false => {
                assert_eq!(hit(claim(&target, "relu")), (1, Source::Local));
                assert!(stored_signers(&target, "relu").is_empty());
            }
        }
        assert!(host.warnings().is_empty());
    }
}

/// A consumer without a signing key recognizes its own builds, by a key that others do not have.
#[test]
fn a_host_takes_what_it_built_itself() {
    let (remote, one, host) = (FakeRemote::new(), &new_key("one"), Host::new());
    let trust = trust(None, Some(&[one]));
    let builds = cache(&host, &remote, &trust);
    assert!(!publish(build(claim(&builds, "relu")), 1).remote);
    // Nothing is sent, and no lease is claimed: no host that demands signatures could use it.
    assert_eq!((remote.count(Put) + remote.count(Replace), remote.count(ClaimCall)), (0, 0));
    assert_eq!((remote.object_names().len(), builds.store().unwrap().unsent().len()), (0, 0));
    assert_eq!(stored_signers(&builds, "relu"), ["host"]);
    for cache in [&builds, &cache(&host, &remote, &trust)] {
        assert_eq!(hit(claim(cache, "relu")), (1, Source::Local));
        assert!(cache.open_entry(&key("relu")).is_some());
        assert!(matches!(cache.get(&key("relu")), Lookup::Hit(_)));
    }
    assert!(host.warnings().is_empty());
    // Another user of a shared store, or a host with a copy of it, has another key.
    let mut other = config(&host, &remote_config(&remote), &trust);
    other.trust.host_key_file = Some(host.dir.path().join("private/other"));
    drop(build(claim(&open(other.clone()), "relu")));
    let warnings = host.warnings();
    assert!(matches!(&warnings[..], [(_, text)] if text.contains("signed by `host-")), "{warnings:?}");
    // Without a file, the key lasts as long as the cache.
    other.trust.host_key_file = None;
    for round in 0..2 {
        let cache = open(other.clone());
        publish(build(claim(&cache, "tanh")), round);
        assert_eq!(hit(claim(&cache, "tanh")), (round, Source::Local));
    }
}

#[test]
fn a_host_key_that_cannot_be_used_is_a_warning() {
    let (remote, one, host) = (FakeRemote::new(), &new_key("one"), Host::new());
    let path = host_key_file(&host);
    let fs = Fs::new();
    fs.create_dirs(path.parent().unwrap(), 0o700).unwrap();
    fs.write(&path, b"host-key:notes").unwrap();
    for (name, trusted) in [("relu", None), ("tanh", Some(&[one][..]))] {
        let cache = cache(&host, &remote, &trust(None, trusted));
        let warnings = host.warnings();
        match trusted {
            // It is not needed.
            None => assert!(warnings.is_empty(), "{warnings:?}"),
            Some(_) => assert!(
                matches!(&warnings[..], [(WarningKind::Keys, text)] if text.contains("host-key")),
                "{warnings:?}"
            ),
        }
        publish(build(claim(&cache, name)), 1);
        assert_eq!(hit(claim(&cache, name)), (1, Source::Local));
    }
}

/// Hosts with different keys that trust each other use each other's entries, and wait for each other.
#[test]
fn two_signers_share() {
    let (remote, keys) = (FakeRemote::new(), [&new_key("one"), &new_key("two")]);
    let hosts = [Host::new(), Host::new()];
    let [one, two] = [0, 1].map(|at| cache(&hosts[at], &remote, &trust(Some(keys[at]), Some(&keys))));
    let ticket = build(claim(&one, "relu"));
    let waiter = pending(claim(&two, "relu"));
    assert!(publish(ticket, 1).remote);
    assert_eq!(hit(settle(&two, Claim::Pending(waiter))), (1, Source::Remote));
    publish(build(claim(&two, "tanh")), 2);
    assert_eq!(one.fetch(&[key("relu"), key("tanh")], &Query::new(&take)).fetched, [key("tanh")]);
    // An entry that was found is not signed again: its signer may be retired.
    assert_eq!(stored_signers(&two, "relu"), ["one"]);
    assert_eq!(remote.object_names().len(), 2);
    assert!(hosts.iter().all(|host| host.warnings().is_empty()));
}

/// Of two entries of a key, the caller may refuse one: then it gets the other one.
#[test]
fn an_entry_that_the_caller_refuses_hides_no_other() {
    let [one, two, own] = [&new_key("one"), &new_key("two"), &new_key("own")];
    let refuses_one = |entry: &Entry| match writer(entry) {
        1 => Accept::Replace("it is for another chip".to_owned()),
        _ => Accept::Take,
    };
    let query = Query::new(&refuses_one);
    // Either of them may be the first.
    for (bad, good) in [(one, two), (two, one)] {
        let remote = FakeRemote::new();
        let publish_by = |key: &Key, number| {
            publish(build(claim(&cache(&Host::new(), &remote, &trust(Some(key), None)), "relu")), number)
        };
        publish_by(bad, 1);
        publish_by(good, 2);
        let trust = trust(Some(own), Some(&[one, two, own]));
        let takes = || cache(&Host::new(), &remote, &trust);
        assert_eq!(hit(takes().get_or_begin(&key("relu"), &query).unwrap()), (2, Source::Remote));
        assert_eq!(takes().fetch(&[key("relu")], &query).fetched, [key("relu")]);
        assert_eq!(writer(&takes().get_remote(&key("relu"), &query).unwrap()), 2);
        // If there is no other, the kernel is built, and the next reader finds that one.
        remote.remove_object(&name_of("relu", good));
        publish(build(takes().get_or_begin(&key("relu"), &query).unwrap()), 3);
        assert_eq!(hit(takes().get_or_begin(&key("relu"), &query).unwrap()), (3, Source::Remote));
    }
}

/// Threads judge what arrives. While keys are replaced, there are entries of two signers for each key.
#[test]
fn a_fetch_takes_one_of_several_entries_of_a_key() {
    const COUNT: usize = 64;
    let (remote, [old, new]) = (FakeRemote::new(), [&new_key("builds-1"), &new_key("builds-2")]);
    let wanted: Vec<_> = (0..COUNT).map(|number| format!("relu {number}")).collect();
    for (signs, number) in [(old, 1), (new, 2)] {
        let (host, text) = (Host::new(), text(number));
        let signing = cache(&host, &remote, &trust(Some(signs), None));
        for name in &wanted {
            signing.publish(&key(name), &builder(&text)).unwrap();
        }
        until("the uploads", || remote.object_names().len() == number * COUNT);
    }
    let judged = AtomicUsize::new(0);
    let accept = |_: &Entry| {
        judged.fetch_add(1, Ordering::SeqCst);
        (0..100).for_each(|_| std::thread::yield_now());
        Accept::Take
    };
    let consumer = cache(&Host::new(), &remote, &trust(None, Some(&[old, new])));
    let keys: Vec<_> = wanted.iter().map(|name| key(name)).collect();
    assert_eq!(consumer.fetch(&keys, &Query::new(&accept)).fetched.len(), COUNT);
    assert_eq!((judged.into_inner(), consumer.activity().remote_hits), (COUNT, COUNT as u64));
}

/// First every host trusts the new key, then the builder signs with it, at last the old one is removed.
#[test]
fn keys_are_replaced_one_after_the_other() {
    let (remote, [old, new]) = (FakeRemote::new(), [&new_key("builds-1"), &new_key("builds-2")]);
    let (builder, consumer) = (Host::new(), Host::new());
    let build_as = |signs, trusted: &[&Key], name, number| {
        publish(build(claim(&cache(&builder, &remote, &trust(Some(signs), Some(trusted))), name)), number)
    };
    build_as(old, &[old], "relu", 1);
    build_as(old, &[old, new], "tanh", 2);
    build_as(new, &[old, new], "gelu", 3);
    let takes = |trusted: &[&Key]| cache(&consumer, &remote, &trust(None, Some(trusted)));
    assert_eq!(hit(claim(&takes(&[old]), "relu")), (1, Source::Remote));
    assert_eq!(hit(claim(&takes(&[old, new]), "tanh")), (2, Source::Remote));
    assert_eq!(hit(claim(&takes(&[old, new]), "gelu")), (3, Source::Remote));
    // What the old key alone signed is not taken any more, from neither place.
    let last = takes(&[new]);
    assert_eq!(hit(claim(&last, "gelu")), (3, Source::Local));
    for name in ["relu", "tanh"] {
        drop(build(claim(&last, name)));
        assert!(
            matches!(&consumer.warnings()[..], [(WarningKind::Reading, text)] if text.contains("builds-1"))
        );
    }
    // The builder itself has its own builds, whatever signed them.
    let last = cache(&builder, &remote, &trust(Some(new), Some(&[new])));
    assert_eq!(hit(claim(&last, "relu")), (1, Source::Local));
    assert!(builder.warnings().is_empty());
}

/// An older entry that a trusted key signed for the same key is as good as a newer one, until that key is retired, or the reader's
/// own rules refuse it.
#[test]
fn an_older_signed_entry_is_as_trusted_as_its_signer() {
    let (remote, [old, new]) = (FakeRemote::new(), [&new_key("builds-1"), &new_key("builds-2")]);
    let older = text(1);
    let older = file("relu", &builder(&older), &RIGHT.sign(&builder(&older), &[old]).encode());
    publish(build(claim(&cache(&Host::new(), &remote, &trust(Some(new), None)), "relu")), 2);
    // Someone who can write to the engine puts it in the place of the newer one.
    remote.set_object(&name_of("relu", new), older);
    let takes = |trusted: &[&Key]| {
        let host = Host::new();
        let cache = cache(&host, &remote, &trust(Some(new), Some(trusted)));
        (host, cache)
    };
    assert_eq!(hit(claim(&takes(&[old, new]).1, "relu")), (1, Source::Remote));
    let (host, cache) = takes(&[new]);
    let ticket = build(claim(&cache, "relu"));
    assert_eq!(host.warned(), [WarningKind::Remote]);
    publish(ticket, 3);
    assert_eq!(hit(claim(&takes(&[old, new]).1, "relu")), (3, Source::Remote));
}

/// A host whose own key is not trusted by itself waits for no other host: it could not use what it waits for.
#[test]
fn a_host_that_does_not_trust_its_own_key_sends_without_leases() {
    let (remote, [one, other]) = (FakeRemote::new(), [&new_key("one"), &new_key("other")]);
    let host = Host::new();
    // No host sees what is in its place, so it is replaced.
    remote.set_object(&name_of("relu", one), b"notes".to_vec());
    let cache = cache(&host, &remote, &trust(Some(one), Some(&[other])));
    let warnings = host.warnings();
    assert!(
        matches!(&warnings[..], [(WarningKind::Keys, text)] if text.contains("`one` is none of the trusted keys")),
        "{warnings:?}"
    );
    assert!(publish(build(claim(&cache, "relu")), 1).remote);
    assert_eq!((remote.count(ClaimCall), remote.count(Put), remote.count(Replace)), (0, 0, 1));
    assert_eq!(hit(claim(&cache, "relu")), (1, Source::Local));
    let takes = self::cache(&Host::new(), &remote, &trust(None, Some(&[one])));
    assert_eq!(hit(claim(&takes, "relu")), (1, Source::Remote));
}

#[test]
fn an_empty_list_trusts_only_this_host() {
    let (remote, one, host) = (FakeRemote::new(), &new_key("one"), Host::new());
    publish(build(claim(&cache(&Host::new(), &remote, &trust(Some(one), None)), "relu")), 1);
    let calls = remote.calls().len();
    let cache = cache(&host, &remote, &trust(None, Some(&[])));
    publish(build(claim(&cache, "relu")), 2);
    assert_eq!(cache.fetch(&[key("tanh")], &Query::new(&take)).missing, [key("tanh")]);
    assert_eq!((remote.calls().len(), host.warnings().len()), (calls, 0));
    assert_eq!(hit(claim(&cache, "relu")), (2, Source::Local));
}

/// Only what is shared gets the signature that other hosts trust.
#[test]
fn what_is_not_shared_is_not_signed_for_others() {
    let (remote, one, host) = (FakeRemote::new(), &new_key("one"), Host::new());
    let cache = cache(&host, &remote, &trust(Some(one), Some(&[one])));
    let object = text(1);
    publish(build(claim(&cache, "shared")), 1);
    build(claim(&cache, "local")).publish(&local_builder(&object)).unwrap();
    build(claim(&cache, "unvalidated")).publish(&builder(&object).with_validation(0)).unwrap();
    cache.put(&key("put"), &builder(&object)).unwrap();
    assert_eq!(stored_signers(&cache, "shared"), ["host", "one"]);
    for name in ["local", "unvalidated", "put"] {
        assert_eq!(stored_signers(&cache, name), ["host"], "{name}");
        assert_eq!(hit(claim(&cache, name)), (1, Source::Local));
    }
    until("the ends of the leases", || remote.object_names() == [name_of("shared", one)]);
    // Without any key, an entry is what it was.
    let plain = self::cache(&Host::new(), &remote, &TrustConfig::default());
    publish(build(claim(&plain, "plain")), 1);
    let Lookup::Hit(stored) = plain.store().unwrap().peek(&key("plain")) else { panic!() };
    assert_eq!(stored.names().collect::<Vec<_>>(), ["object", "header"]);
}

/// Whoever may write to the store can mark a forged entry as one that is to be sent.
#[test]
fn only_what_this_host_built_is_signed_when_it_is_sent() {
    let (remote, [one, two], host) = (FakeRemote::new(), [&new_key("one"), &new_key("two")], Host::new());
    let soon = || Some(Instant::now() + Duration::from_secs(20));
    let (good, other) = (text(1), text(2));
    // Built while no signing key was given, but with trusted keys.
    let first = open({
        let mut config = config(&host, &remote_config(&remote), &trust(None, Some(&[one, two])));
        config.remote = None;
        config
    });
    publish(build(claim(&first, "own")), 1);
    let store = first.store().unwrap();
    store.put(&key("forged"), &builder(&other)).unwrap();
    let of_two = Statement { name: "found", ..RIGHT }.sign(&builder(&good), &[two]).encode();
    store.put(&key("found"), &builder(&good).lazy(SIGNATURES_MEMBER, &of_two)).unwrap();
    let destination = remote_config(&remote).destination();
    let mark = || {
        let names = ["own", "forged", "found"];
        names.map(|name| store.mark_unsent(&key(name), &destination, false).unwrap())
    };

    mark();
    let sends = cache(&host, &remote, &trust(Some(one), Some(&[one, two])));
    let report = sends.push_unsent(soon(), None);
    assert_eq!((report.sent, report.left, store.unsent().len()), (2, 0, 0));
    let mut expected = [name_of("own", one), name_of("found", two)];
    expected.sort();
    assert_eq!(remote.object_names(), expected);
    let sent = |name: &ObjectName| signers_in(&signatures_of(remote.object(name).unwrap()));
    assert_eq!(
        (sent(&name_of("own", one)), sent(&name_of("found", two))),
        (vec!["one".into()], vec!["two".into()])
    );
    let warnings = host.warnings();
    assert!(
        matches!(&warnings[..], [(WarningKind::Reading, text)] if text.contains("is not sent")),
        "{warnings:?}"
    );

    // A host without trusted keys vouches for none of them, and sends them as they are.
    mark();
    let unsigned = FakeRemote::new();
    let report = cache(&host, &unsigned, &trust(Some(one), None)).push_unsent(soon(), None);
    assert_eq!((report.sent, store.unsent().len()), (3, 0));
    assert!(unsigned.object_names().iter().all(|name| *name == names(TARGET).entry(&key_in(name).unwrap())));
}

//! Namespaces: what comes from the remote tier counts in its own only, what is in the local store in each.

use super::*;

fn in_namespace(host: &Host, remote: &FakeRemote, namespace: &str, trust: &TrustConfig) -> TargetCache {
    let mut remote = remote_config(remote);
    remote.namespace = namespace.parse().unwrap();
    open(config(host, &remote, trust))
}

fn named(namespace: &str, signer: SignerId) -> ObjectName {
    let names = ObjectNames::new(&namespace.parse().unwrap(), TARGET).unwrap();
    names.entry_of(&key("relu"), Some(signer))
}

fn stored_namespace(cache: &TargetCache, name: &str) -> Option<String> {
    let Lookup::Hit(entry) = cache.store().unwrap().peek(&key(name)) else { panic!("it is in the store") };
    signatures_of(entry.to_builder().encode(&key(name)).unwrap()).namespace().map(str::to_owned)
}

/// Products and teams on one engine.
#[test]
fn entries_of_the_remote_tier_are_kept_apart() {
    let (remote, one) = (FakeRemote::new(), &new_key("one"));
    let (builds, takes) = (trust(Some(one), None), trust(None, Some(&[one])));
    publish(build(claim(&in_namespace(&Host::new(), &remote, "vision", &builds), "relu")), 1);
    let consumer = Host::new();
    let cache = |namespace| in_namespace(&consumer, &remote, namespace, &takes);
    drop(build(claim(&cache("speech"), "relu")));
    assert!(consumer.warnings().is_empty());
    // Nor is it taken if someone copies it there, and also states where it is from.
    let file = remote.object(&named("vision", signer(one))).unwrap();
    assert_eq!(signatures_of(file.clone()).namespace(), None, "it is not sent");
    let stating = |namespace| {
        let entry = Entry::decode(file.clone(), None).unwrap();
        let signatures = signatures_of(file.clone()).with_namespace(namespace).encode();
        entry.to_builder().with_lazy(SIGNATURES_MEMBER, &signatures).encode(&key("relu")).unwrap()
    };
    for moved in [file.clone(), stating("vision"), stating("speech")] {
        remote.set_object(&named("speech", signer(one)), moved);
        drop(build(claim(&cache("speech"), "relu")));
        let warnings = consumer.warnings();
        assert!(
            matches!(&warnings[..], [(WarningKind::Remote, text)] if text.contains("the namespace `speech`")),
            "{warnings:?}"
        );
    }
    // What counts in its namespace is taken, and the store records that namespace, whatever the entry states.
    remote.set_object(&named("vision", signer(one)), stating("speech"));
    assert_eq!(hit(claim(&cache("vision"), "relu")), (1, Source::Remote));
    assert_eq!(stored_namespace(&cache("vision"), "relu").as_deref(), Some("vision"));
}

/// A host builds for two products with one store, and so do hosts that only take what they trust.
#[test]
fn entries_of_the_store_count_in_each_namespace() {
    let (remote, one) = (FakeRemote::new(), &new_key("one"));
    let signs = trust(Some(one), Some(&[one]));
    let takes = trust(None, Some(&[one]));
    let builder = Host::new();
    publish(build(claim(&in_namespace(&builder, &remote, "vision", &signs), "relu")), 1);
    // Built here with a trusted key, fetched, and built here without a trusted key.
    let (fetches, alone) = (Host::new(), Host::new());
    assert_eq!(hit(claim(&in_namespace(&fetches, &remote, "vision", &takes), "relu")), (1, Source::Remote));
    publish(build(claim(&in_namespace(&alone, &FakeRemote::new(), "vision", &takes), "relu")), 1);
    for (host, trust) in [(&builder, &signs), (&fetches, &takes), (&alone, &takes)] {
        for namespace in ["speech", "vision", "speech", "default"] {
            let cache = in_namespace(host, &FakeRemote::new(), namespace, trust);
            assert_eq!(hit(claim(&cache, "relu")), (1, Source::Local), "{namespace}");
            assert!(cache.open_entry(&key("relu")).is_some());
            assert_eq!(stored_namespace(&cache, "relu").as_deref(), Some("vision"));
        }
        // Also without the remote tier.
        let mut config = config(host, &remote_config(&remote), trust);
        config.remote = None;
        assert_eq!(hit(claim(&open(config), "relu")), (1, Source::Local));
        assert_eq!(host.warnings(), []);
    }
    // The record is no signature: of another host's key nothing counts in any namespace.
    let other = trust(None, Some(&[&new_key("other")]));
    drop(build(claim(&in_namespace(&fetches, &FakeRemote::new(), "speech", &other), "relu")));
    assert_eq!(fetches.warned(), [WarningKind::Reading]);
}

/// Earlier versions recorded no namespace. Such an entry counts in its own, and is replaced once.
#[test]
fn an_entry_without_a_record_counts_in_its_namespace() {
    let (remote, one, host) = (FakeRemote::new(), &new_key("one"), Host::new());
    let takes = trust(None, Some(&[one]));
    let object = text(1);
    let members = builder(&object);
    let signatures = Statement { namespace: "vision", ..RIGHT }.sign(&members, &[one]).encode();
    let cache = |namespace| in_namespace(&host, &remote, namespace, &takes);
    let store = cache("vision");
    let unrecorded = members.clone().lazy(SIGNATURES_MEMBER, &signatures);
    store.store().unwrap().put(&key("relu"), &unrecorded).unwrap();
    assert_eq!(hit(claim(&cache("vision"), "relu")), (1, Source::Local));
    let ticket = build(claim(&cache("speech"), "relu"));
    let warnings = host.warnings();
    assert!(
        matches!(&warnings[..], [(WarningKind::Reading, text)] if text.contains("in the namespace `speech`")),
        "{warnings:?}"
    );
    publish(ticket, 2);
    for namespace in ["vision", "speech"] {
        assert_eq!(hit(claim(&cache(namespace), "relu")), (2, Source::Local));
    }
    assert_eq!(host.warnings(), []);
}

/// Without keys, an entry has no signatures, and no namespace.
#[test]
fn hosts_without_keys_share_a_store_among_namespaces() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let cache = |namespace| in_namespace(&host, &remote, namespace, &TrustConfig::default());
    publish(build(claim(&cache("vision"), "relu")), 1);
    assert_eq!(hit(claim(&cache("speech"), "relu")), (1, Source::Local));
    // An entry that is signed and states a namespace is kept without the statement, which no signature covers.
    let (one, object) = (&new_key("one"), text(2));
    let signatures = Statement { namespace: "vision", name: "tanh", ..RIGHT }.sign(&builder(&object), &[one]);
    let file = file("tanh", &builder(&object), &signatures.with_namespace("vision").encode());
    let names = ObjectNames::new(&"speech".parse().unwrap(), TARGET).unwrap();
    remote.set_object(&names.entry(&key("tanh")), file);
    assert_eq!(hit(claim(&cache("speech"), "tanh")), (2, Source::Remote));
    assert_eq!(stored_namespace(&cache("speech"), "tanh"), None);
    assert_eq!(stored_signers(&cache("speech"), "tanh"), ["one"]);
    assert_eq!(host.warnings(), []);
}

/// A signature for another namespace is made for what this host built, and for nothing that it found.
#[test]
fn only_what_this_host_built_is_sent_to_another_namespace() {
    let (remote, one) = (FakeRemote::new(), &new_key("one"));
    let signs = trust(Some(one), Some(&[one]));
    let [builds, fetches] = [Host::new(), Host::new()];
    publish(build(claim(&in_namespace(&builds, &remote, "vision", &signs), "relu")), 1);
    assert_eq!(hit(claim(&in_namespace(&fetches, &remote, "vision", &signs), "relu")), (1, Source::Remote));
    let speech = {
        let mut remote = remote_config(&remote);
        remote.namespace = "speech".parse().unwrap();
        remote.destination()
    };
    let found = in_namespace(&fetches, &remote, "speech", &signs);
    found.store().unwrap().mark_unsent(&key("relu"), &speech, false).unwrap();
    let report = found.push_all(&|_| true, None, None);
    assert_eq!((report.sent, report.left, report.skipped, report.other_namespace), (0, 0, 0, 1));
    assert_eq!(found.store().unwrap().count_unsent(), 0, "it is to be sent to no other namespace");
    assert!(remote.object(&named("speech", signer(one))).is_none());
    let report = in_namespace(&builds, &remote, "speech", &signs).push_all(&|_| false, None, None);
    assert_eq!((report.sent, report.other_namespace), (1, 0));
    assert_eq!((fetches.warnings(), builds.warnings()), (vec![], vec![]));
    let takes = trust(None, Some(&[one]));
    assert_eq!(
        hit(claim(&in_namespace(&Host::new(), &remote, "speech", &takes), "relu")),
        (1, Source::Remote)
    );
    // It is still sent to the namespace that it is of.
    let report = in_namespace(&fetches, &remote, "vision", &signs).push_all(&|_| true, None, None);
    assert_eq!((report.sent, report.other_namespace), (1, 0));
}

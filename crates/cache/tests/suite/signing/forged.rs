//! Forged entries, in the engine and in the local store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are not themselves marked as tests")]

use super::*;

/// Each entry that is wrong for a reader of `relu` that trusts `one`, in the place of the entry of `one`.
fn forgeries(one: &Key) -> Vec<(String, Vec<u8>)> {
    let (good, other) = (text(1), text(2));
    let (good, bad) = (builder(&good), builder(&other));
    let right = RIGHT.sign(&good, &[one]).encode();
    // A key of the same name, and one of another.
    let [twin, stranger] = [&new_key("one"), &new_key("stranger")];
    let signed = |statement: Statement<'_>, by: &[&SigningKey]| {
        file("relu", &good, &statement.sign(&good, by).encode())
    };
    let mut all = vec![
        ("it is not signed", good.encode(&key("relu")).unwrap()),
        ("it has no signature", file("relu", &good, b"")),
        ("another key of the same name signed it", signed(RIGHT, &[twin])),
        ("a stranger signed it", signed(RIGHT, &[stranger])),
        ("it is signed for another target", signed(Statement { target: "cpu-aarch64", ..RIGHT }, &[one])),
        ("it is signed for another namespace", signed(Statement { namespace: "team", ..RIGHT }, &[one])),
        ("it is signed for another format", signed(Statement { format: ENTRY_FORMAT + 1, ..RIGHT }, &[one])),
        ("it is signed for another key", signed(Statement { name: "tanh", ..RIGHT }, &[one])),
        ("it is a signed entry under another name", {
            file("tanh", &good, &Statement { name: "tanh", ..RIGHT }.sign(&good, &[one]).encode())
        }),
        ("the kernel is another one, with digests that fit", file("relu", &bad, &right)),
        ("it has a member more", file("relu", &good.clone().lazy("x/more", b""), &right)),
        (
            "a member is missing",
            file("relu", &EntryBuilder::new(7).eager("object", text(1).as_bytes()), &right),
        ),
        ("it has the signatures twice", {
            good.clone()
                .lazy(SIGNATURES_MEMBER, &right)
                .lazy(SIGNATURES_MEMBER, b"")
                .encode(&key("relu"))
                .unwrap()
        }),
        (
            "its signatures are too large",
            file("relu", &good, &[&right[..], &[b'\n', b'a'].repeat(70)].concat()),
        ),
    ]
    .into_iter()
    .map(|(why, file)| (why.to_owned(), file))
    .collect::<Vec<_>>();
    let end = right.len() - 1;
    all.extend(
        (0..end).map(|end| (format!("its signature is cut to {end}"), file("relu", &good, &right[..end]))),
    );
    for (at, bit) in (0..end).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut flipped = right.clone();
        flipped[at] ^= 1 << bit;
        all.push((
            format!("bit {bit} of byte {at} of its signature is flipped"),
            file("relu", &good, &flipped),
        ));
    }
    all
}

/// In the engine, looked up one by one: refused, reported once, built, and replaced by what the reader signs.
#[test]
fn forged_entries_are_refused_and_healed() {
    let [one, own] = [&new_key("one"), &new_key("own")];
    let all = forgeries(one);
    assert!(all.len() > 800, "{}", all.len());
    let reader = Host::new();
    for (why, forged) in all {
        let remote = FakeRemote::new();
        // It is in the place of the signer's entry, and in that of the reader's own.
        remote.set_object(&name_of("relu", one), forged.clone());
        remote.set_object(&name_of("relu", own), forged);
        let cache = storeless(&reader, &remote, &trust(Some(own), Some(&[one, own])));
        let judge = |_: &Entry| panic!("the caller judges what is forged: {why}");
        let ticket = build(cache.get_or_begin(&key("relu"), &Query::new(&judge)).unwrap());
        let warnings = reader.warnings();
        let is_refusal = |text: &str| text.contains("is not trusted") || text.contains("is not valid");
        assert!(
            matches!(&warnings[..], [(WarningKind::Remote, text)] if is_refusal(text) && text.contains("/e/")),
            "{why}: {warnings:?}"
        );
        assert!(publish(ticket, 3).remote);
        let cache = storeless(&reader, &remote, &trust(None, Some(&[own])));
        assert_eq!(hit(claim(&cache, "relu")), (3, Source::Remote), "{why}");
        assert!(reader.warnings().is_empty(), "{why}");
    }
}

/// The same for entries that are fetched in one call.
#[test]
fn forged_entries_are_not_fetched() {
    let [one, own] = [&new_key("one"), &new_key("own")];
    // One of the flipped bits, which are many.
    let all = forgeries(one).into_iter().enumerate().filter(|(at, _)| *at < 60 || at % 61 == 0);
    for (_, (why, forged)) in all {
        let (remote, reader) = (FakeRemote::new(), Host::new());
        remote.set_object(&name_of("relu", own), forged);
        let cache = cache(&reader, &remote, &trust(Some(own), Some(&[one, own])));
        let report = cache.fetch(&[key("relu")], &Query::new(&take));
        assert_eq!((report.fetched.len(), report.refused.len(), report.missing.len()), (0, 1, 0), "{why}");
        assert_eq!(reader.warned(), [WarningKind::Remote], "{why}");
        let ticket = build(claim(&cache, "relu"));
        assert!(publish(ticket, 3).remote && reader.warnings().is_empty(), "{why}");
        let next = self::cache(&Host::new(), &remote, &trust(None, Some(&[own])));
        let report = next.fetch(&[key("relu")], &Query::new(&take));
        assert_eq!((&report.fetched[..], report.refused.len()), (&[key("relu")][..], 0), "{why}");
    }
}

/// In the local store, by another user who may write to it.
#[test]
fn forged_entries_of_the_store_are_refused_and_healed() {
    let one = &new_key("one");
    let host = Host::new();
    let trust = trust(None, Some(&[one]));
    let cache = || cache(&host, &FakeRemote::new(), &trust);
    for (why, forged) in forgeries(one) {
        let Ok(forged) = Entry::decode(forged, Some(&key("relu"))) else { continue };
        let store = cache();
        let put =
            || store.store().unwrap().put_replacing(&key("relu"), &forged.to_builder(), Overwrite::Always);
        put().unwrap();
        assert!(store.open_entry(&key("relu")).is_none(), "{why}");
        assert!(matches!(store.get(&key("relu")), Lookup::Miss(_)), "{why}");
        let judge = |_: &Entry| panic!("the caller judges what is forged: {why}");
        assert!(store.find(&key("relu"), &Query::new(&judge)).is_none());
        drop(host.warnings());
        let ticket = build(store.get_or_begin(&key("relu"), &Query::new(&judge)).unwrap());
        let warnings = host.warnings();
        assert!(
            matches!(&warnings[..], [(WarningKind::Reading, text)] if text.contains(".kern")),
            "{why}: {warnings:?}"
        );
        publish(ticket, 3);
        assert_eq!(hit(claim(&cache(), "relu")), (3, Source::Local), "{why}");
        assert!(host.warnings().is_empty());
    }
    let statistics = cache().store().unwrap().statistics();
    assert!(statistics.misses_untrusted > 800, "{statistics:?}");
}

/// A forged entry of the store gives way to a good one of the remote tier, however that is fetched.
#[test]
fn a_good_entry_of_the_engine_replaces_a_forged_one_of_the_store() {
    let (remote, one) = (FakeRemote::new(), &new_key("one"));
    publish(build(claim(&cache(&Host::new(), &remote, &trust(Some(one), None)), "relu")), 1);
    let (forged, query) = (text(2), Query::new(&take));
    type Way<'a> = (&'a str, &'a dyn Fn(&TargetCache));
    let ways: [Way<'_>; 3] = [
        ("claim", &|cache| assert_eq!(hit(claim(cache, "relu")), (1, Source::Remote))),
        ("fetch", &|cache| assert_eq!(cache.fetch(&[key("relu")], &query).fetched, [key("relu")])),
        ("get_remote", &|cache| assert_eq!(writer(&cache.get_remote(&key("relu"), &query).unwrap()), 1)),
    ];
    for (way, take) in ways {
        let host = Host::new();
        let cache = cache(&host, &remote, &trust(None, Some(&[one])));
        cache.store().unwrap().put(&key("relu"), &builder(&forged)).unwrap();
        take(&cache);
        let Lookup::Hit(stored) = cache.store().unwrap().peek(&key("relu")) else { panic!("{way}") };
        assert_eq!(writer(&stored), 1, "{way}");
        assert_eq!(hit(claim(&cache, "relu")), (1, Source::Local), "{way}");
    }
}

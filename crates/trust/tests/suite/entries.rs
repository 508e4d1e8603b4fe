//! Entries of the store: which changes a signature notices.

use std::time::{Duration, SystemTime};

use opkeep_digest::Digest;
use opkeep_kernel_entry::member;
use opkeep_store::{ENTRY_FORMAT, Entry, EntryBuilder, EntryHead, Lookup, Store, StoreConfig};
use opkeep_trust::{
    EntryDigest, MemberDigest, Message, RepeatedMember, SIGNATURES_MEMBER, Signatures, SignedEntry,
    TrustedKeys, is_signed_member,
};

use crate::key;

fn digest_of(entry: &EntryHead) -> Result<EntryDigest, RepeatedMember> {
    let members = entry.member_heads().map(|member| MemberDigest {
        name: member.name,
        bytes: member.bytes,
        digest: member.digest,
    });
    EntryDigest::of(entry.key(), members)
}

fn message(entry: &EntryHead) -> Message {
    let content = digest_of(entry).unwrap();
    let (format, target) = (ENTRY_FORMAT, "cpu-x86_64");
    SignedEntry { format, namespace: "default", target, key: entry.key(), content: &content }.message()
}

/// The entry as a store returns it.
fn stored(builder: &EntryBuilder<'_>, key: &Digest) -> Entry {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(StoreConfig::new(directory.path())).unwrap().target("cpu").unwrap();
    store.put(key, builder).unwrap();
    match store.get(key) {
        Lookup::Hit(entry) => *entry,
        other => unreachable!("{other:?}"),
    }
}

fn sample() -> (Digest, EntryBuilder<'static>) {
    let entry = EntryBuilder::new(3).eager(member::JSON, b"{}").eager(member::OBJECT, &[3; 100]);
    let entry = entry.lazy(member::INFO, b"{\"job\": 1}").lazy(member::HEADER, b"header");
    (Digest::of(b"key"), entry.lazy(member::EXPECTATIONS, b"rules"))
}

/// Names are constants of two crates, of which neither uses the other.
#[test]
fn the_members_that_hosts_renew_are_not_signed() {
    assert!(!is_signed_member(member::EXPECTATIONS) && !is_signed_member(SIGNATURES_MEMBER));
    for name in [member::JSON, member::OBJECT, member::INFO, member::HEADER, member::IMPORTED, member::GROUP]
    {
        assert!(is_signed_member(name), "{name}");
    }
    assert!(is_signed_member("x/expectations") && is_signed_member("Signatures"));
}

#[test]
fn a_signature_stays_valid_with_the_entry() {
    let (digest, builder) = sample();
    let entry = stored(&builder, &digest);
    let one = key("one");
    let trusted: TrustedKeys = [one.public_key().clone()].into_iter().collect();
    let signatures: Signatures = [one.sign(&message(&entry))].into_iter().collect();
    let encoded = signatures.encode();

    // The host keeps the signatures in the entry, and validates it by newer rules later.
    let signed = stored(&entry.revalidated(entry.validation(), &[(SIGNATURES_MEMBER, &encoded)]), &digest);
    let renewed = stored(&signed.revalidated(9, &[(member::EXPECTATIONS, b"newer rules")]), &digest);
    let other_times = builder.clone().cost(Duration::from_secs(9)).created(SystemTime::UNIX_EPOCH);
    for entry in [&signed, &renewed, &stored(&other_times.lazy(SIGNATURES_MEMBER, &encoded), &digest)] {
        let found = Signatures::parse(entry.lazy_member(SIGNATURES_MEMBER).unwrap().unwrap()).unwrap();
        assert_eq!(trusted.verify(&message(entry), &found), Ok(one.public_key()));
    }

    // Any other change.
    for changed in [
        stored(&builder.clone().eager("x/more", b""), &digest),
        stored(&entry.revalidated(3, &[(member::HEADER, b"Header")]), &digest),
        stored(&entry.revalidated(3, &[(member::OBJECT, &[4; 100])]), &digest),
        stored(&builder, &Digest::of(b"other")),
    ] {
        assert!(trusted.verify(&message(&changed), &signatures).is_err());
    }
}

#[test]
fn the_order_of_members_does_not_count() {
    let (digest, builder) = sample();
    let other = EntryBuilder::new(0).lazy(member::HEADER, b"header").lazy(member::INFO, b"{\"job\": 1}");
    let other = other.eager(member::OBJECT, &[3; 100]).eager(member::JSON, b"{}");
    assert_eq!(digest_of(&stored(&builder, &digest)), digest_of(&stored(&other, &digest)));
}

/// A reader takes the first of two members of one name; the order does not count in the digest.
#[test]
fn an_entry_with_two_members_of_a_name_is_refused() {
    let (digest, builder) = sample();
    for name in [member::OBJECT, member::EXPECTATIONS, SIGNATURES_MEMBER] {
        let twice = builder.clone().lazy(name, b"other").lazy(name, b"other");
        let expected = RepeatedMember { name: name.to_owned() };
        assert_eq!(digest_of(&stored(&twice, &digest)), Err(expected));
    }
}

//! A change of any field, of any bit of a signature, or of the key makes a verification fail.

use std::collections::BTreeMap;

use opkeep_digest::Digest;
use opkeep_trust::{
    EntryDigest, MemberDigest, Message, PublicKey, Signature, Signatures, SignedBundle, SignedEntry,
    SigningKey, TrustedKeys,
};
use proptest::array::uniform32;
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;

use crate::{PUBLIC, SECRET, key, message};

/// An entry with all that a signature covers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    format: u32,
    namespace: String,
    target: String,
    key: Vec<u8>,
    members: BTreeMap<String, Vec<u8>>,
}

impl Entry {
    fn message(&self) -> Message {
        let key = Digest::of(&self.key);
        let digests: Vec<_> = self.members.values().map(|bytes| Digest::of(bytes)).collect();
        let members = self.members.iter().zip(&digests).map(|((name, bytes), digest)| MemberDigest {
            name,
            bytes: bytes.len() as u64,
            digest,
        });
        let content = EntryDigest::of(&key, members).unwrap();
        let Self { format, namespace, target, .. } = self;
        SignedEntry { format: *format, namespace, target, key: &key, content: &content }.message()
    }
}

/// Short texts over few letters, so that fields that run into each other are found.
fn entry() -> impl Strategy<Value = Entry> {
    let members = btree_map("[ab:]{1,3}", vec(0u8..3, 0..4), 0..4);
    (0u32..3, "[ab]{0,3}", "[ab]{0,3}", vec(0u8..2, 0..2), members).prop_map(
        |(format, namespace, target, key, members)| Entry { format, namespace, target, key, members },
    )
}

type Bundle = (String, String, Option<u8>, u8);

fn bundle_message((namespace, target, plan, index): &Bundle) -> Message {
    let (plan, index) = (plan.map(|plan| Digest::of(&[plan])), Digest::of(&[*index]));
    SignedBundle { namespace, target, plan: plan.as_ref(), index: &index }.message()
}

fn bundle() -> impl Strategy<Value = Bundle> {
    ("[ab]{0,3}", "[ab]{0,3}", of(0u8..3), 0u8..3)
}

fn pair() -> (SigningKey, PublicKey) {
    (SECRET.parse().unwrap(), PUBLIC.parse().unwrap())
}

proptest! {
    #[test]
    fn a_signature_is_for_one_entry(one in entry(), other in entry()) {
        let (signer, public) = pair();
        let signature = signer.sign(&one.message());
        prop_assert!(public.verifies(&one.message(), &signature));
        prop_assert_eq!(public.verifies(&other.message(), &signature), one == other);
    }

    #[test]
    fn a_signature_is_for_one_bundle(one in bundle(), other in bundle(), entry in entry()) {
        let (signer, public) = pair();
        let signature = signer.sign(&bundle_message(&one));
        prop_assert_eq!(public.verifies(&bundle_message(&other), &signature), one == other);
        prop_assert!(!public.verifies(&entry.message(), &signature));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        let trusted: TrustedKeys = [PUBLIC.parse().unwrap()].into_iter().collect();
        if let Ok(signatures) = Signatures::parse(&bytes) {
            prop_assert!(trusted.verify(&message(b"x"), &signatures).is_err());
            prop_assert_eq!(Signatures::parse(&signatures.encode()).unwrap(), signatures);
        }
        let _ = (TrustedKeys::parse(&text), text.parse::<Signature>(), text.parse::<SigningKey>());
    }

    #[test]
    fn any_64_bytes_are_no_signature(low in uniform32(any::<u8>()), high in uniform32(any::<u8>())) {
        let bytes = [low, high].concat().try_into().unwrap();
        let signature = Signature::from_bytes("test-1".parse().unwrap(), bytes);
        prop_assert!(!pair().1.verifies(&message(b"x"), &signature));
        prop_assert_eq!(signature.to_string().parse::<Signature>().unwrap(), signature);
    }
}

/// Each change of a field makes a message of its own.
#[test]
fn every_field_counts() {
    let members = [("object", vec![1, 2]), ("json", vec![3])].map(|(name, bytes)| (name.to_owned(), bytes));
    let entry = Entry {
        format: 2,
        namespace: "team".to_owned(),
        target: "cpu".to_owned(),
        key: vec![7],
        members: members.into_iter().collect(),
    };
    let changed = |change: &dyn Fn(&mut Entry)| {
        let mut other = entry.clone();
        change(&mut other);
        other.message()
    };
    let messages = [
        entry.message(),
        changed(&|entry| entry.format = 3),
        changed(&|entry| entry.namespace = "tea".to_owned()),
        changed(&|entry| (entry.namespace, entry.target) = ("teamc".to_owned(), "pu".to_owned())),
        changed(&|entry| entry.target = "cpu2".to_owned()),
        changed(&|entry| entry.key = vec![8]),
        changed(&|entry| drop(entry.members.remove("json"))),
        changed(&|entry| drop(entry.members.insert("info".to_owned(), vec![3]))),
        changed(&|entry| drop(entry.members.insert("json".to_owned(), vec![4]))),
        changed(&|entry| drop(entry.members.insert("json".to_owned(), vec![3, 3]))),
        changed(&|entry| {
            let json = entry.members.remove("json").unwrap();
            entry.members.insert("jso".to_owned(), json);
        }),
    ];
    for (at, one) in messages.iter().enumerate() {
        assert!(messages[..at].iter().all(|other| other != one), "{at}");
    }
}

/// The length of a member and its digest are two fields.
#[test]
fn the_length_of_a_member_counts() {
    let key = Digest::of(b"key");
    let of = |bytes| EntryDigest::of(&key, [MemberDigest { name: "object", bytes, digest: &key }]);
    assert_ne!(of(1), of(2));
}

#[test]
fn every_bit_of_a_signature_counts() {
    let (signer, public) = pair();
    let bytes = signer.sign(&message(b"x")).to_bytes();
    for (at, bit) in (0..bytes.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut changed = bytes;
        changed[at] ^= 1 << bit;
        let changed = Signature::from_bytes("test-1".parse().unwrap(), changed);
        assert!(!public.verifies(&message(b"x"), &changed), "byte {at}, bit {bit}");
    }
    let signature = Signature::from_bytes("test-1".parse().unwrap(), bytes);
    assert!(public.verifies(&message(b"x"), &signature));
    assert!(!key("test-1").public_key().verifies(&message(b"x"), &signature));
}

/// A signature with `s + l` in place of `s` satisfies the equation as well: the group has `l` elements.
#[test]
fn a_signature_has_one_form() {
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let (signer, public) = pair();
    let signature = signer.sign(&message(b"x"));
    let mut bytes = signature.to_bytes();
    let mut carry = 0;
    for (byte, order) in bytes[32..].iter_mut().zip(ORDER) {
        let sum = u16::from(*byte) + u16::from(order) + carry;
        (*byte, carry) = (sum as u8, sum >> 8);
    }
    assert_eq!(carry, 0);
    let second = Signature::from_bytes("test-1".parse().unwrap(), bytes);
    assert!(public.verifies(&message(b"x"), &signature));
    assert!(!public.verifies(&message(b"x"), &second));
}

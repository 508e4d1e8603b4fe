//! The tests of the crate that need no process of their own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "tests make files as other programs do"))]

#[cfg(test)]
mod entries;
#[cfg(test)]
mod files;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod signatures;
#[cfg(test)]
mod texts;

use opkeep_digest::Digest;
use opkeep_trust::{EntryDigest, MemberDigest, Message, SignedEntry, SigningKey};

/// A key pair whose seed is the bytes from 0 to 31, made by openssl.
const SECRET: &str =
    "test-1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8DoQe/884Qvh1w3RjnS8CZZ+TWMJulDV8d3IZkElUxuA==";
const PUBLIC: &str = "test-1:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=";

/// A new key of this name.
fn key(name: &str) -> SigningKey {
    SigningKey::generate(name.parse().unwrap()).unwrap()
}

/// The digest of an entry with these members.
fn content(key: &Digest, members: &[(&str, &[u8])]) -> EntryDigest {
    let digests: Vec<_> = members.iter().map(|(_, bytes)| Digest::of(bytes)).collect();
    let members = members.iter().zip(&digests).map(|((name, bytes), digest)| MemberDigest {
        name,
        bytes: bytes.len() as u64,
        digest,
    });
    EntryDigest::of(key, members).unwrap()
}

/// The message of an entry that has `object`.
fn message(object: &[u8]) -> Message {
    let key = Digest::of(b"key");
    let content = content(&key, &[("object", object)]);
    SignedEntry { format: 2, namespace: "team", target: "cpu-x86_64", key: &key, content: &content }.message()
}

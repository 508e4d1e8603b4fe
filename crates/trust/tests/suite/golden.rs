//! Texts, digests and signatures that never change: other hosts, and other versions, have to verify them.
//!
//! The values are from a program that has nothing in common with this crate: SHA-256 of Python, ed25519 of openssl.

use std::fmt::Write;

use opkeep_digest::Digest;
use opkeep_trust::{Message, PublicKey, Signature, Signatures, SignedBundle, SignedEntry, SigningKey};

use crate::{PUBLIC, SECRET, content};

const ENTRY_SIGNATURE: &str =
    "T+GeyExwKtDgfbZO123n+Ljwkvkdv3YalQT6e1e64YCEiqWbazZQLmk39H95IR8fceI/X5gVo116zUSEybihCg==";

/// Compares what is signed, the domain and the digest behind it, and the signature.
#[track_caller]
fn signs(message: &Message, domain: &str, digest: &str, signature: &str) {
    let bytes = message.as_bytes().strip_prefix(domain.as_bytes()).unwrap().strip_prefix(&[0]).unwrap();
    let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    });
    assert_eq!(hex, digest);
    let key: SigningKey = SECRET.parse().unwrap();
    let found = key.sign(message);
    assert_eq!(found.to_string(), format!("test-1:{signature}"));
    assert_eq!(found.to_string().parse::<Signature>().unwrap(), found);
    assert!(PUBLIC.parse::<PublicKey>().unwrap().verifies(message, &found));
}

#[test]
fn the_texts_of_keys() {
    let key: SigningKey = SECRET.parse().unwrap();
    assert_eq!(key.to_secret_text().as_str(), SECRET);
    assert_eq!(key.public_key().to_string(), PUBLIC);
    assert_eq!(key.public_key(), &PUBLIC.parse().unwrap());
    assert_eq!(key.public_key().signer().to_string(), "56475aa75463474c");
}

#[test]
fn a_signed_entry() {
    let key = Digest::of(b"key");
    let members = [("json", &b"{}"[..]), ("object", &[3; 100]), ("info", b"{\"job\": 1}")];
    let content = content(&key, &members);
    let digest = "ac7da4956642b180c432e356586d1a2a4abcfe0733f5958c8e63dddc1d15c728";
    assert_eq!(content.digest().to_string(), digest);
    let entry =
        SignedEntry { format: 2, namespace: "team", target: "cpu-x86_64", key: &key, content: &content };
    let digest = "86b3ad13e8136243ba0006db4446889e2980e8f276472ef1a5a91746f515efb9";
    signs(&entry.message(), "opkeep signed entry v1", digest, ENTRY_SIGNATURE);
}

#[test]
fn a_signed_bundle() {
    const DOMAIN: &str = "opkeep signed bundle v1";
    let (plan, index) = (Digest::of(b"plan"), Digest::of(b"index"));
    let bundle = SignedBundle { namespace: "team", target: "cpu-x86_64", plan: Some(&plan), index: &index };
    signs(
        &bundle.message(),
        DOMAIN,
        "19c7cd2359e1602ef81fa6a1afc97beca1e7107f1de602bb219d641d83096f19",
        "LAwc2lhPVw2yvlXnq6M1WUiYY9OI4fMRkYtU8Y3nZhxVdd94PZas1N7zCRfeo5DoF/R+f3YrCIVSZbqGMwj0CQ==",
    );
    signs(
        &SignedBundle { target: "", plan: None, ..bundle }.message(),
        DOMAIN,
        "94bc6039934ceafc83df69f3e4f59c38e299fc16f7211feb6d917a83388091ef",
        "kntdJ1PjXp6SlLEY/6ibeOnh86vrqKrI8M7s9NwMLi02cZlOJLnhDRuEKQs3Gn7DwpBPaDNhAKxvqyySb+oZBQ==",
    );
}

#[test]
fn the_member_with_signatures() {
    let line = format!("test-1:{ENTRY_SIGNATURE}");
    let signatures: Signatures = [line.parse().unwrap()].into_iter().collect();
    assert_eq!(signatures.encode(), format!("{line}\n").into_bytes());
    assert_eq!(Signatures::parse(&signatures.encode()), Ok(signatures));
}

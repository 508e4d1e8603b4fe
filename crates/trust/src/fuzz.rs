//! The body of the fuzz target.

use std::str;

use opkeep_digest::Digest;

use crate::{
    EntryDigest, KeyName, PublicKey, Signature, Signatures, SignedEntry, SignerId, SigningKey, TrustedKeys,
};

/// Reads `bytes` as the member with the signatures of an entry, as a list of trusted keys, and as one key, signature, name and signer
/// id. What can be read is written, and read again.
///
/// # Panics
/// If something reads back differently, or another invariant does not hold.
pub fn fuzz(bytes: &[u8]) {
    signatures(bytes);
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(name) = text.parse::<KeyName>() {
        assert_eq!(name.to_string(), text);
    }
    if let Ok(signer) = text.parse::<SignerId>() {
        assert_eq!(signer.to_string(), text);
    }
    // A key and a signature have one text each.
    match text.parse::<PublicKey>() {
        Ok(key) => assert_eq!(key.to_string(), text),
        Err(error) => says_nothing_of(text, &error.to_string()),
    }
    match text.parse::<SigningKey>() {
        Ok(key) => assert_eq!(key.to_secret_text().as_str(), text),
        Err(error) => says_nothing_of(text, &error.to_string()),
    }
    if let Ok(signature) = text.parse::<Signature>() {
        assert_eq!(signature.to_string(), text);
    }
    list(text);
}

fn signatures(bytes: &[u8]) {
    let Ok(mut signatures) = Signatures::parse(bytes) else { return };
    let again = Signatures::parse(&signatures.encode());
    assert_eq!(again.as_ref(), Ok(&signatures), "the signatures read back differently");
    let [key, content] = [Digest::of(bytes), Digest::of(b"other")];
    let Ok(content) = EntryDigest::of(&content, []) else { return };
    let entry = SignedEntry { format: 2, namespace: "default", target: "cpu", key: &key, content: &content };
    let message = entry.message();
    // A key that signs nothing else.
    let signer = SigningKey::new(KeyName::of_host(7), ed25519_dalek::SigningKey::from_bytes(&[7; 32]));
    let trusted: TrustedKeys = [signer.public_key().clone()].into_iter().collect();
    assert!(trusted.verify(&message, &signatures).is_err(), "no key has signed this");
    // What others added keeps no host from adding its own signature.
    signatures.insert(&signer.sign(&message));
    let encoded = signatures.encode();
    let Ok(read) = Signatures::parse(&encoded) else { unreachable!("too large: {signatures:?}") };
    assert_eq!(trusted.verify(&message, &read), Ok(signer.public_key()));
}

fn list(text: &str) {
    match TrustedKeys::parse(text) {
        Ok(keys) => {
            let written: Vec<_> = keys.iter().map(PublicKey::to_string).collect();
            let again = TrustedKeys::parse(&written.join("\n"));
            assert!(again.is_ok_and(|again| again == keys), "the list reads back differently");
            assert!(keys.signers().len() <= keys.len());
        }
        Err(error) => says_nothing_of(text, &error.to_string()),
    }
}

/// A text may be a secret that stands in the wrong place.
fn says_nothing_of(text: &str, message: &str) {
    assert!(!message.contains(char::is_control), "{message:?}");
    let secret = text.split(':').filter(|part| part.len() >= 40);
    let shows = |part: &str| part.as_bytes().windows(40).any(|part| contains(message.as_bytes(), part));
    assert!(!secret.into_iter().any(shows), "the message has a part of the text: {message:?}");
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

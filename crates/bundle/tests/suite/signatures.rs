//! The signatures of the index and of the entries.

use std::io::Cursor;

use opkeep_bundle::{BundleReader, Signer, entry_message, entry_signatures};
use opkeep_digest::Digest;
use opkeep_trust::{SignaturePolicy, SigningKey, TrustedKeys, Untrusted};

use crate::{bundle, read, sample};

fn key(name: &str) -> SigningKey {
    SigningKey::generate(name.parse().unwrap()).unwrap()
}

fn trusting(key: &SigningKey) -> SignaturePolicy {
    SignaturePolicy::Required([key.public_key().clone()].into_iter().collect())
}

fn signer(key: &SigningKey, namespace: &str) -> Signer {
    Signer::new(key.to_secret_text().parse::<SigningKey>().unwrap(), namespace)
}

fn check(file: &[u8], policy: &SignaturePolicy, namespace: &str) -> Result<bool, Untrusted> {
    let reader = BundleReader::open(Cursor::new(file)).unwrap();
    reader.check_signature(policy, namespace).map(|key| key.is_some())
}

#[test]
fn the_index_is_signed() {
    let (own, other) = (key("builds-1"), key("builds-1"));
    let file = bundle(&sample(), None, Some(signer(&own, "team")));
    assert_eq!(check(&file, &trusting(&own), "team"), Ok(true));
    assert_eq!(check(&file, &SignaturePolicy::Ignored, "team"), Ok(false));
    for (policy, namespace) in [(trusting(&other), "team"), (trusting(&own), "default")] {
        assert!(matches!(check(&file, &policy, namespace), Err(Untrusted::WrongSignature { .. })));
    }
    let none = SignaturePolicy::Required(TrustedKeys::new());
    assert!(matches!(check(&file, &none, "team"), Err(Untrusted::UnknownSigner { .. })));
    let unsigned = bundle(&sample(), None, None);
    assert_eq!(check(&unsigned, &trusting(&own), "team"), Err(Untrusted::NoSignature));
    assert_eq!(check(&unsigned, &SignaturePolicy::Ignored, "team"), Ok(false));
}

/// The signature of one bundle does not count for another: other entries, or another plan.
#[test]
fn a_signature_is_bound_to_the_index() {
    let own = key("builds-1");
    let (entries, plan) = (sample(), Digest::of(b"plan"));
    let digest_of = |file: &[u8]| file[file.len() - 72..file.len() - 40].to_vec();
    let with = bundle(&entries, Some(plan), Some(signer(&own, "default")));
    let fewer = bundle(&entries[..4], Some(plan), Some(signer(&own, "default")));
    let planless = bundle(&entries, None, Some(signer(&own, "default")));
    assert_ne!(digest_of(&with), digest_of(&fewer));
    assert_ne!(digest_of(&with), digest_of(&planless));
    // The same key and the same entries give the same bytes.
    assert_eq!(with, bundle(&entries, Some(plan), Some(signer(&own, "default"))));
}

/// A store with trusted keys checks each entry again at each hit, so the signer signs each.
#[test]
fn each_entry_is_signed() {
    let (first, second) = (key("builds-1"), key("relay"));
    let file = bundle(&sample(), None, Some(signer(&first, "default")));
    let entries = read(&file).unwrap();
    let count = |file: &[u8], key: &SigningKey, namespace: &str| {
        let policy = trusting(key);
        let is_signed = |(target, entry): &(String, _)| {
            policy.check(&entry_message(namespace, target, entry).unwrap(), &entry_signatures(entry)).is_ok()
        };
        read(file).unwrap().iter().filter(|entry| is_signed(entry)).count()
    };
    assert_eq!((count(&file, &first, "default"), count(&file, &first, "team")), (5, 0));
    assert_eq!(count(&file, &second, "default"), 0);
    // The signatures that entries have stay.
    let signed: Vec<_> = entries.iter().map(|(target, entry)| (target.as_str(), entry.clone())).collect();
    let again = bundle(&signed, None, Some(signer(&second, "default")));
    assert_eq!((count(&again, &first, "default"), count(&again, &second, "default")), (5, 5));
    assert_eq!(count(&bundle(&signed, None, None), &first, "default"), 5);
}

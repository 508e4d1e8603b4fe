//! Lists of trusted keys, and their verdicts.

use std::collections::BTreeSet;

use opkeep_trust::{
    KeyTextError, SignaturePolicy, Signatures, SigningKey, TrustError, TrustedKeys, Untrusted,
};

use crate::{PUBLIC, key, message};

fn list(keys: &[&SigningKey]) -> TrustedKeys {
    keys.iter().map(|key| key.public_key().clone()).collect()
}

fn signed(keys: &[&SigningKey], object: &[u8]) -> Signatures {
    keys.iter().map(|key| key.sign(&message(object))).collect()
}

/// The name of the key that vouches for the object.
fn verified(trusted: &TrustedKeys, signatures: &Signatures, object: &[u8]) -> Result<String, Untrusted> {
    trusted.verify(&message(object), signatures).map(|key| key.name().to_string())
}

#[test]
fn a_list_is_read_from_lines_and_words() {
    let (one, two) = (key("one").public_key().to_string(), key("two").public_key().to_string());
    let names = |text: &str| {
        let list = TrustedKeys::parse(text).unwrap();
        list.iter().map(|key| key.name().to_string()).collect::<Vec<_>>()
    };
    assert!(names("").is_empty() && names("\n # nothing\r\n").is_empty());
    assert_eq!(names(&one), ["one"]);
    assert_eq!(names(&format!("{one}\n{two}\n")), ["one", "two"]);
    assert_eq!(names(&format!("{one}\r\n\t{two} # a comment: {PUBLIC}\r\n")), ["one", "two"]);
    // As `trusted-public-keys` of Nix has them.
    assert_eq!(names(&format!("{two} {one}")), ["two", "one"]);
    assert_eq!(names(&format!("#{two}\n{one}#{two}")), ["one"]);
    // A key that is repeated.
    assert_eq!(names(&format!("{one}\n{one}\n{two} {one}")), ["one", "two"]);
}

#[test]
fn one_wrong_word_refuses_a_list() {
    let wrong = |text: &str| match TrustedKeys::parse(text).unwrap_err() {
        TrustError::Key { path: None, line, problem } => (line, problem),
        other => unreachable!("{other:?}"),
    };
    assert_eq!(wrong(&format!("{PUBLIC}\nnotes")), (2, KeyTextError::NoColon));
    assert_eq!(wrong(&format!("{PUBLIC}, {PUBLIC}")).0, 1);
    // A space that is none of ASCII's.
    assert_eq!(wrong(&format!("{PUBLIC}\u{a0}{PUBLIC}")).0, 1);
    assert_eq!(wrong(&format!("\u{feff}{PUBLIC}")), (1, KeyTextError::Name));
}

#[test]
fn each_reason_of_distrust_has_its_name() {
    let (one, two, three) = (key("one"), key("two"), key("three"));
    let trusted = list(&[&one, &two]);
    assert_eq!(verified(&trusted, &signed(&[&two], b"x"), b"x").unwrap(), "two");
    assert_eq!(verified(&trusted, &signed(&[&three, &one], b"x"), b"x").unwrap(), "one");

    assert_eq!(verified(&trusted, &Signatures::new(), b"x"), Err(Untrusted::NoSignature));
    let unknown = Untrusted::UnknownSigner { signers: BTreeSet::from(["three".parse().unwrap()]) };
    assert_eq!(verified(&trusted, &signed(&[&three], b"x"), b"x"), Err(unknown));
    let wrong = Untrusted::WrongSignature { signer: "one".parse().unwrap() };
    assert_eq!(verified(&trusted, &signed(&[&one], b"x"), b"y"), Err(wrong.clone()));
    assert_eq!(verified(&trusted, &signed(&[&three, &one], b"x"), b"y"), Err(wrong.clone()));
    // Another key with the name of a trusted one.
    assert_eq!(verified(&trusted, &signed(&[&key("one")], b"x"), b"x"), Err(wrong));
    // The trusted key under another name.
    let text = one.sign(&message(b"x")).to_string().replace("one:", "other:");
    let renamed: Signatures = [text.parse().unwrap()].into_iter().collect();
    assert!(matches!(verified(&trusted, &renamed, b"x"), Err(Untrusted::UnknownSigner { .. })));
}

#[test]
fn messages_name_a_few_signers() {
    let names = ["d", "c", "b", "a", "e"].map(key);
    let signatures = signed(&names.iter().collect::<Vec<_>>(), b"x");
    let error = verified(&TrustedKeys::new(), &signatures, b"x").unwrap_err();
    assert_eq!(
        error.to_string(),
        "it is signed by `a`, `b`, `c`, others, and no trusted key has such a name"
    );
}

/// The next key may have the name of the present one: both are trusted until the old one is removed from the list.
#[test]
fn keys_of_one_name_are_all_trusted() {
    let (old, new) = (key("team"), key("team"));
    let both = list(&[&old, &new]);
    assert_eq!((both.len(), both.signers().len()), (2, 2));
    for signer in [&old, &new] {
        assert_eq!(both.verify(&message(b"x"), &signed(&[signer], b"x")), Ok(signer.public_key()));
    }
    let after = list(&[&new]);
    assert!(after.verify(&message(b"x"), &signed(&[&old, &new], b"x")).is_ok());
    assert!(matches!(
        after.verify(&message(b"x"), &signed(&[&old], b"x")),
        Err(Untrusted::WrongSignature { .. })
    ));
}

#[test]
fn no_list_and_an_empty_list_are_opposites() {
    let one = key("one");
    let check = |policy: &SignaturePolicy, signatures: &Signatures| {
        policy.check(&message(b"x"), signatures).map(|key| key.map(|key| key.name().to_string()))
    };
    let (none, by_one) = (Signatures::new(), signed(&[&one], b"x"));
    let ignored = SignaturePolicy::default();
    assert_eq!((check(&ignored, &none), check(&ignored, &by_one)), (Ok(None), Ok(None)));
    let empty = SignaturePolicy::Required(TrustedKeys::new());
    assert_eq!(check(&empty, &none), Err(Untrusted::NoSignature));
    assert!(matches!(check(&empty, &by_one), Err(Untrusted::UnknownSigner { .. })));
    let only_one = SignaturePolicy::Required(list(&[&one]));
    assert_eq!(check(&only_one, &by_one), Ok(Some("one".to_owned())));
    assert_eq!(check(&only_one, &none), Err(Untrusted::NoSignature));
    assert!(ignored.trusted_keys().is_none() && empty.trusted_keys().is_some_and(TrustedKeys::is_empty));
}

//! Keys, names and signatures as texts: one spelling each, and errors without any part of a secret.

use opkeep_trust::{
    KeyName, KeyTextError, PublicKey, Signature, SignerId, SigningKey, TrustError, TrustedKeys,
};

use crate::{PUBLIC, SECRET, key};

fn body(text: &str) -> &str {
    text.split_once(':').unwrap().1
}

#[test]
fn a_new_key_is_read_as_it_is_written() {
    let (one, two) = (key("a.b_c-9"), key("a.b_c-9"));
    let text = one.to_secret_text();
    let read: SigningKey = text.parse().unwrap();
    assert_eq!(read.public_key(), one.public_key());
    assert_eq!(read.to_secret_text(), text);
    assert_eq!(one.public_key().to_string().parse::<PublicKey>().unwrap(), *one.public_key());
    assert_ne!(one.public_key(), two.public_key());
    assert_ne!(one.public_key().signer(), two.public_key().signer());
}

#[test]
fn names_are_short_and_plain() {
    for name in ["a", "A.b_c-9", "-", &"n".repeat(KeyName::MAX_LEN)] {
        assert_eq!(name.parse::<KeyName>().unwrap().as_str(), name);
    }
    let long = "n".repeat(KeyName::MAX_LEN + 1);
    for name in ["", " a", "a b", "a:b", "a/b", "ä", "a\n", "a\u{202e}", long.as_str()] {
        let error = name.parse::<KeyName>().unwrap_err();
        assert!(error.to_string().contains("1 to 64 letters"), "{error}");
        let text = format!("{name}:{}", body(PUBLIC));
        assert!(text.parse::<PublicKey>().is_err(), "{name:?}");
    }
}

#[test]
fn each_problem_of_a_text_has_its_error() {
    let public = |text: &str| text.parse::<PublicKey>().unwrap_err();
    let secret = |text: &str| text.parse::<SigningKey>().unwrap_err();
    assert_eq!(public("test-1"), KeyTextError::NoColon);
    assert_eq!(public(body(PUBLIC)), KeyTextError::NoColon);
    assert_eq!(public(&format!("te st:{}", body(PUBLIC))), KeyTextError::Name);
    assert_eq!(public("test-1:"), KeyTextError::Base64 { expected: 32, found: 0 });
    assert_eq!(public("test-1:AAAA"), KeyTextError::Base64 { expected: 32, found: 4 });
    assert_eq!(public(SECRET), KeyTextError::SecretKey);
    assert_eq!(secret(PUBLIC), KeyTextError::PublicKey);
    assert_eq!(secret("test-1:AAAA"), KeyTextError::Base64 { expected: 64, found: 4 });
    // The halves of two keys.
    let (one, two) = (key("x").to_secret_text(), key("x").to_secret_text());
    let (mut one, two) = (decoded(body(&one)), decoded(body(&two)));
    one[32..].copy_from_slice(&two[32..]);
    assert_eq!(secret(&format!("x:{}", encoded(&one))), KeyTextError::Halves);
    assert!("test-1:AAAA".parse::<Signature>().is_err());
}

/// A second spelling of a key would be a second trusted key, and a second signer id.
#[test]
fn a_key_has_one_spelling() {
    let unpadded = PUBLIC.trim_end_matches('=');
    for text in [
        unpadded.to_owned(),
        format!("{PUBLIC}="),
        format!(" {PUBLIC}"),
        format!("{PUBLIC}\n"),
        // Other unused bits of the last character.
        PUBLIC.replace("bg=", "bh="),
        PUBLIC.replace('/', "_"),
        PUBLIC.replace("A6EH", "A6E\nH"),
    ] {
        assert_ne!(text, PUBLIC);
        assert!(text.parse::<PublicKey>().is_err(), "{text}");
    }
    for text in [SECRET.replace("uA==", "uB=="), SECRET.replace("uA==", "uA"), format!("{SECRET} ")] {
        assert_ne!(text, SECRET);
        assert!(text.parse::<SigningKey>().is_err(), "{text}");
    }
}

/// For a key of small order anyone can make signatures; a `y` that is not reduced is a second spelling of a key.
#[test]
fn unusable_points_are_no_keys() {
    let mut points: Vec<[u8; 32]> = Vec::new();
    // The points of small order.
    for hex in [
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    ] {
        points.push(std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()));
    }
    // Every `y` from the prime on, with both signs; the prime is 2^255 - 19.
    for (low, sign) in (0xed..=0xff).flat_map(|low| [(low, 0x7f), (low, 0xff)]) {
        let mut point = [0xff; 32];
        (point[0], point[31]) = (low, sign);
        points.push(point);
    }
    // No point of the curve.
    points.push(std::array::from_fn(|at| if at == 0 { 2 } else { 0 }));
    for point in points {
        let text = format!("weak:{}", encoded(&point));
        assert_eq!(text.parse::<PublicKey>().unwrap_err(), KeyTextError::Unusable, "{point:02x?}");
    }
}

#[test]
fn a_signer_id_has_one_spelling() {
    let id = PUBLIC.parse::<PublicKey>().unwrap().signer();
    assert_eq!(id.to_string().parse::<SignerId>().unwrap(), id);
    let small: SignerId = "00000000000000ab".parse().unwrap();
    assert_eq!(small.to_string(), "00000000000000ab");
    for text in ["", "ab", "56475AA75463474C", "56475aa75463474", "56475aa75463474c0", "+6475aa75463474c"] {
        assert!(text.parse::<SignerId>().is_err(), "{text}");
    }
}

/// Texts that were meant as secret keys, damaged in every way, wherever a key is expected.
#[test]
fn no_message_has_a_part_of_a_secret() {
    let secret = body(SECRET);
    let mut texts = vec![
        SECRET.to_owned(),
        secret.to_owned(),
        format!("{secret}:test-1"),
        format!("test 1:{secret}"),
        format!("test-1:{secret}{secret}"),
        format!("test-1:{}", &secret[1..]),
        format!("test-1:{}", secret.replace('A', "!")),
        // The seed as hexadecimal digits is a name that is allowed.
        (0..32).map(|byte| format!("{byte:02x}")).collect::<String>() + ":AAAA",
    ];
    texts.extend((0..SECRET.len()).map(|end| SECRET[..end].to_owned()));
    // The seed has 43 of the characters; the others are the public key.
    let parts: Vec<&str> = (0..36).map(|at| &secret[at..at + 8]).collect();
    let check = |text: &str, message: String| {
        for part in parts.iter().chain([&"000102"]) {
            assert!(!message.contains(part), "`{text}`: {message}");
        }
    };
    for text in &texts {
        match text.parse::<SigningKey>() {
            Ok(key) => check(text, format!("{key:?}")),
            Err(error) => check(text, format!("{error} {error:?}")),
        }
        if let Err(error) = text.parse::<PublicKey>() {
            check(text, format!("{error} {error:?}"));
        }
        if let Err(error) = TrustedKeys::parse(text) {
            check(text, format!("{error} {error:?}"));
        }
    }
    let error = TrustedKeys::parse(SECRET).unwrap_err();
    assert!(error.is_secret_key() && matches!(error, TrustError::Key { line: 1, .. }), "{error}");
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64, written again for these tests.
fn encoded(bytes: &[u8]) -> String {
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word = (0..3).fold(0u32, |word, at| word << 8 | u32::from(*three.get(at).unwrap_or(&0)));
        for at in 0..4 {
            match at <= three.len() {
                true => text.push(ALPHABET[(word >> (18 - 6 * at)) as usize & 63].into()),
                false => text.push('='),
            }
        }
    }
    text
}

fn decoded(text: &str) -> Vec<u8> {
    let value = |letter: u8| ALPHABET.iter().position(|known| *known == letter).unwrap() as u32;
    let values: Vec<u32> = text.trim_end_matches('=').bytes().map(value).collect();
    let bytes = values.chunks(4).flat_map(|four| {
        let word = (0..4).fold(0u32, |word, at| word << 6 | four.get(at).unwrap_or(&0));
        word.to_be_bytes()[1..four.len()].to_vec()
    });
    bytes.collect()
}

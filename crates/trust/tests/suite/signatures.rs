//! The member that keeps the signatures of an entry.

use opkeep_trust::{Signature, Signatures, SignaturesTooLarge, TrustedKeys, Untrusted};

use crate::{key, message};

fn lines(signatures: &Signatures) -> usize {
    signatures.encode().iter().filter(|byte| **byte == b'\n').count()
}

/// A well-formed signature of no key.
fn made_up(number: usize) -> Signature {
    Signature::from_bytes(format!("made-up-{number:03}").parse().unwrap(), [number as u8; 64])
}

fn made_up_lines(count: usize) -> String {
    (0..count).map(|number| format!("{}\n", made_up(number))).collect()
}

#[test]
fn lines_are_sorted_each_once_and_unknown_ones_stay() {
    let (one, two) = (key("one").sign(&message(b"x")), key("two").sign(&message(b"x")));
    let text = format!("zeta\n{two}\n\n{one}\nfuture 2 abc\n{two}\n\u{7f}\n");
    let bytes = [text.as_bytes(), b"\xff\xfe"].concat();
    let mut signatures = Signatures::parse(&bytes).unwrap();
    let expected = format!("future 2 abc\n{one}\n{two}\nzeta\n\u{7f}\n");
    assert_eq!(signatures.encode(), [expected.as_bytes(), b"\xff\xfe\n"].concat());
    assert_eq!(signatures.iter().collect::<Vec<_>>(), [one.clone(), two]);
    assert_eq!(Signatures::parse(&signatures.encode()).as_ref(), Ok(&signatures));
    let before = signatures.clone();
    signatures.insert(&one);
    assert_eq!(signatures, before);
    assert!(Signatures::parse(b"\n\n").unwrap().is_empty());
    assert!(Signatures::new().encode().is_empty());
}

#[test]
fn a_line_that_is_nearly_a_signature_is_none() {
    let (one, message) = (key("one"), message(b"x"));
    let line = one.sign(&message).to_string();
    let trusted: TrustedKeys = [one.public_key().clone()].into_iter().collect();
    let unpadded = line.replace("==", "");
    for bad in [format!(" {line}"), format!("{line}\r"), format!("{line} "), unpadded, line[1..].to_owned()] {
        let signatures = Signatures::parse(bad.as_bytes()).unwrap();
        assert!(!signatures.is_empty());
        let verdict = trusted.verify(&message, &signatures);
        assert!(
            matches!(verdict, Err(Untrusted::NoSignature | Untrusted::UnknownSigner { .. })),
            "{bad}: {verdict:?}"
        );
    }
}

#[test]
fn an_entry_cannot_have_endless_signatures() {
    let lines = |count: usize| (0..count).map(|at| format!("{at:02}\n")).collect::<String>();
    assert!(Signatures::parse(lines(Signatures::MAX_LINES).as_bytes()).is_ok());
    let found = Signatures::parse(lines(Signatures::MAX_LINES + 1).as_bytes());
    assert_eq!(found, Err(SignaturesTooLarge { lines: 65, bytes: 3 * 65 }));
    let max = Signatures::MAX_BYTES;
    for (bytes, fits) in [
        (vec![b'x'; max - 1], true),
        (vec![b'x'; max], false),
        (vec![b'\n'; max], true),
        (vec![b'\n'; max + 1], false),
    ] {
        assert_eq!(Signatures::parse(&bytes).is_ok(), fits);
    }
}

/// Whatever an entry comes with, a host can add its signature, and the result can be read.
#[test]
fn a_signature_finds_space() {
    let one = key("one").sign(&message(b"x"));
    let max = Signatures::MAX_LINES;
    for (text, kept) in [
        (made_up_lines(max), max - 1),
        (made_up_lines(max - 1) + "future", max - 1),
        ("z".repeat(Signatures::MAX_BYTES - 1), 0),
        (format!("{}\n{}", made_up(1), "z".repeat(Signatures::MAX_BYTES - 300)), 2),
        (format!("{}{}", made_up_lines(9), "z\n".repeat(7)), 10),
    ] {
        let mut signatures = Signatures::parse(text.as_bytes()).unwrap();
        signatures.insert(&one);
        assert_eq!(lines(&signatures), kept + 1);
        assert!(signatures.iter().any(|found| found == one));
        assert_eq!(Signatures::parse(&signatures.encode()), Ok(signatures));
    }
    // A line that leaves exactly the space, and one that is longer by one byte.
    let rest = Signatures::MAX_BYTES - one.to_string().len() - 2;
    for (length, is_kept) in [(rest, true), (rest + 1, false)] {
        let mut signatures = Signatures::parse("z".repeat(length).as_bytes()).unwrap();
        signatures.insert(&one);
        assert_eq!(lines(&signatures), 1 + usize::from(is_kept));
        assert_eq!(Signatures::parse(&signatures.encode()), Ok(signatures));
    }
    // A line without a signature makes way first.
    let text = made_up_lines(max - 1) + "future";
    let mut signatures = Signatures::parse(text.as_bytes()).unwrap();
    signatures.insert(&one);
    assert_eq!(signatures.iter().count(), max);
}

/// A store records which namespace the signatures are for. It proves nothing, and is no signature.
#[test]
fn a_store_records_a_namespace() {
    let one = key("one").sign(&message(b"x"));
    let signatures: Signatures = [one.clone()].into_iter().collect();
    assert_eq!((signatures.namespace(), signatures.namespaces("b").collect::<Vec<_>>()), (None, vec!["b"]));
    let recorded = signatures.with_namespace("a");
    assert_eq!(recorded.encode(), format!("namespace a\n{one}\n").into_bytes());
    assert_eq!(Signatures::parse(&recorded.encode()).as_ref(), Ok(&recorded));
    assert_eq!(recorded.iter().collect::<Vec<_>>(), [one]);
    assert_eq!(recorded.namespace(), Some("a"));
    assert_eq!(recorded.namespaces("b").collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(recorded.namespaces("a").collect::<Vec<_>>(), ["a"]);
    // There is one record, and none leaves the store.
    assert_eq!(recorded.with_namespace("c"), signatures.with_namespace("c"));
    assert_eq!(recorded.without_namespace(), signatures);
    let twice = Signatures::parse(b"namespace a\nnamespace b\n").unwrap();
    assert_eq!((twice.namespace(), twice.without_namespace().is_empty()), (None, true));
    for other in ["namespace ", "namespace a b", "namespacea", " namespace a", "namespace a\t"] {
        assert_eq!(Signatures::parse(other.as_bytes()).unwrap().namespace(), None, "{other}");
    }
    for other in ["", "a b", "a\nb"] {
        assert_eq!(signatures.with_namespace(other), signatures, "{other}");
    }
}

/// No signature makes way for the record.
#[test]
fn a_namespace_without_space_is_not_recorded() {
    let full = Signatures::parse(made_up_lines(Signatures::MAX_LINES).as_bytes()).unwrap();
    assert_eq!(full.with_namespace("a"), full);
    let space = Signatures::parse(made_up_lines(Signatures::MAX_LINES - 1).as_bytes()).unwrap();
    assert_eq!(space.with_namespace("a").namespace(), Some("a"));
    assert!(Signatures::parse(&space.with_namespace("a").encode()).is_ok());
}

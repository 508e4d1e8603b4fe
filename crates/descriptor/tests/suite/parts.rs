//! The parts of a key.

use std::collections::BTreeSet;

use opkeep_descriptor::{Job, KEY_SCHEMA, Key, KeyParts, ResolvedSpec};
use opkeep_digest::{Digest, Fingerprint, Hasher};

use crate::tree::{EXAMPLE, RICH, read};

fn spec(options: &[(&str, &str)]) -> ResolvedSpec {
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    ResolvedSpec { target: "Ascend910A".into(), options: options.collect(), debug: false }
}

fn fingerprint(parts: &[(&str, &str)]) -> Fingerprint {
    let mut fingerprint = Fingerprint::new();
    parts.iter().for_each(|(name, value)| fingerprint.text(*name, *value));
    fingerprint
}

#[test]
fn every_item_of_a_spec_counts_and_order_does_not() {
    let base = spec(&[("a", "1"), ("b", "2")]);
    assert_eq!(base.digest(), spec(&[("b", "2"), ("a", "1")]).digest());
    let others = [
        base.clone(),
        ResolvedSpec { target: "Ascend910B2".into(), ..base.clone() },
        ResolvedSpec { debug: true, ..base.clone() },
        spec(&[("a", "1")]),
        spec(&[("a", "2"), ("b", "1")]),
        spec(&[("a", "1"), ("b", "")]),
        spec(&[("a", "1"), ("b", "2"), ("c", "")]),
        spec(&[("ab", "12")]),
        spec(&[]),
    ];
    let digests: BTreeSet<Digest> = others.iter().map(ResolvedSpec::digest).collect();
    assert_eq!(digests.len(), others.len());
}

#[test]
fn every_part_counts() {
    let (square, rich) = (read(EXAMPLE).job, read(RICH).job);
    let (toolchain, sources) = (fingerprint(&[("opp", "1")]), fingerprint(&[("impl/square.py", "x")]));
    let key =
        |backend: &str, job: &Job, spec: &ResolvedSpec, toolchain: &Fingerprint, sources: &Fingerprint| {
            KeyParts::new(backend, job, spec, toolchain.clone(), sources.clone()).key()
        };
    let plain = spec(&[]);
    let base = key("tbe", &square, &plain, &toolchain, &sources);
    assert_eq!(base, key("tbe", &square.clone(), &spec(&[]), &toolchain, &sources));
    let keys: BTreeSet<Key> = [
        base,
        key("cpu", &square, &plain, &toolchain, &sources),
        key("tbe", &rich, &plain, &toolchain, &sources),
        key("tbe", &square, &spec(&[("a", "1")]), &toolchain, &sources),
        key("tbe", &square, &plain, &fingerprint(&[("opp", "2")]), &sources),
        key("tbe", &square, &plain, &toolchain, &fingerprint(&[("impl/square.py", "y")])),
        key("tbe", &square, &plain, &sources, &toolchain),
    ]
    .into();
    assert_eq!(keys.len(), 7);
}

/// The key by its documentation, with the schema as a parameter.
fn key_of_schema(schema: u64, parts: &KeyParts) -> Key {
    let mut hasher = Hasher::new("opkeep key");
    hasher.u64(schema);
    hasher.str(&parts.backend);
    hasher.digest(&parts.job);
    hasher.digest(&parts.spec);
    hasher.digest(&parts.toolchain.digest());
    hasher.digest(&parts.op_sources.digest());
    Key::from(hasher.finish())
}

#[test]
fn the_schema_counts() {
    let parts = KeyParts::new("tbe", &read(EXAMPLE).job, &spec(&[]), fingerprint(&[]), fingerprint(&[]));
    assert_eq!(parts.key(), key_of_schema(KEY_SCHEMA, &parts));
    assert_ne!(parts.key(), key_of_schema(KEY_SCHEMA + 1, &parts));
}

#[test]
fn a_key_is_shown_and_parsed_as_its_digest() {
    let key = Key::from(Digest::of(b"abc"));
    assert_eq!(key.to_string().parse::<Key>().unwrap(), key);
    assert_eq!(key.to_string(), Digest::of(b"abc").to_string());
    assert!("abc".parse::<Key>().is_err());
}

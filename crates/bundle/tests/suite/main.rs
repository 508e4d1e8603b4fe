//! The tests of bundles.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "a golden file is written on request"))]

#[cfg(test)]
mod damage;
#[cfg(test)]
mod forged;
#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod signatures;

use std::io::Cursor;
use std::time::{Duration, SystemTime};

use opkeep_bundle::{BundleError, BundleReader, BundleWriter, Signer};
use opkeep_digest::Digest;
use opkeep_store::{Entry, EntryBuilder};

/// A small entry under the digest of `name`.
fn entry(name: &str) -> Entry {
    let object = [b"\x7fELF ", name.as_bytes()].concat();
    let builder = EntryBuilder::new(2).cost(Duration::from_micros(7)).eager("json", b"{}");
    decoded(name, &builder.eager("object", &object).lazy("header", b"for people"))
}

fn decoded(name: &str, builder: &EntryBuilder<'_>) -> Entry {
    let key = Digest::of(name.as_bytes());
    Entry::decode(builder.encode(&key).unwrap(), Some(&key)).unwrap()
}

/// Entries with their targets, in the order of a bundle.
fn sorted(mut entries: Vec<(&str, Entry)>) -> Vec<(&str, Entry)> {
    entries.sort_by_key(|(target, entry)| (*target, *entry.key()));
    entries
}

/// A few entries of two targets.
fn sample() -> Vec<(&'static str, Entry)> {
    sorted(["a", "b", "c", "d", "e"].map(|name| (if name < "d" { "cpu" } else { "npu" }, entry(name))).into())
}

/// The bundle of these entries.
fn bundle(entries: &[(&str, Entry)], plan: Option<Digest>, signer: Option<Signer>) -> Vec<u8> {
    let mut writer = BundleWriter::new(Vec::new(), plan, signer).unwrap();
    entries.iter().for_each(|(target, entry)| writer.add(target, entry).unwrap());
    writer.finish().unwrap().out
}

/// All entries of a bundle.
fn read(bundle: &[u8]) -> Result<Vec<(String, Entry)>, BundleError> {
    let mut reader = BundleReader::open(Cursor::new(bundle))?;
    let mut entries = Vec::new();
    for number in 0..reader.index().block_count() {
        let block = reader.read_block(number)?.decompress()?;
        for (place, indexed) in block.entries().enumerate() {
            entries.push((indexed.target.to_owned(), block.entry(place)?));
        }
    }
    Ok(entries)
}

/// A key, a compile time, and members, each with whether it is eager.
type Content = (Digest, Duration, Vec<(String, Vec<u8>, bool)>);

/// What is the same of an entry in a store and in a bundle.
fn content(entry: &Entry) -> Content {
    let mut members: Vec<_> =
        entry.members().map(|(name, bytes, eager)| (name.to_owned(), bytes.to_vec(), eager)).collect();
    members.sort();
    (*entry.key(), entry.cost(), members)
}

const EPOCH: SystemTime = SystemTime::UNIX_EPOCH;

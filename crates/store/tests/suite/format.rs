//! The format of an entry, byte for byte, built by hand from the crate's documentation. A change of this
//! file is one for all existing stores: then entries get another format number.

#![expect(clippy::disallowed_methods, reason = "these tests look at files, and write some by hand")]

use std::fs;
use std::time::{Duration, SystemTime};

use crate::common::{fresh, hit, key, miss, place};
use opkeep_digest::Digest;
use opkeep_store::{Corruption, EntryBuilder, Miss};

const OBJECT: &[u8] = b"\x7fELF and so on";
const INFO: &[u8] = b"{\"job\": 1}";
/// The checksum of [`INFO`], computed once: it must stay what it was.
const SUM_OF_INFO: u64 = 0x36ab_fef2_a790_374c;

/// An entry with the format number `format`.
fn entry(format: u32) -> Vec<u8> {
    let mut prefix = b"OPKKERN\0".to_vec();
    prefix.extend(format.to_le_bytes());
    prefix.extend(214u32.to_le_bytes());
    prefix.extend(key("relu").as_bytes());
    prefix.extend((214 + OBJECT.len() as u64 + INFO.len() as u64).to_le_bytes());
    prefix.extend(1_700_000_000_123_456_789u64.to_le_bytes());
    prefix.extend(1_234_567u64.to_le_bytes());
    prefix.extend(7u32.to_le_bytes());
    prefix.extend(2u32.to_le_bytes());
    prefix.extend(SUM_OF_INFO.to_le_bytes());
    for (flags, name, bytes) in [(1u8, "object", OBJECT), (0, "info", INFO)] {
        prefix.extend([flags, name.len() as u8]);
        prefix.extend((bytes.len() as u64).to_le_bytes());
        prefix.extend(Digest::of(bytes).as_bytes());
        prefix.extend(name.as_bytes());
    }
    prefix.extend(Digest::of(&prefix).as_bytes());
    [&prefix, OBJECT, INFO].concat()
}

#[test]
fn an_entry_has_the_documented_layout() {
    let (_dir, store) = fresh();
    let created = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789);
    let builder = EntryBuilder::new(7).created(created).cost(Duration::from_micros(1_234_567));
    // What a hit needs stands first, whatever came first.
    store.put(&key("relu"), &builder.lazy("info", INFO).eager("object", OBJECT)).unwrap();
    let name = key("relu").to_string();
    assert!(store.path(&key("relu")).ends_with(format!("entries/{}/{name}.kern", &name[..2])));
    assert_eq!(fs::read(store.path(&key("relu"))).unwrap(), entry(2));

    // And every version that reads that format reads it again.
    fs::write(store.path(&key("relu")), entry(2)).unwrap();
    let found = hit(&store, &key("relu"));
    assert_eq!(found.member("object"), Some(OBJECT));
    assert_eq!(found.lazy_member("info").unwrap(), Some(INFO));
    assert_eq!(
        (found.created(), found.cost(), found.validation()),
        (created, Duration::from_micros(1_234_567), 7)
    );
}

/// It is not read, even if it is consistent.
#[test]
fn an_entry_of_another_format_is_a_miss_with_the_reason() {
    let (_dir, store) = fresh();
    for format in [0, 1, 3, u32::MAX] {
        fs::write(place(&store, &key("relu")), entry(format)).unwrap();
        let Miss::Damaged(judged) = miss(&store, &key("relu")) else { panic!("format {format} was read") };
        assert_eq!(judged.corruption, Corruption::Format { expected: 2, found: format });
    }
}

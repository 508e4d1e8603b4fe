//! What is written is read again, and the same entries give the same bytes.

use std::io::Cursor;
use std::time::Duration;

use opkeep_bundle::{BUNDLE_FORMAT, BundleError, BundleReader, BundleWriter, MAX_BLOCK_BYTES};
use opkeep_digest::Digest;
use opkeep_store::{Entry, EntryBuilder};
use proptest::prelude::*;

use crate::{EPOCH, bundle, content, decoded, entry, read, sample, sorted};

#[test]
fn all_entries_come_back() {
    let (entries, plan) = (sample(), Digest::of(b"plan"));
    for plan in [None, Some(plan)] {
        let file = bundle(&entries, plan, None);
        let found = read(&file).unwrap();
        assert_eq!(found.len(), entries.len());
        for ((target, entry), (found_target, found)) in entries.iter().zip(&found) {
            assert_eq!((*target, content(entry)), (found_target.as_str(), content(found)));
            assert_eq!((found.validation(), found.created()), (0, EPOCH));
        }
        let reader = BundleReader::open(Cursor::new(&file)).unwrap();
        let index = reader.index();
        assert_eq!((index.plan(), index.target(), reader.bytes()), (plan.as_ref(), "", file.len() as u64));
        assert_eq!(index.targets().collect::<Vec<_>>(), ["cpu", "npu"]);
        for (target, entry) in &entries {
            assert_eq!(index.find(target, entry.key()).map(|found| found.key), Some(entry.key()));
            assert_eq!(index.find("gpu", entry.key()), None);
        }
        assert_eq!(index.find("cpu", &Digest::of(b"other")), None);
    }
    let one = sorted(vec![("cpu", entry("a"))]);
    assert_eq!(BundleReader::open(Cursor::new(bundle(&one, None, None))).unwrap().index().target(), "cpu");
    assert_eq!(read(&bundle(&[], None, None)).unwrap().len(), 0);
}

/// A bundle that an earlier version wrote. If it cannot be read any more, raise the format. A new libzstd may write other bytes:
/// then only the last comparison fails, and OPKEEP_UPDATE_GOLDEN=1 writes the file again.
#[test]
fn the_format_is_unchanged() {
    let written = bundle(&sample(), Some(Digest::of(b"plan")), None);
    if std::env::var_os("OPKEEP_UPDATE_GOLDEN").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/format-1.bundle"), &written)
            .unwrap();
    }
    let golden = include_bytes!("../golden/format-1.bundle");
    assert_eq!(BUNDLE_FORMAT, 1);
    let found = read(golden).unwrap();
    for ((target, entry), (found_target, found)) in sample().iter().zip(&found) {
        assert_eq!((*target, content(entry)), (found_target.as_str(), content(found)));
    }
    assert_eq!(found.len(), sample().len());
    assert!(written == golden, "it is written with other bytes");
}

/// Hosts have an entry with other times, stamps and orders of members.
#[test]
fn what_differs_between_hosts_is_not_in_a_bundle() {
    let members = |builder: EntryBuilder<'static>| builder.eager("json", b"{}").eager("object", b"\x7fELF");
    let one = decoded("k", &members(EntryBuilder::new(2)).lazy("header", b"h").lazy("expectations", b"e"));
    let builder = EntryBuilder::new(0).created(EPOCH + Duration::from_secs(9)).lazy("expectations", b"e");
    let two = decoded("k", &builder.lazy("header", b"h").eager("object", b"\x7fELF").eager("json", b"{}"));
    assert_eq!(bundle(&[("cpu", one)], None, None), bundle(&[("cpu", two.clone())], None, None));
    // What an entry holds is in it.
    let other = two.to_builder().cost(Duration::from_secs(1));
    assert_ne!(bundle(&[("cpu", decoded("k", &other))], None, None), bundle(&[("cpu", two)], None, None));
}

#[test]
fn entries_are_added_in_order() {
    let entries = sample();
    let [first, second] = [&entries[0].1, &entries[1].1];
    let mut writer = BundleWriter::new(Vec::new(), None, None).unwrap();
    writer.add("cpu", second).unwrap();
    for (target, entry) in [("cpu", second), ("cpu", first), ("a", second)] {
        let refused = writer.add(target, entry);
        assert!(matches!(refused, Err(BundleError::Order { .. })), "{target} {refused:?}");
    }
    let refused = writer.add("no target", second);
    assert!(matches!(refused, Err(BundleError::TargetName { .. })), "{refused:?}");
    writer.add("npu", first).unwrap();
    assert_eq!(read(&writer.finish().unwrap().out).unwrap().len(), 2);
}

#[test]
fn a_damaged_lazy_member_is_not_exported() {
    let good = entry("a");
    let mut file = good.to_builder().encode(good.key()).unwrap();
    // Both the member and the checksum of the rest, whose digest is not that of the prefix.
    let at = file.windows(10).position(|bytes| bytes == b"for people").unwrap();
    file[at] ^= 1;
    assert!(Entry::decode(file, None).is_err(), "the checksum finds it first");
    let repeated = decoded("a", &good.to_builder().lazy("header", b"twice"));
    let refused = BundleWriter::new(Vec::new(), None, None).unwrap().add("cpu", &repeated);
    assert!(matches!(refused, Err(BundleError::Entry { .. })), "{refused:?}");
}

/// An object of `length` bytes that no compression makes much smaller.
fn noise(seed: &str, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 32);
    let mut next = Digest::of(seed.as_bytes());
    while bytes.len() < length {
        bytes.extend(next.as_bytes());
        next = Digest::of(next.as_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[test]
fn blocks_are_bounded() {
    let sizes = [3 << 20, 3 << 20, 3 << 20, 20 << 20, 1 << 10, 7 << 20, 1 << 20];
    let objects: Vec<_> = sizes.iter().map(|size| noise(&size.to_string(), *size)).collect();
    let named = objects.iter().zip('a'..);
    let entries = named.map(|(object, name)| {
        ("cpu", decoded(&name.to_string(), &EntryBuilder::new(1).eager("object", object)))
    });
    let entries = sorted(entries.collect());
    let file = bundle(&entries, None, None);
    let found = read(&file).unwrap();
    assert!(found.iter().zip(&entries).all(|((_, found), (_, entry))| content(found) == content(entry)));
    let reader = BundleReader::open(Cursor::new(file)).unwrap();
    let index = reader.index();
    for (number, block) in index.blocks().enumerate() {
        let entries = index.entries().filter(|entry| entry.block == number).count();
        assert!(block.bytes <= MAX_BLOCK_BYTES || entries == 1, "{block:?}");
    }
}

/// Similar kernels far apart: the window spans the block.
#[test]
fn similar_entries_are_compressed_together() {
    let object = noise("kernel", 64 << 10);
    let names: Vec<_> = (0..100).map(|number| format!("kernel-{number}")).collect();
    let entries = names.iter().map(|name| {
        let object = [&object[..], name.as_bytes()].concat();
        ("cpu", decoded(name, &EntryBuilder::new(1).eager("object", &object)))
    });
    let entries = sorted(entries.collect());
    let file = bundle(&entries, None, None);
    assert!(file.len() < 2 * object.len(), "{}", file.len());
}

#[test]
fn other_programs_take_it_for_a_zstd_file() {
    let entries = sample();
    let file = bundle(&entries, None, None);
    let mut decoder = zstd::stream::read::Decoder::new(Cursor::new(&file)).unwrap();
    let mut content = Vec::new();
    std::io::Read::read_to_end(&mut decoder, &mut content).unwrap();
    let reader = BundleReader::open(Cursor::new(&file)).unwrap();
    assert_eq!(content.len() as u64, reader.index().entries().map(|entry| entry.bytes).sum::<u64>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever the entries are, they come back, and again give the same bytes.
    #[test]
    fn bundles_round_trip(
        names in prop::collection::btree_set("[a-z]{1,8}", 0..20),
        members in prop::collection::btree_map("[a-z]{1,6}", prop::collection::vec(any::<u8>(), 0..200), 1..5),
        stamp in 0..4_u32,
    ) {
        let entries = names.iter().map(|name| {
            let builder = members.iter().fold(EntryBuilder::new(stamp), |builder, (member, bytes)| {
                if member.len() % 2 == 0 { builder.eager(member, bytes) } else { builder.lazy(member, bytes) }
            });
            (if name.len() % 2 == 0 { "cpu" } else { "npu" }, decoded(name, &builder))
        });
        let entries = sorted(entries.collect());
        let file = bundle(&entries, None, None);
        let found = read(&file).unwrap();
        prop_assert!(found.iter().zip(&entries).all(|((_, found), (_, entry))| content(found) == content(entry)));
        let again: Vec<_> = found.iter().map(|(target, entry)| (target.as_str(), entry.clone())).collect();
        prop_assert_eq!(bundle(&again, None, None), file);
    }

    #[test]
    fn any_bytes_are_an_error_or_a_bundle(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        opkeep_bundle::fuzz(&bytes);
    }
}

//! The memory that bundles take. The trials run one after the other, since the allocator counts that of all threads.
#![expect(clippy::unwrap_used, reason = "these tests are functions without `#[test]`")]

use std::io::{BufWriter, Cursor, Seek, SeekFrom, Write};

use libtest_mimic::{Arguments, Trial};
use opkeep_bundle::{BundleReader, BundleWriter, MAX_BLOCK_BYTES};
use opkeep_digest::Digest;
use opkeep_store::{Entry, EntryBuilder};
use opkeep_testkit::{Counting, most_bytes};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let tests: [(&str, fn()); 3] = [
        ("a_large_bundle_is_written_and_read_block_by_block", large),
        ("a_bomb_takes_no_more_than_it_states", bomb),
        ("counts_and_lengths_allocate_nothing", counts),
    ];
    let trial = |(name, test): (&str, fn())| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit();
}

const ENTRY_BYTES: usize = 1 << 20;
const ENTRIES: usize = 64;
/// Blocks of several kinds at once, and the index.
const ALLOWANCE: usize = 4 * MAX_BLOCK_BYTES as usize;

/// Entries that are made one by one, in the order of their keys.
fn entries() -> impl Iterator<Item = Entry> {
    let mut keys: Vec<_> = (0..ENTRIES as u64).map(|number| Digest::of(&number.to_le_bytes())).collect();
    keys.sort();
    keys.into_iter().map(|key| {
        let mut object: Vec<u8> = key.as_bytes().repeat(ENTRY_BYTES / 32);
        // Incompressible, so that the compressed blocks are as large as they can be.
        for (place, chunk) in object.chunks_exact_mut(32).enumerate() {
            chunk
                .copy_from_slice(Digest::of(&[key.as_bytes(), &place.to_le_bytes()[..]].concat()).as_bytes());
        }
        let file = EntryBuilder::new(1).eager("object", &object).encode(&key).unwrap();
        Entry::decode(file, Some(&key)).unwrap()
    })
}

fn large() {
    let mut file = tempfile::tempfile().unwrap();
    let (bytes, most) = most_bytes(|| {
        let mut writer = BundleWriter::new(BufWriter::new(&mut file), None, None).unwrap();
        entries().for_each(|entry| writer.add("cpu", &entry).unwrap());
        writer.finish().unwrap().bytes
    });
    assert!(bytes as usize > ENTRIES * ENTRY_BYTES, "{bytes}");
    assert!(most < ALLOWANCE, "writing {bytes} bytes took {most}");
    file.seek(SeekFrom::Start(0)).unwrap();
    let (count, most) = most_bytes(|| {
        let mut reader = BundleReader::open(&mut file).unwrap();
        let blocks = reader.index().block_count();
        let mut count = 0;
        for number in 0..blocks {
            let block = reader.read_block(number).unwrap().decompress().unwrap();
            for place in 0..block.entries().len() {
                block.entry(place).unwrap();
                count += 1;
            }
        }
        count
    });
    assert_eq!(count, ENTRIES);
    assert!(most < ALLOWANCE, "reading {bytes} bytes took {most}");
}

/// A bundle of one entry.
fn small() -> Vec<u8> {
    let key = Digest::of(b"key");
    let file = EntryBuilder::new(1).eager("object", b"\x7fELF").encode(&key).unwrap();
    let entry = Entry::decode(file, Some(&key)).unwrap();
    let mut writer = BundleWriter::new(Vec::new(), None, None).unwrap();
    writer.add("cpu", &entry).unwrap();
    writer.finish().unwrap().out
}

/// The same with another index and block, and all digests right.
fn forged(block: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let small = small();
    let footer = &small[small.len() - 84..];
    let index_bytes = u64::from_le_bytes(footer[4..12].try_into().unwrap()) as usize;
    let index_at = small.len() - 92 - index_bytes;
    let mut index = small[index_at..index_at + index_bytes].to_vec();
    let row = index.len() - 76;
    index[row - 48..row - 40].copy_from_slice(&(block.len() as u64).to_le_bytes());
    index[row - 40..row - 8].copy_from_slice(Digest::of(block).as_bytes());
    change(&mut index);
    let mut end = 0_u32.to_le_bytes().to_vec();
    end.extend((index.len() as u64).to_le_bytes());
    end.extend(Digest::of(&index).as_bytes());
    let mut file = small[..20].to_vec();
    file.extend(block);
    file.extend(0x184D_2A5C_u32.to_le_bytes());
    file.extend((index.len() as u32).to_le_bytes());
    file.extend(&index);
    file.extend(&small[small.len() - 92..small.len() - 84]);
    file.extend(&end);
    file.extend(Digest::of(&end).as_bytes());
    file.write_all(b"OPKBEND\0").unwrap();
    file
}

fn bomb() {
    let block = zstd::bulk::compress(&vec![0; 512 << 20], 3).unwrap();
    let file = forged(&block, |index| {
        let row = index.len() - 76;
        index[row + 36..row + 44].copy_from_slice(&(1_u64 << 20).to_le_bytes());
    });
    let (error, most) = most_bytes(|| {
        let mut reader = BundleReader::open(Cursor::new(&file)).unwrap();
        reader.read_block(0).unwrap().decompress().map(drop).unwrap_err()
    });
    assert!(error.to_string().contains("decompressed"), "{error}");
    assert!(most < 4 << 20, "{} bytes took {most}", file.len());
}

fn counts() {
    let block = zstd::bulk::compress(b"content", 3).unwrap();
    for back in [76 + 4, 76 + 8, 76 + 4 + 44 + 4] {
        let file = forged(&block, |index| {
            let at = index.len() - back;
            index[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        });
        let (error, most) = most_bytes(|| BundleReader::open(Cursor::new(&file)).map(drop).unwrap_err());
        assert!(error.to_string().contains("index of the bundle is not valid"), "{error}");
        assert!(most < 64 << 10, "it took {most}");
    }
}

//! Files that others made on purpose: every digest is right, and the content is not what a bundle may have.

use std::io::Cursor;

use opkeep_bundle::{BundleError, BundleReader, EntryProblem};
use opkeep_digest::Digest;
use opkeep_store::EntryBuilder;

use crate::{bundle, read, sample};

const FOOTER: usize = 84;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The parts of a bundle.
struct Parts {
    head: Vec<u8>,
    blocks: Vec<u8>,
    index: Vec<u8>,
    signatures: Vec<u8>,
}

impl Parts {
    fn of(file: &[u8]) -> Self {
        let footer = &file[file.len() - FOOTER..];
        let (lines, index) = (u32_at(footer, 0) as usize, u32_at(footer, 4) as usize);
        let trailer = file.len() - FOOTER - lines;
        let index_at = trailer - 8 - index;
        Self {
            head: file[..20].to_vec(),
            blocks: file[20..index_at - 8].to_vec(),
            index: file[index_at..index_at + index].to_vec(),
            signatures: file[trailer..trailer + lines].to_vec(),
        }
    }

    /// The bundle, with all lengths and digests right.
    fn file(&self) -> Vec<u8> {
        let Self { head, blocks, index, signatures } = self;
        let mut end = signatures.clone();
        end.extend((signatures.len() as u32).to_le_bytes());
        end.extend((index.len() as u64).to_le_bytes());
        end.extend(Digest::of(index).as_bytes());
        let digest = Digest::of(&end);
        let frame = |kind: u8, length: usize| {
            [&[kind, 0x2a, 0x4d, 0x18][..], &(length as u32).to_le_bytes()].concat()
        };
        let index_head = frame(0x5c, index.len());
        let end_head = frame(0x5d, end.len() + 40);
        [head, blocks, &index_head, index, &end_head, &end, &digest.as_bytes()[..], b"OPKBEND\0"].concat()
    }
}

/// The places in the index of `sample`, which has one block and the targets `cpu` and `npu`.
const PLAN: usize = 12;
const TARGETS: usize = PLAN + 33;
const BLOCKS: usize = TARGETS + 4 + 8;
const BLOCK: usize = BLOCKS + 4;
const ENTRIES: usize = BLOCK + 44;
const ENTRY: usize = ENTRIES + 4;
const ROW: usize = 76;

fn refused(change: impl FnOnce(&mut Parts)) -> BundleError {
    let mut parts = Parts::of(&bundle(&sample(), None, None));
    change(&mut parts);
    read(&parts.file()).expect_err("it is forged")
}

/// The problem of the index after a change of it.
fn problem(change: impl FnOnce(&mut Vec<u8>)) -> String {
    let error = refused(|parts| change(&mut parts.index));
    assert!(matches!(error, BundleError::Index { .. }), "{error:?}");
    error.to_string()
}

fn set(index: &mut [u8], at: usize, bytes: &[u8]) {
    index[at..at + bytes.len()].copy_from_slice(bytes);
}

#[test]
fn the_parts_are_put_together_as_the_writer_does() {
    let file = bundle(&sample(), None, None);
    assert_eq!(Parts::of(&file).file(), file);
    let index = Parts::of(&file).index;
    assert_eq!(u32_at(&index, BLOCKS), 1);
    assert_eq!(u32_at(&index, ENTRIES), 5);
    assert_eq!(index.len(), ENTRY + 5 * ROW);
}

/// Counts of four billion are refused before memory is allocated for them.
#[test]
fn counts_are_bounded_by_the_bytes() {
    for at in [TARGETS, BLOCKS, ENTRIES] {
        for count in [u32::MAX, 1 << 31, 1 << 20, 6] {
            let text = problem(|index| set(index, at, &count.to_le_bytes()));
            assert!(!text.is_empty());
        }
        problem(|index| set(index, at, &[0; 4]));
    }
    for count in [u32::MAX, 6, 4, 0] {
        let text = problem(|index| set(index, BLOCK + 40, &count.to_le_bytes()));
        assert!(text.contains("number of entries") || text.contains("empty"), "{text}");
    }
}

#[test]
fn no_name_is_there_twice() {
    let text = problem(|index| {
        let row = index[ENTRY..ENTRY + ROW].to_vec();
        set(index, ENTRY + ROW, &row);
    });
    assert!(text.contains("does not follow"), "{text}");
    let text = problem(|index| {
        // Two rows change places.
        let (first, second) =
            (index[ENTRY..ENTRY + ROW].to_vec(), index[ENTRY + ROW..ENTRY + 2 * ROW].to_vec());
        set(index, ENTRY, &second);
        set(index, ENTRY + ROW, &first);
    });
    assert!(text.contains("does not follow"), "{text}");
    let text = problem(|index| set(index, TARGETS + 4, b"\x03npu"));
    assert!(text.contains("a target does not follow"), "{text}");
    for target in [2_u32, 1, u32::MAX] {
        let text = problem(|index| set(index, ENTRY, &target.to_le_bytes()));
        assert!(text.contains("does not follow"), "{text}");
    }
    // A target without an entry.
    let text = problem(|index| {
        for row in 0..5 {
            set(index, ENTRY + row * ROW, &[0; 4]);
        }
        let mut keys: Vec<_> =
            (0..5).map(|row| index[ENTRY + row * ROW + 4..ENTRY + row * ROW + 36].to_vec()).collect();
        keys.sort();
        for (row, key) in keys.iter().enumerate() {
            set(index, ENTRY + row * ROW + 4, key);
        }
    });
    assert!(text.contains("a target has no entry"), "{text}");
}

#[test]
fn names_of_targets_lead_out_of_no_directory() {
    for name in [b"../", b"a/b", b"\xff\xfe\xfd", b"\0\0\0", b"a b"] {
        let text = problem(|index| set(index, TARGETS + 5, name));
        assert!(text.contains("the name of a target"), "{text}");
    }
}

/// Lengths that add up to another place, and so far that they wrap around.
#[test]
fn blocks_do_not_overlap_or_leave_the_file() {
    for length in [u64::MAX, u64::MAX - 19, 1 << 40] {
        let text = problem(|index| set(index, BLOCK, &length.to_le_bytes()));
        assert!(text.contains("ends nowhere") || text.contains("larger than its entries"), "{text}");
    }
    let bytes = Parts::of(&bundle(&sample(), None, None)).blocks.len() as u64;
    for length in [bytes - 1, bytes + 1] {
        let error = refused(|parts| set(&mut parts.index, BLOCK, &length.to_le_bytes()));
        assert!(matches!(error, BundleError::Length { .. }), "{error:?}");
    }
    problem(|index| set(index, BLOCK, &[0; 8]));
}

#[test]
fn sizes_of_entries_are_bounded() {
    let size = ENTRY + 36;
    for bytes in [0, (1 << 30) + 1, u64::MAX] {
        let text = problem(|index| set(index, size, &bytes.to_le_bytes()));
        assert!(text.contains("larger than an entry may be"), "{text}");
    }
    // A block of several entries is bounded.
    let text = problem(|index| set(index, size, &(9_u64 << 20).to_le_bytes()));
    assert!(text.contains("larger than such a block"), "{text}");
    let error = refused(|parts| set(&mut parts.index, size, &(1_u64 << 20).to_le_bytes()));
    assert!(matches!(error, BundleError::Length { .. }), "{error:?}");
    // A few bytes cannot hold a GiB.
    let text = {
        let mut parts = Parts::of(&bundle(&sample()[..1], None, None));
        let size = parts.index.len() - ROW + 36;
        set(&mut parts.index, size, &(1_u64 << 30).to_le_bytes());
        read(&parts.file()).unwrap_err().to_string()
    };
    assert!(text.contains("too small for its entries"), "{text}");
}

/// The bundle of one entry whose block is `content`, compressed with zstd.
fn with_block(content: &[u8], stated: u64, digest: &Digest) -> Vec<u8> {
    let mut parts = Parts::of(&bundle(&sample()[..1], None, None));
    parts.blocks = zstd::bulk::compress(content, 3).unwrap();
    let row = parts.index.len() - ROW;
    let block = row - 4 - 44;
    let (length, compressed) = (parts.blocks.len() as u64, Digest::of(&parts.blocks));
    set(&mut parts.index, block, &length.to_le_bytes());
    set(&mut parts.index, block + 8, compressed.as_bytes());
    set(&mut parts.index, row + 36, &stated.to_le_bytes());
    set(&mut parts.index, row + 44, digest.as_bytes());
    parts.file()
}

/// A few bytes that would be expanded to far more than the index states.
#[test]
fn a_bomb_is_not_expanded() {
    let bomb = vec![0; 100 << 20];
    let file = with_block(&bomb, 5000, &Digest::of(b""));
    assert!(file.len() < 20_000, "{}", file.len());
    let error = read(&file).unwrap_err();
    assert!(matches!(error, BundleError::Compression { .. }), "{error:?}");
    // Less than the index states.
    let error = read(&with_block(&bomb[..10], 5000, &Digest::of(b""))).unwrap_err();
    assert!(matches!(error, BundleError::Length { .. }), "{error:?}");
}

#[test]
fn a_block_that_is_no_zstd_is_an_error() {
    let error = refused(|parts| {
        parts.blocks.fill(7);
        let digest = Digest::of(&parts.blocks);
        set(&mut parts.index, BLOCK + 8, digest.as_bytes());
    });
    assert!(matches!(error, BundleError::Compression { .. }), "{error:?}");
}

#[test]
fn entries_are_those_of_the_index() {
    let (_, entry) = &sample()[0];
    let problem =
        |content: &[u8], digest: &Digest| match read(&with_block(content, content.len() as u64, digest)) {
            Err(BundleError::Entry { problem, .. }) => *problem,
            other => unreachable!("{other:?}"),
        };
    let file = entry.to_builder().with_validation(0).encode(entry.key()).unwrap();
    assert!(matches!(problem(&file, &Digest::of(b"other")), EntryProblem::Digest { .. }));
    // No entry, and the entry of another key.
    let other = entry.to_builder().with_validation(0).encode(&Digest::of(b"other")).unwrap();
    for bytes in [&b"no entry"[..], &other, &file[..file.len() - 1]] {
        assert!(matches!(problem(bytes, &Digest::of(bytes)), EntryProblem::Corruption(_)));
    }
    // A stamp that would spare it the validation.
    let stamped = entry.to_builder().with_validation(9).encode(entry.key()).unwrap();
    assert_eq!(problem(&stamped, &Digest::of(&stamped)), EntryProblem::Stamp { stamp: 9 });
    // A lazy member without its digest, under a checksum that was computed anew.
    let good = EntryBuilder::new(0).lazy("header", b"for people").encode(entry.key()).unwrap();
    let wrong = EntryBuilder::new(0).lazy("header", b"for robots").encode(entry.key()).unwrap();
    let mut mixed = wrong.clone();
    // The digest of the member, and then that of the prefix.
    let digest = Digest::of(b"for people");
    let at = good.windows(32).position(|bytes| bytes == digest.as_bytes()).unwrap();
    mixed[at..at + 32].copy_from_slice(digest.as_bytes());
    let prefix = u32_at(&mixed, 12) as usize;
    let head = Digest::of(&mixed[..prefix - 32]);
    mixed[prefix - 32..prefix].copy_from_slice(head.as_bytes());
    assert!(matches!(problem(&mixed, &Digest::of(&mixed)), EntryProblem::Corruption(_)));
}

#[test]
fn the_index_has_one_encoding() {
    problem(|index| index[0] ^= 1);
    problem(|index| index.push(0));
    problem(|index| index.truncate(index.len() - 1));
    problem(|index| index[PLAN] = 2);
    problem(|index| index[PLAN + 1] = 1);
    let error = refused(|parts| set(&mut parts.index, 8, &2_u32.to_le_bytes()));
    assert!(matches!(error, BundleError::Format { found: 2, .. }), "{error:?}");
}

#[test]
fn the_end_states_no_more_than_there_is() {
    let file = bundle(&sample(), None, None);
    let footer = file.len() - FOOTER;
    for (at, bytes) in [
        (footer, &u32::MAX.to_le_bytes()[..]),
        (footer + 4, &u64::MAX.to_le_bytes()),
        (footer + 4, &(255_u64 << 20).to_le_bytes()),
    ] {
        let mut bad = file.clone();
        set(&mut bad, at, bytes);
        let error = BundleReader::open(Cursor::new(&bad)).err().unwrap();
        assert!(matches!(error, BundleError::TooLarge { .. } | BundleError::Incomplete { .. }), "{error:?}");
    }
    let error = refused(|parts| parts.signatures = vec![b'\n'; 17 << 10]);
    assert!(matches!(error, BundleError::TooLarge { .. }), "{error:?}");
    let error = refused(|parts| parts.signatures = b"x\n".repeat(65));
    assert!(matches!(error, BundleError::Signatures(_)), "{error:?}");
}

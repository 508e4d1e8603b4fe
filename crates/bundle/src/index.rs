//! The index of a bundle: its entries, the blocks that they are in, and the encoding of both.

use std::ops::Range;

use opkeep_digest::Digest;
use opkeep_store::{MAX_ENTRY_BYTES, is_target_name};

use crate::cursor::Cursor;
use crate::error::BundleError;
use crate::format::{BUNDLE_FORMAT, MAX_BLOCK_BYTES};
use crate::frame;

const MAGIC: &[u8; 8] = b"OPKBIDX\0";
/// The maximum number of bytes of an encoded index: of three million entries.
pub(crate) const MAX_INDEX_BYTES: u64 = 256 << 20;
const BLOCK_ROW: usize = 8 + 32 + 4;
const ENTRY_ROW: usize = 4 + 32 + 8 + 32;
/// The number of bytes by which zstd multiplies at most: a block of 128 KiB of one byte takes 4 bytes.
const MAX_RATIO: u64 = 32 << 10;

/// The index of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    pub(crate) plan: Option<Digest>,
    pub(crate) targets: Vec<String>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) rows: Vec<Row>,
}

/// A block: the entries that are compressed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The place of its compressed bytes in the file.
    pub(crate) file: Range<u64>,
    /// The digest of its compressed bytes.
    pub(crate) digest: Digest,
    /// The number of bytes of its entries.
    pub(crate) bytes: u64,
    /// The rows of its entries.
    pub(crate) rows: Range<usize>,
}

/// An entry. The place of its bytes follows from those before it, so no two entries can overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) target: u32,
    pub(crate) key: Digest,
    pub(crate) bytes: u64,
    pub(crate) digest: Digest,
    pub(crate) block: u32,
    /// The place of its first byte in its block.
    pub(crate) at: u64,
}

/// What the index states of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexedEntry<'a> {
    /// The target.
    pub target: &'a str,
    /// The key.
    pub key: &'a Digest,
    /// The number of bytes.
    pub bytes: u64,
    /// The SHA-256 of the bytes.
    pub digest: &'a Digest,
    /// The number of the block with the entry, from 0.
    pub block: usize,
    /// The place of its first byte in the decompressed block.
    pub offset: u64,
}

/// What the index states of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexedBlock {
    /// The place of its first byte in the file.
    pub offset: u64,
    /// The number of its bytes in the file.
    pub compressed_bytes: u64,
    /// The number of bytes of its entries.
    pub bytes: u64,
}

impl Index {
    /// Returns the digest of the plan whose entries the bundle has. `None`: it is for no plan.
    pub fn plan(&self) -> Option<&Digest> {
        self.plan.as_ref()
    }

    /// Returns the names of the targets, in order.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        self.targets.iter().map(String::as_str)
    }

    /// Returns the target of all entries; empty if they are of several, or if there are none.
    pub fn target(&self) -> &str {
        match self.targets.as_slice() {
            [target] => target,
            _ => "",
        }
    }

    /// Returns the entries, by target and key.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = IndexedEntry<'_>> {
        self.rows.iter().map(|row| self.entry(row))
    }

    /// Returns the entries of a block, in order.
    ///
    /// # Panics
    /// There is no block of that number.
    pub fn block_entries(&self, number: usize) -> impl ExactSizeIterator<Item = IndexedEntry<'_>> {
        self.rows[self.blocks[number].rows.clone()].iter().map(|row| self.entry(row))
    }

    /// Returns the number of blocks.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the blocks, in file order.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = IndexedBlock> {
        self.blocks.iter().map(|block| IndexedBlock {
            offset: block.file.start,
            compressed_bytes: block.file.end - block.file.start,
            bytes: block.bytes,
        })
    }

    /// Returns the entry of `target` under `key`.
    pub fn find(&self, target: &str, key: &Digest) -> Option<IndexedEntry<'_>> {
        let target = self.targets.binary_search_by(|name| name.as_str().cmp(target)).ok()? as u32;
        let found = self.rows.binary_search_by(|row| (row.target, &row.key).cmp(&(target, key))).ok()?;
        Some(self.entry(&self.rows[found]))
    }

    pub(crate) fn entry<'a>(&'a self, row: &'a Row) -> IndexedEntry<'a> {
        IndexedEntry {
            target: &self.targets[row.target as usize],
            key: &row.key,
            bytes: row.bytes,
            digest: &row.digest,
            block: row.block as usize,
            offset: row.at,
        }
    }

    pub(crate) fn encoded_bytes(&self) -> u64 {
        let names: usize = self.targets.iter().map(|name| 1 + name.len()).sum();
        let rows = BLOCK_ROW * self.blocks.len() + ENTRY_ROW * self.rows.len();
        (MAGIC.len() + 4 + 1 + Digest::LEN + 3 * 4 + names + rows) as u64
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_bytes() as usize);
        bytes.extend(MAGIC);
        bytes.extend(BUNDLE_FORMAT.to_le_bytes());
        bytes.push(self.plan.is_some().into());
        bytes.extend(self.plan.map_or([0; Digest::LEN], |plan| *plan.as_bytes()));
        bytes.extend((self.targets.len() as u32).to_le_bytes());
        for name in &self.targets {
            bytes.push(name.len() as u8);
            bytes.extend(name.as_bytes());
        }
        bytes.extend((self.blocks.len() as u32).to_le_bytes());
        for Block { file, digest, bytes: _, rows } in &self.blocks {
            bytes.extend((file.end - file.start).to_le_bytes());
            bytes.extend(digest.as_bytes());
            bytes.extend((rows.len() as u32).to_le_bytes());
        }
        bytes.extend((self.rows.len() as u32).to_le_bytes());
        for Row { target, key, bytes: size, digest, block: _, at: _ } in &self.rows {
            bytes.extend(target.to_le_bytes());
            bytes.extend(key.as_bytes());
            bytes.extend(size.to_le_bytes());
            bytes.extend(digest.as_bytes());
        }
        bytes
    }

    /// Decodes and checks an index. There is one encoding of each index, so the bytes of a bundle follow from its entries.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BundleError> {
        let mut cursor = Cursor::new(bytes);
        if cursor.slice(MAGIC.len())? != MAGIC {
            return Err(cursor.invalid("it does not begin as an index"));
        }
        let format = cursor.u32()?;
        if format != BUNDLE_FORMAT {
            return Err(BundleError::Format { expected: BUNDLE_FORMAT, found: format });
        }
        let plan = match (cursor.u8()?, cursor.digest()?) {
            (1, plan) => Some(plan),
            (0, none) if none.as_bytes() == &[0; Digest::LEN] => None,
            _ => return Err(cursor.invalid("expected a plan, or none")),
        };
        let targets = decode_targets(&mut cursor)?;
        let mut blocks = decode_blocks(&mut cursor)?;
        let rows = decode_rows(&mut cursor, targets.len(), &mut blocks)?;
        match cursor.left() {
            0 => Ok(Self { plan, targets, blocks, rows }),
            _ => Err(cursor.invalid("something follows its last row")),
        }
    }
}

fn decode_targets(cursor: &mut Cursor<'_>) -> Result<Vec<String>, BundleError> {
    let count = cursor.count(2)?;
    let mut targets: Vec<String> = Vec::with_capacity(count);
    for _ in 0..count {
        let length = cursor.u8()?;
        let name = str::from_utf8(cursor.slice(length.into())?).unwrap_or_default();
        if !is_target_name(name) {
            return Err(cursor.invalid("expected the name of a target"));
        }
        if targets.last().is_some_and(|last| last.as_str() >= name) {
            return Err(cursor.invalid("a target does not follow the one before it"));
        }
        targets.push(name.to_owned());
    }
    Ok(targets)
}

/// Decodes the blocks, the sizes of whose entries are not known yet.
fn decode_blocks(cursor: &mut Cursor<'_>) -> Result<Vec<Block>, BundleError> {
    let count = cursor.count(BLOCK_ROW)?;
    let mut blocks = Vec::with_capacity(count);
    let (mut at, mut row) = (frame::HEAD_BYTES, 0_usize);
    for _ in 0..count {
        let (compressed, digest, entries) = (cursor.u64()?, cursor.digest()?, cursor.u32()? as usize);
        let end = at.checked_add(compressed).filter(|_| compressed > 0 && entries > 0);
        let end = end.ok_or_else(|| cursor.invalid("a block is empty, or ends nowhere"))?;
        blocks.push(Block { file: at..end, digest, bytes: 0, rows: row..row + entries });
        (at, row) = (end, row + entries);
    }
    Ok(blocks)
}

/// Decodes the entries, and checks the sizes of their blocks.
fn decode_rows(
    cursor: &mut Cursor<'_>,
    targets: usize,
    blocks: &mut [Block],
) -> Result<Vec<Row>, BundleError> {
    let count = cursor.count(ENTRY_ROW)?;
    if blocks.last().map_or(0, |last| last.rows.end) != count {
        return Err(cursor.invalid("the blocks have another number of entries"));
    }
    let mut rows: Vec<Row> = Vec::with_capacity(count);
    for (number, block) in blocks.iter_mut().enumerate() {
        for _ in block.rows.clone() {
            let (target, key) = (cursor.u32()?, cursor.digest()?);
            let (bytes, digest) = (cursor.u64()?, cursor.digest()?);
            let follows = match rows.last() {
                None => target == 0,
                Some(last) if last.target == target => last.key < key,
                Some(last) => last.target.checked_add(1) == Some(target),
            };
            if !follows {
                return Err(cursor.invalid("an entry does not follow the one before it"));
            }
            if !(1..=MAX_ENTRY_BYTES).contains(&bytes) {
                return Err(cursor.invalid("an entry is empty, or larger than an entry may be"));
            }
            rows.push(Row { target, key, bytes, digest, block: number as u32, at: block.bytes });
            block.bytes += bytes;
        }
        check_block(block).map_err(|problem| cursor.invalid(problem))?;
    }
    match rows.last().map_or(0, |last| last.target as usize + 1) == targets {
        true => Ok(rows),
        false => Err(cursor.invalid("a target has no entry, or an entry has no target")),
    }
}

/// Checks that a block is decompressed in bounded memory, and that its compressed bytes can hold its entries.
fn check_block(block: &Block) -> Result<(), &'static str> {
    let compressed = block.file.end - block.file.start;
    if block.bytes > MAX_BLOCK_BYTES && block.rows.len() > 1 {
        return Err("a block of several entries is larger than such a block may be");
    }
    if compressed > zstd::zstd_safe::compress_bound(block.bytes as usize) as u64 {
        return Err("a block is larger than its entries");
    }
    match block.bytes <= compressed.saturating_mul(MAX_RATIO) {
        true => Ok(()),
        false => Err("a block is too small for its entries"),
    }
}

//! Reading a bundle: the index first, then block by block.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use opkeep_digest::Digest;
use opkeep_store::Entry;
use opkeep_trust::{PublicKey, SignaturePolicy, Signatures, Untrusted};
use zstd::bulk::Decompressor;

use crate::error::{BundleError, EntryProblem};
use crate::frame::{self, FOOTER_BYTES, FRAME_HEAD, Footer, HEAD_BYTES};
use crate::index::{Index, IndexedEntry, MAX_INDEX_BYTES, Row};
use crate::portable::check_members;
use crate::writer::bundle_message;

/// A bundle whose index was read and checked.
pub struct BundleReader<R> {
    input: R,
    index: Arc<Index>,
    digest: Digest,
    signatures: Signatures,
    bytes: u64,
}

impl<R: Read + Seek> BundleReader<R> {
    /// Reads the index, and nothing of the entries.
    ///
    /// # Errors
    /// The input cannot be read, or it is no bundle, not all of one, or a damaged one.
    pub fn open(mut input: R) -> Result<Self, BundleError> {
        let bytes = input.seek(SeekFrom::End(0)).map_err(BundleError::io("read"))?;
        let head = read_at(&mut input, 0, bytes.min(HEAD_BYTES))?;
        frame::check_head(&head)?;
        let incomplete = || BundleError::Incomplete { bytes };
        let footer_at = bytes.checked_sub(FOOTER_BYTES as u64).filter(|at| *at > HEAD_BYTES);
        let footer = read_at(&mut input, footer_at.ok_or_else(incomplete)?, FOOTER_BYTES as u64)?;
        let footer = footer.first_chunk().and_then(Footer::decode).ok_or_else(incomplete)?;
        let limit = |what, found, limit| match found > limit {
            true => Err(BundleError::TooLarge { what, found, limit }),
            false => Ok(found),
        };
        limit("the index of the bundle", footer.index_bytes, MAX_INDEX_BYTES)?;
        limit("the signatures of the bundle", footer.signatures_bytes, Signatures::MAX_BYTES as u64)?;
        let trailer_bytes = FRAME_HEAD + footer.signatures_bytes + FOOTER_BYTES as u64;
        let index_frame = FRAME_HEAD + footer.index_bytes;
        let bodies = bytes.checked_sub(HEAD_BYTES + index_frame + trailer_bytes).ok_or_else(incomplete)?;

        let trailer = read_at(&mut input, bytes - trailer_bytes, trailer_bytes)?;
        let lines = &trailer[FRAME_HEAD as usize..trailer.len() - FOOTER_BYTES];
        let signatures = frame::check_trailer(&trailer, lines, &footer)?;
        let encoded = read_at(&mut input, HEAD_BYTES + bodies, index_frame)?;
        let (begin, encoded) = encoded.split_at(FRAME_HEAD as usize);
        if begin != frame::index_head(footer.index_bytes) {
            return Err(BundleError::Begin { what: "the index" });
        }
        let digest = Digest::of(encoded);
        if digest != footer.index_digest {
            let what = "the index".to_owned();
            return Err(BundleError::Digest { what, expected: footer.index_digest, found: digest });
        }
        let index = Index::decode(encoded)?;
        let expected = index.blocks.last().map_or(HEAD_BYTES, |last| last.file.end) - HEAD_BYTES;
        if expected != bodies {
            return Err(BundleError::Length { what: "the part with the entries", expected, found: bodies });
        }
        Ok(Self { input, index: Arc::new(index), digest, signatures, bytes })
    }

    /// Returns the index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the number of bytes of the bundle.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the signatures of the index.
    pub fn signatures(&self) -> &Signatures {
        &self.signatures
    }

    /// Whether the index may be believed: `Ok` with the key that signed it, or with `None` if signatures do not matter.
    ///
    /// # Errors
    /// [`Untrusted`].
    pub fn check_signature<'p>(
        &self,
        policy: &'p SignaturePolicy,
        namespace: &str,
    ) -> Result<Option<&'p PublicKey>, Untrusted> {
        policy.check(&bundle_message(namespace, &self.index, &self.digest), &self.signatures)
    }

    /// Reads a block, and checks its compressed bytes.
    ///
    /// # Errors
    /// [`BundleError::Io`], [`BundleError::Digest`].
    ///
    /// # Panics
    /// There is no block of that number.
    pub fn read_block(&mut self, number: usize) -> Result<CompressedBlock, BundleError> {
        let block = &self.index.blocks[number];
        let bytes = read_at(&mut self.input, block.file.start, block.file.end - block.file.start)?;
        let found = Digest::of(&bytes);
        if found != block.digest {
            let (what, expected) = (format!("block {number}"), block.digest);
            return Err(BundleError::Digest { what, expected, found });
        }
        Ok(CompressedBlock { index: Arc::clone(&self.index), number, bytes })
    }
}

/// Reads a range that the input has.
fn read_at(input: &mut (impl Read + Seek), at: u64, length: u64) -> Result<Vec<u8>, BundleError> {
    let failed = BundleError::io("read");
    let mut bytes = Vec::new();
    let read = input.seek(SeekFrom::Start(at)).and_then(|_| {
        bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX))?;
        input.by_ref().take(length).read_to_end(&mut bytes)
    });
    read.map_err(failed)?;
    match bytes.len() as u64 == length {
        true => Ok(bytes),
        // Another process shortens the file.
        false => Err(BundleError::Length {
            what: "the file",
            expected: at + length,
            found: at + bytes.len() as u64,
        }),
    }
}

/// A block that was read, and not decompressed yet: for a thread of its own.
pub struct CompressedBlock {
    index: Arc<Index>,
    number: usize,
    bytes: Vec<u8>,
}

impl CompressedBlock {
    /// Returns its number, from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Decompresses it.
    ///
    /// # Errors
    /// [`BundleError::Compression`], [`BundleError::Length`].
    pub fn decompress(self) -> Result<BundleBlock, BundleError> {
        let Self { index, number: block, bytes } = self;
        let expected = index.blocks[block].bytes;
        let failed = |source| BundleError::Compression { block, action: "decompressed", source };
        let mut content = Vec::new();
        content.try_reserve_exact(expected as usize).map_err(|error| failed(error.into()))?;
        let mut decompressor = Decompressor::new().map_err(failed)?;
        decompressor.decompress_to_buffer(&bytes, &mut content).map_err(failed)?;
        match content.len() as u64 {
            found if found == expected => Ok(BundleBlock { index, number: block, content }),
            found => Err(BundleError::Length { what: "a decompressed block", expected, found }),
        }
    }
}

/// A decompressed block.
pub struct BundleBlock {
    index: Arc<Index>,
    number: usize,
    content: Vec<u8>,
}

impl BundleBlock {
    /// Returns what the index states of each entry, in order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = IndexedEntry<'_>> {
        self.rows().iter().map(|row| self.index.entry(row))
    }

    fn rows(&self) -> &[Row] {
        &self.index.rows[self.index.blocks[self.number].rows.clone()]
    }

    /// Returns the entry at `place` of [`entries`](Self::entries): each of its bytes is checked against the index, and it is a
    /// valid entry of its key with all of its members, which no host has validated.
    ///
    /// # Errors
    /// [`BundleError::Entry`].
    ///
    /// # Panics
    /// There is no such entry.
    pub fn entry(&self, place: usize) -> Result<Entry, BundleError> {
        let row = &self.rows()[place];
        let bytes = &self.content[row.at as usize..(row.at + row.bytes) as usize];
        checked(row, bytes).map_err(|problem| {
            let IndexedEntry { target, key, .. } = self.index.entry(row);
            BundleError::entry(target, key, problem)
        })
    }
}

fn checked(row: &Row, bytes: &[u8]) -> Result<Entry, EntryProblem> {
    let found = Digest::of(bytes);
    if found != row.digest {
        return Err(EntryProblem::Digest { expected: row.digest, found });
    }
    let entry = Entry::decode(bytes.to_vec(), Some(&row.key))?;
    check_members(&entry)?;
    match entry.validation() {
        0 => Ok(entry),
        stamp => Err(EntryProblem::Stamp { stamp }),
    }
}

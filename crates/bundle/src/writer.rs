//! Writing a bundle, entry by entry.

use std::io::Write;
use std::mem;
use std::sync::Arc;

use opkeep_digest::Digest;
use opkeep_store::{Entry, is_target_name};
use opkeep_trust::{Message, Signatures, SignedBundle, SigningKey};
use zstd::bulk::Compressor;

use crate::error::BundleError;
use crate::format::{LEVEL, MAX_BLOCK_BYTES, WINDOW_LOG};
use crate::frame;
use crate::index::{Block, Index, MAX_INDEX_BYTES, Row};
use crate::portable::{entry_message, entry_signatures, portable_entry};

/// Writes a bundle to a file or a pipe. It keeps the index and one block in memory.
pub struct BundleWriter<W> {
    out: W,
    compressor: Compressor<'static>,
    index: Index,
    /// The number of bytes that were written.
    written: u64,
    /// The entries of the block that is being filled.
    block: Vec<u8>,
    /// Whose signature each entry gets.
    signer: Option<Signer>,
}

/// A key, and the namespace for which it signs.
pub struct Signer {
    key: Arc<SigningKey>,
    namespace: String,
    signs_entries: bool,
}

impl Signer {
    /// Creates a signer of bundles, and of each entry in them, for `namespace`.
    pub fn new(key: impl Into<Arc<SigningKey>>, namespace: impl Into<String>) -> Self {
        Self { key: key.into(), namespace: namespace.into(), signs_entries: true }
    }

    /// Returns the signer, if entries keep the signatures that they have: for a caller that vouches for the list alone.
    #[must_use]
    pub fn of_index_only(self) -> Self {
        Self { signs_entries: false, ..self }
    }

    /// Returns the key.
    pub fn key(&self) -> &SigningKey {
        &self.key
    }

    /// Returns the namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }
}

/// A bundle that was written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WrittenBundle<W> {
    /// Where it was written to.
    pub out: W,
    /// The index.
    pub index: Index,
    /// The number of bytes of the bundle.
    pub bytes: u64,
}

impl<W: Write> BundleWriter<W> {
    /// Begins a bundle of the entries of a plan, or of no plan.
    ///
    /// # Errors
    /// [`BundleError::Io`], or zstd cannot allocate its memory.
    pub fn new(out: W, plan: Option<Digest>, signer: Option<Signer>) -> Result<Self, BundleError> {
        let compressor = compressor().map_err(BundleError::io("begin"))?;
        let index = Index { plan, ..Index::default() };
        let mut writer = Self { out, compressor, index, written: 0, block: Vec::new(), signer };
        writer.write(&frame::head())?;
        Ok(writer)
    }

    /// Adds an entry. Entries are added by target, then by key.
    ///
    /// # Errors
    /// [`BundleError::Order`]; the errors of [`portable_entry`]; [`BundleError::TooLarge`] for too many entries;
    /// [`BundleError::Io`].
    pub fn add(&mut self, target: &str, entry: &Entry) -> Result<(), BundleError> {
        let bytes = match self.signer.as_ref().filter(|signer| signer.signs_entries) {
            None => portable_entry(target, entry, None)?,
            Some(signer) => {
                let mut signatures = entry_signatures(entry);
                let message = entry_message(&signer.namespace, target, entry);
                let message = message.map_err(|error| BundleError::entry(target, entry.key(), error))?;
                signatures.insert(&signer.key.sign(&message));
                portable_entry(target, entry, Some(&signatures))?
            }
        };
        self.add_bytes(target, entry.key(), &bytes)
    }

    fn add_bytes(&mut self, target: &str, key: &Digest, bytes: &[u8]) -> Result<(), BundleError> {
        let is_new_target = self.index.targets.last().is_none_or(|last| last != target);
        let follows = match (self.index.targets.last(), self.index.rows.last()) {
            (Some(last), _) if is_new_target => last.as_str() < target,
            (_, Some(last)) => last.key < *key,
            (_, None) => true,
        };
        if !follows {
            return Err(BundleError::Order { target: target.to_owned(), key: *key });
        }
        if is_new_target {
            if !is_target_name(target) {
                return Err(BundleError::TargetName { target: target.to_owned() });
            }
            self.index.targets.push(target.to_owned());
        }
        if !self.block.is_empty() && (self.block.len() + bytes.len()) as u64 > MAX_BLOCK_BYTES {
            self.end_block()?;
        }
        self.index.rows.push(Row {
            target: self.index.targets.len() as u32 - 1,
            key: *key,
            bytes: bytes.len() as u64,
            digest: Digest::of(bytes),
            block: self.index.blocks.len() as u32,
            at: self.block.len() as u64,
        });
        self.block.extend_from_slice(bytes);
        match self.index.encoded_bytes() {
            found if found > MAX_INDEX_BYTES => {
                Err(BundleError::TooLarge { what: "the index of the bundle", found, limit: MAX_INDEX_BYTES })
            }
            _ => Ok(()),
        }
    }

    /// Compresses and writes the entries since the last block.
    fn end_block(&mut self) -> Result<(), BundleError> {
        let content = mem::take(&mut self.block);
        let (block, action) = (self.index.blocks.len(), "compressed");
        let failed = |source| BundleError::Compression { block, action, source };
        let compressed = self.compressor.compress(&content).map_err(failed)?;
        let first = self.index.blocks.last().map_or(0, |last| last.rows.end);
        let start = self.written;
        self.write(&compressed)?;
        self.index.blocks.push(Block {
            file: start..self.written,
            digest: Digest::of(&compressed),
            bytes: content.len() as u64,
            rows: first..self.index.rows.len(),
        });
        // The memory of a usual block is used again.
        self.block = if content.capacity() as u64 > 2 * MAX_BLOCK_BYTES { Vec::new() } else { content };
        self.block.clear();
        Ok(())
    }

    /// Writes the index and its signature. The caller publishes the file.
    ///
    /// # Errors
    /// [`BundleError::Io`].
    pub fn finish(mut self) -> Result<WrittenBundle<W>, BundleError> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        let index = self.index.encode();
        let digest = Digest::of(&index);
        let signatures: Signatures = self
            .signer
            .iter()
            .map(|signer| signer.key.sign(&bundle_message(&signer.namespace, &self.index, &digest)))
            .collect();
        self.write(&frame::index_head(index.len() as u64))?;
        self.write(&index)?;
        self.write(&frame::trailer(&signatures.encode(), index.len() as u64, &digest))?;
        self.out.flush().map_err(BundleError::io("write"))?;
        Ok(WrittenBundle { out: self.out, index: self.index, bytes: self.written })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), BundleError> {
        self.out.write_all(bytes).map_err(BundleError::io("write"))?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

/// Returns what is signed of a bundle whose encoded index has this digest.
pub(crate) fn bundle_message(namespace: &str, index: &Index, digest: &Digest) -> Message {
    let Index { plan, .. } = index;
    SignedBundle { namespace, target: index.target(), plan: plan.as_ref(), index: digest }.message()
}

/// The parameters decide the bytes of a bundle, so they are the same for all. Kernels of one network are similar and stand in
/// the order of their digests, so the window spans a block.
fn compressor() -> std::io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(LEVEL)?;
    compressor.window_log(WINDOW_LOG)?;
    compressor.long_distance_matching(true)?;
    compressor.include_contentsize(true)?;
    // The index has the digests.
    compressor.include_checksum(false)?;
    Ok(compressor)
}

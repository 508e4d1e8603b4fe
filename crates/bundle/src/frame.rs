//! The frames around the blocks. To a program that decompresses zstd, all of them are comments.
//!
//! ```text
//! head      4  2A4D18 5B     4  12           8  "OPKBNDL\0"   4  format
//! index     4  2A4D18 5C     4  its bytes    n  the index
//! trailer   4  2A4D18 5D     4  its bytes    n  signatures: lines, see opkeep_trust::Signatures
//!                                            4  bytes of the signatures    8  bytes of the index
//!                                           32  SHA-256 of the index      32  SHA-256 of the trailer so far
//!                                            8  "OPKBEND\0"
//! ```

use opkeep_digest::Digest;
use opkeep_trust::Signatures;

use crate::error::BundleError;
use crate::format::BUNDLE_FORMAT;

const HEAD: [u8; 4] = 0x184D_2A5B_u32.to_le_bytes();
const INDEX: [u8; 4] = 0x184D_2A5C_u32.to_le_bytes();
const TRAILER: [u8; 4] = 0x184D_2A5D_u32.to_le_bytes();
const BEGIN: &[u8; 8] = b"OPKBNDL\0";
const END: &[u8; 8] = b"OPKBEND\0";

/// The number of bytes before the first block.
pub const HEAD_BYTES: u64 = 8 + 8 + 4;
/// The number of bytes before the content of a frame.
pub(crate) const FRAME_HEAD: u64 = 8;
/// The number of bytes behind the signatures.
pub(crate) const FOOTER_BYTES: usize = 4 + 8 + Digest::LEN + Digest::LEN + 8;

/// Returns the bytes before the first block.
pub(crate) fn head() -> Vec<u8> {
    [&HEAD[..], &12_u32.to_le_bytes(), BEGIN, &BUNDLE_FORMAT.to_le_bytes()].concat()
}

/// Whether a file that begins with `found` may be a bundle. With fewer than [`HEAD_BYTES`], only these are compared.
pub fn may_be_bundle(found: &[u8]) -> bool {
    check_head(found).is_ok()
}

/// Whether a file that begins with `found` is a bundle of any format, or was to become one.
pub fn begins_as_bundle(found: &[u8]) -> bool {
    !matches!(check_head(found), Err(BundleError::NotABundle { .. }))
}

/// Checks the bytes before the first block, of which a short file has some only.
pub(crate) fn check_head(found: &[u8]) -> Result<(), BundleError> {
    let expected = head();
    let (magic, format) = expected.split_at(expected.len() - 4);
    let begin = found.get(..magic.len()).unwrap_or(found);
    if !magic.starts_with(begin) || begin.is_empty() {
        return Err(BundleError::NotABundle { found: begin.to_vec() });
    }
    match found.get(magic.len()..).and_then(|rest| rest.first_chunk()).copied() {
        Some(found) if found != format => {
            Err(BundleError::Format { expected: BUNDLE_FORMAT, found: u32::from_le_bytes(found) })
        }
        _ => Ok(()),
    }
}

/// Returns the bytes before the content of the index.
pub(crate) fn index_head(bytes: u64) -> Vec<u8> {
    [INDEX, (bytes as u32).to_le_bytes()].concat()
}

/// What the last bytes of a bundle state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) signatures_bytes: u64,
    pub(crate) index_bytes: u64,
    pub(crate) index_digest: Digest,
    /// The digest of the trailer so far.
    pub(crate) digest: Digest,
}

impl Footer {
    pub(crate) fn decode(bytes: &[u8; FOOTER_BYTES]) -> Option<Self> {
        let (mut at, bytes) = (0, &bytes[..]);
        let mut take = |count: usize| {
            at += count;
            &bytes[at - count..at]
        };
        let signatures_bytes = take(4).first_chunk().map(|bytes| u32::from_le_bytes(*bytes).into())?;
        let index_bytes = take(8).first_chunk().map(|bytes| u64::from_le_bytes(*bytes))?;
        let index_digest = take(Digest::LEN).first_chunk().map(|bytes| Digest::from_bytes(*bytes))?;
        let digest = take(Digest::LEN).first_chunk().map(|bytes| Digest::from_bytes(*bytes))?;
        (take(8) == END).then_some(Self { signatures_bytes, index_bytes, index_digest, digest })
    }
}

/// Returns the bytes behind the index.
pub(crate) fn trailer(signatures: &[u8], index_bytes: u64, index_digest: &Digest) -> Vec<u8> {
    let content = trailer_start(signatures, index_bytes, index_digest);
    let digest = Digest::of(&content);
    let bytes = (signatures.len() + FOOTER_BYTES) as u32;
    [&TRAILER[..], &bytes.to_le_bytes(), &content, digest.as_bytes(), END].concat()
}

fn trailer_start(signatures: &[u8], index_bytes: u64, index_digest: &Digest) -> Vec<u8> {
    let signatures_bytes = (signatures.len() as u32).to_le_bytes();
    [signatures, &signatures_bytes, &index_bytes.to_le_bytes(), index_digest.as_bytes()].concat()
}

/// Checks that `found` are the bytes behind the index, with these signatures.
pub(crate) fn check_trailer(
    found: &[u8],
    signatures: &[u8],
    footer: &Footer,
) -> Result<Signatures, BundleError> {
    let content = trailer_start(signatures, footer.index_bytes, &footer.index_digest);
    let digest = Digest::of(&content);
    if digest != footer.digest {
        let what = "the end".to_owned();
        return Err(BundleError::Digest { what, expected: footer.digest, found: digest });
    }
    match found == trailer(signatures, footer.index_bytes, &footer.index_digest) {
        true => Ok(Signatures::parse(signatures)?),
        false => Err(BundleError::Begin { what: "the end" }),
    }
}

//! Bundles: one compressed file of many cache entries, with an index that can be signed.
//!
//! A bundle ships a cache in a container image or beside a package, and carries all kernels of a network to a host in one object.
//!
//! ```text
//! entries of a store ── BundleWriter::add (portable_entry: without what differs between hosts) ──> blocks, index, signature
//! file ── BundleReader::open ──> Index, BundleReader::check_signature
//!      ── read_block (digest of the compressed bytes) ── decompress ── BundleBlock::entry (digest of the entry) ──> Entry
//! ```
//!
//! # The file
//!
//! A sequence of zstd frames, so `zstd -t` checks it. All numbers little-endian.
//!
//! ```text
//! head       a skippable frame: magic, format
//! blocks     zstd frames, each of entries of 8 MiB together at most, or of one entry
//! index      a skippable frame, not compressed:
//!            8  "OPKBIDX\0"    4  format    1  has a plan?    32  plan, or zeros
//!            4  targets:  each 1  length   n  name
//!            4  blocks:   each 8  compressed bytes   32  SHA-256 of these   4  entries
//!            4  entries:  each 4  target   32  key   8  bytes   32  SHA-256 of these
//! trailer    a skippable frame: signatures of the index, its length and its SHA-256
//! ```
//!
//! Blocks and entries follow each other without gaps: places follow from lengths, so no two overlap. Entries are in the order of
//! targets and keys, each once. The index is at the end, so a bundle is written in one pass, and an incomplete copy is noticed
//! before anything of it is used. Reading it needs no other part of the file.
//!
//! # Promises
//!
//! * The same entries give the same bytes, in every order, on every machine, with the same version of this crate: the parameters
//!   of the compression are constant, and [`portable_entry`] says what is the same of two entries.
//! * Reading and writing need memory for the index (76 bytes an entry) and a block.
//! * A block is decompressed only if its compressed bytes have the digest that the index states, and into no more memory than
//!   the index states. The bound is 8 MiB, or one entry of 1 GiB.
//! * Each change of a byte of the file, each missing and each additional byte is an error.
//! * A reader believes no other host's validation: [`BundleBlock::entry`] returns entries with the stamp 0.
//!
//! ```
//! use std::io::Cursor;
//! use opkeep_bundle::{BundleReader, BundleWriter};
//! use opkeep_digest::Digest;
//! use opkeep_store::{Entry, EntryBuilder};
//!
//! let key = Digest::of(b"what decides the kernel");
//! let file = EntryBuilder::new(3).eager("object", b"\x7fELF...").encode(&key).ok_or("too large")?;
//! let entry = Entry::decode(file, Some(&key))?;
//!
//! let mut writer = BundleWriter::new(Vec::new(), None, None)?;
//! writer.add("cpu-x86_64", &entry)?;
//! let bundle = writer.finish()?.out;
//!
//! let mut reader = BundleReader::open(Cursor::new(bundle))?;
//! assert!(reader.index().find("cpu-x86_64", &key).is_some());
//! let block = reader.read_block(0)?.decompress()?;
//! assert_eq!(block.entry(0)?.member("object"), Some(&b"\x7fELF..."[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cursor;
mod error;
mod format;
mod frame;
mod fuzz;
mod index;
mod portable;
mod reader;
mod writer;

pub use error::{BundleError, EntryProblem};
pub use format::{BUNDLE_FORMAT, MAX_BLOCK_BYTES};
pub use frame::{HEAD_BYTES, begins_as_bundle, may_be_bundle};
#[doc(hidden)]
pub use fuzz::fuzz;
pub use index::{Index, IndexedBlock, IndexedEntry};
pub use portable::{entry_message, entry_signatures, portable_entry, stored_signatures};
pub use reader::{BundleBlock, BundleReader, CompressedBlock};
pub use writer::{BundleWriter, Signer, WrittenBundle};

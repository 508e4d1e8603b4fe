//! Kernels as entries of the store.
//!
//! ```text
//! KernelBundle + KernelRecord + StoredExpectations ── encode_entry ──> EntryBuilder ──> store
//! Entry ── KernelBundle::of_entry, artifact ──> the kernel's files
//!       ── verify_entry ──> valid, unverifiable, or invalid
//!       ── Header::parse, Provenance::of ──> what explanations and reports name
//!
//! GroupRecord + files ── encode_group ──> EntryBuilder ──> store ── GroupFiles::of ──> the files of a framework's kernel
//! ```
//!
//! The store keeps named bytes under a digest. This crate defines the names ([`member`]) and the meaning of the bytes.
//! An entry holds everything that a later verification needs: the kernel's files, the job that it was compiled from,
//! the parts of its key, and the expectations that it was validated by. So [`verify_entry`] needs neither a backend nor
//! a compiler.

mod bundle;
mod encode;
mod entry_file;
mod error;
mod expectations;
mod group;
mod header;
mod kept_here;
pub mod member;
mod provenance;
mod record;
mod texts;
mod verify;

pub use bundle::{KernelBundle, KernelFiles, artifact};
pub use encode::{EncodedEntry, encode_entry};
pub use entry_file::EntryFile;
pub use error::EntryError;
pub use expectations::StoredExpectations;
pub use group::{
    EncodedGroup, GROUP_SCHEMA, GroupFiles, GroupKey, GroupRecord, MAX_GROUP_FILES, encode_group,
    group_file_heads, original_file_name, stored_file_name, verify_group_binding,
};
pub use header::{Header, MADE_BY};
pub use kept_here::{KeptHere, is_for_others};
pub use provenance::Provenance;
pub use record::{KernelRecord, Origin};
pub use verify::{EntryVerdict, verify_binding, verify_entry};

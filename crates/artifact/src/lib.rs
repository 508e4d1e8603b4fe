//! What an operator compiler returns, and what a target expects of it: plain data, no I/O, no judgement, no vendor.
//! `opkeep-validator` judges.
//!
//! [`Expectations`] are data, so that they can be stored with a kernel and judge it later, on a machine without the backend
//! that stated them: any ELF machine, layout rules, or opaque bytes. What no rule describes, a backend checks itself, by an
//! [`ArtifactCheck`] with a name and a version.

mod artifact;
mod check;
mod expectations;
mod file_name;

pub use artifact::{Artifact, Member};
pub use check::{ArtifactCheck, CheckInput, Severity};
pub use expectations::{
    CheckId, DecodeError, ElfLayout, ElfRules, Expectations, FlagRules, Format, MetadataRules, OpaqueRules,
};
pub use file_name::{is_plain_file_name, is_safe_file_name};

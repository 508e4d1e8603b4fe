//! The result of an operator compiler and the expectations of a target: plain data without I/O, validation or vendor
//! (`opkeep-validator` validates).
//!
//! [`Expectations`] are data, so that they can be stored with a kernel and validate it later, on a machine without the
//! backend that stated them: any ELF machine, layout rules, or opaque bytes. A backend checks other properties with an
//! [`ArtifactCheck`], which has a name and a version.

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

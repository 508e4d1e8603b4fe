//! The names of an entry's members.
//!
//! They are part of the entry format: entries of every version have them.

/// The kernel's `.json`.
pub const JSON: &str = "json";
/// The kernel's object.
pub const OBJECT: &str = "object";
/// The job in canonical form: without its envelope, with the effective options.
pub const INFO: &str = "info";
/// Names, part digests, the toolchain and the compile time.
pub const HEADER: &str = "header";
/// The provenance of an imported kernel. Compiled kernels have no such member.
pub const IMPORTED: &str = "imported";
/// The expectations that the kernel was validated by. Entries of earlier versions have none.
pub const EXPECTATIONS: &str = "expectations";
/// The signatures of the entry, which opkeep-trust reads.
pub const SIGNATURES: &str = "signatures";
/// The record of a group of files. Kernels of jobs have no such member.
pub const GROUP: &str = "group";
/// The prefix of the names of the kernel's extra files, and of all files of a group.
pub const EXTRA_PREFIX: &str = "x/";

//! Files and directories of the toolkit, and of its compiler.

pub mod dir_digest;
pub(crate) mod files;
pub mod stamp;
pub mod tree;

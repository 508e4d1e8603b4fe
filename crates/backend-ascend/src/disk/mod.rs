//! Files and directories of the toolkit, and of its compiler.

pub(crate) mod dir_digest;
pub(crate) mod files;
pub(crate) mod stamp;
pub(crate) mod tree;

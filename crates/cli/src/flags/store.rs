//! Arguments that name the store.

use std::path::PathBuf;

/// The store, and the users that it trusts.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// The directory of the store
    ///
    /// build, run and import create it, explain reads it if it exists, other commands need it.
    ///
    /// [default: $OPKEEP_CACHE_DIR, if unset $ASCEND_CACHE_PATH/opkeep, if unset the user's cache directory]
    #[arg(long = "op_compiler_cache_dir", visible_alias = "cache-dir", value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// The user ID of another user whose stored kernels may be used
    #[arg(long = "trusted-owner", value_name = "UID")]
    pub(crate) trusted_owners: Vec<u32>,
}

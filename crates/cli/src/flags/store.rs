//! Arguments that say which store.

use std::path::PathBuf;

/// Which store.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// The store's directory; import makes it, other commands expect it there [default: $OPKEEP_CACHE_DIR, else
    /// $ASCEND_CACHE_PATH/opkeep, else the user's cache directory]
    #[arg(long = "op_compiler_cache_dir", visible_alias = "cache-dir", value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Another user, by number, whose stored kernels may be used
    #[arg(long = "trusted-owner", value_name = "UID")]
    pub(crate) trusted_owners: Vec<u32>,
}

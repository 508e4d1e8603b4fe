//! Arguments that name the keys of kernels.

use std::path::PathBuf;

/// The key that signs kernels, and those that are trusted.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct TrustArgs {
    /// The file of the secret key that signs kernels
    ///
    /// It signs those that this host compiles and shares; see opkeep help key.
    ///
    /// [default: $OPKEEP_SIGN_KEY, if unset none]
    #[arg(long, value_name = "FILE")]
    pub(crate) sign_key: Option<PathBuf>,
    /// The public keys that are trusted, NAME:BASE64, or @FILE with a list of them
    ///
    /// Several are separated by spaces. Then only kernels are used that one of them signed, or that this host
    /// compiled: from the remote cache and from the store.
    ///
    /// [default: $OPKEEP_TRUSTED_KEYS, if unset kernels are used without signatures]
    #[arg(long, value_name = "KEYS")]
    pub(crate) trusted_keys: Option<String>,
}

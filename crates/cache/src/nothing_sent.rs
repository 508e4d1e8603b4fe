//! The reason why a push sends no entry.

use thiserror::Error;

/// The reason why no entry is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NothingSent {
    /// There is no remote tier.
    #[error("there is no remote cache, so no kernel is sent")]
    NoRemote,
    /// The policy or the mode of the cache does not write the remote tier.
    #[error("the remote cache is not written, so no kernel is sent")]
    RemoteNotWritten,
    /// Hosts that trust some keys take nothing unsigned, and this one signs nothing.
    #[error(
        "keys are trusted, and no key signs, so no kernel is sent: this host itself would not take it back"
    )]
    NoSigningKey,
    /// The store cannot be written, so what is sent could not be recorded.
    #[error("the store is not written, so no kernel is sent: that it was sent could not be recorded")]
    StoreNotWritten,
}

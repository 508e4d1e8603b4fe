//! The errors of the cache. A miss and a lost race are outcomes, not errors.

use opkeep_store::{CacheMode, StoreError};
use thiserror::Error;

/// The reason why the cache cannot be used as its mode requires. In other modes, a store that cannot be used is a warning.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The mode requires a store, and the configuration has none.
    #[error("the cache mode `{mode}` needs a store")]
    NoStore {
        /// The mode.
        mode: CacheMode,
    },
    /// The mode requires a store, and it cannot be opened.
    #[error("the cache mode `{mode}` needs the store, which cannot be used: {source}")]
    Store {
        /// The mode.
        mode: CacheMode,
        /// The store's error.
        source: StoreError,
    },
    /// The name of a target is not valid: it is a directory of the store and a part of the remote tier's keys.
    #[error(
        "`{target}` cannot be the name of a target: expected 1 to 100 letters, digits, `_`, `-` and `.`, not a `.` first"
    )]
    TargetName {
        /// The name.
        target: String,
    },
    /// The mode forbids building, and there is no entry that the caller takes.
    #[error("the cache mode `{mode}` forbids building, and no entry can be reused: {why}")]
    NotCached {
        /// The mode.
        mode: CacheMode,
        /// The reason why no entry can be reused.
        why: String,
    },
}

/// The reason why an entry was not published. The caller can use the entry that it built.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The local store could not write the entry. The cache has emitted a warning.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ticket belongs to the parent of this process, which still holds it. Nothing was published anywhere.
    #[error("the ticket belongs to the parent process; a forked child must request the entry itself")]
    Forked,
    /// The caller found the entry, and did not build it. Nothing was written.
    #[error("an entry that was found is not kept: {0}")]
    Found(#[from] FoundError),
}

/// The reason why an entry that a caller found, and did not build, is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FoundError {
    /// The cache has keys.
    #[error("this host signs its entries, or takes none without a signature")]
    Keys,
    /// The members of the entry do not state that it stays on this host.
    #[error("it does not state that it stays on this host")]
    ForOthers,
}

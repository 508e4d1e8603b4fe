//! The reasons for unshared tickets.

/// The reason why other callers may build the same entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnsharedReason {
    /// There is no local store, or none that can be used.
    NoStore,
    /// The local store is not written, because of the mode or of an error.
    ReadOnly,
    /// The store's file system has no locks.
    NoLocks,
    /// The lock of this key could not be taken.
    LockFailed,
    /// The lock holder is stale: it gave no heartbeat for too long.
    HolderStale,
}

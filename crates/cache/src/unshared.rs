//! Tickets that do not keep others from building the same.

/// Why others may build the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnsharedReason {
    /// There is no local store, or none that can be used.
    NoStore,
    /// The local store is not written, by its mode or since its disk refuses writes.
    ReadOnly,
    /// The store's file system has no locks.
    NoLocks,
    /// The lock of this key could not be taken.
    LockFailed,
    /// The holder gave no heartbeat for too long: it is stale.
    HolderStale,
}

//! The answer to a caller that asks for a key.

use opkeep_store::Entry;

use crate::failure::Failure;
use crate::pending::PendingKey;
use crate::ticket::Ticket;

/// The answer to a caller that asks for a key.
#[derive(Debug)]
#[non_exhaustive]
#[must_use = "a ticket in it keeps others waiting until it is dropped"]
pub enum Claim {
    /// An entry that the caller takes.
    Hit(Hit),
    /// The caller builds; every other caller on this host, and with leases on every host, waits.
    Build(Ticket),
    /// The caller builds, and others may build the same.
    Unshared(Ticket, UnsharedReason),
    /// Another caller holds the key. [`TargetCache::resume`](crate::TargetCache::resume) asks again; 1 to 20 ms between two
    /// calls are enough.
    Pending(PendingKey),
    /// The holder failed while this caller waited, for a reason that this caller would meet as well.
    HolderFailed(Failure),
    /// The deadline of [`Wait::Until`](crate::Wait::Until) passed.
    TimedOut(PendingKey),
    /// The token of [`Wait::Until`](crate::Wait::Until) was cancelled.
    Cancelled,
}

/// An entry that the caller takes.
#[derive(Debug)]
#[non_exhaustive]
pub struct Hit {
    /// The entry, checked.
    pub entry: Box<Entry>,
    /// How it was found.
    pub source: Source,
}

/// How an entry was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// It was in the local store.
    Local,
    /// Another caller published it in the local store while this one waited.
    Waited,
    /// It was in the remote tier, and is in the local store now if that is written.
    Remote,
}

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
    /// The holder gave no heartbeat for too long: it is stopped, or hangs.
    HolderStale,
    /// The caller chose not to wait any longer.
    NotAwaited,
}

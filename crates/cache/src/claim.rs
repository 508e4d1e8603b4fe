//! The answer to a caller that asks for a key.

use opkeep_store::Entry;

use crate::failure::Failure;
use crate::pending::PendingKey;
use crate::ticket::Ticket;
use crate::unshared::UnsharedReason;

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
    /// The query's deadline passed during the wait.
    TimedOut(PendingKey),
    /// The query's token was cancelled, and no entry was found.
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

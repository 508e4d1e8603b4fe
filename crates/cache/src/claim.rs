//! The result of a request for a key.

use opkeep_store::Entry;

use crate::failure::Failure;
use crate::pending::PendingKey;
use crate::ticket::Ticket;
use crate::unshared::UnsharedReason;

/// The result of a request for a key.
#[derive(Debug)]
#[non_exhaustive]
#[must_use = "a ticket in it keeps other callers waiting until it is dropped"]
pub enum Claim {
    /// An entry that the caller takes.
    Hit(Hit),
    /// The caller builds. All other callers on this host wait, and with leases those on all hosts.
    Build(Ticket),
    /// The caller builds, and other callers may build the same entry.
    Unshared(Ticket, UnsharedReason),
    /// Another caller holds the key. Call [`TargetCache::resume`](crate::TargetCache::resume) every 1 to 20 ms.
    Pending(PendingKey),
    /// The holder failed while this caller waited, and this caller would fail for the same reason.
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
    /// The place where it was found.
    pub source: Source,
}

/// The place where an entry was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The local store.
    Local,
    /// The local store, in which another caller published it while this one waited.
    Waited,
    /// The remote tier. If the local store is written, the entry is there now, too.
    Remote,
}

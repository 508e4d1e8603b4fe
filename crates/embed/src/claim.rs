//! The result of a request for a group.

use std::fmt;

use crate::group::FileGroup;
use crate::ticket::GroupTicket;

/// The result of a request for a group.
#[derive(Debug)]
#[non_exhaustive]
#[must_use = "a ticket in it keeps other callers waiting until it is dropped"]
pub enum GroupClaim {
    /// The files.
    Hit(FileGroup),
    /// The caller makes the files. All other callers on this host wait, and with a remote cache those on other hosts.
    Begin(GroupTicket),
    /// The caller makes the files, and other callers may make them, too.
    Unshared(GroupTicket, UnsharedReason),
    /// Another caller failed while this one waited, for a reason that holds for this one as well.
    HolderFailed(String),
    /// The deadline passed during the wait.
    TimedOut,
    /// The token was cancelled during the wait.
    Cancelled,
    /// The files are not there, and this caller does not make them now: another one makes them, or this one has as many tickets as
    /// it asked for. Only [`get_or_begin_many`](crate::TargetFiles::get_or_begin_many) returns it.
    Pending,
}

/// The reason why other callers may make the same files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnsharedReason {
    /// The cache's own reason.
    Cache(opkeep_cache::UnsharedReason),
    /// The caller does not wait, and another caller makes the files.
    NoWait,
    /// The calling thread holds the ticket of another key, and must not wait: the other caller may wait for that key.
    HoldsTicket,
    /// During the wait, this process held the ticket of another key for [`Options::wait_with_ticket`](crate::Options), and
    /// the other caller may wait for that key.
    ProcessHoldsTicket,
    /// Another thread of this process makes the files, and has not ended within
    /// [`Options::wait_in_process`](crate::Options). It may wait for this thread.
    ProcessMakesFiles,
}

impl fmt::Display for UnsharedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use opkeep_cache::UnsharedReason as Cache;
        f.write_str(match self {
            Self::Cache(Cache::NoStore) => "there is no store that can be used",
            Self::Cache(Cache::ReadOnly) => "the store is not written",
            Self::Cache(Cache::NoLocks) => "the store's file system has no locks",
            Self::Cache(Cache::LockFailed) => "the key's lock cannot be taken",
            Self::Cache(Cache::HolderStale) => "the caller that makes the files gives no heartbeat",
            Self::Cache(_) => "the key cannot be shared",
            Self::NoWait => "another caller makes the files, and this one does not wait",
            Self::HoldsTicket => "another caller makes the files, and this thread holds another ticket",
            Self::ProcessHoldsTicket => {
                "another caller makes the files, and this process holds another ticket for too long"
            }
            Self::ProcessMakesFiles => "another thread of this process makes the files, and takes too long",
        })
    }
}

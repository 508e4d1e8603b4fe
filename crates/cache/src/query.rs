//! The caller's side of a claim: what it accepts, and how it waits.

use std::fmt;
use std::time::{Duration, Instant};

use opkeep_fs::CancelToken;
use opkeep_store::Entry;

use crate::remote::Limits;

/// How long a holder may be without a heartbeat, if the query sets no limit.
const DEFAULT_STALE_AFTER: Duration = Duration::from_secs(600);

/// A caller's conditions: which entries it takes, and how it waits.
///
/// A query is `Send` and `Sync`: a binding to another language may make it on one thread and let another thread wait. All of
/// its functions are called on the thread that calls the cache, with no lock of the cache in memory held; they may call the
/// cache.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Query<'a> {
    /// Judges an entry that was found, in the local store or in the remote tier. Called at each look, so possibly more than
    /// once for the same entry. Entries from the remote tier have the validation stamp 0.
    pub accept: &'a (dyn Fn(&Entry) -> Accept + Sync),
    /// How long the caller's own build may take. Another caller's failure for lack of time is this one's if it has no more,
    /// and another host's lease is waited for no longer.
    pub time_limit: Option<Duration>,
    /// How long the holder of the key may be without a heartbeat before the caller builds without the lock; ten minutes by
    /// default, [`Duration::MAX`] for no limit. A holder whose builds take longer calls
    /// [`Ticket::heartbeat`](crate::Ticket::heartbeat) meanwhile. With a remote tier it is at least a few seconds more than
    /// one call to the tier may take: a holder gives a heartbeat before and after each.
    pub stale_after: Duration,
    /// How long a lease in the remote tier is renewed; one hour if unset, [`Duration::MAX`] for no limit. A ticket that is
    /// never dropped keeps other hosts waiting no longer.
    pub hold_limit: Option<Duration>,
    /// Whether a miss counts in the store's statistics. Hits always count.
    pub counted: bool,
    /// The end of waits and of calls to the remote tier; none if unset. A wait ends with
    /// [`Claim::TimedOut`](crate::Claim::TimedOut); a call to the tier that has not answered by then has found nothing, and
    /// the caller builds unless it waits for another host already.
    pub deadline: Option<Instant>,
    /// Ends waits and calls to the remote tier with [`Claim::Cancelled`](crate::Claim::Cancelled). A ticket keeps it: it also
    /// ends the call with which the ticket is published to the remote tier.
    pub cancel: Option<&'a CancelToken>,
    /// The reaction to a key that another caller holds.
    pub wait: Wait<'a>,
}

impl<'a> Query<'a> {
    /// A counted query that does not wait, for callers whose builds have no time limit.
    pub fn new(accept: &'a (dyn Fn(&Entry) -> Accept + Sync)) -> Self {
        Self {
            accept,
            time_limit: None,
            stale_after: DEFAULT_STALE_AFTER,
            hold_limit: None,
            counted: true,
            deadline: None,
            cancel: None,
            wait: Wait::Never,
        }
    }

    /// The limits of each call to the remote tier.
    pub(crate) fn limits(&self) -> Limits<'a> {
        Limits { deadline: self.deadline, cancel: self.cancel }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(CancelToken::is_cancelled)
    }
}

impl fmt::Debug for Query<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query")
            .field("time_limit", &self.time_limit)
            .field("stale_after", &self.stale_after)
            .field("hold_limit", &self.hold_limit)
            .field("counted", &self.counted)
            .field("deadline", &self.deadline)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}

/// The reaction to a key that another caller holds.
///
/// A caller that holds a ticket waits with [`Never`](Self::Never) only: two that wait for each other's keys would wait for
/// ever.
#[derive(Clone, Copy)]
pub enum Wait<'a> {
    /// Return [`Claim::Pending`](crate::Claim::Pending); the caller has other work.
    Never,
    /// Wait for the holder, until the query's deadline or its token ends the wait.
    ForHolder {
        /// Called once, if another caller holds the key.
        on_wait: Option<&'a (dyn Fn() + Sync)>,
    },
}

impl fmt::Debug for Wait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "Never",
            Self::ForHolder { .. } => "ForHolder",
        })
    }
}

/// A caller's verdict on an entry. Its bytes are already checked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Accept {
    /// The caller takes it.
    Take,
    /// The caller takes it, and has validated it by rules of its own: the local store keeps it with that stamp, so the next
    /// caller need not validate it.
    Validated {
        /// The validation stamp, greater than 0.
        stamp: u32,
        /// Lazy members that replace those of the same names or are added.
        renewed: Vec<(String, Vec<u8>)>,
    },
    /// It is not for this caller, and stays: a build does not replace it.
    Ignore,
    /// It is not the entry that the key stands for, or too old: a build replaces it. The reason is for people.
    Replace(String),
}

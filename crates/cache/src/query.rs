//! The conditions of a request for a key.

use std::fmt;
use std::time::{Duration, Instant};

use opkeep_fs::CancelToken;
use opkeep_store::Entry;

use crate::claimed_leases::ClaimedLeases;
use crate::remote::Limits;
use crate::wait_budget::WaitBudget;

/// The time without a heartbeat after which a holder is stale, if the query sets no other.
const DEFAULT_STALE_AFTER: Duration = Duration::from_secs(600);

/// The time for which a caller that knows no time of its own build waits for another host's: see [`Query::wait_limit`].
///
/// If the time is too short, this host builds an entry that another one was about to have: work is lost, and no result. If it is too
/// long, a caller hangs for it because another host does, which is why it is not the time that a build may take.
pub const UNKNOWN_WAIT: Duration = Duration::from_secs(60);

/// The conditions of a request: which entries the caller uses, and how it waits.
///
/// A query is `Send` and `Sync`, so a binding to another language may create it on one thread and wait on another. Its
/// functions are called on the thread that calls the cache. During these calls the cache holds no lock in memory, so the
/// functions may call the cache.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Query<'a> {
    /// Decides whether the caller uses an entry of the local store or the remote tier. Called at each look-up, so possibly
    /// several times for the same entry. Entries from the remote tier have the validation stamp 0.
    pub accept: &'a (dyn Fn(&Entry) -> Accept + Sync),
    /// The time limit of the caller's own build. A timeout of another caller applies to this one if this limit is not longer
    /// than the other's. The caller waits no longer than this for another host's lease.
    pub time_limit: Option<Duration>,
    /// The time without a heartbeat after which the holder of the key is stale, and the caller builds without the lock: ten
    /// minutes by default, [`Duration::MAX`] for no limit. A holder whose builds take longer calls
    /// [`Ticket::heartbeat`](crate::Ticket::heartbeat) in the meantime. With a remote tier, the time is at least a few seconds
    /// longer than one call to the tier may take, since a holder gives a heartbeat before and after each call.
    pub stale_after: Duration,
    /// The time for which a lease in the remote tier is renewed: one hour if unset, [`Duration::MAX`] for no limit. A ticket
    /// that is never dropped keeps other hosts waiting for this time at most.
    pub hold_limit: Option<Duration>,
    /// The time for which the caller waits for another host's lease, if that is less than [`time_limit`](Self::time_limit): a
    /// multiple of the time that its own build is expected to take. To it, the time is added after which a lease is taken over.
    pub wait_limit: Option<Duration>,
    /// The time that calls to the remote tier may take together, for all queries with the same budget. If unset, each call has
    /// only the timeouts of [`RemoteConfig`](crate::RemoteConfig).
    pub wait_budget: Option<&'a WaitBudget>,
    /// The time at which the request began that this query is part of, for a request with many keys: what the remote tier has answered
    /// since is not asked for again, however long the request takes. If unset, an answer is believed for a quarter of a second, or a
    /// few times as long as the call took.
    pub fresh_since: Option<Instant>,
    /// Whether the entry is one that [other hosts cannot use](crate::CacheConfig::is_for_others): then the remote tier is not asked
    /// for it, and no lease is claimed.
    pub stays_here: bool,
    /// Whether a miss counts in the store's statistics. Hits always count.
    pub counted: bool,
    /// The end of waits and of calls to the remote tier. If unset, there is none. A wait ends with
    /// [`Claim::TimedOut`](crate::Claim::TimedOut). A call to the tier without an answer by then counts as a miss, and the
    /// caller builds, unless it waits for another host already.
    pub deadline: Option<Instant>,
    /// A token that ends waits and calls to the remote tier with [`Claim::Cancelled`](crate::Claim::Cancelled). The ticket
    /// keeps the token, which also ends the call that publishes the entry to the remote tier.
    pub cancel: Option<&'a CancelToken>,
    /// The reaction to a key that another caller holds.
    pub wait: Wait<'a>,
    /// A function that is called every 1 to 20 ms while the caller waits. It returns whether the wait goes on; if not, the
    /// claim is [`Claim::Pending`](crate::Claim::Pending). It may cancel the token, as an interpreter does whose signal handlers
    /// run only between calls.
    pub on_poll: Option<&'a (dyn Fn() -> bool + Sync)>,
    /// A function that is called before a lease is claimed, for a caller that needs something scarce for its build, such as a job
    /// token: with a lease in hand it must not wait for that, since no other host could build meanwhile. The function may wait for
    /// as long as the function that it is given returns true: this host's waiters get a heartbeat from it, and it returns false if
    /// another host has the entry or the lease by then. Returns whether the caller can build; if not, no lease is claimed.
    pub before_claim: Option<&'a BeforeClaim<'a>>,
    /// Leases that were claimed before.
    pub(crate) claimed: Option<&'a ClaimedLeases>,
}

/// The function in [`Query::before_claim`].
pub type BeforeClaim<'a> = dyn Fn(&dyn Fn() -> bool) -> bool + Sync + 'a;

impl<'a> Query<'a> {
    /// Creates a query that counts misses and does not wait, for a caller whose builds have no time limit.
    pub fn new(accept: &'a (dyn Fn(&Entry) -> Accept + Sync)) -> Self {
        Self {
            accept,
            time_limit: None,
            stale_after: DEFAULT_STALE_AFTER,
            hold_limit: None,
            wait_limit: None,
            wait_budget: None,
            fresh_since: None,
            stays_here: false,
            counted: true,
            deadline: None,
            cancel: None,
            wait: Wait::Never,
            on_poll: None,
            before_claim: None,
            claimed: None,
        }
    }

    /// Returns the limits of each call to the remote tier.
    pub(crate) fn limits(&self) -> Limits<'a> {
        let Self { deadline, cancel, wait_budget: budget, .. } = *self;
        let needs_progress = budget.is_none_or(|budget| !budget.is_unlimited());
        Limits { deadline, cancel, budget, is_waited_for: true, needs_progress }
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
            .field("stays_here", &self.stays_here)
            .field("counted", &self.counted)
            .field("deadline", &self.deadline)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}

/// The reaction to a key that another caller holds.
///
/// A caller that holds a ticket must use [`Never`](Self::Never): two callers that wait for each other's keys would wait for
/// ever.
#[derive(Clone, Copy)]
pub enum Wait<'a> {
    /// Return [`Claim::Pending`](crate::Claim::Pending). For a caller that has other work.
    Never,
    /// Wait for the holder, until the query's deadline or its token ends the wait.
    ForHolder {
        /// A function that is called once, if another caller holds the key.
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

/// A caller's decision about an entry, whose bytes were checked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Accept {
    /// The caller uses the entry.
    Take,
    /// The caller uses the entry, and has validated it by its own rules. The local store records the stamp, so that the next
    /// caller need not validate the entry.
    Validated {
        /// The validation stamp, greater than 0.
        stamp: u32,
        /// Lazy members to add. They replace members of the same names.
        renewed: Vec<(String, Vec<u8>)>,
    },
    /// The entry is not for this caller, and stays: a build does not replace it.
    Ignore,
    /// The entry does not belong to the key, or is outdated: a build replaces it. The reason is for people.
    Replace(String),
}

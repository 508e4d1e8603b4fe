//! The results of a check.

use std::time::Duration;

use opkeep_cache::{Capabilities, EngineSpace, ExclusiveCreate, RemoteError};

/// What an engine does, as several clients of this host see it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckReport {
    /// The engine, without credentials.
    pub location: String,
    /// What the names of the objects that the check stored begin with.
    pub prefix: String,
    /// The number of clients, each with connections of its own.
    pub clients: usize,
    /// What the client says that the engine does.
    pub capabilities: Capabilities,
    /// The time of one small request.
    pub round_trip: RoundTrip,
    /// Whether objects can be stored with these credentials.
    pub access: Access,
    /// The engine's limit on the size of all objects, and what was in use before the check stored anything; `None` if there is no limit.
    pub space: Probe<Option<EngineSpace>>,
    /// What is stored, and what becomes of it. This and the next ones are `None` if nothing can be stored.
    pub objects: Option<Probe<ObjectCheck>>,
    /// The race for leases; for objects, if there are no leases.
    pub race: Option<Probe<Race>>,
    /// Renewals and releases by others than the holder. `None` also without leases.
    pub leases: Option<Probe<LeaseCheck>>,
    /// The time after which a lease was gone that nothing renewed; its inner `None`: it was not, in [`CheckReport::EXPIRY_LIMIT`].
    /// `None` also without expiry.
    pub expiry: Option<Probe<Option<Duration>>>,
    /// Additions to one counter. `None` also without counters.
    pub counters: Option<Probe<CounterCheck>>,
    /// Many objects in one call.
    pub batch: Option<Probe<Batch>>,
    /// The largest object.
    pub largest: Option<Probe<Largest>>,
    /// The listing. `None` if the engine has none.
    pub listing: Option<Probe<ListingCheck>>,
    /// What is left of the check.
    pub left: Leftovers,
}

/// The result of a part of the check, or the error that ended it.
pub type Probe<T> = Result<T, RemoteError>;

/// The times of one small request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoundTrip {
    /// The number of requests, over one connection.
    pub requests: usize,
    /// The median.
    pub median: Duration,
    /// The longest.
    pub worst: Duration,
}

/// Whether objects can be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Objects are read and stored.
    ReadWrite,
    /// The engine refuses to store objects: these credentials only read.
    ReadOnly {
        /// The engine's answer.
        reason: String,
    },
    /// The engine has no space for a small object, or not for those of a small build.
    Full {
        /// The engine's answer.
        reason: String,
    },
    /// Storing failed for another reason.
    Failed(RemoteError),
}

/// What became of a small object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectCheck {
    /// Whether another client read the bytes that were stored.
    pub is_intact: bool,
    /// The time after which another client read it; `None` if it did not, in a few seconds.
    pub seen_after: Option<Duration>,
    /// Whether the object stayed when another client stored one of its name, if there is none. `None`: the engine refused that.
    pub is_kept: Option<bool>,
    /// Whether another client read the new content after a replacement. `None`: the engine refuses to replace it.
    pub is_replaced: Option<bool>,
    /// Whether it was gone after it was deleted. `None`: the engine refuses to delete it.
    pub is_removed: Option<bool>,
}

/// The race of several clients for the same leases, or for the same objects if there are no leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Race {
    /// The rounds that were run: less than were requested if they took too long.
    pub rounds: usize,
    /// The rounds in which several clients got the lease.
    pub shared_rounds: usize,
    /// The rounds in which no client got it.
    pub lost_rounds: usize,
    /// The most clients that got one lease, and the number of that round, from 1.
    pub most: (usize, usize),
    /// The number of claims that ended with an error.
    pub errors: usize,
}

/// What others than its holder can do with a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseCheck {
    /// Whether its holder renewed it, and another client read the new value.
    pub is_renewed: bool,
    /// Whether another client could not renew it.
    pub renewal_compares: bool,
    /// Whether another client could not release it.
    pub release_compares: bool,
    /// Whether it was gone after its holder released it.
    pub is_released: bool,
}

/// Additions of all clients to one counter at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CounterCheck {
    /// The additions, of 1 each.
    pub added: u64,
    /// The value afterwards.
    pub counted: u64,
}

/// Many objects in one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Batch {
    /// The number of objects.
    pub objects: usize,
    /// The size of each, in bytes.
    pub bytes: usize,
    /// The time of storing them.
    pub put: Duration,
    /// The time of fetching them.
    pub get: Duration,
    /// The number of objects that arrived with their bytes.
    pub intact: usize,
}

/// The largest object that was stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Largest {
    /// Its size in bytes.
    pub bytes: u64,
    /// The size of the next larger one, and why it was not stored. `None`: no larger one was tried.
    pub failed: Option<(u64, String)>,
    /// Why no larger one was tried, although objects of other sizes may be tried. `None`: the largest size was, or one failed.
    pub untested: Option<Untested>,
}

/// Why no larger object is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Untested {
    /// It would need more than a small part of the engine's free space.
    Space {
        /// The free space before the check, in bytes.
        free: u64,
    },
    /// The engine does not state its space, or not for these credentials.
    Unknown,
}

/// The listing of the objects of the check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListingCheck {
    /// The number of objects that exist.
    pub expected: usize,
    /// The number of them that are listed.
    pub found: usize,
    /// The age of the oldest of them by the engine's clock, which the check stored; `None` if the engine has no ages.
    pub age: Option<Duration>,
    /// The duration of the check until then, by this host's clock.
    pub elapsed: Duration,
}

/// What is left of the check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftovers {
    /// The number of objects that may be left.
    pub objects: usize,
    /// Why they could not be deleted.
    pub error: Option<RemoteError>,
}

/// How builds use leases of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseUse {
    /// The engine guarantees that one client gets a lease, and did so.
    Proven,
    /// Nothing guarantees it. In the race one client got each lease.
    Unproven,
    /// Several clients got one lease.
    Shared,
    /// There are no leases.
    None,
}

impl CheckReport {
    /// The time for which a lease that nothing renews is waited for.
    pub const EXPIRY_LIMIT: Duration = Duration::from_secs(5);
    /// The time for which the objects of a check are listed: an engine may look at the names of all programs.
    pub const LISTING_LIMIT: Duration = Duration::from_secs(30);

    /// Returns the report of an engine that has no space, with its reason. What the other parts of the check found depends on the moment
    /// at which the space ended.
    pub(super) fn that_is_full(self, reason: String) -> Self {
        let (race, leases, expiry, counters, batch, largest) = Default::default();
        Self { access: Access::Full { reason }, race, leases, expiry, counters, batch, largest, ..self }
    }

    /// Returns how builds use leases.
    pub fn lease_use(&self) -> LeaseUse {
        match &self.race {
            Some(Ok(race))
                if race.most.0 > 1 && self.capabilities.exclusive_create != ExclusiveCreate::None =>
            {
                LeaseUse::Shared
            }
            Some(Ok(race)) if race.rounds > race.lost_rounds => match self.capabilities.exclusive_create {
                ExclusiveCreate::Proven => LeaseUse::Proven,
                ExclusiveCreate::None => LeaseUse::None,
                _ => LeaseUse::Unproven,
            },
            _ => LeaseUse::None,
        }
    }

    /// Whether builds can use the engine: what it stores comes back. If nothing can be stored, they can read it.
    pub fn is_usable(&self) -> bool {
        match (&self.access, &self.objects) {
            (Access::ReadWrite, Some(Ok(objects))) => objects.is_intact,
            (Access::ReadWrite, _) => false,
            _ => true,
        }
    }
}

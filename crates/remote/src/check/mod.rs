//! What an engine really does: its server may be another program than its protocol says, or be set up in another way.
//!
//! Several clients, each with connections of its own, store objects, claim the same leases at the same moment, renew and release
//! each other's, and so on. All is below [`CHECK_PREFIX`](crate::CHECK_PREFIX) or in a given namespace, below a target with 16 random
//! digits, and is deleted at the end.
//!
//! An engine of limited space evicts data of other programs, or refuses it, if the objects of a check take that space. So the largest ones
//! are of a size that needs a small part of what is free.
//!
//! The clients are threads of this process. What a file system of another host shows of these clients, it may show later to other
//! hosts.

mod probes;
mod race;
mod report;
mod session;

use std::sync::Arc;
use std::time::Duration;

use opkeep_cache::fs::CancelToken;
use opkeep_cache::{ExclusiveCreate, Namespace, RemoteEngine, RemoteError};
use thiserror::Error;

use crate::error::OpenError;
use crate::open::open;
use crate::options::OpenOptions;
pub use report::{
    Access, Batch, CheckReport, CounterCheck, Largest, LeaseCheck, LeaseUse, Leftovers, ListingCheck,
    ObjectCheck, Probe, Race, RoundTrip, Untested,
};
use session::Session;

/// The numbers of clients that a check may have: each is a thread with a connection.
pub const CHECK_CLIENTS: std::ops::RangeInclusive<usize> = 2..=256;

/// The settings of a check.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CheckOptions<'a> {
    /// The number of clients that race; 16 by default. One outside of [`CHECK_CLIENTS`] becomes the nearest one in it.
    pub clients: usize,
    /// The number of leases that they race for; 20 by default. The race ends after 10 s, whatever the rounds.
    pub rounds: usize,
    /// The size of the largest object that is stored, in bytes; 32 MiB by default, which is also the most. An engine of limited or
    /// unknown space gets smaller ones.
    pub max_object_bytes: u64,
    /// The maximum time of one call; 10 s by default.
    pub call_timeout: Duration,
    /// The namespace in which the objects are, for credentials that reach no other names. By default one that is only for checks.
    pub namespace: Option<&'a Namespace>,
    /// A token that ends the check early. What it stored is deleted nevertheless.
    pub cancel: Option<&'a CancelToken>,
}

impl Default for CheckOptions<'_> {
    fn default() -> Self {
        let call_timeout = Duration::from_secs(10);
        let (namespace, cancel) = (None, None);
        Self { clients: 16, rounds: 20, max_object_bytes: 32 << 20, call_timeout, namespace, cancel }
    }
}

/// An engine cannot be checked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The URL cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Too few clients were given.
    #[error("an engine is checked by {} clients or more, found {clients}", CHECK_CLIENTS.start())]
    TooFewClients {
        /// Their number.
        clients: usize,
    },
    /// The engine does not answer requests for objects, or the check was cancelled.
    #[error("`{location}` cannot be used")]
    Remote {
        /// The engine, without credentials.
        location: String,
        /// The error of the call.
        source: RemoteError,
    },
}

/// Checks the engine at `url`.
///
/// # Errors
/// The URL cannot be opened, the engine does not answer requests for objects, or the check was cancelled. All else is in the report.
pub fn check(
    url: &str,
    opening: &OpenOptions,
    options: &CheckOptions<'_>,
) -> Result<CheckReport, CheckError> {
    let clients = options.clients.clamp(*CHECK_CLIENTS.start(), *CHECK_CLIENTS.end());
    let engines = (0..clients).map(|_| open(url, opening)).collect::<Result<Vec<_>, _>>()?;
    check_clients(engines, options)
}

/// Checks an engine by these clients of it, of which none shares a connection with another: at least two.
///
/// # Errors
/// As [`check`].
pub fn check_clients(
    engines: Vec<Arc<dyn RemoteEngine>>,
    options: &CheckOptions<'_>,
) -> Result<CheckReport, CheckError> {
    if engines.len() < *CHECK_CLIENTS.start() {
        return Err(CheckError::TooFewClients { clients: engines.len() });
    }
    let location = engines[0].location().to_owned();
    let failed = |source| CheckError::Remote { location: location.clone(), source };
    let session = Session::new(engines, options.namespace, options.call_timeout, options.cancel);
    let session = session.map_err(failed)?;
    let report = run(&session, options);
    let has_listing = report.as_ref().is_ok_and(|report| report.capabilities.has_listing);
    // A call that failed may have stored something nevertheless; without one, an engine that hangs is not asked again.
    let stores_nothing = match &report {
        Ok(report) => matches!(report.access, Access::ReadOnly { .. }),
        Err(_) => !session.has_stored(),
    };
    let left = if stores_nothing { Leftovers::default() } else { session.clean(has_listing) };
    report.map(|report| CheckReport { left, ..report }).map_err(failed)
}

fn run(session: &Session<'_>, options: &CheckOptions<'_>) -> Result<CheckReport, RemoteError> {
    let round_trip = probes::round_trip(session)?;
    let capabilities = session.first().capabilities(&session.context())?;
    let space = session.first().space(&session.context());
    let (access, objects) = probes::objects(session);
    let writes = access == Access::ReadWrite;
    let has_leases = writes && capabilities.exclusive_create != ExclusiveCreate::None;
    let race = writes.then(|| race::race(session, options.rounds.max(1), has_leases));
    let leases = has_leases.then(|| probes::leases(session));
    let expires = has_leases && capabilities.expires_leases;
    let expiry = expires.then(|| probes::expiry(session));
    let counters = (writes && capabilities.has_counters).then(|| race::count(session));
    let (batch, existing) = match writes {
        true => {
            let (batch, names) = probes::batch(session);
            let existing = if batch.is_ok() { names } else { Vec::new() };
            (Some(batch), existing)
        }
        false => (None, Vec::new()),
    };
    let listing = capabilities.has_listing.then(|| probes::listing(session, &existing));
    if writes {
        // Space for large objects.
        let _ = session.first().remove(&existing, &session.context());
    }
    let limit = options.max_object_bytes.min(capabilities.max_object_bytes);
    let largest = writes.then(|| probes::largest(session, limit, &space));
    session.check_cancelled()?;
    let report = CheckReport {
        location: session.first().location().to_owned(),
        prefix: session.prefix(),
        clients: session.engines.len(),
        capabilities,
        round_trip,
        access,
        space,
        objects,
        race,
        leases,
        expiry,
        counters,
        batch,
        largest,
        listing,
        left: Leftovers::default(),
    };
    Ok(match full(&report) {
        Some(reason) => report.that_is_full(reason),
        None => report,
    })
}

/// Returns the engine's reason, if it stored a small object and then had no space for the others.
fn full(report: &CheckReport) -> Option<String> {
    let error = |error: &RemoteError| match error {
        RemoteError::Full { reason } => Some(reason.clone()),
        _ => None,
    };
    let batch = report.batch.as_ref().and_then(|probe| error(probe.as_ref().err()?));
    let race = report.race.as_ref().and_then(|probe| error(probe.as_ref().err()?));
    let leases = report.leases.as_ref().and_then(|probe| error(probe.as_ref().err()?));
    batch.or(race).or(leases)
}

//! The parts of a check that need no race.

use std::thread;
use std::time::{Duration, Instant};

use opkeep_cache::{
    ClaimAnswer, ClaimTerms, EngineSpace, LeaseValue, ObjectName, PutAnswer, RemoteError, RemoteObject,
};

use super::report::{
    Access, Batch, CheckReport, Largest, LeaseCheck, ListingCheck, ObjectCheck, Probe, RoundTrip, Untested,
};
use super::session::{Session, content, token};

/// The number of small requests that are timed.
const REQUESTS: usize = 50;
/// The time after which no further one is timed.
const MAX_TIMING: Duration = Duration::from_secs(5);
/// The time for which another client looks for an object that was stored.
const SEEN_LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);
/// The number and the size of the objects of a batch: those of small kernels.
const BATCH: (usize, usize) = (64, 4096);
/// The sizes of large objects, in bytes.
const SIZES: [u64; 6] = [256 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20, 32 << 20];
/// The most memory of an engine that each byte of a large object needs: Redis 7.0 needs 3.5 bytes for the request, the object and the
/// answer, as its `used_memory_peak` says.
const COST: u64 = 4;
/// The part of an engine's free space that a large object may need.
const PART: u64 = 8;
/// The size of the largest object for an engine whose space is unknown.
const OF_UNKNOWN_SPACE: u64 = 1 << 20;
const KEPT: Duration = Duration::from_secs(60);
/// The time for which the engine keeps the lease that is to expire.
const EXPIRES_AFTER: Duration = Duration::from_secs(1);

/// Times small requests. The first connects, and is not counted: it asks for several objects, as a build does, since some servers
/// answer only requests for one.
pub(super) fn round_trip(session: &Session<'_>) -> Result<RoundTrip, RemoteError> {
    let [none, other] = ["none", "none either"].map(|label| session.entry(label));
    session.first().get_many(&[none.clone(), other], &session.context(), &mut |_, _| {})?;
    let (mut times, began) = (Vec::with_capacity(REQUESTS), Instant::now());
    while times.len() < REQUESTS && (times.is_empty() || began.elapsed() < MAX_TIMING) {
        let asked = Instant::now();
        session.get(session.first(), &none)?;
        times.push(asked.elapsed());
    }
    opkeep_order::sort(&mut times);
    let worst = times.last().copied().unwrap_or_default();
    Ok(RoundTrip { requests: times.len(), median: times[times.len() / 2], worst })
}

/// Stores a small object, and looks what becomes of it.
pub(super) fn objects(session: &Session<'_>) -> (Access, Option<Probe<ObjectCheck>>) {
    let (name, first) = (session.entry("object"), content(1000, 1));
    session.stores();
    match session.first().put_if_absent(&[RemoteObject::new(&name, &first)], &session.context()) {
        Ok(_) => (Access::ReadWrite, Some(follow(session, &name, &first))),
        Err(RemoteError::Refused { reason }) => (Access::ReadOnly { reason }, None),
        Err(error @ RemoteError::Unsupported { .. }) => {
            (Access::ReadOnly { reason: error.to_string() }, None)
        }
        Err(RemoteError::Full { reason }) => (Access::Full { reason }, None),
        Err(error) => (Access::Failed(error), None),
    }
}

fn follow(session: &Session<'_>, name: &ObjectName, first: &[u8]) -> Probe<ObjectCheck> {
    let (engine, other) = (session.first(), session.other());
    let stored = Instant::now();
    let (mut check, mut seen) = (ObjectCheck::default(), session.get(other, name)?);
    while seen.is_none() && stored.elapsed() < SEEN_LIMIT {
        session.check_cancelled()?;
        thread::sleep(PAUSE);
        seen = session.get(other, name)?;
    }
    check.seen_after = seen.is_some().then(|| stored.elapsed());
    check.is_intact = seen.as_deref() == Some(first);
    // Whatever the engine refuses from here on, builds use what is stored.
    let second = content(1000, 2);
    let answers = allowed(other.put_if_absent(&[RemoteObject::new(name, &second)], &session.context()))?;
    let kept = session.get(engine, name)?.as_deref() == Some(first);
    check.is_kept = answers.map(|answers| answers == [PutAnswer::Existed] && kept);
    let third = content(1000, 3);
    let replaced = allowed(engine.replace(&[RemoteObject::new(name, &third)], &session.context()))?;
    let seen = session.get(other, name)?;
    check.is_replaced = replaced.map(|()| seen.as_deref() == Some(&third[..]));
    let removed = allowed(engine.remove(std::slice::from_ref(name), &session.context()))?;
    let is_gone = session.get(other, name)?.is_none();
    check.is_removed = removed.map(|()| is_gone);
    Ok(check)
}

/// Returns the answer to a call; `None` if the engine refuses such calls, or has no space.
fn allowed<T>(answer: Result<T, RemoteError>) -> Result<Option<T>, RemoteError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(RemoteError::Unsupported { .. } | RemoteError::Refused { .. } | RemoteError::Full { .. }) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Renews and releases a lease, by its holder and by another client.
pub(super) fn leases(session: &Session<'_>) -> Probe<LeaseCheck> {
    let (holder, other, name) = (session.first(), session.other(), session.lease("lease"));
    let names = std::slice::from_ref(&name);
    let (own, foreign) = (token(), token());
    let terms = ClaimTerms::new(1, KEPT);
    let claimed = holder.claim(names, &LeaseValue::new(own, 0), terms, &session.context())?;
    if claimed != [ClaimAnswer::Granted] {
        return Err(RemoteError::Invalid { reason: "a lease that no client has is not granted".to_owned() });
    }
    let value =
        || Ok::<_, RemoteError>(session.get(other, &name)?.and_then(|found| LeaseValue::decode(&found)));
    let mut check = LeaseCheck::default();
    let renewed = LeaseValue::new(own, 1);
    let answers = holder.renew(names, &renewed, KEPT, &session.context())?;
    check.is_renewed = answers == [true] && value()? == Some(renewed);
    let answers = other.renew(names, &LeaseValue::new(foreign, 9), KEPT, &session.context())?;
    check.renewal_compares = answers == [false] && value()? == Some(renewed);
    // Without the right to delete, a lease stays.
    allowed(other.release(names, &foreign, &session.context()))?;
    check.release_compares = value()?.is_some();
    allowed(holder.release(names, &own, &session.context()))?;
    check.is_released = value()?.is_none();
    Ok(check)
}

/// Waits for a lease that nothing renews.
pub(super) fn expiry(session: &Session<'_>) -> Probe<Option<Duration>> {
    let name = session.lease("expiry");
    let claimed = Instant::now();
    let (names, value) = (std::slice::from_ref(&name), LeaseValue::new(token(), 0));
    session.first().claim(names, &value, ClaimTerms::new(1, EXPIRES_AFTER), &session.context())?;
    while claimed.elapsed() < CheckReport::EXPIRY_LIMIT {
        session.check_cancelled()?;
        thread::sleep(PAUSE);
        if session.get(session.other(), &name)?.is_none() {
            return Ok(Some(claimed.elapsed()));
        }
    }
    Ok(None)
}

/// Stores and fetches many objects in one call each. Returns their names as well.
pub(super) fn batch(session: &Session<'_>) -> (Probe<Batch>, Vec<ObjectName>) {
    let names: Vec<_> = (0..BATCH.0).map(|number| session.entry(&format!("batch {number}"))).collect();
    let contents: Vec<_> = (0..BATCH.0).map(|number| content(BATCH.1, 100 + number as u64)).collect();
    let objects: Vec<_> =
        names.iter().zip(&contents).map(|(name, content)| RemoteObject::new(name, content)).collect();
    let run = || {
        let began = Instant::now();
        session.first().put_if_absent(&objects, &session.context())?;
        let put = began.elapsed();
        let (mut intact, began) = (0, Instant::now());
        session.other().get_many(&names, &session.context(), &mut |at, found| {
            intact += usize::from(contents.get(at) == Some(&found));
        })?;
        Ok(Batch { objects: BATCH.0, bytes: BATCH.1, put, get: began.elapsed(), intact })
    };
    (run(), names)
}

/// Lists the objects of the check.
pub(super) fn listing(session: &Session<'_>, existing: &[ObjectName]) -> Probe<ListingCheck> {
    let (mut found, mut age) = (vec![false; existing.len()], None);
    session.list(CheckReport::LISTING_LIMIT, |object| {
        if let Some(at) = existing.iter().position(|name| *name == object.name) {
            found[at] = true;
            age = age.max(object.idle);
        }
    })?;
    let found = found.into_iter().filter(|found| *found).count();
    Ok(ListingCheck { expected: existing.len(), found, age, elapsed: session.began.elapsed() })
}

/// Stores larger and larger objects, up to `limit` bytes and what the engine's space allows, until one fails.
pub(super) fn largest(
    session: &Session<'_>,
    limit: u64,
    space: &Probe<Option<EngineSpace>>,
) -> Probe<Largest> {
    let mut largest = Largest::default();
    for bytes in SIZES.into_iter().filter(|bytes| *bytes <= limit) {
        session.check_cancelled()?;
        largest.untested = untested(bytes, space);
        if largest.untested.is_some() {
            break;
        }
        match is_stored(session, bytes) {
            Ok(true) => largest.bytes = bytes,
            Ok(false) => {
                largest.failed = Some((bytes, "it does not come back as it was stored".to_owned()));
                break;
            }
            Err(RemoteError::Cancelled) => return Err(RemoteError::Cancelled),
            Err(error) => {
                largest.failed = Some((bytes, error.to_string()));
                break;
            }
        }
    }
    Ok(largest)
}

/// Returns why an object of this size is not tried on an engine with this space.
fn untested(bytes: u64, space: &Probe<Option<EngineSpace>>) -> Option<Untested> {
    match space {
        Ok(None) => None,
        Ok(Some(space)) => {
            let free = space.limit.saturating_sub(space.used);
            (bytes * COST > free / PART).then_some(Untested::Space { free })
        }
        Err(_) => (bytes > OF_UNKNOWN_SPACE).then_some(Untested::Unknown),
    }
}

/// Stores an object of this size, and returns whether it comes back.
fn is_stored(session: &Session<'_>, bytes: u64) -> Result<bool, RemoteError> {
    let (name, content) = (session.entry(&format!("large {bytes}")), content(bytes as usize, bytes));
    session.first().put_if_absent(&[RemoteObject::new(&name, &content)], &session.context())?;
    let is_stored = session.get(session.other(), &name)?.is_some_and(|found| found == content);
    // Space for the next one.
    let _ = session.first().remove(&[name], &session.context());
    Ok(is_stored)
}

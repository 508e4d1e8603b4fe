//! Calls of all clients at the same moment.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use opkeep_cache::{
    ClaimAnswer, ClaimTerms, LeaseValue, ObjectName, PutAnswer, RemoteEngine, RemoteError, RemoteObject,
};

use super::report::{CounterCheck, Race};
use super::session::{Session, token};

/// The time after which no further round begins.
const MAX_TIME: Duration = Duration::from_secs(10);
/// The time for which an engine with expiry keeps the leases of a race, if the check is killed.
const KEPT: Duration = Duration::from_secs(60);

/// Races for `rounds` leases; for objects, if there are no leases.
pub(super) fn race(session: &Session<'_>, rounds: usize, has_leases: bool) -> Result<Race, RemoteError> {
    connect_all(session)?;
    let (mut race, began) = (Race::default(), Instant::now());
    let mut failure = None;
    while race.rounds < rounds && (race.rounds == 0 || began.elapsed() < MAX_TIME) {
        session.check_cancelled()?;
        let label = format!("race {}", race.rounds);
        let name = if has_leases { session.lease(&label) } else { session.entry(&label) };
        let answers = at_once(session, |engine| match has_leases {
            true => claim(session, engine, &name),
            false => create(session, engine, &name),
        })?;
        race.rounds += 1;
        let mut granted = 0;
        for answer in answers {
            match answer {
                Ok(is_granted) => granted += usize::from(is_granted),
                Err(error) => {
                    race.errors += 1;
                    failure = Some(error);
                }
            }
        }
        race.shared_rounds += usize::from(granted > 1);
        race.lost_rounds += usize::from(granted == 0);
        if granted > race.most.0 {
            race.most = (granted, race.rounds);
        }
        // Each round has a lease of its own, so an engine that deletes nothing may still be exclusive.
        let _ = session.first().remove(&[name], &session.context());
    }
    // Nothing is known of an engine that answered no claim.
    match failure {
        Some(error) if race.errors == race.rounds * session.engines.len() => Err(error),
        _ => Ok(race),
    }
}

/// Claims a lease. Its winner does not release it, or another client could get it as well.
fn claim(session: &Session<'_>, engine: &dyn RemoteEngine, name: &ObjectName) -> Result<bool, RemoteError> {
    let value = LeaseValue::new(token(), 0);
    let names = std::slice::from_ref(name);
    let answers = engine.claim(names, &value, ClaimTerms::new(1, KEPT), &session.context())?;
    Ok(answers.first() == Some(&ClaimAnswer::Granted))
}

/// Creates an object.
fn create(session: &Session<'_>, engine: &dyn RemoteEngine, name: &ObjectName) -> Result<bool, RemoteError> {
    let object = RemoteObject::new(name, b"an object of a check");
    let answers = engine.put_if_absent(&[object], &session.context())?;
    Ok(answers.first() == Some(&PutAnswer::Stored))
}

/// Adds to one counter by all clients.
pub(super) fn count(session: &Session<'_>) -> Result<CounterCheck, RemoteError> {
    let name = session.counter("counter");
    let answers = at_once(session, |engine| engine.advance(&name, 1, KEPT, &session.context()))?;
    let added = answers.iter().filter(|answer| answer.is_ok()).count() as u64;
    if let Some(error) = answers.into_iter().find_map(Result::err).filter(|_| added == 0) {
        return Err(error);
    }
    let counted = session.other().progress(&name, &session.context())?.unwrap_or_default();
    Ok(CounterCheck { added, counted })
}

/// Connects all clients, so that none of them loses a race because it has to.
fn connect_all(session: &Session<'_>) -> Result<(), RemoteError> {
    let none = session.entry("none");
    let answers = at_once(session, |engine| session.get(engine, &none).map(drop))?;
    answers.into_iter().collect()
}

/// Runs `call` for each client in a thread of its own, all at the same moment.
fn at_once<T: Send>(
    session: &Session<'_>,
    call: impl Fn(&dyn RemoteEngine) -> T + Sync,
) -> Result<Vec<T>, RemoteError> {
    let (ready, go) = (AtomicUsize::new(0), AtomicBool::new(false));
    let started = |error: std::io::Error| RemoteError::Unreachable {
        reason: format!("a thread of this host cannot be started: {error}"),
    };
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut failure = None;
        for engine in &session.engines {
            let (call, ready, go) = (&call, &ready, &go);
            let run = move || {
                ready.fetch_add(1, Ordering::SeqCst);
                while !go.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                call(&**engine)
            };
            match thread::Builder::new().name("remote-check".to_owned()).spawn_scoped(scope, run) {
                Ok(thread) => threads.push(thread),
                Err(error) => failure = Some(started(error)),
            }
        }
        while ready.load(Ordering::SeqCst) < threads.len() {
            thread::yield_now();
        }
        go.store(true, Ordering::Release);
        let answers = threads.into_iter().map(|thread| match thread.join() {
            Ok(answer) => answer,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let answers: Vec<T> = answers.collect();
        failure.map_or(Ok(answers), Err)
    })
}

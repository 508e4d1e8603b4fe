//! What every engine must do: one suite, run on each.
//!
//! To run it on an engine, build a [`Subject`] and add [`trials`] of it to the list in `main.rs`; where the engine's server is
//! missing, add [`ignored`]. Trials of what the engine does not have, by its [`Capabilities`], show as ignored. All names of a
//! trial begin with a scope of its own, so trials run at the same time, and an engine may be used again.

mod builds;
mod counters;
mod leases;
mod limits;
mod listing;
mod objects;
mod races;

pub(crate) use limits::answers_of_all_calls;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{
    Capabilities, ExclusiveCreate, LeaseToken, LeaseValue, ObjectName, RemoteContext, RemoteEngine,
    RemoteError, RemoteObject,
};
use opkeep_testkit::servers::trial_with;

/// An engine to run the suite on.
#[derive(Clone)]
pub(crate) struct Subject {
    /// What the names of the trials begin with.
    pub(crate) name: &'static str,
    /// Returns a client of the engine that shares nothing with those returned before, as if it were another host's.
    pub(crate) open: Arc<dyn Fn() -> Arc<dyn RemoteEngine> + Send + Sync>,
    /// The capabilities that it must have.
    pub(crate) capabilities: Capabilities,
    /// The rounds of a race of 16 clients.
    pub(crate) rounds: usize,
    /// What [`RemoteEngine::location`] must not contain.
    pub(crate) secrets: &'static [&'static str],
}

/// One trial of the suite: its engine, and names that no other trial uses.
pub(crate) struct Case {
    subject: Subject,
    engine: Arc<dyn RemoteEngine>,
    scope: String,
}

/// What an engine must have for a trial.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Objects,
    Leases,
    /// Exclusive creation among clients that create at the same time.
    ProvenLeases,
    ExpiringLeases,
    Counters,
    ExpiringCounters,
    Listing,
}

type Run = fn(&Case);
type Cases = &'static [(&'static str, Needs, Run)];

const MODULES: [(&str, Cases); 7] = [
    ("builds", builds::CASES),
    ("objects", objects::CASES),
    ("leases", leases::CASES),
    ("races", races::CASES),
    ("counters", counters::CASES),
    ("listing", listing::CASES),
    ("limits", limits::CASES),
];

/// The trials of an engine.
pub(crate) fn trials(subject: &Subject) -> Vec<Trial> {
    each(|module, case, needs, run| {
        let own = subject.clone();
        let trial = Trial::test(format!("{}/{module}/{case}", subject.name), move || {
            run(&Case::new(own));
            Ok::<(), Failed>(())
        });
        trial.with_ignored_flag(!needs.are_met_by(&subject.capabilities))
    })
}

/// The trials of an engine whose server is missing.
pub(crate) fn ignored(name: &str, reason: &str) -> Vec<Trial> {
    each(|module, case, _, _| {
        trial_with(format!("{name}/{module}/{case}"), Some(reason.to_owned()), || Ok(()))
    })
}

fn each(mut trial: impl FnMut(&str, &str, Needs, Run) -> Trial) -> Vec<Trial> {
    let cases = MODULES.iter().flat_map(|(module, cases)| cases.iter().map(move |case| (*module, case)));
    cases.map(|(module, (case, needs, run))| trial(module, case, *needs, *run)).collect()
}

impl Needs {
    fn are_met_by(self, capabilities: &Capabilities) -> bool {
        match self {
            Self::Objects => true,
            Self::Leases => capabilities.exclusive_create != ExclusiveCreate::None,
            Self::ProvenLeases => capabilities.exclusive_create == ExclusiveCreate::Proven,
            Self::ExpiringLeases => Self::Leases.are_met_by(capabilities) && capabilities.expires_leases,
            Self::Counters => capabilities.has_counters,
            Self::ExpiringCounters => capabilities.has_counters && capabilities.expires_leases,
            Self::Listing => capabilities.has_listing,
        }
    }
}

impl Case {
    fn new(subject: Subject) -> Self {
        let engine = (subject.open)();
        Self { engine, subject, scope: format!("t{:016x}", RandomState::new().hash_one(0)) }
    }

    /// Another client of the engine.
    fn another(&self) -> Arc<dyn RemoteEngine> {
        (self.subject.open)()
    }

    /// A name of this trial.
    fn name(&self, text: &str) -> ObjectName {
        ObjectName::new(format!("{}/{text}", self.scope)).unwrap()
    }

    fn names(&self, texts: &[&str]) -> Vec<ObjectName> {
        texts.iter().map(|text| self.name(text)).collect()
    }

    /// The contents of all names, `None` where there is no object.
    fn get(&self, names: &[ObjectName]) -> Vec<Option<Vec<u8>>> {
        get(&*self.engine, names).unwrap()
    }

    fn put(&self, name: &ObjectName, content: &[u8]) {
        self.engine.replace(&[RemoteObject::new(name, content)], &limits()).unwrap();
    }
}

/// The contents of all names, `None` where there is no object. Fails if an index is reported twice, or is none.
pub(crate) fn get(
    engine: &dyn RemoteEngine,
    names: &[ObjectName],
) -> Result<Vec<Option<Vec<u8>>>, RemoteError> {
    let mut contents = vec![None; names.len()];
    engine.get_many(names, &limits(), &mut |index, content| {
        assert!(index < contents.len(), "{index} of {}", contents.len());
        assert!(contents[index].replace(content).is_none(), "{} was reported twice", names[index]);
    })?;
    Ok(contents)
}

/// Limits that no trial reaches.
pub(crate) fn limits() -> RemoteContext<'static> {
    RemoteContext::new(Instant::now() + Duration::from_secs(120), None)
}

/// A value with a token of its own for each number.
pub(crate) fn lease(number: u8, heartbeats: u64) -> LeaseValue {
    LeaseValue::new(token(number), heartbeats)
}

pub(crate) fn token(number: u8) -> LeaseToken {
    LeaseToken::new([number; 16])
}

/// Different bytes at each place, of all values, other ones for each `seed`.
pub(crate) fn content(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|index| (index.wrapping_mul(31) >> 3) as u8 ^ index as u8 ^ seed).collect()
}

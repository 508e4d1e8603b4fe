//! The clients of a check, and the objects that they stored.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use opkeep_cache::fs::CancelToken;
use opkeep_cache::{
    Digest, LeaseToken, ListedObject, Namespace, ObjectName, ObjectNames, RemoteContext, RemoteEngine,
    RemoteError, StoredName,
};

use super::report::Leftovers;
use crate::check_objects::{NAMESPACE, new_target, random};
use crate::listing::list_all;

/// The time of the calls that delete what a check stored, which follow an interrupt as well.
const CLEANING: Duration = Duration::from_secs(10);

/// Several clients of one engine, and the names that they use.
pub(super) struct Session<'a> {
    pub(super) engines: Vec<Arc<dyn RemoteEngine>>,
    namespace: Namespace,
    pub(super) target: String,
    pub(super) began: Instant,
    names: ObjectNames,
    call_timeout: Duration,
    cancel: Option<&'a CancelToken>,
    used: Mutex<BTreeSet<ObjectName>>,
    /// Whether a call was made that may have stored something.
    has_stored: AtomicBool,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        engines: Vec<Arc<dyn RemoteEngine>>,
        namespace: Option<&Namespace>,
        call_timeout: Duration,
        cancel: Option<&'a CancelToken>,
    ) -> Result<Self, RemoteError> {
        let target = new_target();
        let invalid = |reason: String| RemoteError::Invalid { reason };
        let of_checks = || NAMESPACE.parse().map_err(|error| invalid(format!("{error}")));
        let namespace = namespace.cloned().map_or_else(of_checks, Ok)?;
        let names = ObjectNames::new(&namespace, &target);
        let names = names.ok_or_else(|| invalid(format!("no names in `{target}`")))?;
        let (began, used, has_stored) = (Instant::now(), Mutex::default(), AtomicBool::new(false));
        Ok(Self { engines, namespace, target, began, names, call_timeout, cancel, used, has_stored })
    }

    /// Records that a call is made that may store something.
    pub(super) fn stores(&self) {
        self.has_stored.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_stored(&self) -> bool {
        self.has_stored.load(Ordering::Relaxed)
    }

    /// The limits of one call.
    pub(super) fn context(&self) -> RemoteContext<'a> {
        RemoteContext::new(Instant::now() + self.call_timeout, self.cancel)
    }

    /// Returns the error of an interrupted check.
    pub(super) fn check_cancelled(&self) -> Result<(), RemoteError> {
        match self.cancel.is_some_and(CancelToken::is_cancelled) {
            true => Err(RemoteError::Cancelled),
            false => Ok(()),
        }
    }

    pub(super) fn first(&self) -> &dyn RemoteEngine {
        &*self.engines[0]
    }

    /// Another client than the first.
    pub(super) fn other(&self) -> &dyn RemoteEngine {
        &*self.engines[1]
    }

    /// The name of an entry, which is deleted at the end.
    pub(super) fn entry(&self, label: &str) -> ObjectName {
        self.note(self.names.entry(&Digest::of(label.as_bytes())))
    }

    /// The name of a lease, which is deleted at the end.
    pub(super) fn lease(&self, label: &str) -> ObjectName {
        self.note(self.names.lease(&Digest::of(label.as_bytes()), 0))
    }

    /// The name of a counter, which is deleted at the end.
    pub(super) fn counter(&self, label: &str) -> ObjectName {
        self.note(self.names.progress(&[Digest::of(label.as_bytes())]))
    }

    fn note(&self, name: ObjectName) -> ObjectName {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone());
        name
    }

    /// What the names of all objects of the check begin with.
    pub(super) fn prefix(&self) -> String {
        format!("{}{}/", StoredName::prefix(&self.namespace), self.target)
    }

    /// Returns the content of an object, as a client sees it.
    pub(super) fn get(
        &self,
        engine: &dyn RemoteEngine,
        name: &ObjectName,
    ) -> Result<Option<Vec<u8>>, RemoteError> {
        let mut content = None;
        let names = std::slice::from_ref(name);
        engine.get_many(names, &self.context(), &mut |_, found| content = Some(found))?;
        Ok(content)
    }

    /// Deletes all that the check stored.
    pub(super) fn clean(&self, has_listing: bool) -> Leftovers {
        let names: Vec<_> =
            self.used.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
        let context = RemoteContext::new(Instant::now() + CLEANING, None);
        let removed = self.first().remove(&names, &context);
        let left = match has_listing {
            true => self.left(&names),
            false => Err(RemoteError::Unsupported { what: "list objects" }),
        };
        match (removed, left) {
            (removed, Ok(left)) => Leftovers { objects: left, error: removed.err().filter(|_| left > 0) },
            (Ok(()), Err(_)) => Leftovers::default(),
            (Err(error), Err(_)) => Leftovers { objects: names.len(), error: Some(error) },
        }
    }

    /// Returns the number of objects that are listed.
    fn left(&self, names: &[ObjectName]) -> Result<usize, RemoteError> {
        let mut found = BTreeSet::new();
        let until = Instant::now() + CLEANING;
        let object = |object: ListedObject| {
            if names.binary_search(&object.name).is_ok() {
                found.insert(object.name);
            }
        };
        list_all(self.first(), &self.prefix(), Some(until), || RemoteContext::new(until, None), object)?;
        Ok(found.len())
    }

    /// Lists the objects of the check, within a time. One may come twice.
    pub(super) fn list(&self, time: Duration, object: impl FnMut(ListedObject)) -> Result<(), RemoteError> {
        let until = Instant::now() + time;
        list_all(self.first(), &self.prefix(), Some(until), || self.context(), object)
    }
}

pub(super) fn token() -> LeaseToken {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&random().to_le_bytes());
    bytes[8..].copy_from_slice(&random().to_le_bytes());
    LeaseToken::new(bytes)
}

/// Bytes that no engine makes smaller.
pub(super) fn content(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        // Xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

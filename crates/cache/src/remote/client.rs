//! Calls to a remote tier: limited in time, counted, and stopped for a while if they fail.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use opkeep_digest::Digest;
use opkeep_fs::CancelToken;
use opkeep_store::{Entry, MAX_ENTRY_BYTES};

use super::call::{deadline_after, guarded};
use super::lease::{HeldLease, OnFailure, Renewals};
use super::tier::{Lease, RemoteConfig, RemoteContext, RemoteError, RemoteKey, RemotePolicy};

/// After so many calls in a row that failed or exceeded their time, the tier is not called for a while.
const MAX_FAILURES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(30);

/// A remote tier as the cache uses it.
pub(crate) struct RemoteClient {
    config: RemoteConfig,
    health: Mutex<Health>,
    renewals: Arc<Renewals>,
}

/// How the last calls ended.
#[derive(Default)]
struct Health {
    failures: u32,
    paused_until: Option<Instant>,
}

/// The answer to a request for a lease.
pub(crate) enum LeaseAttempt {
    Granted(HeldLease),
    /// Another host has it, for so long unless it is renewed.
    Held(Duration),
    /// No lease can be had: the caller builds without.
    None,
}

impl RemoteClient {
    pub(crate) fn new(config: RemoteConfig) -> Self {
        let renewals = Arc::new(Renewals::new(config.lease_ttl, config.call_timeout));
        Self { config, health: Mutex::default(), renewals }
    }

    pub(crate) fn reads(&self) -> bool {
        self.config.policy != RemotePolicy::Off
    }

    pub(crate) fn writes(&self) -> bool {
        self.config.policy == RemotePolicy::ReadWrite
    }

    pub(crate) fn lease_ttl(&self) -> Duration {
        self.config.lease_ttl
    }

    /// The entry under `key`, with all digests checked and the validation stamp 0. The error, for people, says
    /// why an entry cannot be used.
    pub(crate) fn get(&self, key: &RemoteKey, cancel: Option<&CancelToken>) -> Result<Option<Entry>, String> {
        let Some(found) = self.call(cancel, |context| self.config.tier.get(key, context))? else {
            return Ok(None);
        };
        let Some(file) = found else { return Ok(None) };
        match checked(file, &key.digest) {
            Ok(entry) => Ok(Some(entry)),
            Err(why) => Err(format!("an entry of the remote cache is not valid: {why}")),
        }
    }

    pub(crate) fn put(&self, key: &RemoteKey, file: &[u8]) -> Result<bool, String> {
        Ok(self.call(None, |context| self.config.tier.put(key, file, context))?.is_some())
    }

    /// Asks for the lease on `key`. One that is granted is renewed for `hold_limit` at most; renewals that fail are told to
    /// `on_failure`.
    pub(crate) fn lease(
        &self,
        key: &RemoteKey,
        hold_limit: Duration,
        cancel: Option<&CancelToken>,
        on_failure: OnFailure,
    ) -> Result<LeaseAttempt, String> {
        let ttl = self.config.lease_ttl;
        let answer = self.call(cancel, |context| self.config.tier.lease(key, ttl, context))?;
        Ok(match answer {
            Some(Lease::Granted(guard)) => {
                LeaseAttempt::Granted(HeldLease::new(guard, &self.renewals, hold_limit, on_failure))
            }
            Some(Lease::Held(remaining)) => LeaseAttempt::Held(remaining),
            Some(Lease::Unsupported) | None => LeaseAttempt::None,
        })
    }

    /// One call. `None` while the tier is not called.
    fn call<T>(
        &self,
        cancel: Option<&CancelToken>,
        call: impl FnOnce(&RemoteContext<'_>) -> Result<T, RemoteError>,
    ) -> Result<Option<T>, String> {
        let began = Instant::now();
        if self.health().paused_until.is_some_and(|until| began < until) {
            return Ok(None);
        }
        let context = RemoteContext::new(deadline_after(self.config.call_timeout), cancel);
        let answer = guarded(|| call(&context));
        // A tier that is full can still be read.
        let failed = !matches!(&answer, Ok(Ok(_) | Err(RemoteError::Full)));
        self.note(failed || began.elapsed() > self.config.call_timeout);
        answer?.map(Some).map_err(|error| error.to_string())
    }

    fn note(&self, failed: bool) {
        let mut health = self.health();
        if !failed {
            *health = Health::default();
            return;
        }
        health.failures += 1;
        if health.failures >= MAX_FAILURES {
            *health = Health { failures: 0, paused_until: Some(Instant::now() + PAUSE) };
        }
    }

    fn health(&self) -> std::sync::MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RemoteClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteClient").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Decodes the bytes that a remote tier returned, checks every digest, and sets the stamp to 0: at most it tells of rules
/// that another host applied.
fn checked(file: Vec<u8>, key: &Digest) -> Result<Entry, String> {
    if file.len() as u64 > MAX_ENTRY_BYTES {
        return Err(format!("it has {} bytes, at most {MAX_ENTRY_BYTES} are allowed", file.len()));
    }
    let entry = Entry::decode(file, Some(key)).map_err(|damage| damage.to_string())?;
    for name in entry.names() {
        entry.lazy_member(name).map_err(|damage| damage.to_string())?;
    }
    if entry.validation() == 0 {
        return Ok(entry);
    }
    let unstamped = entry.to_builder().with_validation(0).encode(key);
    let unstamped = unstamped.ok_or("it exceeds the bounds of an entry")?;
    Entry::decode(unstamped, Some(key)).map_err(|damage| damage.to_string())
}

//! Calls to a remote tier, with time limits. After failures, the tier is paused.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use opkeep_digest::Digest;
use opkeep_store::{Entry, MAX_ENTRY_BYTES};

use super::call::{Limits, guarded};
use super::health::{CallEnd, PAUSE};
use super::lease::{HeldLease, OnFailure, Renewals, renewals};
use super::tier::{Lease, RemoteConfig, RemoteContext, RemoteError, RemoteKey, RemotePolicy};

/// A remote tier as the cache uses it.
pub(crate) struct RemoteClient {
    config: RemoteConfig,
    renewals: Renewals,
    /// Whether a call of this client has failed, or a warning said that the tier is paused.
    has_warned: AtomicBool,
}

/// The answer to a request for a lease.
pub(crate) enum LeaseAttempt {
    Granted(HeldLease),
    /// Another host has it.
    Held {
        remaining: Duration,
        holder: u64,
    },
    /// There is no lease: the caller builds without one.
    None,
}

impl RemoteClient {
    pub(crate) fn new(config: RemoteConfig) -> Self {
        Self { renewals: renewals(&config), config, has_warned: AtomicBool::new(false) }
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

    pub(crate) fn call_timeout(&self) -> Duration {
        self.config.call_timeout
    }

    /// Returns the warning that the tier is paused, at the first call during a pause.
    pub(crate) fn new_pause(&self) -> Option<String> {
        let is_new = self.config.health.is_paused() && !self.has_warned.swap(true, Ordering::Relaxed);
        is_new.then(|| {
            let seconds = PAUSE.as_secs();
            format!(
                "the remote cache is not used: its last calls failed or took too long; one call in \
                 {seconds} s tries it again"
            )
        })
    }

    /// Returns the entry under `key`, with all digests checked and the validation stamp 0. The error, for people, is the reason
    /// why an entry cannot be used.
    pub(crate) fn get(&self, key: &RemoteKey, limits: Limits<'_>) -> Result<Option<Entry>, String> {
        let Some(found) = self.call(limits, |context| self.config.tier.get(key, context))? else {
            return Ok(None);
        };
        let Some(file) = found else { return Ok(None) };
        match checked(file, &key.digest) {
            Ok(entry) => Ok(Some(entry)),
            Err(why) => Err(format!("an entry of the remote cache is not valid: {why}")),
        }
    }

    pub(crate) fn put(&self, key: &RemoteKey, file: &[u8], limits: Limits<'_>) -> Result<bool, String> {
        Ok(self.call(limits, |context| self.config.tier.put(key, file, context))?.is_some())
    }

    /// Requests the lease on `key`. A granted lease is renewed for `hold_limit` at most; `on_failure` is called with the cause
    /// of each renewal that fails.
    pub(crate) fn lease(
        &self,
        key: &RemoteKey,
        hold_limit: Duration,
        limits: Limits<'_>,
        on_failure: OnFailure,
    ) -> Result<LeaseAttempt, String> {
        let ttl = self.config.lease_ttl;
        let answer = self.call(limits, |context| self.config.tier.lease(key, ttl, context))?;
        Ok(match answer {
            Some(Lease::Granted(guard)) => LeaseAttempt::Granted(HeldLease::new(
                guard,
                &self.config,
                &self.renewals,
                hold_limit,
                on_failure,
            )),
            Some(Lease::Held { remaining, holder }) => LeaseAttempt::Held { remaining, holder },
            Some(Lease::Unsupported) | None => LeaseAttempt::None,
        })
    }

    /// Makes one call. Returns `None` if the tier is paused, or if the caller ended the call.
    fn call<T>(
        &self,
        limits: Limits<'_>,
        call: impl FnOnce(&RemoteContext<'_>) -> Result<T, RemoteError>,
    ) -> Result<Option<T>, String> {
        if limits.are_over() {
            return Ok(None);
        }
        let (health, timeout) = (&self.config.health, self.config.call_timeout);
        let began = Instant::now();
        let Some(permit) = health.begin(began) else { return Ok(None) };
        let context = RemoteContext::new(limits.end_of_call(timeout), limits.cancel);
        let answer = guarded(|| call(&context));
        let now = Instant::now();
        let is_late = now - began > timeout;
        let end = match &answer {
            // A tier that is full can still be read.
            Ok(Ok(_) | Err(RemoteError::Full { .. })) if !is_late => CallEnd::Answered,
            Ok(Err(_)) if !is_late && limits.are_over() => CallEnd::Ended,
            _ => CallEnd::Failed,
        };
        health.end(permit, end, now);
        let failure = match answer {
            Ok(Ok(answer)) => return Ok(Some(answer)),
            Ok(Err(_)) if end == CallEnd::Ended => return Ok(None),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => panic,
        };
        self.has_warned.store(true, Ordering::Relaxed);
        Err(failure)
    }
}

impl fmt::Debug for RemoteClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteClient").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Decodes the bytes that a remote tier returned, checks every digest, and sets the stamp to 0, since another host's validation
/// does not count here.
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

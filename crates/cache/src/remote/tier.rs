//! The interface that a client of a remote cache implements.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep_digest::Digest;
use opkeep_fs::CancelToken;
use thiserror::Error;

use super::health::Health;

/// A remote tier, and how it is used.
///
/// Clones share what is known of the tier's health. A tier whose calls failed three times in a row is not called for 30 s,
/// also not by caches that are opened meanwhile; after that one call tries it.
#[derive(Clone)]
#[non_exhaustive]
pub struct RemoteConfig {
    /// The client.
    pub tier: Arc<dyn RemoteTier>,
    /// The uses of it; [`RemotePolicy::ReadWrite`] by default.
    pub policy: RemotePolicy,
    /// How long a lease is valid without renewal; 30 s by default. The waiters of other hosts wait as long for a holder that was
    /// killed.
    pub lease_ttl: Duration,
    /// How long one call may take; 10 s by default.
    pub call_timeout: Duration,
    pub(super) health: Arc<Health>,
}

impl RemoteConfig {
    /// Reads and writes through `tier`.
    pub fn new(tier: Arc<dyn RemoteTier>) -> Self {
        let (lease_ttl, call_timeout) = (Duration::from_secs(30), Duration::from_secs(10));
        Self { tier, policy: RemotePolicy::ReadWrite, lease_ttl, call_timeout, health: Arc::default() }
    }
}

impl fmt::Debug for RemoteConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tier: _, policy, lease_ttl, call_timeout, health: _ } = self;
        f.debug_struct("RemoteConfig")
            .field("policy", policy)
            .field("lease_ttl", lease_ttl)
            .field("call_timeout", call_timeout)
            .finish_non_exhaustive()
    }
}

/// The uses of a remote tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemotePolicy {
    /// Nothing.
    Off,
    /// Entries are taken from it.
    Read,
    /// Entries are taken from it and published to it, and leases keep hosts from building the same.
    #[default]
    ReadWrite,
}

/// A client of a cache on other hosts. Its calls may block until the deadline of their context or until their token is
/// cancelled, not longer.
pub trait RemoteTier: Send + Sync {
    /// Gets the encoded entry under `key`: the bytes that [`put`](Self::put) was given. `None` if there is none.
    ///
    /// # Errors
    /// The tier gave no answer.
    fn get(&self, key: &RemoteKey, context: &RemoteContext<'_>) -> Result<Option<Vec<u8>>, RemoteError>;

    /// Puts an encoded entry. It replaces an existing one.
    ///
    /// # Errors
    /// The entry was not put.
    fn put(&self, key: &RemoteKey, file: &[u8], context: &RemoteContext<'_>) -> Result<(), RemoteError>;

    /// Asks for the right to build the entry under `key`, for `ttl`.
    ///
    /// # Errors
    /// The tier gave no answer.
    fn lease(
        &self,
        key: &RemoteKey,
        ttl: Duration,
        context: &RemoteContext<'_>,
    ) -> Result<Lease, RemoteError>;
}

/// The name of an entry in a remote tier.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct RemoteKey {
    /// The target, such as `cpu-x86_64`.
    pub target: String,
    /// The entry's key.
    pub digest: Digest,
}

impl RemoteKey {
    /// The entry `digest` of `target`.
    pub fn new(target: impl Into<String>, digest: Digest) -> Self {
        Self { target: target.into(), digest }
    }
}

/// The limits of a call to a remote tier.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct RemoteContext<'a> {
    /// When the call has to return.
    pub deadline: Instant,
    /// Ends the call early, if the caller can be cancelled: the client looks at it a few times a second.
    pub cancel: Option<&'a CancelToken>,
}

impl<'a> RemoteContext<'a> {
    /// A call that may take until `deadline`.
    pub fn new(deadline: Instant, cancel: Option<&'a CancelToken>) -> Self {
        Self { deadline, cancel }
    }
}

impl fmt::Debug for RemoteContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteContext").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// The answer to [`RemoteTier::lease`].
#[non_exhaustive]
pub enum Lease {
    /// The caller builds.
    Granted(Box<dyn LeaseGuard>),
    /// Another host has it.
    Held {
        /// How long it lasts unless it is renewed.
        remaining: Duration,
        /// Which grant it is: the same number in all answers about one lease, another for the next lease on the key. A client
        /// may derive it from the token that it stores with a lease.
        holder: u64,
    },
    /// The tier has no leases: hosts may build the same.
    Unsupported,
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted(_) => f.write_str("Granted"),
            Self::Held { remaining, holder } => {
                f.debug_struct("Held").field("remaining", remaining).field("holder", holder).finish()
            }
            Self::Unsupported => f.write_str("Unsupported"),
        }
    }
}

/// A lease that was granted. One that is dropped without [`release`](Self::release) ends when its time is over.
pub trait LeaseGuard: Send {
    /// Extends the lease to `ttl` from now. False if it is another host's by now.
    ///
    /// # Errors
    /// The tier gave no answer.
    fn renew(&mut self, ttl: Duration, context: &RemoteContext<'_>) -> Result<bool, RemoteError>;

    /// Ends the lease. Best effort.
    fn release(self: Box<Self>, context: &RemoteContext<'_>);
}

/// Why a call to a remote tier failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// It cannot be reached.
    #[error("the remote cache cannot be reached: {reason}")]
    Unreachable {
        /// The error of the connection.
        reason: String,
    },
    /// It did not answer before the call's deadline.
    #[error("the remote cache did not answer in time")]
    TimedOut,
    /// The call's token was cancelled.
    #[error("the call to the remote cache was cancelled")]
    Cancelled,
    /// It has no space for the entry.
    #[error("the remote cache has no space")]
    Full,
    /// It refused the request.
    #[error("the remote cache refused the request: {reason}")]
    Refused {
        /// The tier's answer.
        reason: String,
    },
}

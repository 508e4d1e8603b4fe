//! The interface that a client of a remote cache implements.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep_digest::Digest;
use opkeep_fs::CancelToken;
use thiserror::Error;

use super::health::Health;

/// A remote tier, and the settings of its use.
///
/// Clones share the tier's health. After three failed calls in a row, the tier is not called for 30 s, by none of the caches
/// that use a clone; then one call decides whether it works again.
#[derive(Clone)]
#[non_exhaustive]
pub struct RemoteConfig {
    /// The client.
    pub tier: Arc<dyn RemoteTier>,
    /// The uses of the tier; [`RemotePolicy::ReadWrite`] by default.
    pub policy: RemotePolicy,
    /// The time for which a lease is valid without renewal; 30 s by default. If a holder is killed, other hosts wait for that
    /// long.
    pub lease_ttl: Duration,
    /// The timeout of one call; 10 s by default.
    pub call_timeout: Duration,
    pub(super) health: Arc<Health>,
}

impl RemoteConfig {
    /// Creates settings by which `tier` is read and written.
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
    /// Entries are read.
    Read,
    /// Entries are read and published, and leases prevent that several hosts build the same entry.
    #[default]
    ReadWrite,
}

/// A client of a cache on other hosts. A call may block until the deadline of its context, or until the context's token is
/// cancelled.
pub trait RemoteTier: Send + Sync {
    /// Returns the encoded entry under `key`: the bytes that [`put`](Self::put) was given. `None` if there is none.
    ///
    /// # Errors
    /// The tier gave no answer.
    fn get(&self, key: &RemoteKey, context: &RemoteContext<'_>) -> Result<Option<Vec<u8>>, RemoteError>;

    /// Stores an encoded entry. It replaces an existing one.
    ///
    /// # Errors
    /// The entry was not stored.
    fn put(&self, key: &RemoteKey, file: &[u8], context: &RemoteContext<'_>) -> Result<(), RemoteError>;

    /// Requests the right to build the entry under `key`, for `ttl`.
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
    /// Creates the name of the entry `digest` of `target`.
    pub fn new(target: impl Into<String>, digest: Digest) -> Self {
        Self { target: target.into(), digest }
    }
}

/// The limits of a call to a remote tier.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct RemoteContext<'a> {
    /// The time by which the call must return.
    pub deadline: Instant,
    /// A token that ends the call early, if the caller can be cancelled. The client checks it a few times a second.
    pub cancel: Option<&'a CancelToken>,
}

impl<'a> RemoteContext<'a> {
    /// Creates the limits of a call that may take until `deadline`.
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
    /// Another host has the lease.
    Held {
        /// The time for which the lease lasts unless it is renewed.
        remaining: Duration,
        /// A number that identifies the lease: the same in all answers about one lease, and another for the next lease on the
        /// key. A client may derive it from the token that it stores with a lease.
        holder: u64,
    },
    /// The tier has no leases: several hosts may build the same entry.
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

/// A granted lease. If it is dropped without [`release`](Self::release), it expires.
pub trait LeaseGuard: Send {
    /// Extends the lease to `ttl` from now. Returns false if another host has the lease.
    ///
    /// # Errors
    /// The tier gave no answer.
    fn renew(&mut self, ttl: Duration, context: &RemoteContext<'_>) -> Result<bool, RemoteError>;

    /// Ends the lease. Best effort.
    fn release(self: Box<Self>, context: &RemoteContext<'_>);
}

/// The reason why a call to a remote tier failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The tier cannot be reached.
    #[error("the remote cache cannot be reached: {reason}")]
    Unreachable {
        /// The error of the connection.
        reason: String,
    },
    /// The tier did not answer before the call's deadline.
    #[error("the remote cache did not answer in time")]
    TimedOut,
    /// The call's token was cancelled.
    #[error("the call to the remote cache was cancelled")]
    Cancelled,
    /// The tier has no space for the entry.
    #[error("the remote cache has no space: {reason}")]
    Full {
        /// The tier's answer.
        reason: String,
    },
    /// The tier refused the request.
    #[error("the remote cache refused the request: {reason}")]
    Refused {
        /// The tier's answer.
        reason: String,
    },
    /// The tier's answer does not fit its protocol.
    #[error("the remote cache gave an invalid answer: {reason}")]
    Invalid {
        /// What is wrong.
        reason: String,
    },
    /// The engine cannot do what was requested.
    #[error("the remote cache cannot {what}")]
    Unsupported {
        /// The request, such as `list objects`.
        what: &'static str,
    },
}

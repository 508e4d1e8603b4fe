//! The settings of a remote tier.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use opkeep_digest::Digest;
use opkeep_store::Destination;
use thiserror::Error;

use super::engine::RemoteEngine;
use super::health::Health;
use super::names::Namespace;

/// A remote tier: an engine, and the settings of its use.
///
/// Clones share the tier's health. After three calls in a row that failed or were slow, and after one in which the engine was idle for
/// [`idle_timeout`](Self::idle_timeout), the engine is not called for 30 s, by none of the caches that use a clone; then one call decides
/// whether it works again. If it does not, the next pause is twice as long, up to ten minutes.
#[derive(Clone)]
#[non_exhaustive]
pub struct RemoteConfig {
    /// The client of the engine.
    pub engine: Arc<dyn RemoteEngine>,
    /// The uses of the tier; [`RemotePolicy::ReadWrite`] by default.
    pub policy: RemotePolicy,
    /// The part of the engine in which the entries are; `default` by default.
    pub namespace: Namespace,
    /// The time after which a lease without a renewal is taken over; 30 s by default. If a holder is killed, other hosts wait for
    /// that long. Hosts that share an engine should have the same: each renews three times in its own.
    pub lease_ttl: Duration,
    /// The timeout of one call; 10 s by default.
    pub call_timeout: Duration,
    /// The time for which a caller waits while the engine sends and takes nothing; 2 s by default. Then the call fails, and the engine is
    /// paused. An answer for whose begin, or for whose next part, a caller waits more than half of that is slow: three of them in a row
    /// pause the engine. It applies neither to calls that store objects, nor to callers that have no other way than to wait
    /// ([`WaitBudget::unlimited`](crate::WaitBudget::unlimited)).
    pub idle_timeout: Duration,
    /// The maximum size of the entries that wait for their upload, in bytes; 64 MiB by default. An entry above that is sent later, unless
    /// no other one waits.
    pub upload_limit: u64,
    pub(super) health: Arc<Health>,
}

impl RemoteConfig {
    /// Creates settings by which `engine` is read and written.
    pub fn new(engine: Arc<dyn RemoteEngine>) -> Self {
        Self {
            engine,
            policy: RemotePolicy::ReadWrite,
            namespace: Namespace::default(),
            lease_ttl: Duration::from_secs(30),
            call_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(2),
            upload_limit: 64 << 20,
            health: Arc::default(),
        }
    }

    /// Returns what the marks of entries that are to be sent name: the namespace, and a digest of the engine's
    /// [`location`](RemoteEngine::location), which has no credentials. An entry that is to be sent to one remote tier or namespace is
    /// never sent to another one in its place.
    pub fn destination(&self) -> Destination {
        let engine = Digest::of(self.engine.location().as_bytes()).prefix_u64();
        Destination::new(&format!("{engine:016x}.{}", self.namespace))
    }
}

impl fmt::Debug for RemoteConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            engine: _,
            policy,
            namespace,
            lease_ttl,
            call_timeout,
            idle_timeout,
            upload_limit,
            health: _,
        } = self;
        f.debug_struct("RemoteConfig")
            .field("policy", policy)
            .field("namespace", namespace)
            .field("lease_ttl", lease_ttl)
            .field("call_timeout", call_timeout)
            .field("idle_timeout", idle_timeout)
            .field("upload_limit", upload_limit)
            .finish_non_exhaustive()
    }
}

/// The uses of a remote tier. The texts are `off`, `read` and `read-write`.
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

/// A text is no use of a remote tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected off, read or read-write")]
pub struct RemotePolicyError;

impl FromStr for RemotePolicy {
    type Err = RemotePolicyError;

    fn from_str(text: &str) -> Result<Self, RemotePolicyError> {
        let policies = [Self::Off, Self::Read, Self::ReadWrite];
        policies.into_iter().find(|policy| policy.as_str() == text).ok_or(RemotePolicyError)
    }
}

impl RemotePolicy {
    fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Read => "read",
            Self::ReadWrite => "read-write",
        }
    }
}

impl fmt::Display for RemotePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

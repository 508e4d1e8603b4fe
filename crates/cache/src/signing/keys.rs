//! The keys of a cache.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use opkeep_fs::Fs;
use opkeep_trust::{SignaturePolicy, SignerId, SigningKey, TrustError, TrustedKeys};

use super::config::TrustConfig;
use super::verified::Verified;

/// The keys of a cache, and what it verified with them.
pub(crate) struct Keys {
    pub(super) signing: Option<Arc<SigningKey>>,
    pub(super) policy: SignaturePolicy,
    /// The key of this host, if signatures are demanded.
    pub(super) host: Option<SigningKey>,
    /// The keys whose signatures count for entries of the local store, if signatures are demanded: the trusted ones, and the host's.
    pub(super) local: Option<TrustedKeys>,
    /// The names of objects that are looked up in the remote tier, for each key: of what each of these keys signed, and `None` for
    /// an unsigned entry.
    sources: Vec<Option<SignerId>>,
    pub(super) verified: Verified,
}

impl Keys {
    /// Opens the keys. A host key that is missing is made, in its file if `may_write`. `warn` is called if a host key cannot be kept.
    pub(crate) fn open(config: TrustConfig, may_write: bool, warn: impl FnOnce(String)) -> Self {
        let TrustConfig { signing_key: signing, policy, namespace: _, host_key_file } = config;
        let mut host = None;
        if policy.trusted_keys().is_some() {
            let opened = host_key(host_key_file.as_deref(), may_write);
            host = opened.unwrap_or_else(|error| {
                warn(format!("what this host builds is built again by the next process: {error}"));
                SigningKey::generate_for_host().ok()
            });
        }
        let own = signing.as_ref().map(|key| key.public_key().signer());
        let mut sources: Vec<_> = match policy.trusted_keys() {
            None => [Some(None), own.map(Some)].into_iter().flatten().collect(),
            Some(trusted) => trusted.signers().into_iter().map(Some).collect(),
        };
        // What this host would send comes first.
        opkeep_order::by_key(&mut sources, |source| source.is_none() || *source != own);
        let local = policy.trusted_keys().map(|trusted| {
            let mut local = trusted.clone();
            local.extend(host.as_ref().map(|key| key.public_key().clone()));
            local
        });
        Self { signing, policy, host, local, sources, verified: Verified::default() }
    }

    /// Returns the names under which entries are looked up in the remote tier, for each key. Empty if no key is trusted.
    pub(crate) fn sources(&self) -> &[Option<SignerId>] {
        &self.sources
    }

    /// Whether the cache takes what it sends: if not, its hosts do not wait for each other.
    pub(crate) fn takes_own(&self) -> bool {
        self.sources.contains(&self.own_signer())
    }

    /// Returns what a host should know that signs with a key which it does not trust. `None`: it takes what it sends.
    pub(crate) fn distrust_of_own(&self) -> Option<String> {
        let key = self.signing.as_ref().filter(|_| !self.takes_own())?.public_key();
        Some(format!(
            "the signing key `{}` is none of the trusted keys: this host does not take back from a remote cache or a bundle what it signs; \
             what its store has from its own builds is used",
            key.name()
        ))
    }

    /// Whether the cache sends entries. Those that it does not sign it would not take itself, if it has trusted keys.
    pub(crate) fn may_send(&self) -> bool {
        self.signing.is_some() || self.policy.trusted_keys().is_none()
    }

    /// Returns the signer of what the cache sends.
    pub(crate) fn own_signer(&self) -> Option<SignerId> {
        self.signing.as_ref().map(|key| key.public_key().signer())
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { signing, policy, host, local: _, sources: _, verified: _ } = self;
        f.debug_struct("Keys")
            .field("signing", signing)
            .field("policy", policy)
            .field("host", host)
            .finish_non_exhaustive()
    }
}

/// Returns the host key; `None` if its file is missing and none is made.
fn host_key(file: Option<&Path>, may_write: bool) -> Result<Option<SigningKey>, TrustError> {
    match file {
        Some(file) => SigningKey::open_for_host(&Fs::new(), file, may_write),
        None => SigningKey::generate_for_host().map(Some),
    }
}

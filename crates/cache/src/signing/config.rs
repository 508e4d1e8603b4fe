//! The settings of trust.

use std::path::PathBuf;
use std::sync::Arc;

use opkeep_trust::{SignaturePolicy, SigningKey};

use crate::remote::Namespace;

/// The keys that a cache signs with, and those whose signatures it demands.
///
/// | signing key | trusted keys | takes from the remote tier | takes from the local store | sends |
/// |---|---|---|---|---|
/// | no | no | unsigned entries | every entry | unsigned entries |
/// | yes | no | unsigned entries, and its own | every entry | entries that it signs |
/// | no | yes | what a trusted key signed | that, and what this host built | nothing |
/// | yes | yes | what a trusted key signed | that, and what this host built | entries that it signs |
///
/// A host that has trusted keys distinguishes the entries that it built from all others by the signature of its
/// [host key](Self::host_key_file). It signs an entry when it builds it, and never one that it only found, so its signatures are
/// worth as much as its own builds. Entries that a host built before it had trusted keys have no signature and are built again.
///
/// Keys are looked at when a cache is opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TrustConfig {
    /// The key that signs the entries which this host builds and shares with others.
    pub signing_key: Option<Arc<SigningKey>>,
    /// Which entries are taken; all of them by default.
    pub policy: SignaturePolicy,
    /// The namespace that entries are signed for; that of the remote tier by default, and without one that of hosts that set none. An
    /// entry of the remote tier or of a bundle that was signed for another one is not taken. The local store keeps the namespace of each
    /// entry, and takes it in all; entries that earlier versions stored without it are taken in their own.
    pub namespace: Option<Namespace>,
    /// The file of the key by which this host recognizes what it built itself. It is used only with trusted keys, and made if it
    /// is missing. It must be outside of the store: other users who may write to a shared store, and everyone who gets a copy of
    /// it, such as in a container image, must not have it. If unset, or if the file cannot be used, the key lasts as long as the
    /// cache: another cache builds again what no trusted key signed.
    pub host_key_file: Option<PathBuf>,
}

impl TrustConfig {
    /// Creates settings by which entries are taken as `policy` demands, and nothing is signed for others.
    pub fn new(policy: SignaturePolicy) -> Self {
        Self { policy, ..Self::default() }
    }

    /// Returns the settings with a key that signs what this host builds and shares.
    #[must_use]
    pub fn with_signing_key(mut self, key: Arc<SigningKey>) -> Self {
        self.signing_key = Some(key);
        self
    }

    /// Returns the settings with the file of the host key.
    #[must_use]
    pub fn with_host_key_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.host_key_file = Some(file.into());
        self
    }
}

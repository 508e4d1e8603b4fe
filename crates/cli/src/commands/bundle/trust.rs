//! Flags about signatures.

use opkeep_bundle::{entry_message, entry_signatures};
use opkeep_cache::Namespace;
use opkeep_store::Entry;
use opkeep_trust::{PublicKey, SignaturePolicy};
use serde::Serialize;

use crate::setup;

/// What readers demand of signatures.
#[derive(Debug, clap::Args)]
pub(crate) struct TrustArgs {
    /// The public keys that are trusted, NAME:BASE64, separated by spaces, or @FILE with a list of them: nothing is taken that
    /// none of them signed; see opkeep help key [default: $OPKEEP_TRUSTED_KEYS, if unset signatures do not matter]
    #[arg(long, value_name = "KEYS")]
    pub(crate) trusted_keys: Option<String>,
    /// The namespace that signatures are for, which keeps products and teams apart [default: $OPKEEP_REMOTE_NAMESPACE, if unset
    /// default]
    #[arg(long, value_name = "NAME")]
    remote_namespace: Option<Namespace>,
}

/// The signatures that count.
pub(crate) struct Trust {
    pub(crate) policy: SignaturePolicy,
    pub(crate) namespace: String,
}

/// The key that signed, as JSON.
#[derive(Serialize)]
pub(crate) struct SignerOutput {
    pub(crate) name: String,
    signer: String,
}

impl From<&PublicKey> for SignerOutput {
    fn from(key: &PublicKey) -> Self {
        Self { name: key.name().to_string(), signer: key.signer().to_string() }
    }
}

impl TrustArgs {
    /// Reads the keys.
    ///
    /// # Errors
    /// A key is not valid, a list cannot be read, or other users can change it; or the namespace of the environment is not valid.
    pub(crate) fn read(&self) -> anyhow::Result<Trust> {
        let settings = setup::signature_settings(self.trusted_keys.as_ref(), self.remote_namespace.as_ref());
        Ok(Trust { policy: settings.signature_policy()?, namespace: settings.namespace()?.to_string() })
    }
}

impl Trust {
    /// Whether an entry may be taken: `Err` with the reason why not.
    pub(crate) fn check(&self, target: &str, entry: &Entry) -> Result<(), String> {
        if self.policy.trusted_keys().is_none() {
            return Ok(());
        }
        let message = entry_message(&self.namespace, target, entry).map_err(|error| error.to_string())?;
        let checked = self.policy.check(&message, &entry_signatures(entry));
        checked.map(drop).map_err(|untrusted| untrusted.to_string())
    }
}

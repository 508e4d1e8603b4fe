//! Flags about signatures.

use std::path::PathBuf;

use opkeep_bundle::{entry_message, entry_signatures};
use opkeep_cache::Namespace;
use opkeep_fs::Fs;
use opkeep_store::Entry;
use opkeep_trust::{SignaturePolicy, TrustedKeys};

/// What readers demand of signatures.
#[derive(Debug, clap::Args)]
pub(crate) struct TrustArgs {
    /// A list of trusted keys: nothing is taken that none of them signed; see opkeep help key
    #[arg(long = "trusted-keys", value_name = "FILE")]
    trusted_keys: Vec<PathBuf>,
    /// The namespace that signatures are for, which keeps products and teams apart
    #[arg(long, value_name = "NAME", default_value_t)]
    pub(crate) namespace: Namespace,
}

/// The signatures that count.
pub(crate) struct Trust {
    pub(crate) policy: SignaturePolicy,
    pub(crate) namespace: String,
}

impl TrustArgs {
    /// Reads the lists.
    ///
    /// # Errors
    /// A list cannot be read, or other users can change it.
    pub(crate) fn read(&self) -> anyhow::Result<Trust> {
        let mut keys = TrustedKeys::new();
        for path in &self.trusted_keys {
            keys.extend(TrustedKeys::read(&Fs::new(), path)?.iter().cloned());
        }
        let policy = match self.trusted_keys.is_empty() {
            true => SignaturePolicy::Ignored,
            false => SignaturePolicy::Required(keys),
        };
        Ok(Trust { policy, namespace: self.namespace.to_string() })
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

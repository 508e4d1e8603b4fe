//! Flags about signatures.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use opkeep_bundle::{entry_message, entry_signatures, stored_signatures};
use opkeep_cache::Namespace;
use opkeep_fs::Fs;
use opkeep_remote::SettingText;
use opkeep_store::Entry;
use opkeep_trust::{PublicKey, SignaturePolicy, SigningKey};
use serde::Serialize;

use crate::config::Settings;
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
    #[command(flatten)]
    config: Settings,
}

/// The signatures that count.
pub(crate) struct Trust {
    pub(crate) policy: SignaturePolicy,
    pub(crate) namespace: String,
    /// The file of the key by which this host recognizes what it built.
    host_key_file: Option<PathBuf>,
    /// The list of trusted keys.
    list_file: Option<PathBuf>,
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
        let settings = setup::signature_settings(
            self.trusted_keys.as_ref(),
            self.remote_namespace.as_ref(),
            &self.config,
        );
        let trusted_keys = settings.trusted_keys.as_ref().map(SettingText::value);
        let list = trusted_keys.and_then(|text| text.as_bytes().strip_prefix(b"@"));
        Ok(Trust {
            list_file: list.map(|path| OsStr::from_bytes(path).into()),
            policy: settings.signature_policy()?,
            namespace: settings.namespace()?.to_string(),
            host_key_file: settings.host_key_file,
        })
    }
}

impl Trust {
    /// Returns the files of keys that are used.
    pub(crate) fn key_files(&self) -> impl Iterator<Item = &Path> {
        self.host_key_file.iter().chain(&self.list_file).map(PathBuf::as_path)
    }

    /// Whether an entry of a bundle may be taken: `Err` with the reason why not. Signatures for another namespace do not count: an attacker
    /// may have moved the entry.
    pub(crate) fn check(&self, target: &str, entry: &Entry) -> Result<(), String> {
        self.check_in([self.namespace.as_str()], target, entry)
    }

    /// The same of an entry of the store, which may be for the namespace that the store recorded.
    pub(crate) fn check_stored(&self, target: &str, entry: &Entry) -> Result<(), String> {
        self.check_in(entry_signatures(entry).namespaces(&self.namespace), target, entry)
    }

    fn check_in<'n>(
        &self,
        namespaces: impl IntoIterator<Item = &'n str>,
        target: &str,
        entry: &Entry,
    ) -> Result<(), String> {
        if self.policy.trusted_keys().is_none() {
            return Ok(());
        }
        let (mut checked, signatures) = (Ok(()), entry_signatures(entry));
        for namespace in namespaces {
            let message = entry_message(namespace, target, entry).map_err(|error| error.to_string())?;
            match self.policy.check(&message, &signatures) {
                Ok(_) => return Ok(()),
                Err(untrusted) => checked = Err(untrusted.in_namespace(namespace).to_string()),
            }
        }
        checked
    }

    /// Returns what recognizes the entries that this host or the holder of `key` built, by their signatures. Without keys, a host does not
    /// sign what it builds.
    pub(crate) fn of_own(&self, key: &PublicKey) -> Self {
        let host_key = |file: &PathBuf| SigningKey::open_for_host(&Fs::new(), file, false).ok()?;
        let host_key = self.host_key_file.as_ref().and_then(host_key);
        let keys = host_key.iter().map(SigningKey::public_key).chain([key]).cloned();
        Self {
            policy: SignaturePolicy::Required(keys.collect()),
            namespace: self.namespace.clone(),
            host_key_file: None,
            list_file: None,
        }
    }

    /// Returns the member with the signatures of an entry of a bundle that may be taken, as the store keeps it. `None`: as it is.
    pub(crate) fn stored_signatures(&self, entry: &Entry) -> Option<Vec<u8>> {
        let demands_signatures = self.policy.trusted_keys().is_some();
        stored_signatures(entry, demands_signatures.then_some(self.namespace.as_str()))
    }
}

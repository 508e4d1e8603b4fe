//! The keys that sign kernels and those that are trusted, from the arguments and the environment.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use opkeep::TrustConfig;
use opkeep_fs::Fs;
use opkeep_trust::{KeyTextError, PublicKey, SignaturePolicy, SigningKey, TrustedKeys};

use super::remote::namespace;
use crate::flags::remote::RemoteArgs;
use crate::flags::trust::TrustArgs;
use crate::ui::env;

/// Returns the keys that the flags name; if unset, those that the environment names.
///
/// # Errors
/// A key or its file is not valid, or the namespace is not.
pub(crate) fn trust(args: &TrustArgs, remote: &RemoteArgs) -> anyhow::Result<TrustConfig> {
    let mut config = TrustConfig::new(signature_policy(args.trusted_keys.as_deref())?);
    config.host_key_file = env::host_key_file();
    config.namespace = Some(namespace(remote.remote_namespace.as_ref())?);
    Ok(match (&args.sign_key, env::sign_key()) {
        (Some(file), _) => config.with_signing_key(sign_key(file).context("--sign-key")?),
        (None, Some(file)) => config.with_signing_key(sign_key(&file).context(env::SIGN_KEY)?),
        (None, None) => config,
    })
}

/// Returns what the flag demands of signatures; if unset, what the environment demands.
///
/// # Errors
/// A key or the list of keys is not valid.
pub(crate) fn signature_policy(flag: Option<&str>) -> anyhow::Result<SignaturePolicy> {
    match flag {
        Some(text) => trusted_keys(text).context("--trusted-keys").map(SignaturePolicy::Required),
        None => match env::text(env::TRUSTED_KEYS)? {
            Some(text) => trusted_keys(&text).context(env::TRUSTED_KEYS).map(SignaturePolicy::Required),
            None => Ok(SignaturePolicy::Ignored),
        },
    }
}

/// Reads the secret key in a file.
///
/// # Errors
/// It cannot be read, or it is not private. `file` is the text of a secret key, which is in no message.
pub(crate) fn sign_key(file: &Path) -> anyhow::Result<Arc<SigningKey>> {
    // Such a text must not be in a message.
    if file.to_str().is_some_and(is_secret_key) {
        bail!("this is the text of a secret key; give the name of the file that has it");
    }
    Ok(Arc::new(SigningKey::read(&Fs::new(), file)?))
}

pub(crate) fn is_secret_key(text: &str) -> bool {
    matches!(text.trim().parse::<PublicKey>(), Err(KeyTextError::SecretKey))
}

fn trusted_keys(text: &str) -> anyhow::Result<TrustedKeys> {
    let keys = match text.strip_prefix('@') {
        Some(file) => TrustedKeys::read(&Fs::new(), &PathBuf::from(file))?,
        None => TrustedKeys::parse(text)?,
    };
    // A variable of a script that is unset must not be a list that trusts no key, nor one that trusts all.
    if keys.is_empty() {
        bail!("there is no key; expected public keys as NAME:BASE64, or @FILE with a list of them");
    }
    Ok(keys)
}

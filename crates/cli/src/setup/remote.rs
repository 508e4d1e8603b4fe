//! The remote cache, from the arguments and the environment.

use anyhow::Context;
use opkeep_cache::{Namespace, RemoteConfig, RemotePolicy};

use crate::flags::remote::{RemoteArgs, mode};
use crate::ui::env;

/// Returns the remote cache that the flags name; if unset, the one that the environment names. It is not called yet.
///
/// # Errors
/// The URL, the mode or the namespace is not valid.
pub(crate) fn remote(args: &RemoteArgs) -> anyhow::Result<Option<RemoteConfig>> {
    let policy = match args.remote_mode {
        Some(policy) => policy,
        None => remote_policy()?,
    };
    if policy == RemotePolicy::Off {
        return Ok(None);
    }
    let (url, origin) = match &args.remote {
        Some(url) => (url.clone(), "--remote"),
        None => match env::text(env::REMOTE)? {
            Some(url) => (url, env::REMOTE),
            None => return Ok(None),
        },
    };
    let namespace = namespace(args.remote_namespace.as_ref())?;
    // The URL may contain a password, so it is in no message.
    let engine = opkeep_remote::open(&url, &env::remote_options()).context(origin)?;
    let mut config = RemoteConfig::new(engine);
    (config.policy, config.namespace) = (policy, namespace);
    Ok(Some(config))
}

/// Returns the use of the remote cache that the environment names.
///
/// # Errors
/// It is not valid.
fn remote_policy() -> anyhow::Result<RemotePolicy> {
    match env::text(env::REMOTE_MODE)? {
        Some(text) => mode(&text)
            .map_err(anyhow::Error::msg)
            .with_context(|| format!("{} is `{text}`", env::REMOTE_MODE)),
        None => Ok(RemotePolicy::ReadWrite),
    }
}

/// Checks that the environment lets a command send kernels.
///
/// # Errors
/// It does not ([`env::RemoteNotWritten`]), or is not valid.
pub(crate) fn check_remote_is_written() -> anyhow::Result<()> {
    match remote_policy()? {
        RemotePolicy::ReadWrite => Ok(()),
        _ => Err(env::RemoteNotWritten.into()),
    }
}

/// Returns the namespace that the flags name; if unset, the one that the environment names.
///
/// # Errors
/// It is not valid.
pub(crate) fn namespace(flag: Option<&Namespace>) -> anyhow::Result<Namespace> {
    if let Some(namespace) = flag {
        return Ok(namespace.clone());
    }
    match env::text(env::REMOTE_NAMESPACE)? {
        Some(text) => text.parse().with_context(|| format!("{} is `{text}`", env::REMOTE_NAMESPACE)),
        None => Ok(Namespace::default()),
    }
}

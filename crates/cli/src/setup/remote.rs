//! The remote cache and the keys, from the arguments and the environment.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use opkeep_cache::Namespace;
use opkeep_remote::{RemoteSettings, SettingText};
use opkeep_trust::SigningKey;

use crate::flags::remote::RemoteArgs;
use crate::flags::trust::TrustArgs;
use crate::ui::env;

/// Returns the settings of the remote cache and the keys that the flags name; those that are unset are from the environment.
pub(crate) fn remote_settings(remote: &RemoteArgs, trust: &TrustArgs) -> RemoteSettings {
    let mut settings = RemoteSettings::default();
    settings.url = text(remote.remote.as_ref(), "--remote");
    settings.mode = remote.remote_mode.map(|mode| SettingText::new(mode.to_string(), "--remote-mode"));
    settings.namespace = remote.remote_namespace.as_ref().map(namespace);
    settings.sign_key = trust.sign_key.as_deref().map(sign_key_setting);
    settings.trusted_keys = text(trust.trusted_keys.as_ref(), "--trusted-keys");
    settings.or_variables(&env::variables())
}

/// Returns what is demanded of signatures, and the namespace that they are for; what is unset is from the environment.
pub(crate) fn signature_settings(
    trusted_keys: Option<&String>,
    in_namespace: Option<&Namespace>,
) -> RemoteSettings {
    let mut settings = RemoteSettings::default();
    settings.trusted_keys = text(trusted_keys, "--trusted-keys");
    settings.namespace = in_namespace.map(namespace);
    settings.or_variables(&env::variables())
}

/// Reads the secret key in a file that a flag names.
///
/// # Errors
/// It cannot be read, or it is not private. `file` is the text of a secret key, which is in no message.
pub(crate) fn sign_key(file: &Path) -> anyhow::Result<Arc<SigningKey>> {
    let mut settings = RemoteSettings::default();
    settings.sign_key = Some(sign_key_setting(file));
    settings.signing_key()?.context("there is no key")
}

fn sign_key_setting(file: &Path) -> SettingText {
    SettingText::new(file, "--sign-key")
}

fn namespace(namespace: &Namespace) -> SettingText {
    SettingText::new(namespace.as_str(), "--remote-namespace")
}

fn text(value: Option<&String>, origin: &str) -> Option<SettingText> {
    value.map(|value| SettingText::new(value, origin))
}

//! The remote cache and the keys, from the arguments, the environment and files of settings.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use opkeep_cache::Namespace;
use opkeep_remote::{RemoteSettings, SettingText};
use opkeep_trust::SigningKey;

use crate::config::Settings;
use crate::config::table::{
    REMOTE_HEADERS_FILE, REMOTE_MODE, REMOTE_NAMESPACE, REMOTE_TLS_CA, REMOTE_TLS_CERTIFICATE,
    REMOTE_TLS_KEY, REMOTE_URL, SIGN_KEY, Setting, TRUSTED_KEYS,
};
use crate::flags::remote::RemoteArgs;
use crate::flags::trust::TrustArgs;
use crate::ui::env;

/// Returns the settings of the remote cache and the keys that the flags name; those that are unset are from the environment or a file.
pub(crate) fn remote_settings(remote: &RemoteArgs, trust: &TrustArgs) -> RemoteSettings {
    let mut settings = RemoteSettings::default();
    settings.url = text(remote.remote.as_ref(), "--remote");
    settings.mode = remote.remote_mode.map(|mode| SettingText::new(mode.to_string(), "--remote-mode"));
    settings.namespace = remote.remote_namespace.as_ref().map(namespace);
    settings.sign_key = trust.sign_key.as_deref().map(sign_key_setting);
    settings.trusted_keys = text(trust.trusted_keys.as_ref(), "--trusted-keys");
    or_configured(settings.or_variables(&env::variables()), &remote.config)
}

/// Returns what is demanded of signatures, and the namespace that they are for; what is unset is from the environment or a file.
pub(crate) fn signature_settings(
    trusted_keys: Option<&String>,
    in_namespace: Option<&Namespace>,
    config: &Settings,
) -> RemoteSettings {
    let mut settings = RemoteSettings::default();
    settings.trusted_keys = text(trusted_keys, "--trusted-keys");
    settings.namespace = in_namespace.map(namespace);
    or_configured(settings.or_variables(&env::variables()), config)
}

/// Returns the settings, with those that are unset from files. An empty variable is set.
fn or_configured(settings: RemoteSettings, config: &Settings) -> RemoteSettings {
    let of = |setting: &Setting| {
        let value = config.get(setting).filter(|value| value.is_in_file())?;
        Some(SettingText::new(value.text(), format!("{} at {}", setting.key, value.origin)))
    };
    let mut settings = settings;
    let or = |text: &mut Option<SettingText>, setting: &Setting| *text = text.take().or_else(|| of(setting));
    or(&mut settings.url, &REMOTE_URL);
    or(&mut settings.mode, &REMOTE_MODE);
    or(&mut settings.namespace, &REMOTE_NAMESPACE);
    or(&mut settings.sign_key, &SIGN_KEY);
    or(&mut settings.trusted_keys, &TRUSTED_KEYS);
    or(&mut settings.tls_ca, &REMOTE_TLS_CA);
    // Those that belong together are from one layer.
    if settings.headers.is_none() {
        or(&mut settings.headers_file, &REMOTE_HEADERS_FILE);
    }
    if settings.tls_certificate.is_none() && settings.tls_key.is_none() {
        or(&mut settings.tls_certificate, &REMOTE_TLS_CERTIFICATE);
        or(&mut settings.tls_key, &REMOTE_TLS_KEY);
    }
    settings
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

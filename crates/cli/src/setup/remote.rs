//! The remote cache and the keys, from the arguments, the environment and files of settings.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use opkeep_cache::{Namespace, RemotePolicy};
use opkeep_remote::{RemoteSettings, SettingText};
use opkeep_trust::SigningKey;

use crate::config::table::{
    REMOTE_HEADERS_FILE, REMOTE_MODE, REMOTE_NAMESPACE, REMOTE_TLS_CA, REMOTE_TLS_CERTIFICATE,
    REMOTE_TLS_KEY, REMOTE_URL, SIGN_KEY, Setting, TRUSTED_KEYS,
};
use crate::config::value::Value;
use crate::config::{ConfigError, Settings};
use crate::flags::remote::RemoteArgs;
use crate::flags::trust::TrustArgs;
use crate::ui::env;

/// Returns the settings of the remote cache and the keys that the flags name; those that are unset are from the environment or a file.
///
/// # Errors
/// A file has headers or a certificate, and the URL in force is not its own.
pub(crate) fn remote_settings(remote: &RemoteArgs, trust: &TrustArgs) -> Result<RemoteSettings, ConfigError> {
    remote_settings_of(text(remote.remote.as_ref(), "--remote"), remote, trust)
}

/// Returns the settings as [`remote_settings`] does, of the engine at `url`, if it is set.
///
/// # Errors
/// Those of [`remote_settings`].
pub(crate) fn remote_settings_of(
    url: Option<SettingText>,
    remote: &RemoteArgs,
    trust: &TrustArgs,
) -> Result<RemoteSettings, ConfigError> {
    with_credentials(without_credentials(url, remote, trust), &remote.config)
}

/// Returns the settings of the keys, and of the remote cache without what is for its server only.
pub(crate) fn trust_settings(remote: &RemoteArgs, trust: &TrustArgs) -> RemoteSettings {
    without_credentials(text(remote.remote.as_ref(), "--remote"), remote, trust)
}

fn without_credentials(url: Option<SettingText>, remote: &RemoteArgs, trust: &TrustArgs) -> RemoteSettings {
    let mut settings = RemoteSettings::default();
    settings.url = url;
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

/// Returns the settings, with those that are unset from files, but for headers and certificates. An empty variable is set.
fn or_configured(settings: RemoteSettings, config: &Settings) -> RemoteSettings {
    let mut settings = settings;
    let or = |text: &mut Option<SettingText>, setting: &Setting| {
        let in_file = || config.get(setting).filter(|value| value.is_in_file());
        *text = text.take().or_else(|| in_file().map(|value| text_of(setting, value)));
    };
    or(&mut settings.url, &REMOTE_URL);
    or(&mut settings.mode, &REMOTE_MODE);
    or(&mut settings.namespace, &REMOTE_NAMESPACE);
    or(&mut settings.sign_key, &SIGN_KEY);
    or(&mut settings.trusted_keys, &TRUSTED_KEYS);
    or(&mut settings.tls_ca, &REMOTE_TLS_CA);
    settings
}

/// Returns the settings with the headers and the client's certificate of a file, if no argument and no variable has some.
///
/// A token is for one server. So they are of a file that names the URL in force, and not of one that counts for another reason:
/// the URL of a flag or of another file may be that of anyone's server.
///
/// # Errors
/// The files that have some do not name this URL, and its server could take them.
fn with_credentials(mut settings: RemoteSettings, config: &Settings) -> Result<RemoteSettings, ConfigError> {
    let Some(url) = settings.url.clone() else { return Ok(settings) };
    let is_off = settings.policy().is_ok_and(|policy| policy == RemotePolicy::Off);
    let scheme = url.value().to_string_lossy().split(':').next().unwrap_or_default().to_ascii_lowercase();
    let takes_headers = !is_off && scheme.starts_with("grpc");
    let takes_certificate = !is_off && !["file", "redis", "grpc"].contains(&scheme.as_str());
    let of = |setting, is_taken: bool| match for_server(setting, &url, config) {
        Err(_) if !is_taken => Ok(None),
        found => found,
    };
    if settings.headers.is_none() && settings.headers_file.is_none() {
        settings.headers_file = of(&REMOTE_HEADERS_FILE, takes_headers)?;
    }
    if settings.tls_certificate.is_none() && settings.tls_key.is_none() {
        settings.tls_certificate = of(&REMOTE_TLS_CERTIFICATE, takes_certificate)?;
        settings.tls_key = match settings.tls_certificate {
            // Without a key of its own, it has the key in its file.
            Some(_) => in_file_of(&url, &REMOTE_TLS_KEY, config),
            None => of(&REMOTE_TLS_KEY, takes_certificate)?,
        };
    }
    Ok(settings)
}

/// Returns the value in the first file that names the URL.
///
/// # Errors
/// Other files have a value, and this one has none.
fn for_server(
    setting: &'static Setting,
    url: &SettingText,
    config: &Settings,
) -> Result<Option<SettingText>, ConfigError> {
    if let Some(own) = in_file_of(url, setting, config) {
        return Ok(Some(own));
    }
    match config.values(setting).iter().find_map(Value::place) {
        None => Ok(None),
        Some(place) => Err(ConfigError::OtherServer {
            key: setting.key,
            variable: setting.variables.first().map_or("", |variable| variable.name),
            place: place.clone(),
            url: url.origin().to_owned(),
        }),
    }
}

fn in_file_of(url: &SettingText, setting: &Setting, config: &Settings) -> Option<SettingText> {
    let mut names_url = config.values(&REMOTE_URL).iter().filter(|value| value.text() == url.value());
    let file = &names_url.find_map(Value::place)?.file;
    let is_own = |value: &&Value| value.place().is_some_and(|place| place.file == *file);
    config.values(setting).iter().find(is_own).map(|value| text_of(setting, value))
}

fn text_of(setting: &Setting, value: &Value) -> SettingText {
    SettingText::new(value.text(), format!("{} at {}", setting.key, value.origin))
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

#[cfg(test)]
mod tests {
    use super::*;

    const HEADERS: &str = "[remote]\nurl = \"grpcs://own\"\nheaders-file = \"/h\"\ntls-ca = \"/ca\"\n\
                           tls-certificate = \"/c\"\ntls-key = \"/k\"";

    /// Returns what is sent to the server at `url`, with files of these texts, those that count more first.
    fn sent(url: Option<&str>, files: &[&str]) -> Result<RemoteSettings, ConfigError> {
        let config = Settings::default();
        config.load_texts(files);
        let remote = RemoteArgs { remote: url.map(str::to_owned), config, ..RemoteArgs::default() };
        let mut settings = RemoteSettings::default();
        settings.url = text(remote.remote.as_ref(), "--remote");
        with_credentials(or_configured(settings, &remote.config), &remote.config)
    }

    fn paths(settings: &RemoteSettings) -> [Option<&str>; 3] {
        let texts = [&settings.headers_file, &settings.tls_certificate, &settings.tls_key];
        texts.map(|text| text.as_ref().and_then(|text| text.value().to_str()))
    }

    #[test]
    fn headers_and_certificates_go_to_the_server_of_their_file() {
        let all = [Some("/h"), Some("/c"), Some("/k")];
        assert_eq!(paths(&sent(None, &[HEADERS]).unwrap()), all);
        assert_eq!(paths(&sent(Some("grpcs://own"), &[HEADERS]).unwrap()), all);
        // Of two files, the one that names the server counts.
        let project = "[remote]\nurl = \"grpcs://project\"\nheaders-file = \"/p\"\ntls-certificate = \"/pc\"";
        let keyless = "[remote]\nurl = \"grpcs://project\"\nheaders-file = \"/p\"";
        assert_eq!(paths(&sent(Some("grpcs://own"), &[project, HEADERS]).unwrap()), all);
        let of_project = [Some("/p"), Some("/pc"), None];
        assert_eq!(paths(&sent(None, &[project, HEADERS]).unwrap()), of_project);
        assert_eq!(sent(Some("grpcs://own"), &[project, HEADERS]).unwrap().tls_ca.unwrap().value(), "/ca");

        for (url, files, origin) in [
            (Some("grpcs://other"), &[HEADERS][..], "--remote"),
            (Some("GRPCS://other"), &[HEADERS], "--remote"),
            (None, &["remote.url = \"grpcs://project\"", HEADERS], "remote.url at /0/opkeep.toml:1:14"),
            (Some("grpcs://own"), &["remote.headers-file = \"/h\""], "--remote"),
            (None, &[keyless, HEADERS], "remote.url at /0/opkeep.toml:2:7"),
        ] {
            let error = sent(url, files).unwrap_err();
            let last = files.len() - 1;
            let text = error.to_string();
            assert!(text.contains(&format!("at /{last}/opkeep.toml:")), "{text}");
            assert!(text.ends_with(&format!("the URL is from {origin}")), "{text}");
            assert!(error.help().unwrap().contains("OPKEEP_REMOTE_"), "{error:?}");
        }
    }

    #[test]
    fn no_error_is_about_what_no_server_gets() {
        for url in ["redis://other", "file:///other"] {
            assert_eq!(paths(&sent(Some(url), &[HEADERS]).unwrap()), [None; 3], "{url}");
        }
        let certificate = "remote.tls-certificate = \"/c\"";
        for url in ["rediss://other", "s3://other", "grpcs://other"] {
            sent(Some(url), &[certificate]).unwrap_err();
        }
        let off = format!("{HEADERS}\nmode = \"off\"");
        assert_eq!(paths(&sent(Some("grpcs://other"), &[&off]).unwrap()), [None; 3]);
        // `opkeep remote` reaches the server in spite of the mode.
        assert_eq!(paths(&sent(None, &[&off]).unwrap()), [Some("/h"), Some("/c"), Some("/k")]);
        assert_eq!(paths(&sent(None, &["remote.headers-file = \"/h\""]).unwrap()), [None; 3]);
    }
}

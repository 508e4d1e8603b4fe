//! Settings in texts become a remote tier and keys: for the arguments of a command, the keywords of a function, the fields of a
//! struct, and variables of the environment.
//!
//! This crate reads no environment, and its messages name nothing by themselves: the caller states the origin of each text, and
//! how a variable is looked up.

mod error;
#[cfg(test)]
mod tests;
mod text;
mod variables;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use opkeep_cache::{CacheConfig, Namespace, RemoteConfig, RemoteEngine, RemotePolicy, TrustConfig};
use opkeep_fs::Fs;
use opkeep_trust::{KeyTextError, PublicKey, SignaturePolicy, SigningKey, TrustedKeys};

pub use self::error::SettingsError;
pub use self::text::SettingText;
pub use self::variables::{HOST_KEY_PATH, Lookup, Variables};
use crate::open::open;
use crate::options::{ClientCertificate, HeaderSource, OpenOptions};

/// The settings of a remote cache and of trust in kernels, as texts. All of them may be unset.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RemoteSettings {
    /// The URL of the engine. If unset, there is no remote cache.
    pub url: Option<SettingText>,
    /// The use of the remote cache: `off`, `read` or `read-write`. If unset, `read-write`.
    pub mode: Option<SettingText>,
    /// The namespace. If unset, `default`.
    pub namespace: Option<SettingText>,
    /// The file of the secret key that signs what this host builds and shares. If unset, nothing is signed.
    pub sign_key: Option<SettingText>,
    /// The trusted keys: public keys as `NAME:BASE64`, separated by spaces, or `@FILE` with a list of them. If unset, signatures
    /// do not matter.
    pub trusted_keys: Option<SettingText>,
    /// The file of the key by which this host recognizes what it built: see [`TrustConfig::host_key_file`].
    pub host_key_file: Option<PathBuf>,
    /// The headers that a server of the Remote Execution API gets with each call, one a line as `name: value`.
    pub headers: Option<SettingText>,
    /// A file of headers, which is read again when the server refuses them. Not together with `headers`.
    pub headers_file: Option<SettingText>,
    /// The file of certificates whose authorities are trusted for TLS. If unset, the system's.
    pub tls_ca: Option<SettingText>,
    /// The file of the certificate by which this client is known. If unset, it has none.
    pub tls_certificate: Option<SettingText>,
    /// The file of the certificate's key. If unset, it is in the certificate's file.
    pub tls_key: Option<SettingText>,
    /// What the client of an engine needs besides the URL and the settings above.
    pub options: OpenOptions,
}

impl RemoteSettings {
    /// Returns the settings, with those that are unset from variables. An empty variable is no valid setting: a script may have set
    /// it from a variable that it does not have, and without it, kernels would be used without signatures or sent without one, a
    /// host that only reads would write, and other authorities would be trusted. What uses the setting fails. Only an empty
    /// `<prefix>_REMOTE` counts as unset: there is no remote cache.
    #[must_use]
    pub fn or_variables(self, variables: &Variables) -> Self {
        let Self { url, mode, namespace, sign_key, trusted_keys, host_key_file, .. } = self;
        let Self { headers, headers_file, tls_ca, tls_certificate, tls_key, mut options, .. } = self;
        let (headers, headers_file) = match (headers, headers_file) {
            (None, None) => (variables.setting("REMOTE_HEADERS"), variables.setting("REMOTE_HEADERS_FILE")),
            named => named,
        };
        let (tls_certificate, tls_key) = match (tls_certificate, tls_key) {
            (None, None) => {
                (variables.setting("REMOTE_TLS_CERTIFICATE"), variables.setting("REMOTE_TLS_KEY"))
            }
            named => named,
        };
        if options.variable.is_none() {
            options.variable = Some(variables.texts());
        }
        Self {
            url: url.or_else(|| variables.setting_unless_empty("REMOTE")),
            mode: mode.or_else(|| variables.setting("REMOTE_MODE")),
            namespace: namespace.or_else(|| variables.setting("REMOTE_NAMESPACE")),
            sign_key: sign_key.or_else(|| variables.setting("SIGN_KEY")),
            trusted_keys: trusted_keys.or_else(|| variables.setting("TRUSTED_KEYS")),
            host_key_file: host_key_file.or_else(|| variables.host_key_file()),
            headers,
            headers_file,
            tls_ca: tls_ca.or_else(|| variables.setting("REMOTE_TLS_CA")),
            tls_certificate,
            tls_key,
            options,
        }
    }

    /// Sets the remote tier and the trust of a cache.
    ///
    /// # Errors
    /// Those of [`remote`](Self::remote) and [`trust`](Self::trust). The configuration is as it was before.
    pub fn apply(&self, config: &mut CacheConfig) -> Result<(), SettingsError> {
        (config.remote, config.trust) = (self.remote()?, self.trust()?);
        Ok(())
    }

    /// Returns the remote tier. `None`: there is no URL, or the mode is `off`. The engine is not called yet.
    ///
    /// # Errors
    /// The URL, the mode or the namespace is not valid, or this build has no client for the engine.
    pub fn remote(&self) -> Result<Option<RemoteConfig>, SettingsError> {
        let policy = self.policy()?;
        if policy == RemotePolicy::Off {
            return Ok(None);
        }
        let namespace = self.namespace()?;
        Ok(self.engine()?.map(|engine| {
            let mut config = RemoteConfig::new(engine);
            (config.policy, config.namespace) = (policy, namespace);
            config
        }))
    }

    /// Returns the client of the engine; `None` if there is no URL. It connects when it is called first.
    ///
    /// # Errors
    /// The URL is not valid, or this build has no client for the engine, or those of [`open_options`](Self::open_options).
    pub fn engine(&self) -> Result<Option<Arc<dyn RemoteEngine>>, SettingsError> {
        let Some(url) = &self.url else { return Ok(None) };
        let opened = open(url.text()?, &self.open_options()?);
        // The URL may contain a password, so it is in no message.
        opened.map(Some).map_err(|source| SettingsError::Url { origin: url.origin().to_owned(), source })
    }

    /// Returns what the client of an engine needs besides the URL. Files are not read yet.
    ///
    /// # Errors
    /// Headers are not valid, or given twice; a key has no certificate; the name of a file is empty.
    pub fn open_options(&self) -> Result<OpenOptions, SettingsError> {
        let mut options = self.options.clone();
        let path = |setting: &SettingText| Ok(PathBuf::from(setting.not_empty()?));
        let origin = |setting: &SettingText| setting.origin().to_owned();
        if let Some(file) = &self.tls_ca {
            options.authorities = Some(path(file)?);
        }
        match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), key) => {
                let (certificate, key) = (path(certificate)?, path(key.as_ref().unwrap_or(certificate))?);
                options.client_certificate = Some(ClientCertificate { certificate, key });
            }
            (None, Some(key)) => return Err(SettingsError::NoCertificate { origin: origin(key) }),
            (None, None) => {}
        }
        match (&self.headers, &self.headers_file) {
            (Some(one), Some(other)) => {
                return Err(SettingsError::HeadersTwice { one: origin(one), other: origin(other) });
            }
            // A header has a secret, so it is in no message.
            (Some(headers), None) => {
                headers.not_empty()?;
                let parsed = headers.text()?.parse();
                let parsed =
                    parsed.map_err(|source| SettingsError::Headers { origin: origin(headers), source })?;
                options.headers = Some(HeaderSource::Given(parsed));
            }
            (None, Some(file)) => options.headers = Some(HeaderSource::File(path(file)?)),
            (None, None) => {}
        }
        Ok(options)
    }

    /// Returns the use of the remote tier.
    ///
    /// # Errors
    /// The mode is not valid.
    pub fn policy(&self) -> Result<RemotePolicy, SettingsError> {
        let Some(mode) = &self.mode else { return Ok(RemotePolicy::ReadWrite) };
        let (text, origin) = (mode.text()?, mode.origin());
        text.parse().map_err(|source| SettingsError::Mode {
            origin: origin.to_owned(),
            text: text.to_owned(),
            source,
        })
    }

    /// Returns the namespace of entries and of signatures.
    ///
    /// # Errors
    /// It is not valid.
    pub fn namespace(&self) -> Result<Namespace, SettingsError> {
        let Some(namespace) = &self.namespace else { return Ok(Namespace::default()) };
        let (text, origin) = (namespace.text()?, namespace.origin());
        text.parse().map_err(|source| SettingsError::Namespace {
            origin: origin.to_owned(),
            text: text.to_owned(),
            source,
        })
    }

    /// Returns the keys.
    ///
    /// # Errors
    /// A key or its file is not valid, or the namespace is not.
    pub fn trust(&self) -> Result<TrustConfig, SettingsError> {
        let mut config = TrustConfig::new(self.signature_policy()?);
        config.host_key_file.clone_from(&self.host_key_file);
        config.namespace = Some(self.namespace()?);
        config.signing_key = self.signing_key()?;
        Ok(config)
    }

    /// Reads the secret key; `None` if nothing is signed.
    ///
    /// # Errors
    /// Its file cannot be read, or is not private. In place of a file, there is the text of a secret key, which is in no message.
    pub fn signing_key(&self) -> Result<Option<Arc<SigningKey>>, SettingsError> {
        let Some(file) = &self.sign_key else { return Ok(None) };
        let origin = || file.origin().to_owned();
        // Such a text must not be in a message.
        if file.value().to_str().is_some_and(is_secret_key) {
            return Err(SettingsError::SecretKeyText { origin: origin() });
        }
        let key = SigningKey::read(&Fs::new(), Path::new(file.not_empty()?));
        key.map(|key| Some(Arc::new(key)))
            .map_err(|source| SettingsError::SigningKey { origin: origin(), source })
    }

    /// Returns what is demanded of signatures.
    ///
    /// # Errors
    /// A key is not valid, or the list cannot be read, or has no key.
    pub fn signature_policy(&self) -> Result<SignaturePolicy, SettingsError> {
        let Some(setting) = &self.trusted_keys else { return Ok(SignaturePolicy::Ignored) };
        let (text, origin) = (setting.text()?, || setting.origin().to_owned());
        let keys = match text.strip_prefix('@') {
            Some(file) => TrustedKeys::read(&Fs::new(), Path::new(file)),
            None => TrustedKeys::parse(text),
        };
        let keys = keys.map_err(|source| match text.contains(['@', ':']) {
            true => SettingsError::TrustedKeys { origin: origin(), source },
            false => SettingsError::NotKeys { origin: origin(), source },
        })?;
        // A variable of a script that is unset must not be a list that trusts no key, nor one that trusts all.
        match keys.is_empty() {
            true => Err(SettingsError::NoTrustedKey { origin: origin() }),
            false => Ok(SignaturePolicy::Required(keys)),
        }
    }
}

/// Whether a text is that of a secret key.
pub fn is_secret_key(text: &str) -> bool {
    matches!(text.trim().parse::<PublicKey>(), Err(KeyTextError::SecretKey))
}

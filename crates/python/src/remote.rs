//! The remote cache and the keys of a cache, from the arguments of Python and from the environment.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, PoisonError};

use opkeep_cache::{CacheConfig, RemoteConfig};
use opkeep_fs::without_fork;
use opkeep_remote::{RemoteSettings, SettingText, SettingsError, Variables};
use pyo3::prelude::*;

use crate::call::without_gil;
use crate::engine::SignalledEngine;
use crate::error::exception;

/// The arguments, in the order in which Python passes them.
const ARGUMENTS: [&str; 5] = ["remote", "remote_mode", "remote_namespace", "sign_key", "trusted_keys"];
/// How the variables begin that have the same meanings.
const PREFIX: &str = "OPKEEP";
/// The maximum number of remote caches that are remembered.
const MAX_KNOWN: usize = 16;

/// How the URLs begin of engines that read variables of their own, and how those variables begin.
const OWN_VARIABLES: (&str, [&str; 2]) = ("s3", ["AWS_", "HOME"]);

/// The remote caches of this process. All caches of the same settings share one: its connections, and its pause after failures.
static KNOWN: Mutex<Vec<(Decisive, RemoteConfig)>> = Mutex::new(Vec::new());

/// What decides which remote cache settings mean, wherever they are from.
#[derive(PartialEq)]
struct Decisive {
    texts: [Option<OsString>; 8],
    variables: BTreeMap<OsString, OsString>,
}

/// The values of the arguments, and the variables of the environment as Python has them.
#[derive(Clone, FromPyObject)]
pub(crate) struct RemoteArguments([Option<OsString>; 5], HashMap<OsString, OsString>);

impl RemoteArguments {
    /// Sets the keys and the remote cache of a cache.
    ///
    /// # Errors
    /// A setting is not valid, or a key cannot be read.
    pub(crate) fn apply(&self, config: &mut CacheConfig) -> Result<(), SettingsError> {
        self.apply_keys(config)?;
        self.apply_remote(config)
    }

    /// Sets the keys only.
    ///
    /// # Errors
    /// A setting of them is not valid, or a key cannot be read.
    pub(crate) fn apply_keys(&self, config: &mut CacheConfig) -> Result<(), SettingsError> {
        config.trust = self.settings().trust()?;
        Ok(())
    }

    /// Sets the remote cache only.
    ///
    /// # Errors
    /// A setting of it is not valid.
    pub(crate) fn apply_remote(&self, config: &mut CacheConfig) -> Result<(), SettingsError> {
        config.remote = self.remote()?;
        Ok(())
    }

    fn settings(&self) -> RemoteSettings {
        let Self(values, environment) = self;
        let named = values.iter().zip(ARGUMENTS);
        let mut texts =
            named.map(|(value, name)| value.as_ref().map(|value| SettingText::new(value.clone(), name)));
        let mut settings = RemoteSettings::default();
        let places = [
            &mut settings.url,
            &mut settings.mode,
            &mut settings.namespace,
            &mut settings.sign_key,
            &mut settings.trusted_keys,
        ];
        for place in places {
            *place = texts.next().flatten();
        }
        let environment = environment.clone();
        let variable = Arc::new(move |name: &str| environment.get(OsStr::new(name)).cloned());
        settings.or_variables(&Variables::new(PREFIX, variable))
    }

    /// Returns the remote cache of the settings, which is that of earlier ones that mean the same.
    fn remote(&self) -> Result<Option<RemoteConfig>, SettingsError> {
        let settings = self.settings();
        let decisive = self.decisive(&settings);
        if let Some(known) = with_known(|known| find(known, &decisive)) {
            return Ok(Some(known));
        }
        // An engine may read files of the user, which may be on a slow file system: forks do not wait for that.
        let Some(mut opened) = settings.remote()? else { return Ok(None) };
        opened.engine = Arc::new(SignalledEngine::new(opened.engine));
        let (remote, _removed) = with_known(|known| {
            // Another thread may have opened the same one meanwhile.
            if let Some(first) = find(known, &decisive) {
                return (first, None);
            }
            let removed = (known.len() == MAX_KNOWN).then(|| known.remove(0));
            known.push((decisive, opened.clone()));
            (opened.clone(), removed)
        });
        Ok(Some(remote))
    }

    fn decisive(&self, settings: &RemoteSettings) -> Decisive {
        let RemoteSettings { url, mode, namespace, .. } = settings;
        let RemoteSettings { headers, headers_file, tls_ca, tls_certificate, tls_key, .. } = settings;
        let texts = [url, mode, namespace, headers, headers_file, tls_ca, tls_certificate, tls_key];
        let texts = texts.map(|text| text.as_ref().map(|text| text.value().to_owned()));
        let (engine, prefixes) = OWN_VARIABLES;
        let has_own = url.as_ref().is_some_and(|url| begins_with(url.value(), engine));
        let is_read = |name: &OsStr| has_own && prefixes.iter().any(|prefix| begins_with(name, prefix));
        let variables = self.1.iter().filter(|(name, _)| is_read(name));
        Decisive { texts, variables: variables.map(|(name, value)| (name.clone(), value.clone())).collect() }
    }
}

/// Calls `function` with the list. A forked child would find it locked by a thread that it does not have.
fn with_known<T>(function: impl FnOnce(&mut Vec<(Decisive, RemoteConfig)>) -> T) -> T {
    without_fork(|| function(&mut KNOWN.lock().unwrap_or_else(PoisonError::into_inner)))
}

fn find(known: &[(Decisive, RemoteConfig)], decisive: &Decisive) -> Option<RemoteConfig> {
    known.iter().find(|(known, _)| known == decisive).map(|(_, remote)| remote.clone())
}

fn begins_with(text: &OsStr, prefix: &str) -> bool {
    let start = text.as_encoded_bytes().get(..prefix.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}

/// Returns the exception for a setting.
pub(crate) fn settings_error(py: Python<'_>, error: &SettingsError) -> PyErr {
    exception(py, "SettingsError", &error.to_string())
}

/// Checks the settings of a remote cache and of keys.
///
/// # Errors
/// One is not valid, or a key cannot be read.
#[pyfunction]
pub(crate) fn check_remote(py: Python<'_>, remote: RemoteArguments) -> PyResult<()> {
    let checked = without_gil(py, || Ok(remote.apply(&mut CacheConfig::default())))?;
    checked.map_err(|error| settings_error(py, &error))
}

//! The remote cache and the keys of a cache, from the arguments of Python and from the environment.

use std::collections::HashMap;
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

/// The remote caches of this process. All caches of the same settings share one: its connections, and its pause after failures.
static KNOWN: Mutex<Vec<(RemoteArguments, RemoteConfig)>> = Mutex::new(Vec::new());

/// The values of the arguments, and the variables of the environment as Python has them.
#[derive(Clone, FromPyObject, PartialEq)]
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

    /// Returns the remote cache of the settings, which is that of earlier ones that are equal.
    fn remote(&self) -> Result<Option<RemoteConfig>, SettingsError> {
        // A forked child would find the list locked by a thread that it does not have.
        without_fork(|| {
            let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, remote)) = known.iter().find(|(arguments, _)| arguments == self) {
                return Ok(Some(remote.clone()));
            }
            let Some(mut remote) = self.settings().remote()? else { return Ok(None) };
            remote.engine = Arc::new(SignalledEngine::new(remote.engine));
            if known.len() == MAX_KNOWN {
                known.remove(0);
            }
            known.push((self.clone(), remote.clone()));
            Ok(Some(remote))
        })
    }
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

//! The values that settings take, in flags, variables and files alike.

use std::num::NonZeroUsize;

use opkeep_cache::{Namespace, RemotePolicy};
use opkeep_store::{CacheMode, LimitParameter, LimitRules};
use opkeep_trust::{KeyTextError, PublicKey};

/// How CANN's compiler can be run.
pub(crate) const CANN_DRIVERS: [&str; 3] = ["auto", "workers", "process"];

/// The time limit of a compile in seconds, if unset.
pub(crate) const DEFAULT_DEADLINE: f64 = 600.0;

/// Returns the problem of a value.
pub(crate) type Check = fn(&str) -> Result<(), String>;

pub(crate) fn job_count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a number of compilers, 1 or more".to_owned())
}

pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e9 => Ok(seconds),
        _ => Err("expected a number of seconds above 0".to_owned()),
    }
}

pub(crate) fn niceness(text: &str) -> Result<u8, String> {
    let number = text.parse().ok().filter(|number| *number <= 19);
    number.ok_or_else(|| "expected a niceness of 0 to 19".to_owned())
}

pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}

pub(crate) fn mode(text: &str) -> Result<CacheMode, opkeep_store::ParseModeError> {
    text.parse()
}

pub(crate) fn user_id(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "expected the number of a user".to_owned())
}

pub(crate) fn cann_driver(text: &str) -> Result<String, String> {
    match CANN_DRIVERS.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(format!("expected one of {}", CANN_DRIVERS.join(", "))),
    }
}

/// Whether a text is a secret key, which no message shows.
pub(super) fn is_secret_key(text: &str) -> bool {
    matches!(text.trim().parse::<PublicKey>(), Err(KeyTextError::SecretKey))
}

/// Takes any text that is not empty.
pub(super) fn any(_: &str) -> Result<(), String> {
    Ok(())
}

pub(super) fn remote_mode(text: &str) -> Result<(), String> {
    text.parse::<RemotePolicy>().map(drop).map_err(|error| error.to_string())
}

pub(super) fn namespace(text: &str) -> Result<(), String> {
    text.parse::<Namespace>().map(drop).map_err(|error| error.to_string())
}

/// Takes what looks like the URL of an engine. The engine's client judges the rest.
pub(super) fn url(text: &str) -> Result<(), String> {
    match text.split_once("://") {
        Some((scheme, rest)) if !scheme.is_empty() && !rest.is_empty() => Ok(()),
        _ => Err("expected a URL such as redis://HOST".to_owned()),
    }
}

/// Refuses a secret key in place of the file that has it.
pub(super) fn key_file(text: &str) -> Result<(), String> {
    match is_secret_key(text) {
        true => Err("this is the text of a secret key; expected the name of the file that has it".to_owned()),
        false => Ok(()),
    }
}

/// Refuses a secret key among public keys.
pub(super) fn keys(text: &str) -> Result<(), String> {
    match text.split_whitespace().any(is_secret_key) {
        true => Err("this is a secret key; expected public keys, NAME:BASE64, or @FILE".to_owned()),
        false => Ok(()),
    }
}

pub(super) fn max_size(text: &str) -> Result<(), String> {
    limit(&LimitRules::STORE.size[1], text)
}

pub(super) fn remain_percent(text: &str) -> Result<(), String> {
    limit(&LimitRules::STORE.ratio[1], text)
}

pub(super) fn max_entries(text: &str) -> Result<(), String> {
    LimitRules::STORE.entries.as_ref().map_or(Ok(()), |entries| limit(entries, text))
}

fn limit(parameter: &LimitParameter, text: &str) -> Result<(), String> {
    match text.parse().is_ok_and(parameter.is_valid) {
        true => Ok(()),
        false => Err(format!("expected {}", parameter.range)),
    }
}

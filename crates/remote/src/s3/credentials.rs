//! Access keys, from the places where AWS's programs look for them.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use opkeep_cache::fs::Fs;

use super::profile::{FileKind, Profile};
use crate::options::Variable;
use crate::renewable::Secrets;
use crate::url::Secret;

/// The maximum size of AWS's files, in bytes.
const LARGEST_FILE: u64 = 1 << 20;
/// The maximum length of an access key or token, in bytes. They become headers.
const LONGEST_TOKEN: usize = 16 << 10;
/// The profile that is used where none is named.
const DEFAULT_PROFILE: &str = "default";
/// Settings of a profile that are credentials of kinds that are not supported.
const OTHER_KINDS: [&str; 6] = [
    "role_arn",
    "credential_process",
    "sso_session",
    "sso_start_url",
    "web_identity_token_file",
    "login_session",
];
/// Variables that are credentials of kinds that are not supported.
const OTHER_VARIABLES: [&str; 3] = [
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
];
const SUPPORTED: &str = "an access key in the variables `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` (with \
                         `AWS_SESSION_TOKEN` if it is temporary), or `aws_access_key_id` and `aws_secret_access_key` of the \
                         profile in AWS's files";

/// An access key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) access_key: String,
    pub(super) secret: Secret,
    /// That of temporary credentials.
    pub(super) token: Option<Secret>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(***)")
    }
}

impl Secrets for Keys {
    fn secrets(&self) -> impl Iterator<Item = &str> {
        let token = self.token.as_ref().map(Secret::reveal);
        [self.secret.reveal(), &self.access_key].into_iter().chain(token)
    }
}

/// Where an access key is looked for.
pub(super) struct Sources {
    variable: Option<Arc<Variable>>,
    /// The profile of the URL.
    profile: Option<String>,
}

impl Sources {
    pub(super) fn new(variable: Option<Arc<Variable>>, profile: Option<String>) -> Self {
        Self { variable, profile }
    }

    fn variable(&self, name: &str) -> Option<String> {
        let variable = self.variable.as_ref()?;
        variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// Returns the region that the environment or the profile names.
    pub(super) fn region(&self) -> Option<String> {
        let variable = self.variable("AWS_REGION").or_else(|| self.variable("AWS_DEFAULT_REGION"));
        let is_region = |region: &String| {
            region.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        // What is wrong with a file is reported with the credentials.
        let config = || self.read(FileKind::Config).ok().flatten()?.get("region").map(str::to_owned);
        variable.or_else(config).filter(is_region)
    }

    /// Returns the access key. The error says what is missing.
    pub(super) fn keys(&self) -> Result<Keys, String> {
        let variables = if self.profile.is_none() { self.keys_of_variables()? } else { None };
        if let Some(keys) = variables {
            return Ok(keys);
        }
        for kind in [FileKind::Credentials, FileKind::Config] {
            let Some(profile) = self.read(kind)? else { continue };
            if let Some(keys) = self.keys_of(&profile)? {
                return Ok(keys);
            }
            if let Some(other) = OTHER_KINDS.iter().find(|name| profile.get(name).is_some()) {
                let name = self.profile_name();
                return Err(format!(
                    "the profile `{name}` has `{other}`, which is not supported: expected {SUPPORTED}"
                ));
            }
        }
        match OTHER_VARIABLES.iter().find(|name| self.variable(name).is_some()) {
            Some(other) => {
                Err(format!("the variable `{other}` is set, which is not supported: expected {SUPPORTED}"))
            }
            None => Err(format!(
                "no credentials for S3 (profile `{}`): expected {SUPPORTED}",
                self.profile_name()
            )),
        }
    }

    fn keys_of_variables(&self) -> Result<Option<Keys>, String> {
        let keys = (self.variable("AWS_ACCESS_KEY_ID"), self.variable("AWS_SECRET_ACCESS_KEY"));
        match keys {
            (Some(access_key), Some(secret)) => {
                checked(access_key, secret, self.variable("AWS_SESSION_TOKEN"), "the environment").map(Some)
            }
            (None, None) => Ok(None),
            _ => {
                Err("only one of the variables `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` is set"
                    .to_owned())
            }
        }
    }

    fn keys_of(&self, profile: &Profile) -> Result<Option<Keys>, String> {
        let get = |name| profile.get(name).map(str::to_owned);
        let name = self.profile_name();
        match (get("aws_access_key_id"), get("aws_secret_access_key")) {
            (Some(access_key), Some(secret)) => {
                checked(access_key, secret, get("aws_session_token"), &format!("the profile `{name}`"))
                    .map(Some)
            }
            (None, None) => Ok(None),
            _ => Err(format!(
                "the profile `{name}` has only one of `aws_access_key_id` and `aws_secret_access_key`"
            )),
        }
    }

    fn profile_name(&self) -> String {
        let named = self.profile.clone().or_else(|| self.variable("AWS_PROFILE"));
        let named = named.unwrap_or_else(|| DEFAULT_PROFILE.to_owned());
        named.chars().filter(|char| !char.is_control()).take(100).collect()
    }

    /// Reads the profile from one of the files. `None`: there is no such file, or it does not have the profile.
    fn read(&self, kind: FileKind) -> Result<Option<Profile>, String> {
        let (variable, file) = match kind {
            FileKind::Credentials => ("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"),
            FileKind::Config => ("AWS_CONFIG_FILE", ".aws/config"),
        };
        let home = || Some(PathBuf::from(self.variable("HOME")?).join(file));
        let Some(path) = self.variable(variable).map(PathBuf::from).or_else(home) else { return Ok(None) };
        match Fs::new().read_text(&path, LARGEST_FILE) {
            Ok(text) => Ok(Profile::read(&text, kind, &self.profile_name())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("credentials for S3: `{}`: {error}", path.display())),
        }
    }
}

/// Checks that keys can be sent: a header has no control characters.
fn checked(access_key: String, secret: String, token: Option<String>, place: &str) -> Result<Keys, String> {
    let is_word =
        |text: &str| text.len() <= LONGEST_TOKEN && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_word(&access_key) || !is_word(&secret) || !token.as_deref().is_none_or(is_word) {
        return Err(format!("the access key in {place} has characters that no access key has"));
    }
    Ok(Keys { access_key, secret: Secret::new(secret), token: token.map(Secret::new) })
}

#[cfg(test)]
mod tests;

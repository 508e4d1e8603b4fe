//! `version.info`: which version a package is, and when it was built.

use std::fmt;
use std::path::Path;

use crate::disk::files;
use crate::error::ToolkitError;

/// The contents of a package's `version.info`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Version {
    /// The version as builds count it: `7.7.0.1.238`. Not the one it is sold by.
    pub inner: String,
    /// The version it is sold by: `8.1.RC1`.
    pub release: Option<String>,
    /// When it was built: `20250428_203017761`.
    pub timestamp: Option<String>,
}

impl Version {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self, ToolkitError> {
        let text = files::read_text(path)?;
        let Some(inner) = value(&text, "Version") else {
            let problem = "there is no line `Version=...` with a value";
            return Err(ToolkitError::malformed(path, "says no version", problem));
        };
        Ok(Self { inner, release: value(&text, "version_dir"), timestamp: value(&text, "timestamp") })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner)?;
        self.timestamp.iter().try_for_each(|time| write!(f, " of {time}"))
    }
}

/// The first value of `key` that is not empty. Keys count with their case; values may be quoted.
pub(crate) fn value(text: &str, key: &str) -> Option<String> {
    let values = text.lines().filter_map(|line| line.split_once('='));
    let mut own = values.filter(|(name, _)| name.trim() == key);
    own.find_map(|(_, value)| {
        let value = value.trim().trim_matches('"').trim();
        (!value.is_empty()).then(|| value.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_whole_key() {
        let text = "Version=7.7.0.1.238\r\nversion_dir=8.1.RC1\nrequired_package_runtime_version=\"7.7\"\nVersion=no\nempty=\n";
        assert_eq!(value(text, "Version").as_deref(), Some("7.7.0.1.238"));
        assert_eq!(value(text, "required_package_runtime_version").as_deref(), Some("7.7"));
        assert_eq!(value(text, "version"), None);
        assert_eq!(value(text, "empty"), None);
    }

    #[test]
    fn a_version_is_shown_with_its_time() {
        let mut version = Version { inner: "7.7".to_owned(), release: None, timestamp: None };
        assert_eq!(version.to_string(), "7.7");
        version.timestamp = Some("20250428_203017761".to_owned());
        assert_eq!(version.to_string(), "7.7 of 20250428_203017761");
    }
}

//! The text of a setting.

use std::ffi::{OsStr, OsString};
use std::fmt;

use super::error::SettingsError;

/// The text of a setting, and where it is from. The text may contain a password: its `Debug` text is the origin.
#[derive(Clone, PartialEq, Eq)]
pub struct SettingText {
    value: OsString,
    origin: String,
}

impl SettingText {
    /// Creates a text. A message names `origin`, such as a variable, an argument or a field.
    pub fn new(value: impl Into<OsString>, origin: impl Into<String>) -> Self {
        Self { value: value.into(), origin: origin.into() }
    }

    /// Returns the name of the place where the text is from.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the text as it was given.
    pub fn value(&self) -> &OsStr {
        &self.value
    }

    /// Returns the text as it was given.
    ///
    /// # Errors
    /// It is empty.
    pub(super) fn not_empty(&self) -> Result<&OsStr, SettingsError> {
        match self.value.is_empty() {
            true => Err(SettingsError::Empty { origin: self.origin.clone() }),
            false => Ok(&self.value),
        }
    }

    /// Returns the text.
    ///
    /// # Errors
    /// It is not UTF-8.
    pub fn text(&self) -> Result<&str, SettingsError> {
        self.value.to_str().ok_or_else(|| SettingsError::NotUnicode { origin: self.origin.clone() })
    }
}

impl fmt::Debug for SettingText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SettingText").field("origin", &self.origin).finish_non_exhaustive()
    }
}

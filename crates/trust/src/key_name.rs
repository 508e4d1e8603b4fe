//! Names of keys.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The name of a key: 1 to 64 letters, digits, `.`, `_` and `-`. It stands before the `:` of keys and signatures, so that
/// people recognize them. It proves nothing: anyone can choose it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(String);

impl KeyName {
    /// The maximum number of bytes in a name.
    pub const MAX_LEN: usize = 64;

    /// The name of the key of a host.
    pub(crate) fn of_host(number: u64) -> Self {
        Self(format!("host-{number:016x}"))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for KeyName {
    type Err = KeyNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        match (1..=Self::MAX_LEN).contains(&text.len()) && text.bytes().all(is_allowed) {
            true => Ok(Self(text.to_owned())),
            false => Err(KeyNameError { found: text.chars().take(80).collect() }),
        }
    }
}

/// The reason why a text is no name of a key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{found}` is no name of a key: expected 1 to 64 letters, digits, `.`, `_` or `-`, such as `team-builds-1`"
)]
pub struct KeyNameError {
    /// The text, cut to 80 characters.
    pub found: String,
}

//! Cache modes.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A mode in which a build uses the store. The first three are the values of CANN's `op_compiler_cache_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CacheMode {
    /// Use existing entries; compile and publish missing ones.
    #[default]
    Enable,
    /// Compile all kernels, and replace each entry.
    Force,
    /// Neither read nor write the store.
    Disable,
    /// Use existing entries; compile missing ones and publish none.
    ReadOnly,
    /// Use existing entries; a missing one is an error. For hosts that must not compile.
    Require,
}

impl CacheMode {
    /// Every mode.
    pub const ALL: [Self; 5] = [Self::Enable, Self::Force, Self::Disable, Self::ReadOnly, Self::Require];

    /// Returns the mode's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enable => "enable",
            Self::Force => "force",
            Self::Disable => "disable",
            Self::ReadOnly => "read-only",
            Self::Require => "require",
        }
    }

    /// Whether a build reads entries from the store.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Enable | Self::ReadOnly | Self::Require)
    }

    /// Whether a build writes entries to the store.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Enable | Self::Force)
    }

    /// Whether a build fails without a store.
    pub const fn requires_store(self) -> bool {
        matches!(self, Self::ReadOnly | Self::Require)
    }
}

impl fmt::Display for CacheMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for a text that is not the name of a mode.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a cache mode: expected enable, force, disable, read-only or require")]
pub struct ParseModeError(String);

impl FromStr for CacheMode {
    type Err = ParseModeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| ParseModeError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for mode in CacheMode::ALL {
            assert_eq!(mode.name().parse::<CacheMode>(), Ok(mode));
        }
        assert!("Enable".parse::<CacheMode>().unwrap_err().to_string().contains("read-only"));
    }
}

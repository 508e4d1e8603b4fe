//! The outcomes of kernels.

use std::fmt;

/// The outcome of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The kernel was in the store.
    Reused,
    /// The kernel was compiled.
    Compiled,
    /// Another process compiled the kernel during this build.
    Shared,
    /// The kernel could not be built.
    Failed,
    /// The kernel was compiled and not stored, since debug options were on.
    Bypassed,
    /// The kernel was not started, since another kernel failed, and the build ends with its first failure.
    Skipped,
    /// The kernel was not finished, since the call was cancelled.
    Cancelled,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 7] = [
        Self::Reused,
        Self::Compiled,
        Self::Shared,
        Self::Failed,
        Self::Bypassed,
        Self::Skipped,
        Self::Cancelled,
    ];

    /// Returns the outcome's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reused => "reused",
            Self::Compiled => "compiled",
            Self::Shared => "shared",
            Self::Failed => "failed",
            Self::Bypassed => "bypassed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

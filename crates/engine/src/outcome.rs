//! The outcomes of kernels.

use std::fmt;

/// The outcome of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// It was in the store.
    Reused,
    /// It was compiled.
    Compiled,
    /// Another process compiled it during this build.
    Shared,
    /// It could not be built.
    Failed,
    /// It was compiled and not stored: debug options were on.
    Bypassed,
    /// It was not started: another kernel failed, and the build ends with its first failure.
    Skipped,
    /// It was not finished: the call was cancelled.
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

    /// The outcome's name.
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

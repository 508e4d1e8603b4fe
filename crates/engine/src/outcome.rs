//! The outcomes of kernels.

use std::fmt;

/// What came of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It was in the store.
    Reused,
    /// It was compiled.
    Compiled,
    /// Another process compiled it while we waited.
    Shared,
    /// It could not be built.
    Failed,
    /// It was compiled past the store: debug options were on.
    Bypassed,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 5] = [Self::Reused, Self::Compiled, Self::Shared, Self::Failed, Self::Bypassed];

    /// The outcome's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reused => "reused",
            Self::Compiled => "compiled",
            Self::Shared => "shared",
            Self::Failed => "failed",
            Self::Bypassed => "bypassed",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

//! The places where kernels are found.

use std::fmt;

/// The place where a kernel was found. Kernels that [`Engine::get_or_build`](crate::Engine::get_or_build) has in memory are
/// neither looked up nor counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Tier {
    /// The store of this host.
    Local,
    /// The remote tier.
    Remote,
}

impl Tier {
    /// Returns the tier's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Remote => "remote",
        }
    }

    pub(crate) const fn of(from_remote: bool) -> Self {
        if from_remote { Self::Remote } else { Self::Local }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

//! Warnings: problems that do not stop a build.

use std::fmt;

/// A problem that did not stop a build.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The warning's subject.
    pub kind: WarningKind,
    /// The problem, as text.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// The subject of a [`Warning`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WarningKind {
    /// The store cannot be used at all.
    Store,
    /// Entries cannot be written.
    Write,
    /// Entries cannot be read, or are not trusted.
    Read,
    /// Entries are damaged.
    Corruption,
    /// Limits of the store are not valid and are ignored.
    Limits,
    /// Locks cannot be taken.
    Locks,
    /// The keys that sign kernels do not fit those that are trusted, or the host key cannot be kept.
    Keys,
    /// The remote tier does not work as it should.
    Remote,
    /// Kernels have a property that no known genuine kernel has.
    UnusualKernel,
    /// The toolchain changed during the build.
    ToolchainChanged,
    /// The work directory cannot be used, or only in part.
    WorkDir,
    /// Kernels cannot be written to the view.
    View,
    /// Foreign files in the view are left as they are.
    ForeignFiles,
    /// Other users may write to the view's directory.
    ViewDirectory,
    /// A warning of the backend.
    Backend,
}

impl From<opkeep_cache::WarningKind> for WarningKind {
    fn from(kind: opkeep_cache::WarningKind) -> Self {
        use opkeep_cache::WarningKind as Kind;
        match kind {
            Kind::Keeping => Self::Write,
            Kind::Reading => Self::Read,
            Kind::Corruption => Self::Corruption,
            Kind::Limits => Self::Limits,
            Kind::Locks => Self::Locks,
            Kind::Keys => Self::Keys,
            Kind::Remote => Self::Remote,
            _ => Self::Store,
        }
    }
}

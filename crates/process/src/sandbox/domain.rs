//! The limits on what a program may read, enforced by Landlock.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use landlock::{
    AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, PathFdError, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError,
};
use thiserror::Error;

/// A set of files and directories. A program that is started in it, with all that it starts in turn, can read, execute
/// and list nothing else; it may write anywhere.
#[derive(Clone, Debug)]
pub struct Domain(Arc<OwnedFd>);

/// The reason why a domain cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DomainError {
    /// The kernel has no Landlock, or it is turned off.
    #[error("Landlock is not available: {0}")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A path that must be readable cannot be opened.
    #[error("cannot open `{path}` for a domain: {source}")]
    Path {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl From<RulesetError> for DomainError {
    fn from(error: RulesetError) -> Self {
        Self::Unavailable(error.into())
    }
}

/// Collects the paths that may be read.
#[derive(Debug)]
pub struct DomainBuilder(RulesetCreated);

impl Domain {
    /// A domain in which nothing may be read yet.
    ///
    /// # Errors
    /// [`DomainError::Unavailable`].
    pub fn builder() -> Result<DomainBuilder, DomainError> {
        let read = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
        let ruleset =
            Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(read)?;
        // If the kernel knows this right, moving files between directories is denied unless a rule allows it.
        let ruleset = ruleset.set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::Refer)?;
        let builder = DomainBuilder(ruleset.create()?);
        builder.add(Path::new("/"), AccessFs::Refer.into())
    }

    /// Whether this host has Landlock, as far as that shows without a confined program.
    pub fn is_available() -> bool {
        Self::builder().is_ok()
    }

    pub(crate) fn ruleset(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.0)
    }
}

impl DomainBuilder {
    /// Allows reading and executing a file.
    ///
    /// # Errors
    /// [`DomainError::Path`], if it is missing.
    pub fn file(self, path: &Path) -> Result<Self, DomainError> {
        self.add(path, AccessFs::Execute | AccessFs::ReadFile)
    }

    /// Allows listing a directory and those below it.
    ///
    /// # Errors
    /// [`DomainError::Path`], if it is missing.
    pub fn list(self, path: &Path) -> Result<Self, DomainError> {
        self.add(path, AccessFs::ReadDir.into())
    }

    /// Allows reading, executing and listing all below a directory; of a file, reading and executing it.
    ///
    /// # Errors
    /// [`DomainError::Path`], if it is missing.
    pub fn beneath(self, path: &Path) -> Result<Self, DomainError> {
        self.add(path, AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir)
    }

    /// The domain.
    ///
    /// # Errors
    /// [`DomainError::Unavailable`].
    pub fn build(self) -> Result<Domain, DomainError> {
        let fd: Option<OwnedFd> = self.0.into();
        let fd = fd.ok_or_else(|| DomainError::Unavailable("the kernel makes no ruleset".into()))?;
        Ok(Domain(Arc::new(fd)))
    }

    fn add(self, path: &Path, access: BitFlags<AccessFs>) -> Result<Self, DomainError> {
        let fd = PathFd::new(path).map_err(|error| {
            let source = match error {
                PathFdError::OpenCall { source, .. } => source,
                other => io::Error::other(other.to_string()),
            };
            DomainError::Path { path: path.to_owned(), source }
        })?;
        // Landlock leaves out rights that a file cannot have, such as listing.
        Ok(Self(self.0.add_rule(PathBeneath::new(fd, access))?))
    }
}

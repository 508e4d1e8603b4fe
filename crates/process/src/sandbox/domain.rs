//! What a program may read, enforced by Landlock.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use landlock::{
    AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, PathFdError, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError,
};
use thiserror::Error;

/// A set of files and directories. A program that is started in it, and all that it starts in turn, can read, execute and
/// list nothing else; it may write anywhere.
#[derive(Clone, Debug)]
pub struct Domain(Arc<OwnedFd>);

/// Why there is no such domain.
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
        /// Why not.
        source: io::Error,
    },
}

impl From<RulesetError> for DomainError {
    fn from(error: RulesetError) -> Self {
        Self::Unavailable(error.into())
    }
}

/// Collects what may be read.
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
        // Where the kernel knows it, moving files between directories is denied unless it is allowed by name.
        let ruleset = ruleset.set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::Refer)?;
        let builder = DomainBuilder(ruleset.create()?);
        builder.add(Path::new("/"), AccessFs::Refer.into())
    }

    /// Whether this host has Landlock, for what can be known without a program that is confined.
    pub fn is_available() -> bool {
        Self::builder().is_ok()
    }

    pub(crate) fn ruleset(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.0)
    }
}

impl DomainBuilder {
    /// Lets a file be read and executed.
    ///
    /// # Errors
    /// [`DomainError::Path`], if it is not there.
    pub fn file(self, path: &Path) -> Result<Self, DomainError> {
        self.add(path, AccessFs::Execute | AccessFs::ReadFile)
    }

    /// Lets a directory be listed, and those below it.
    ///
    /// # Errors
    /// [`DomainError::Path`], if it is not there.
    pub fn list(self, path: &Path) -> Result<Self, DomainError> {
        self.add(path, AccessFs::ReadDir.into())
    }

    /// Lets all below a directory be read, executed and listed; or, if it is a file, the file.
    ///
    /// # Errors
    /// [`DomainError::Path`], if it is not there.
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
        // Rights that a file cannot have, such as to be listed, are left out of its rule.
        Ok(Self(self.0.add_rule(PathBeneath::new(fd, access))?))
    }
}

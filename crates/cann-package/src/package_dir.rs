//! A directory with packages.

use std::path::{Path, PathBuf};

use opkeep_fs::CancelToken;

use crate::error::PackageError;
use crate::locate::{PackageFiles, packages};
use crate::tree::FileTree;
use crate::verify::{VerifiedPackage, VerifyOptions, verify};

/// A directory with one or more packages, listed once.
pub struct PackageDir {
    pub(crate) tree: FileTree,
    pub(crate) packages: Vec<PackageFiles>,
}

impl PackageDir {
    /// Lists a directory: that of a package, of several vendors, or a build tree.
    ///
    /// # Errors
    /// It cannot be read, or has no package.
    pub fn open(path: &Path, cancel: &CancelToken) -> Result<Self, PackageError> {
        let tree = FileTree::list(path, cancel)?;
        let packages = packages(&tree);
        if packages.is_empty() {
            return Err(PackageError::NoPackage { path: path.to_owned() });
        }
        Ok(Self { tree, packages })
    }

    /// Directories that could not be listed, with the reason. What is in them is missing.
    pub fn unreadable(&self) -> &[(PathBuf, String)] {
        &self.tree.unreadable
    }

    /// Checks all packages, each file against the others.
    pub fn verify(&self, options: &VerifyOptions<'_>) -> Vec<VerifiedPackage> {
        self.packages.iter().map(|package| verify(&self.tree, package, options)).collect()
    }
}

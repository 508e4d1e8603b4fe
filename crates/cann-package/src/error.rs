//! The errors that end the reading of a package. What is wrong with its files is a [finding](crate::Finding).

use std::io;
use std::path::PathBuf;

use opkeep_text::counted;
use thiserror::Error;

/// The reason why no package was read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PackageError {
    /// The directory cannot be opened or listed.
    #[error("cannot read `{}`", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The directory has no operator package.
    #[error(
        "`{}` holds no operator package: expected a directory of vendors, one vendor's (`op_impl/ai_core/tbe` in it), or \
         a build tree (`binary/UNIT/bin` in it)",
        path.display()
    )]
    NoPackage {
        /// The directory.
        path: PathBuf,
    },
    /// The directory has no build tree.
    #[error("`{}` has no build tree: expected `binary/UNIT` in it", path.display())]
    NoBuildTree {
        /// The directory.
        path: PathBuf,
    },
    /// The directory has more files than a package can have.
    #[error("`{}` has more than {}: name the directory of a package", path.display(), counted(limit, "file"))]
    TooManyFiles {
        /// The directory.
        path: PathBuf,
        /// The largest number of files.
        limit: usize,
    },
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
}

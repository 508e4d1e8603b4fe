//! The reasons why a command line is run as it is.

use std::path::PathBuf;

use thiserror::Error;

/// The reason why a run of `opc` is neither looked up nor kept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotCached {
    /// It compiles a graph.
    #[error("it compiles a graph of several operators")]
    Graph,
    /// It has no parameter file.
    #[error("it has no parameter file")]
    NoParameters,
    /// The parameter file has no kernels, or cannot be read.
    #[error("the parameter file `{path}` cannot be read: {why}")]
    Parameters {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The chip cannot be the name of a directory.
    #[error("`{target}` cannot be the name of a chip")]
    Target {
        /// The value.
        target: String,
    },
    /// It keeps its work directory for the user.
    #[error("`{option}` keeps the files of the compiler's work directory")]
    KeepsWorkDir {
        /// The option.
        option: String,
    },
    /// An argument whose meaning depends on the release.
    #[error("the meaning of `{option}` depends on the release of CANN")]
    Option {
        /// The argument.
        option: String,
    },
}

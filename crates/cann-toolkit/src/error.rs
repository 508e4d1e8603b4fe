//! The error type of this crate.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The help if no usable toolkit is found.
const INSTALL: &str = "install the package Ascend-cann-toolkit, or set ASCEND_HOME_PATH to the directory that has `opp`, \
    `compiler` and `python` in it";

/// Why the toolkit cannot be used, or not for this.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ToolkitError {
    /// There is none anywhere.
    #[error("no CANN toolkit is found in these places: {}", places(looked))]
    NotFound {
        /// Where it was looked for, in order.
        looked: Vec<SearchedPath>,
    },
    /// A place was named, and no toolkit is there.
    #[error("{named_by} names `{}`, which is no CANN toolkit: {problem}", path.display())]
    NotAToolkit {
        /// The place.
        path: PathBuf,
        /// The origin of the path.
        named_by: PathOrigin,
        /// The content of the path.
        problem: &'static str,
    },
    /// Parts of the toolkit are not there.
    #[error("the CANN toolkit `{}` ({named_by}) is not complete; missing: {}", root.display(), list(missing))]
    Incomplete {
        /// Its root.
        root: PathBuf,
        /// The origin of the path.
        named_by: PathOrigin,
        /// The missing parts.
        missing: Vec<MissingComponent>,
    },
    /// A file of the toolkit does not say what it should.
    #[error("`{}` {place}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in it: `line 3 column 7`, `operator Square`.
        place: String,
        /// The problem.
        problem: String,
    },
    /// The toolkit does not know the chip.
    #[error("the toolkit has no chip `{asked}`{}", nearest_of(nearest))]
    UnknownSoc {
        /// The name that was asked for.
        asked: String,
        /// Names that look like it.
        nearest: Vec<String>,
        /// The directory that has a file for each chip.
        dir: PathBuf,
    },
    /// The toolkit has nothing that computes the operator.
    #[error("`{op_type}` is an operator without implementation: {problem}{}", paths(looked))]
    NoImplementation {
        /// The operator's type.
        op_type: String,
        /// The problem.
        problem: String,
        /// Files that would be one.
        looked: Vec<PathBuf>,
    },
    /// A knowledge bank cannot be read.
    #[error("the knowledge bank `{}` ({named_by}) cannot be read: {source}", path.display())]
    Bank {
        /// The bank.
        path: PathBuf,
        /// The origin of the path: a variable, an option, `built-in`.
        named_by: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A file operation failed.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The action that failed, such as `read`.
        action: &'static str,
        /// The path that it concerned.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A place that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchedPath {
    /// The place.
    pub path: PathBuf,
    /// The origin of the path.
    pub named_by: PathOrigin,
}

/// The origin of a toolkit's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathOrigin {
    /// The caller.
    Caller,
    /// A variable of the environment.
    Variable(&'static str),
    /// Neither: it is a usual place of toolkits.
    UsualPath,
}

impl fmt::Display for PathOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caller => f.write_str("the caller"),
            Self::Variable(name) => f.write_str(name),
            Self::UsualPath => f.write_str("a usual place"),
        }
    }
}

/// A part of a toolkit that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingComponent {
    /// Its name.
    pub part: &'static str,
    /// Its expected path.
    pub path: PathBuf,
    /// The package that contains it.
    pub help: &'static str,
}

impl fmt::Display for MissingComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, path, help } = self;
        write!(f, "{part} (`{}`): {help}", path.display())
    }
}

impl ToolkitError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn malformed(path: &Path, place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_owned(), place: place.into(), problem: problem.into() }
    }

    /// The help for the user.
    pub fn help(&self) -> String {
        match self {
            Self::NotFound { .. } => INSTALL.to_owned(),
            Self::NotAToolkit { named_by, .. } => match named_by {
                PathOrigin::Variable(name) => format!("set {name} to the toolkit's directory, or unset it"),
                PathOrigin::Caller | PathOrigin::UsualPath => INSTALL.to_owned(),
            },
            Self::Incomplete { .. } => {
                format!("install what is missing, in the version of the rest; or {INSTALL}")
            }
            Self::Malformed { .. } => {
                "install the package that the file belongs to again; opkeep changes nothing there".to_owned()
            }
            Self::UnknownSoc { dir, .. } => {
                format!(
                    "`npu-smi info` prints the chip's name, and each file in `{}` is called after one",
                    dir.display()
                )
            }
            Self::NoImplementation { .. } => {
                "install a package that has the operator, name one in ASCEND_CUSTOM_OPP_PATH, or take the operator out \
                 of the network"
                    .to_owned()
            }
            Self::Bank { named_by, .. } => {
                format!(
                    "make it readable for this user, or take it out ({named_by}): the compiler would read it or not, \
                     and kernels differ by it"
                )
            }
            Self::Io { .. } => "make it readable for this user".to_owned(),
        }
    }
}

fn places(looked: &[SearchedPath]) -> String {
    let place = |looked: &SearchedPath| format!("`{}` ({})", looked.path.display(), looked.named_by);
    looked.iter().map(place).collect::<Vec<_>>().join(", ")
}

fn list(missing: &[MissingComponent]) -> String {
    missing.iter().map(MissingComponent::to_string).collect::<Vec<_>>().join("; ")
}

fn nearest_of(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("; the nearest names are {}", names.join(", "))
}

fn paths(looked: &[PathBuf]) -> String {
    let paths: Vec<String> = looked.iter().map(|path| format!("`{}`", path.display())).collect();
    if paths.is_empty() { String::new() } else { format!("; looked for {}", paths.join(", ")) }
}

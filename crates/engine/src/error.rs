//! The errors of builds and of kernels.

use std::collections::BTreeSet;
use std::path::PathBuf;

use opkeep_backend::BackendError;
use opkeep_cache::CacheError;
use opkeep_validator::Finding;
use thiserror::Error;

use crate::outcome::Outcome;

/// The reason why nothing could be built at all.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The view and the store are one directory, or one is inside the other.
    #[error(
        "kernels are not put into `{view}`: it is the directory of the store `{store}`, or one is in the other, and \
         frameworks would read the store's files and delete them; choose another directory for them, or \
         another store"
    )]
    ViewInStore {
        /// The directory for kernels.
        view: PathBuf,
        /// The store.
        store: PathBuf,
    },
    /// The backend has no toolchain.
    #[error(transparent)]
    Backend(BackendError),
    /// The call was cancelled before any kernel had a key.
    #[error("cancelled")]
    Cancelled,
    /// The cache cannot be used as its mode requires.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// The reason why one kernel could not be built.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The backend refused the job, or its compiler failed.
    #[error(transparent)]
    Backend(BackendError),
    /// The validator refuses the compiled kernel.
    #[error(
        "the compiled kernel `{kernel}` is not valid and was not kept: {}; check that the intended compiler is used{}",
        list(.errors), compiler_files(.kept_dir)
    )]
    Invalid {
        /// The kernel's name.
        kernel: String,
        /// The errors that were found.
        errors: Vec<Finding>,
        /// The directory with the compiler's input and output, kept for inspection.
        kept_dir: Option<PathBuf>,
    },
    /// The compiler made a valid kernel with another name.
    #[error("the compiler was asked for the kernel `{kernel}` and made `{found}`; it was not kept{}", compiler_files(.kept_dir))]
    NameMismatch {
        /// The requested name.
        kernel: String,
        /// The name in the `.json`.
        found: String,
        /// The directory with the compiler's input and output, kept for inspection.
        kept_dir: Option<PathBuf>,
    },
    /// The stored entry lacks a member that every kernel has.
    #[error("the stored kernel `{kernel}` has no member `{member}`")]
    Incomplete {
        /// The kernel's name.
        kernel: String,
        /// The member.
        member: &'static str,
    },
    /// The stored entry holds an imported kernel under a key of compiled kernels.
    #[error("the entry of the kernel `{kernel}` holds an imported kernel, under a key of compiled kernels")]
    UnexpectedImport {
        /// The kernel's name.
        kernel: String,
    },
    /// The stored entry does not belong to its key.
    #[error("the stored entry of the kernel `{kernel}` does not belong to its key: {source}")]
    WrongKey {
        /// The kernel's name.
        kernel: String,
        /// The error with the key or kernel to which the entry belongs.
        source: opkeep_kernel_entry::EntryError,
    },
    /// The mode forbids compiling, and the store has no usable entry.
    #[error(
        "kernel `{kernel}` cannot be reused: {why}; the cache mode `require` forbids compiling it, so build it where \
         compiling is allowed, with the mode `enable` and the same store or remote cache"
    )]
    NotCached {
        /// The kernel's name.
        kernel: String,
        /// The reason why there is no usable entry.
        why: String,
    },
    /// Another process compiled the same kernel and failed.
    #[error("another process that compiled the same kernel failed: {reason}")]
    HolderFailed {
        /// The reason that the other process gave.
        reason: String,
    },
    /// The backend panicked, which is a bug of the backend.
    #[error("the backend panicked while it compiled `{kernel}`: {message}; this is a bug of the backend")]
    Panicked {
        /// The kernel's name.
        kernel: String,
        /// The message of the panic.
        message: String,
    },
    /// Another kernel failed first, and the build ends with its first failure.
    #[error("not built, since `{first}` failed")]
    Skipped {
        /// The kernel that failed.
        first: String,
    },
    /// The call was cancelled before the kernel was built.
    #[error("cancelled")]
    Cancelled,
    /// Nothing could be built at all.
    #[error(transparent)]
    Build(BuildError),
    /// No work directory could be made for the compiler.
    #[error(
        "cannot make a work directory in `{path}`: {source}; free some space, or choose another directory"
    )]
    WorkDir {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
}

impl KernelError {
    /// Returns the reason why a compile failed, in a few words without paths, options and output of the compiler; `None` if no compile of
    /// the kernel was tried, or the call was cancelled.
    pub(crate) fn failure(&self) -> Option<String> {
        let text = match self {
            Self::Backend(BackendError::Cancelled)
            | Self::NotCached { .. }
            | Self::Skipped { .. }
            | Self::Cancelled
            | Self::Build(_)
            | Self::Incomplete { .. }
            | Self::UnexpectedImport { .. }
            | Self::WrongKey { .. } => return None,
            Self::Backend(BackendError::Compile { command, status, .. }) => {
                return Some(format!("{} failed: {status}", program_of(command)));
            }
            Self::Backend(BackendError::TimedOut { command, seconds, .. }) => {
                return Some(format!("{} did not end within {seconds:.1} s", program_of(command)));
            }
            Self::Invalid { errors, .. } => {
                let codes: BTreeSet<String> =
                    opkeep_order::set(errors.iter().map(|finding| finding.code().to_string()));
                let codes: Vec<String> = codes.into_iter().collect();
                return Some(format!("the compiled kernel was not valid ({})", codes.join(", ")));
            }
            Self::Backend(BackendError::Unsupported(_)) => "the backend does not compile it",
            Self::Backend(BackendError::Toolchain { .. }) => "there was no usable toolchain",
            Self::Backend(_) => "the backend failed",
            Self::NameMismatch { .. } => "the compiler made a kernel of another name",
            Self::HolderFailed { .. } => "another process that compiled the same kernel failed",
            Self::Panicked { .. } => "the backend panicked",
            Self::WorkDir { .. } => "there was no work directory",
        };
        Some(text.to_owned())
    }
}

/// Returns the name of a command's program, without its path.
fn program_of(command: &str) -> &str {
    let program = command.split_whitespace().next().unwrap_or("the compiler");
    program.rsplit('/').next().unwrap_or(program)
}

impl From<BackendError> for BuildError {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Cancelled => Self::Cancelled,
            error => Self::Backend(error),
        }
    }
}

impl From<BackendError> for KernelError {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Cancelled => Self::Cancelled,
            error => Self::Backend(error),
        }
    }
}

impl From<BuildError> for KernelError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Cancelled => Self::Cancelled,
            error => Self::Build(error),
        }
    }
}

impl KernelError {
    /// Returns the outcome of a kernel with this error.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Skipped { .. } => Outcome::Skipped,
            Self::Cancelled => Outcome::Cancelled,
            _ => Outcome::Failed,
        }
    }

    /// Whether another process would fail the same way, so that waiters need not try.
    ///
    /// A compiler that was killed, or that ran out of space, may succeed the next time.
    pub(crate) fn would_repeat(&self) -> bool {
        match self {
            Self::Invalid { .. } | Self::NameMismatch { .. } => true,
            Self::Backend(BackendError::Compile { status, log_tail, .. }) => {
                !status.contains("signal") && !is_starved(log_tail)
            }
            Self::Backend(BackendError::MissingOutput { problem, log_tail, .. }) => {
                !is_starved(problem) && !is_starved(log_tail)
            }
            Self::Backend(error) => {
                matches!(error, BackendError::Unsupported(_) | BackendError::TimedOut { .. })
            }
            Self::Incomplete { .. }
            | Self::UnexpectedImport { .. }
            | Self::WrongKey { .. }
            | Self::NotCached { .. }
            | Self::HolderFailed { .. }
            | Self::Panicked { .. }
            | Self::Skipped { .. }
            | Self::Cancelled
            | Self::Build(_)
            | Self::WorkDir { .. } => false,
        }
    }

    /// Whether the kernel failed because the process or the machine had too many open files.
    pub(crate) fn is_out_of_files(&self) -> bool {
        match self {
            Self::WorkDir { source, .. } | Self::Backend(BackendError::Io { source, .. }) => {
                opkeep_fs::is_out_of_files(source)
            }
            Self::Backend(BackendError::MissingOutput { problem, .. }) => problem.contains(TOO_MANY_FILES),
            Self::Backend(BackendError::Compile { log_tail, .. }) => log_tail.contains(TOO_MANY_FILES),
            _ => false,
        }
    }

    /// Whether the kernel failed because the compile timed out.
    pub(crate) fn is_deadline(&self) -> bool {
        matches!(self, Self::Backend(BackendError::TimedOut { .. }))
    }
}

/// The system's message for too many open files.
const TOO_MANY_FILES: &str = "Too many open files";

/// Whether a text reports that a resource ran out, which may be available later.
fn is_starved(text: &str) -> bool {
    let signs = [
        "No space left",
        "Disk quota",
        "File size limit exceeded",
        "File too large",
        "Cannot allocate memory",
        "out of memory",
        "Killed",
        "Resource temporarily unavailable",
        TOO_MANY_FILES,
        "Input/output error",
    ];
    signs.iter().any(|sign| text.contains(sign))
}

fn compiler_files(kept_dir: &Option<PathBuf>) -> String {
    kept_dir
        .as_ref()
        .map(|dir| format!("\nthe compiler's files are kept in `{}`", dir.display()))
        .unwrap_or_default()
}

fn list(findings: &[Finding]) -> String {
    findings.iter().map(Finding::to_string).collect::<Vec<_>>().join("; ")
}

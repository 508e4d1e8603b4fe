//! What can go wrong in a build.

use opbuild_backend::BackendError;
use opbuild_store::StoreError;
use opbuild_validator::Finding;
use thiserror::Error;

/// Why nothing could be built at all.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The backend has no toolchain.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The mode insists on a store that cannot be used.
    #[error("the cache mode `{mode}` needs the store, which cannot be used: {source}")]
    Store {
        /// The mode.
        mode: opbuild_store::Mode,
        /// What is wrong with the store.
        source: StoreError,
    },
    /// The mode insists on a store, and none was given.
    #[error("the cache mode `{mode}` needs a store; give one with --op_compiler_cache_dir")]
    NoStore {
        /// The mode.
        mode: opbuild_store::Mode,
    },
}

/// Why one kernel could not be built.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JobError {
    /// The backend refused the job, or its compiler failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The compiler made something that is not the kernel its `.json` says.
    #[error(
        "the compiled kernel `{kernel}` is not valid and was not kept: {}; is the compiler the one it should be?",
        list(.errors)
    )]
    Invalid {
        /// The kernel's name.
        kernel: String,
        /// All that is wrong.
        errors: Vec<Finding>,
    },
    /// The compiler made a valid kernel, but not the one it was asked for.
    #[error("the compiler was asked for the kernel `{kernel}` and made `{found}`; it was not kept")]
    AnotherKernel {
        /// The name asked for.
        kernel: String,
        /// The name in the `.json`.
        found: String,
    },
    /// The stored entry lacks what a kernel has.
    #[error("the stored kernel `{kernel}` has no member `{member}`")]
    Incomplete {
        /// The kernel's name.
        kernel: String,
        /// The member.
        member: &'static str,
    },
    /// The mode forbids compiling, and the kernel cannot be taken from the store.
    #[error(
        "kernel `{kernel}` cannot be reused: {why}; the cache mode `require` forbids compiling it, so build it where \
         compiling is allowed, with the mode `enable` and the same store"
    )]
    Required {
        /// The kernel's name.
        kernel: String,
        /// Why it is not there.
        why: String,
    },
    /// Another process compiled the same kernel while we waited, and failed.
    #[error("another process that compiled the same kernel failed: {reason}")]
    Elsewhere {
        /// What it left.
        reason: String,
    },
    /// No work folder could be made for the compiler.
    #[error(
        "cannot make a work folder in `{path}`: {source}; free some space, or set TMPDIR to another folder"
    )]
    WorkFolder {
        /// Where.
        path: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

impl JobError {
    /// Whether an equal compile elsewhere would fail the same way, so that those who wait for it need not try.
    ///
    /// A compiler that was killed, or had no room, says nothing of the next attempt.
    pub(crate) fn would_repeat(&self) -> bool {
        match self {
            Self::Invalid { .. } | Self::AnotherKernel { .. } => true,
            Self::Backend(BackendError::Compile { status, log_tail, .. }) => {
                let starved = [
                    "No space left",
                    "Disk quota",
                    "Cannot allocate memory",
                    "out of memory",
                    "Killed",
                    "Resource temporarily unavailable",
                    "Too many open files",
                    "Input/output error",
                ];
                !status.contains("signal") && !starved.iter().any(|sign| log_tail.contains(sign))
            }
            Self::Backend(error) => matches!(
                error,
                BackendError::Unsupported(_) | BackendError::Output { .. } | BackendError::Deadline { .. }
            ),
            Self::Incomplete { .. }
            | Self::Required { .. }
            | Self::Elsewhere { .. }
            | Self::WorkFolder { .. } => false,
        }
    }

    /// Whether it failed for want of time.
    pub(crate) fn is_deadline(&self) -> bool {
        matches!(self, Self::Backend(BackendError::Deadline { .. }))
    }
}

fn list(findings: &[Finding]) -> String {
    findings.iter().map(Finding::to_string).collect::<Vec<_>>().join("; ")
}

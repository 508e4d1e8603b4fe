//! What can go wrong in a build.

use opbuild_backend::BackendError;
use opbuild_store::StoreError;
use opbuild_validator::Refusal;
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
    /// There is no place for compilers to work in.
    #[error("cannot make a work folder in `{path}`: {source}; set TMPDIR to a folder that can be written")]
    WorkFolder {
        /// Where it was tried.
        path: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
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
    #[error("the compiled kernel `{kernel}` is not valid and was not kept: {refusal}")]
    Invalid {
        /// The kernel's name.
        kernel: String,
        /// What is wrong.
        refusal: Box<Refusal>,
    },
    /// The stored entry lacks what a kernel has.
    #[error("the stored kernel `{kernel}` has no member `{member}`")]
    Incomplete {
        /// The kernel's name.
        kernel: String,
        /// The member.
        member: &'static str,
    },
    /// The mode forbids compiling, and the kernel is not in the store.
    #[error("kernel `{kernel}` is not in the store ({why}) and the cache mode `require` forbids compiling")]
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
    #[error("cannot make a work folder in `{path}`: {source}; free some space, or set TMPDIR")]
    WorkFolder {
        /// Where.
        path: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

impl JobError {
    /// Whether an equal compile would fail the same way, so that those who wait need not try.
    pub(crate) fn is_deterministic(&self) -> bool {
        match self {
            Self::Invalid { .. } => true,
            Self::Backend(error) => matches!(
                error,
                BackendError::Unsupported(_)
                    | BackendError::Compile { .. }
                    | BackendError::Output { .. }
                    | BackendError::Deadline { .. }
            ),
            Self::Incomplete { .. }
            | Self::Required { .. }
            | Self::Elsewhere { .. }
            | Self::WorkFolder { .. } => false,
        }
    }
}

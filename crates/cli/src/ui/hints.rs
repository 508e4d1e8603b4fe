//! What to do about an error by the arguments of this command: a library names none of them.

use opkeep::{BuildError, KernelError, ViewError};
use opkeep_backend::BackendError;
use opkeep_cache::CacheError;
use opkeep_onnx::{ModelError, OnnxError};
use opkeep_store::StoreError;

/// What to do about `error` and its causes, each a sentence.
pub(crate) fn hints(error: &anyhow::Error) -> Vec<String> {
    let mut hints = Vec::new();
    for cause in error.chain() {
        let hint = if let Some(error) = cause.downcast_ref() {
            of_store(error)
        } else if let Some(error) = cause.downcast_ref() {
            of_build(error)
        } else if let Some(error) = cause.downcast_ref() {
            of_view(error)
        } else if let Some(error) = cause.downcast_ref() {
            of_backend(error)
        } else if let Some(OnnxError::Model(error)) = cause.downcast_ref() {
            of_model(error)
        } else {
            None
        };
        hints.extend(hint.filter(|hint| !hints.contains(hint)));
    }
    hints
}

const OTHER_STORE: &str = "--op_compiler_cache_dir DIR or OPKEEP_CACHE_DIR chooses another store";

fn of_store(error: &StoreError) -> Option<String> {
    match error {
        StoreError::Untrusted { owner: Some(owner), .. } => {
            Some(format!("--trusted-owner {owner} trusts that user; {OTHER_STORE}"))
        }
        StoreError::NotADirectory { .. }
        | StoreError::Foreign { .. }
        | StoreError::Untrusted { .. }
        | StoreError::InKernelCache { .. } => Some(OTHER_STORE.to_owned()),
        _ => None,
    }
}

fn of_build(error: &BuildError) -> Option<String> {
    match error {
        BuildError::Cache(CacheError::NoStore { .. }) => {
            Some("--op_compiler_cache_dir DIR or OPKEEP_CACHE_DIR chooses a store".to_owned())
        }
        BuildError::Backend(error) => of_backend(error),
        BuildError::ViewInStore { .. } => {
            let view = "--kernel-meta DIR or MS_COMPILER_CACHE_PATH chooses another directory for kernels";
            Some(format!("{view}; {OTHER_STORE}"))
        }
        _ => None,
    }
}

fn of_backend(error: &BackendError) -> Option<String> {
    match error {
        BackendError::UnkeyedRead { .. } => Some(
            "--toolchain-input PATH or OPKEEP_TOOLCHAIN_INPUTS declares an input of the toolchain".to_owned(),
        ),
        _ => None,
    }
}

pub(crate) fn of_kernel(error: &KernelError) -> Option<String> {
    match error {
        KernelError::Backend(error) => of_backend(error),
        KernelError::WorkDir { .. } => Some("TMPDIR chooses another directory for compilers".to_owned()),
        _ => None,
    }
}

pub(crate) fn of_view(error: &ViewError) -> Option<String> {
    match error {
        ViewError::NotAFolder { .. } | ViewError::NotWritable { .. } | ViewError::Io { .. } => Some(
            "--kernel-meta DIR or MS_COMPILER_CACHE_PATH chooses another directory, --no-kernel-meta none"
                .to_owned(),
        ),
        _ => None,
    }
}

fn of_model(error: &ModelError) -> Option<String> {
    match error {
        ModelError::Dims { .. } => Some("--dim NAME=SIZE gives a dimension its size".to_owned()),
        _ => None,
    }
}

//! Errors of the toolkit and of file operations as errors of this backend.

use std::io;
use std::path::Path;

use opkeep_backend::{BackendError, Unsupported};

use crate::name::NAME;
use opkeep_cann_toolkit::ToolkitError;

/// The error of a build whose toolkit cannot be used.
pub(crate) fn toolkit_error(error: ToolkitError) -> BackendError {
    match error {
        ToolkitError::Io { action, path, source } => BackendError::Io { action, path, source },
        ToolkitError::NoImplementation { ref op_type, .. } => no_implementation(op_type, &error).into(),
        error => BackendError::Toolchain { problem: error.to_string(), help: error.help(), tool: None },
    }
}

/// The refusal of an operator for which the toolkit has nothing to compile.
pub(crate) fn no_implementation(op_type: &str, error: &ToolkitError) -> Unsupported {
    let problem = format!("{error}; {}", error.help());
    Unsupported::Other { backend: NAME, op_type: op_type.to_owned(), problem }
}

/// The error of a file operation; `action` is a verb, such as `write`.
pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackendError {
    move |source| BackendError::Io { action, path: path.to_owned(), source }
}

//! Errors of the compiler's processes as errors of this backend.

use opkeep_backend::BackendError;
use opkeep_process::ProcessError;

/// The backend's error for `error`, of a compile or a probe.
pub(crate) fn backend_error(error: ProcessError) -> BackendError {
    match error {
        ProcessError::Failed { command, status, log_tail, log } => {
            BackendError::Compile { command, status, log_tail, log }
        }
        ProcessError::TimedOut { command, seconds, log_tail, log } => {
            BackendError::TimedOut { command, seconds, log_tail, log }
        }
        ProcessError::MissingOutput { command, problem, log_tail, log } => {
            BackendError::MissingOutput { command, problem, log_tail, log }
        }
        ProcessError::Cancelled => BackendError::Cancelled,
        ProcessError::Io { action, path, source } => BackendError::Io { action, path, source },
    }
}

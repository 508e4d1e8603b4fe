//! Errors that have lines of their own: the end of a compiler's log.

use std::error::Error;
use std::fmt;

use opkeep::KernelError;
use opkeep_backend::BackendError;

/// Whether an error has lines of its own: the end of a compiler's log.
pub(crate) fn is_multi_line(error: &(dyn Error + 'static)) -> bool {
    let of_backend = |error: &BackendError| {
        matches!(
            error,
            BackendError::Compile { .. } | BackendError::TimedOut { .. } | BackendError::MissingOutput { .. }
        )
    };
    match (error.downcast_ref::<BackendError>(), error.downcast_ref::<KernelError>()) {
        (Some(error), _) | (_, Some(KernelError::Backend(error))) => of_backend(error),
        (_, Some(error)) => matches!(
            error,
            KernelError::HolderFailed { .. } | KernelError::Invalid { .. } | KernelError::NameMismatch { .. }
        ),
        _ => error.is::<LoggedError>(),
    }
}

/// An error text that may have several lines, such as the end of a compiler's log.
#[derive(Debug)]
pub(crate) struct LoggedError(pub(crate) String);

impl fmt::Display for LoggedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for LoggedError {}

//! Errors that have lines of their own: the end of a compiler's log.

use std::error::Error;
use std::fmt;

use opkeep::{BuildError, KernelError};
use opkeep_backend::{BackendError, FailedTool};

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

/// Returns the tool that fails, whose output the text of the error leaves out, if there is more of it than the text has.
pub(crate) fn failed_tool(error: &anyhow::Error) -> Option<&FailedTool> {
    let tool = error.chain().find_map(|cause| {
        let error = match (cause.downcast_ref(), cause.downcast_ref(), cause.downcast_ref()) {
            (Some(error), _, _) => error,
            (_, Some(KernelError::Backend(error)), _) | (_, _, Some(BuildError::Backend(error))) => error,
            _ => return None,
        };
        match error {
            BackendError::Toolchain { tool, .. } => tool.as_deref(),
            _ => None,
        }
    })?;
    (tool.output.lines().filter(|line| !line.trim().is_empty()).count() > 1).then_some(tool)
}

/// Returns what `-v` shows of a tool that fails.
pub(crate) fn tool_output(tool: &FailedTool) -> String {
    format!("`{}` wrote:\n{}", tool.command, tool.output)
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

//! The reason why a call failed.

use opkeep_artifact::DecodeError;
use opkeep_embed::{CacheError, EmbedError, PublishError};

use crate::code::Code;

/// A code and its message.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// An argument that is not valid.
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(Code::Argument, message)
    }
}

impl From<EmbedError> for Error {
    fn from(error: EmbedError) -> Self {
        Self::new(code(&error), error.to_string())
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::new(Code::Rules, error.to_string())
    }
}

fn code(error: &EmbedError) -> Code {
    match error {
        EmbedError::FrameworkName { .. }
        | EmbedError::FileName { .. }
        | EmbedError::Cache(CacheError::TargetName { .. }) => Code::Name,
        EmbedError::NoFiles
        | EmbedError::TooManyFiles { .. }
        | EmbedError::RepeatedName { .. }
        | EmbedError::EmptyFile { .. }
        | EmbedError::TooLarge { .. }
        | EmbedError::MissingFile { .. } => Code::Group,
        EmbedError::Invalid { .. } => Code::Kernel,
        EmbedError::RulesTarget { .. } => Code::Rules,
        EmbedError::Forked { .. } | EmbedError::Publish(PublishError::Forked) => Code::Forked,
        EmbedError::TicketEnded => Code::TicketEnded,
        EmbedError::Cache(CacheError::NotCached { .. }) => Code::NotCached,
        EmbedError::Cache(_) | EmbedError::Reopen { .. } | EmbedError::Publish(_) => Code::Store,
        // A later variant of the other crate.
        _ => Code::Internal,
    }
}

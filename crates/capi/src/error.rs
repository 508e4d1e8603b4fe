//! The reason why a call failed.

use opkeep_embed::{CacheError, EmbedError, PublishError, TrustError};
use opkeep_remote::SettingsError;

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

    /// This error of the function `name`, which the message states if the program called it wrongly.
    pub(crate) fn of(self, name: &str) -> Self {
        match self.code {
            Code::Argument | Code::Handle | Code::Internal => {
                Self { message: format!("{name}: {}", self.message), ..self }
            }
            _ => self,
        }
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

impl From<SettingsError> for Error {
    fn from(error: SettingsError) -> Self {
        let code = match &error {
            SettingsError::SigningKey { source, .. }
            | SettingsError::TrustedKeys { source, .. }
            | SettingsError::NotKeys { source, .. } => {
                if matches!(source, TrustError::Io { .. }) {
                    Code::Io
                } else {
                    Code::Argument
                }
            }
            _ => Code::Argument,
        };
        Self::new(code, error.to_string())
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
        // The functions check these before, and name the argument.
        EmbedError::TextTooLong { .. } | EmbedError::TooManyParts { .. } | EmbedError::NoObject => {
            Code::Argument
        }
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

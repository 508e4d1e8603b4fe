//! The errors of calls to an engine.

use thiserror::Error;

/// The reason why a call to an engine failed. No text has a part of a credential.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The engine cannot be reached.
    #[error("the remote cache cannot be reached: {reason}")]
    Unreachable {
        /// The error of the connection.
        reason: String,
    },
    /// The engine did not answer before the call's deadline.
    #[error("the remote cache did not answer in time")]
    TimedOut,
    /// The call's token was cancelled.
    #[error("the call to the remote cache was cancelled")]
    Cancelled,
    /// The engine has no space for the object.
    #[error("the remote cache has no space: {reason}")]
    Full {
        /// The engine's answer.
        reason: String,
    },
    /// The engine refused the request.
    #[error("the remote cache refused the request: {reason}")]
    Refused {
        /// The engine's answer.
        reason: String,
    },
    /// The engine's answer does not fit its protocol.
    #[error("the remote cache gave an invalid answer: {reason}")]
    Invalid {
        /// What is wrong.
        reason: String,
    },
    /// The engine cannot do what was requested.
    #[error("the remote cache cannot {what}")]
    Unsupported {
        /// The request, such as `list objects`.
        what: &'static str,
    },
}

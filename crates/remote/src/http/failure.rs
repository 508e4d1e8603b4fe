//! The reasons why an exchange fails.

use std::io;

use opkeep_cache::RemoteError;

use crate::net::remote_error;

/// An exchange failed. The connection cannot be used further.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection failed, or the call's limits ended it.
    Io(io::Error),
    /// The server's bytes are no HTTP answer, or the answer is too large.
    Invalid(String),
}

impl Failure {
    pub(super) fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid(reason.into())
    }

    /// Whether the server closed the connection.
    pub(super) fn is_disconnect(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        let Self::Io(error) = self else { return false };
        matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Failure> for RemoteError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Io(error) => remote_error(&error),
            Failure::Invalid(reason) => Self::Invalid { reason },
        }
    }
}

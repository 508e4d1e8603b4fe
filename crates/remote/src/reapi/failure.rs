//! The reasons why a call over a connection fails.

use opkeep_cache::RemoteError;

use super::status::{Code, Status};
use crate::server_text::shown;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The server answered with a status that is not OK.
    Status(Status),
    /// The connection ended.
    Closed(String),
    /// The server did not process the request, and will process no further one over this connection.
    Unprocessed(String),
    /// The answer does not fit the protocol.
    Invalid(String),
    /// The server cannot be reached, or the call's limits ended it.
    Other(RemoteError),
}

impl Failure {
    pub(super) fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid(reason.into())
    }

    /// Whether the server does not know this client, or does not let it do that.
    pub(super) fn refuses_client(&self) -> bool {
        matches!(self, Self::Status(Status { code: Code::UNAUTHENTICATED | Code::PERMISSION_DENIED, .. }))
    }

    /// Returns the failure with what an error may contain of a server's text, which has all of it: it may name the client's headers, which
    /// `redact` replaces, and have any length. A status has no more than that.
    pub(super) fn redacted(self, redact: impl Fn(&str) -> String) -> Self {
        let text = |text: String| shown(&text, &redact);
        match self {
            Self::Closed(reason) => Self::Closed(text(reason)),
            Self::Unprocessed(reason) => Self::Unprocessed(text(reason)),
            Self::Invalid(reason) => Self::Invalid(text(reason)),
            Self::Status(_) | Self::Other(_) => self,
        }
    }

    /// Whether the connection can be used for another call.
    pub(super) fn leaves_connection(&self) -> bool {
        matches!(self, Self::Status(_))
    }
}

impl Status {
    /// The failure of a call that stores nothing: the server does not lack space, but has too many calls.
    pub(super) fn of_reading(self) -> Failure {
        match self.code {
            Code::RESOURCE_EXHAUSTED => Failure::Other(RemoteError::Unreachable { reason: self.to_string() }),
            _ => self.into(),
        }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<h2::Error> for Failure {
    fn from(error: h2::Error) -> Self {
        use h2::Reason;
        let reason = error.to_string();
        let code = error.reason();
        if error.is_io() {
            return Self::Closed(reason);
        }
        if error.is_remote() {
            return match code {
                // What the server had begun is answered, or ends as an error of the connection.
                Some(Reason::NO_ERROR) if error.is_go_away() => Self::Unprocessed(reason),
                Some(Reason::REFUSED_STREAM) => Self::Unprocessed(reason),
                _ => Self::Closed(reason),
            };
        }
        // A stream that this side has not opened, over a connection that the server has ended.
        match code {
            Some(Reason::REFUSED_STREAM) => Self::Unprocessed(reason),
            None => Self::Closed(reason),
            Some(_) => Self::Invalid(reason),
        }
    }
}

impl From<Failure> for RemoteError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Status(status) => status.into(),
            Failure::Closed(reason) | Failure::Unprocessed(reason) => Self::Unreachable { reason },
            Failure::Invalid(reason) => Self::Invalid { reason },
            Failure::Other(error) => error,
        }
    }
}

//! The reasons why an exchange with a Redis server fails.

use std::io;

use opkeep_cache::RemoteError;

use crate::net::remote_error;

/// The maximum length of a server's text in an error, in characters.
const LONGEST_TEXT: usize = 200;

/// An exchange failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection failed, or the call's limits ended it.
    Io(io::Error),
    /// The server's bytes are not those of the protocol, or an answer is not of the expected type.
    Invalid(String),
    /// The server answered with an error. The connection can be used further.
    Server(ServerError),
    /// Anything else, as the caller gets it.
    Remote(RemoteError),
}

/// A server's answer that begins with `-`, such as `-NOPERM this user has no permissions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerError(String);

impl ServerError {
    pub(super) fn new(line: &[u8]) -> Self {
        let text = String::from_utf8_lossy(line);
        let printable = text.chars().map(|char| if char.is_control() { ' ' } else { char });
        Self(printable.take(LONGEST_TEXT).collect())
    }

    /// Returns the first word, which programs understand.
    fn code(&self) -> &str {
        self.0.split(' ').next().unwrap_or_default()
    }

    /// The same error without the text after its first word: the server's answer to a password could repeat it.
    pub(super) fn without_text(&self) -> Self {
        Self(self.code().chars().take_while(char::is_ascii_alphanumeric).collect())
    }
}

impl From<ServerError> for RemoteError {
    fn from(error: ServerError) -> Self {
        // Of a script that failed, the error of the command in it counts.
        let in_script =
            ["-OOM ", "-READONLY ", "-NOPERM ", "-MISCONF "].iter().find(|code| error.0.contains(*code));
        let code = in_script.map_or(error.code(), |code| code.trim_matches(['-', ' '])).to_owned();
        let is_crowded = error.0.contains("max number of clients");
        let reason = error.0;
        match code.as_str() {
            // With `MISCONF` the server cannot save its data to its disk, and accepts no more.
            "OOM" | "MISCONF" => Self::Full { reason },
            "LOADING" | "MASTERDOWN" | "BUSY" | "CLUSTERDOWN" | "TRYAGAIN" => Self::Unreachable { reason },
            _ if is_crowded => Self::Unreachable { reason },
            _ => Self::Refused { reason },
        }
    }
}

impl From<Failure> for RemoteError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Io(error) => remote_error(&error),
            Failure::Invalid(reason) => Self::Invalid { reason },
            Failure::Server(error) => error.into(),
            Failure::Remote(error) => error,
        }
    }
}

impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        Self::Remote(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Failure {
    pub(super) fn invalid(found: &'static str, expected: &'static str) -> Self {
        Self::Invalid(format!("expected {expected}, found {found}"))
    }

    /// Whether the server closed the connection.
    pub(super) fn is_disconnect(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        let Self::Io(error) = self else { return false };
        matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_decide() {
        let error = |line: &str| RemoteError::from(ServerError::new(line.as_bytes()));
        let is = |line: &str, expected: fn(&RemoteError) -> bool| {
            assert!(expected(&error(line)), "{line}: {:?}", error(line))
        };
        for line in [
            "OOM command not allowed when used memory > 'maxmemory'.",
            "ERR Error running script (call to f_0): @user_script:1: -OOM command not allowed",
            "MISCONF Redis is configured to save RDB snapshots",
        ] {
            is(line, |error| matches!(error, RemoteError::Full { .. }));
        }
        for line in [
            "NOPERM this user has no permissions",
            "READONLY You can't write against a read only replica.",
            "NOAUTH Authentication required.",
            "WRONGPASS invalid username-password pair",
            "ERR unknown command",
            "MOVED 1 127.0.0.1:1",
            "",
        ] {
            is(line, |error| matches!(error, RemoteError::Refused { .. }));
        }
        for line in ["LOADING Redis is loading", "MASTERDOWN Link", "ERR max number of clients reached"] {
            is(line, |error| matches!(error, RemoteError::Unreachable { .. }));
        }
    }

    #[test]
    fn a_server_s_text_is_bounded_and_printable() {
        let text = RemoteError::from(ServerError::new(&[b'\x1b'; 5000])).to_string();
        assert!(text.len() < 400 && !text.contains('\x1b'), "{text}");
        let echo = ServerError::new(b"ERR unknown command 'AUTH' with args 'hunter2'").without_text();
        assert_eq!(echo, ServerError::new(b"ERR"));
    }
}

//! The reasons why an exchange with a Redis server fails.

use std::{fmt, io};

use opkeep_cache::RemoteError;

use crate::net::remote_error;
use crate::renewable::redacted;
use crate::server_text::shown;

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

/// A server's answer that begins with `-`, such as `-NOPERM this user has no permissions`. It is interpreted as it is: a password may
/// be a part of the server's words. What is shown of it has no password.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ServerError {
    text: String,
    password: Option<String>,
}

impl ServerError {
    /// Reads a line, which may repeat the password of the connection.
    pub(super) fn new(line: &[u8], password: Option<&str>) -> Self {
        Self { text: String::from_utf8_lossy(line).into_owned(), password: password.map(str::to_owned) }
    }

    /// Returns what an error contains of the line.
    fn shown(&self) -> String {
        shown(&self.text, |text| redacted(text, self.password.as_deref().into_iter()))
    }

    fn with_text(&self, text: impl Into<String>) -> Self {
        Self { text: text.into(), password: self.password.clone() }
    }

    /// Returns the first word, which programs understand.
    fn code(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }

    /// Whether the server is one of a Redis Cluster, each of which has a part of the keys.
    pub(super) fn is_of_cluster(&self) -> bool {
        matches!(self.code(), "MOVED" | "ASK" | "CROSSSLOT" | "CLUSTERDOWN" | "TRYAGAIN")
            || ["in cluster mode", "do not hash to the same slot"].iter().any(|text| self.text.contains(text))
    }

    /// What is wrong with the server, if it is of another kind or has other rules than are needed.
    fn help(&self) -> Option<&'static str> {
        if self.is_of_cluster() {
            return Some("the server is one of a Redis Cluster; a remote cache needs one that has all keys");
        }
        if self.code() == "NOPERM" || self.text.contains("-NOPERM ") {
            return Some(
                "the user of the URL lacks permission for a command or for the names of a remote cache: its rules need the commands of a reader \
                 or a writer, and the names below the URL's prefix and the namespace",
            );
        }
        self.text.contains("unknown command").then_some(
            "the server lacks a command that a remote cache needs. A Redis Sentinel stores nothing: the URL needs the address \
             of the server that it watches",
        )
    }

    /// Returns the error of the command that failed, without the place in the script that made it.
    fn of_command(&self) -> Self {
        let text = &self.text;
        let codes = ["-OOM ", "-READONLY ", "-NOPERM ", "-MISCONF "];
        // Redis 6: `ERR Error running script (call to f_DIGEST): @user_script:2: -OOM command not allowed`.
        let begin = codes.iter().find_map(|code| Some(text.find(code)? + 1)).unwrap_or_default();
        // Redis 7: `OOM command not allowed. script: DIGEST, on @user_script:2.`
        let place = text.find(" script: ").filter(|at| *at > begin && text[*at..].contains("@user_script:"));
        self.with_text(text[begin..place.unwrap_or(text.len())].trim_end())
    }

    /// The same error without the text after its first word: the server's answer to a password could repeat it.
    pub(super) fn without_text(&self) -> Self {
        self.with_text(self.code().chars().take_while(char::is_ascii_alphanumeric).collect::<String>())
    }
}

impl fmt::Debug for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerError").field(&self.shown()).finish()
    }
}

impl From<ServerError> for RemoteError {
    fn from(error: ServerError) -> Self {
        if let Some(why) = error.help() {
            return Self::Refused { reason: format!("{why} (`{}`)", error.of_command().shown()) };
        }
        let is_crowded = error.text.contains("max number of clients");
        let error = error.of_command();
        let reason = error.shown();
        match error.code() {
            // With `MISCONF` the server cannot save its data to its disk, and accepts no more.
            "OOM" | "MISCONF" => Self::Full { reason },
            "LOADING" | "MASTERDOWN" | "BUSY" => Self::Unreachable { reason },
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
        let error = |line: &str| RemoteError::from(ServerError::new(line.as_bytes(), None));
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
            "",
        ] {
            is(line, |error| matches!(error, RemoteError::Refused { .. }));
        }
        for line in ["LOADING Redis is loading", "MASTERDOWN Link", "ERR max number of clients reached"] {
            is(line, |error| matches!(error, RemoteError::Unreachable { .. }));
        }
    }

    #[test]
    fn the_reason_of_a_script_is_that_of_its_command() {
        let reason = |line: &str| RemoteError::from(ServerError::new(line.as_bytes(), None));
        let plain = "OOM command not allowed when used memory > 'maxmemory'.";
        for line in [
            plain,
            "OOM command not allowed when used memory > 'maxmemory'. script: c6a4ee05, on @user_script:5.",
            "ERR Error running script (call to f_c6a4ee05): @user_script:5: -OOM command not allowed when used memory > \
             'maxmemory'.",
        ] {
            assert_eq!(reason(line), RemoteError::Full { reason: plain.to_owned() }, "{line}");
        }
        let refused = |text: &str| RemoteError::Refused { reason: text.to_owned() };
        let line = "NOPERM this user has no permissions to run 'set' script: c6a4ee05, on @user_script:5.";
        let text = reason(line).to_string();
        assert!(text.contains("(`NOPERM this user has no permissions to run 'set'`)"), "{text}");
        assert_eq!(reason("ERR no such script: a"), refused("ERR no such script: a"));
    }

    /// These are the answers of redis-server 7.0: a member of a cluster, one without its slots, and a Sentinel.
    #[test]
    fn a_server_of_another_kind_is_named() {
        let reason = |line: &str| match RemoteError::from(ServerError::new(line.as_bytes(), None)) {
            RemoteError::Refused { reason } => reason,
            other => panic!("{line}: {other:?}"),
        };
        for line in [
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 127.0.0.1:6381",
            "CROSSSLOT Keys in request don't hash to the same slot",
            "CLUSTERDOWN Hash slot not served",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "ERR SELECT is not allowed in cluster mode",
            "ERR Script attempted to access keys that do not hash to the same slot script: 1, on @user_script:1.",
        ] {
            let command = line.split(" script: ").next().unwrap();
            assert!(
                reason(line).contains("one of a Redis Cluster") && reason(line).contains(command),
                "{line}"
            );
        }
        for line in [
            "ERR unknown command 'MGET', with args beginning with: 'opkeep/v1/default/cpu-x86_64/e/00' ",
            "ERR unknown command `EVAL`, with args beginning with: ",
        ] {
            assert!(
                reason(line).contains("A Redis Sentinel stores nothing")
                    && reason(line).contains(line.trim_end()),
                "{line}"
            );
        }
        for line in [
            "NOPERM this user has no permissions to access one of the keys used as arguments",
            "ERR Error running script (call to f_0): @user_script:1: -NOPERM this user has no permissions",
        ] {
            assert!(reason(line).contains("the URL's prefix and the namespace"), "{line}");
            let command = &line[line.find("NOPERM").unwrap()..];
            assert!(reason(line).contains(command) && !reason(line).contains("Redis Cluster"), "{line}");
        }
    }

    #[test]
    fn a_server_s_text_is_bounded_and_printable() {
        let text = RemoteError::from(ServerError::new(&[b'\x1b'; 5000], None)).to_string();
        assert!(text.len() < 400 && !text.contains('\x1b'), "{text}");
        let echo = b"ERR unknown command 'AUTH' with args 'hunter2'";
        assert_eq!(ServerError::new(echo, None).without_text(), ServerError::new(b"ERR", None));
        let text = RemoteError::from(ServerError::new(echo, Some("hunter2"))).to_string();
        assert!(text.contains("with args '***'"), "{text}");
        assert!(!format!("{:?}", ServerError::new(echo, Some("hunter2"))).contains("hunter2"));
    }

    #[test]
    fn a_password_that_is_a_part_of_the_server_s_words_changes_no_meaning() {
        let error =
            |line: &str, password| RemoteError::from(ServerError::new(line.as_bytes(), Some(password)));
        for (line, password) in [
            ("OOM command not allowed when used memory > 'maxmemory'.", "OOM"),
            ("MISCONF Redis is configured to save RDB snapshots", "CONF"),
        ] {
            let RemoteError::Full { reason } = error(line, password) else { panic!("{line}") };
            assert!(!reason.contains(password), "{reason}");
        }
        for (line, password, help) in [
            ("NOPERM this user has no permissions", "PERM", "lacks permission"),
            ("ERR unknown command 'MGET'", "known", "Sentinel"),
            ("CLUSTERDOWN Hash slot not served", "DOWN", "one of a Redis Cluster"),
        ] {
            let text = error(line, password).to_string();
            assert!(text.contains(help) && text.contains("***"), "{text}");
        }
    }
}

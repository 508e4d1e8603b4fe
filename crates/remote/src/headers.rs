//! Headers by which a server of the Remote Execution API knows its client: keys and tokens.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

#[cfg(feature = "grpc")]
use crate::renewable::Secrets;
use crate::url::Secret;

/// The maximum length of all headers together, in bytes. Servers take 8 KiB or more.
const LONGEST: usize = 16 << 10;
/// What servers echo of shorter values is no secret.
#[cfg(feature = "grpc")]
const SHORTEST_SECRET: usize = 4;
/// Headers that gRPC and HTTP/2 set themselves, or that HTTP/2 forbids.
const RESERVED: [&str; 12] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];
/// What the names of gRPC's own headers begin with.
const RESERVED_PREFIX: &str = "grpc-";

/// Headers that a client sends with each call. No output shows their values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, Secret)>);

/// A text has no headers that can be sent. The error has no part of a value, and of a name only what the protocol reserves.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// A line has no colon.
    #[error("line {line} of the headers has no `:`, expected `name: value`")]
    NoColon {
        /// The number of the line, from 1.
        line: usize,
    },
    /// A name has other characters.
    #[error("line {line} of the headers has an invalid name, expected letters, digits, `-`, `_` and `.`")]
    Name {
        /// The number of the line, from 1.
        line: usize,
    },
    /// The protocol sets a header itself.
    #[error("line {line} of the headers sets `{name}`, which the protocol reserves")]
    Reserved {
        /// The number of the line, from 1.
        line: usize,
        /// The header's name; `grpc-` for all of gRPC's own.
        name: &'static str,
    },
    /// A value is empty, or has other characters.
    #[error(
        "line {line} of the headers has an invalid value, expected visible characters of ASCII and spaces"
    )]
    Value {
        /// The number of the line, from 1.
        line: usize,
    },
    /// The headers are too long.
    #[error("the headers have more than {LONGEST} bytes together")]
    TooLong,
}

impl FromStr for Headers {
    type Err = HeaderError;

    /// Parses one header a line, `name: value`. Empty lines and those that begin with `#` are skipped.
    fn from_str(text: &str) -> Result<Self, HeaderError> {
        let mut headers = Vec::new();
        let mut bytes = 0;
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let (name, value) = content.split_once(':').ok_or(HeaderError::NoColon { line })?;
            let (name, value) = (checked_name(name.trim_end(), line)?, value.trim());
            let is_visible = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
            if value.is_empty() || !value.bytes().all(is_visible) {
                return Err(HeaderError::Value { line });
            }
            bytes += name.len() + value.len();
            headers.push((name, Secret::new(value)));
        }
        if bytes > LONGEST { Err(HeaderError::TooLong) } else { Ok(Self(headers)) }
    }
}

/// Returns a name in the lower-case letters that HTTP/2 demands.
fn checked_name(name: &str, line: usize) -> Result<String, HeaderError> {
    let is_char = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_char) {
        return Err(HeaderError::Name { line });
    }
    let name = name.to_ascii_lowercase();
    let reserved = RESERVED.into_iter().find(|reserved| *reserved == name);
    match reserved.or(name.starts_with(RESERVED_PREFIX).then_some(RESERVED_PREFIX)) {
        Some(name) => Err(HeaderError::Reserved { line, name }),
        None => Ok(name),
    }
}

impl Headers {
    /// Returns the names and values.
    #[cfg(feature = "grpc")]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.reveal()))
    }
}

#[cfg(feature = "grpc")]
impl Secrets for Headers {
    /// The values, and what follows the scheme of an `authorization`.
    fn secrets(&self) -> impl Iterator<Item = &str> {
        let secrets = self.iter().flat_map(|(_, value)| {
            let token = value.split_once(' ').map(|(_, token)| token.trim_start());
            [Some(value), token].into_iter().flatten()
        });
        secrets.filter(|secret| secret.len() >= SHORTEST_SECRET)
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, value)| (name, value))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_lines() {
        let text = "# a key\r\nX-BuildBuddy-Api-Key: abc:def\r\n\n  authorization :Bearer  t \nx-1: a";
        let headers: Headers = text.parse().unwrap();
        let found: Vec<_> = headers.0.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
        let expected = [("x-buildbuddy-api-key", "abc:def"), ("authorization", "Bearer  t"), ("x-1", "a")];
        assert_eq!(found, expected);
        assert_eq!("".parse(), Ok(Headers::default()));
    }

    #[test]
    fn what_cannot_be_sent_is_refused_without_its_text() {
        let parse = |text: &str| text.parse::<Headers>().unwrap_err();
        assert_eq!(parse("\nhunter2"), HeaderError::NoColon { line: 2 });
        for name in ["", "hunter2 x", "hünter2", ":authority", "hunter2\t\u{7f}"] {
            assert_eq!(parse(&format!("{name}: v")), HeaderError::Name { line: 1 }, "{name}");
        }
        for value in ["", " ", "hunter2\u{7f}", "hunter2\u{1}", "hünter2", "a\thunter2"] {
            assert_eq!(parse(&format!("a: 1\nname: {value}")), HeaderError::Value { line: 2 }, "{value}");
        }
        for name in ["TE", "Host", "content-type", "Connection"] {
            let found = parse(&format!("{name}: x"));
            assert!(matches!(found, HeaderError::Reserved { line: 1, .. }), "{found}");
        }
        let found = parse("Grpc-Timeout: hunter2");
        assert_eq!(found, HeaderError::Reserved { line: 1, name: "grpc-" });
        assert!(!found.to_string().contains("hunter2"));
        assert_eq!(parse(&format!("a: {}", "x".repeat(LONGEST))), HeaderError::TooLong);
        // A carriage return alone would end a header for some servers.
        assert_eq!(parse("a: 1\rb: 2"), HeaderError::Value { line: 1 });
    }

    #[test]
    fn no_output_has_a_value() {
        let headers: Headers = "authorization: Bearer hunter2\nx-key: hunter3\nx-team: a".parse().unwrap();
        assert_eq!(format!("{headers:?}"), r#"{"authorization": ***, "x-key": ***, "x-team": ***}"#);
        #[cfg(feature = "grpc")]
        {
            assert_eq!(headers.secrets().collect::<Vec<_>>(), ["Bearer hunter2", "hunter2", "hunter3"]);
            let text = "a bad token hunter2 in `Bearer hunter2`, hunter3";
            assert_eq!(crate::renewable::redacted(text, headers.secrets()), "a bad token *** in `***`, ***");
        }
    }
}

//! The parts of a URL, before the engine's rules.

use std::fmt;
#[cfg(feature = "grpc")]
use std::net::IpAddr;
use std::net::Ipv6Addr;

use opkeep_cache::ObjectName;

use super::error::UrlError;

/// A password. No output shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the password.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The name or address of a host, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Host {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub name: String,
    /// The port.
    pub port: u16,
}

impl Host {
    /// Whether it is a loopback address, or the name of one.
    #[cfg(feature = "grpc")]
    pub(crate) fn is_this_host(&self) -> bool {
        let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
        self.name.eq_ignore_ascii_case("localhost") || self.name.parse().is_ok_and(is_loopback)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

/// A URL as `scheme://[user[:password]@]authority[/path][?parameters]`, with all parts decoded.
pub(super) struct Parts {
    pub(super) scheme: &'static str,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    /// `host[:port]`, or the name of a bucket.
    pub(super) authority: String,
    /// The segments of the path; none for `/`.
    pub(super) path: Vec<String>,
    parameters: Vec<(String, String)>,
}

impl Parts {
    /// Splits what follows `scheme://`. A password that has unencoded `/`, `?` or `#` would be split in the middle; it is found
    /// by its `@`, and no part of such a URL enters an error.
    pub(super) fn new(scheme: &'static str, rest: &str) -> Result<Self, UrlError> {
        let invalid = |part, expected| UrlError::Invalid { scheme, part, expected };
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if tail.contains('@') {
            return Err(invalid(
                "text after the host",
                "no `@`; in a user or password, `/` is `%2F`, `?` is `%3F`, `#` is `%23`",
            ));
        }
        if tail.contains('#') {
            return Err(invalid("text after the host", "no `#`"));
        }
        let (user_info, authority) = match authority.rsplit_once('@') {
            Some((user_info, authority)) => (Some(user_info), authority),
            None => (None, authority),
        };
        let decode = |text: &str, part| {
            decoded(text).ok_or(invalid(part, "UTF-8, in which `%` is followed by two hexadecimal digits"))
        };
        let (user, password) = match user_info.map(|info| info.split_once(':').unwrap_or((info, ""))) {
            Some((user, password)) => (Some(decode(user, "user")?), Some(decode(password, "password")?)),
            None => (None, None),
        };
        let not_empty = |text: &String| !text.is_empty();
        let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
        let path = path.strip_prefix('/').unwrap_or(path);
        let path = path.strip_suffix('/').unwrap_or(path);
        let path = match path {
            "" => Vec::new(),
            path => path.split('/').map(|segment| decode(segment, "path")).collect::<Result<_, _>>()?,
        };
        let mut parameters = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            parameters.push((decode(name, "parameters")?, decode(value, "parameters")?));
        }
        Ok(Self {
            scheme,
            user: user.filter(not_empty),
            password: password.filter(not_empty).map(Secret::new),
            authority: authority.to_owned(),
            path,
            parameters,
        })
    }

    pub(super) fn invalid(&self, part: &'static str, expected: &'static str) -> UrlError {
        UrlError::Invalid { scheme: self.scheme, part, expected }
    }

    /// Returns the authority as a host and a port.
    pub(super) fn host(&self, default_port: Option<u16>) -> Result<Host, UrlError> {
        host(&self.authority, default_port).map_err(|(part, expected)| self.invalid(part, expected))
    }

    /// Fails if the URL has a user or a password.
    pub(super) fn no_credentials(&self, expected: &'static str) -> Result<(), UrlError> {
        match (&self.user, &self.password) {
            (None, None) => Ok(()),
            _ => Err(self.invalid("user", expected)),
        }
    }

    /// Takes the parameter `name`. The last one counts. An empty one is an error: it may be a variable of a script that is unset, and the
    /// default would be another cache than was meant.
    pub(super) fn take(&mut self, name: &'static str) -> Result<Option<String>, UrlError> {
        let mut value = None;
        for (_, found) in self.parameters.extract_if(.., |(found, _)| found == name) {
            value = Some(found);
        }
        match value.as_deref() {
            Some("") => Err(self.invalid(name, "a value, or no such parameter in the URL for the default")),
            _ => Ok(value),
        }
    }

    /// Fails if there are parameters that nothing took.
    pub(super) fn no_more(self, known: &'static str) -> Result<(), UrlError> {
        match self.parameters.into_iter().next() {
            None => Ok(()),
            Some((name, _)) => Err(UrlError::UnknownParameter { scheme: self.scheme, name, known }),
        }
    }
}

/// What is wrong with a host: the part, and what was expected. Nothing that was found is shown: without its `@`, a password
/// stands where the port does.
type HostProblem = (&'static str, &'static str);

/// Parses `host[:port]`.
pub(super) fn host(text: &str, default_port: Option<u16>) -> Result<Host, HostProblem> {
    let bad_host = ("host", "a name, an IPv4 address, or an IPv6 address in brackets");
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or(bad_host)?;
            address.parse::<Ipv6Addr>().map_err(|_| bad_host)?;
            (address, port)
        }
        None => {
            let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            let is_char = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            if name.is_empty() || name.len() > 253 || !name.bytes().all(is_char) {
                return Err(bad_host);
            }
            (name, port)
        }
    };
    let bad_port = ("port", "a number from 1 to 65535 (a password is followed by `@`)");
    let port = match port.strip_prefix(':') {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().filter(|port| *port != 0).ok_or(bad_port)?
        }
        Some(_) => return Err(bad_port),
        None if !port.is_empty() => return Err(bad_host),
        None => default_port.ok_or(bad_port)?,
    };
    Ok(Host { name: name.to_owned(), port })
}

/// Parses a prefix of names.
pub(super) fn prefix_name(text: &str) -> Option<ObjectName> {
    ObjectName::new(text).ok().filter(|name| name.as_str().len() <= MAX_PREFIX)
}

/// The maximum length of a prefix, in bytes.
const MAX_PREFIX: usize = 200;

/// What a prefix must be.
pub(super) const PREFIX: &str = "at most 200 bytes, segments of `[A-Za-z0-9._-]` separated by `/`";

/// Decodes `%xx`. `None`: a `%` without two digits, or no UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let is_escape = byte == b'%';
        bytes.push(if is_escape { digit(rest.next()?)? << 4 | digit(rest.next()?)? } else { byte });
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

//! URLs of engines.

mod error;
mod parts;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use opkeep_cache::ObjectName;

pub use error::UrlError;
pub use parts::{Host, Secret};
use parts::{PREFIX, Parts, host, prefix_name};

/// The database of a Redis URL without one.
const FIRST_DATABASE: u32 = 0;
/// The prefix of a Redis URL without one: a server often has the keys of other programs.
const REDIS_PREFIX: &str = "opkeep";

/// The URL of an engine. As text it has no credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemoteUrl {
    /// `redis://` or `rediss://`.
    Redis(RedisUrl),
    /// `s3://`.
    S3(S3Url),
    /// `grpc://` or `grpcs://`.
    Reapi(ReapiUrl),
    /// `file://`.
    File(FileUrl),
}

/// `redis://[user:password@]host[:6379][/database][?prefix=P]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisUrl {
    /// Whether the connection is encrypted (`rediss`).
    pub tls: bool,
    /// The server.
    pub host: Host,
    /// The user of the server's access control list.
    pub user: Option<String>,
    /// The password.
    pub password: Option<Secret>,
    /// The number of the database; 0 by default.
    pub database: u32,
    /// What the keys of the server begin with, before a `/`; `opkeep` by default.
    pub prefix: ObjectName,
}

/// `s3://bucket[/prefix][?endpoint=URL][&region=R][&style=path|virtual][&profile=P]`. Credentials are not in the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct S3Url {
    /// The bucket: 3 to 63 bytes of `[a-z0-9.-]`.
    pub bucket: String,
    /// What the keys begin with, before a `/`.
    pub prefix: Option<ObjectName>,
    /// The server; that of AWS by default.
    pub endpoint: Option<Endpoint>,
    /// The region that requests are signed for.
    pub region: Option<String>,
    /// Where the bucket stands in a request. `None`: `path` with an endpoint, `virtual` without.
    pub style: Option<S3Style>,
    /// The profile in the files of credentials.
    pub profile: Option<String>,
}

/// The server of an S3 URL: `http://host[:80]` or `https://host[:443]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Endpoint {
    /// Whether the connection is encrypted (`https`).
    pub tls: bool,
    /// The server.
    pub host: Host,
}

/// Where the bucket stands in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum S3Style {
    /// In the path: `http://host/bucket/key`.
    Path,
    /// In the host: `http://bucket.host/key`.
    Virtual,
}

/// `grpc://host:port[/instance]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReapiUrl {
    /// Whether the connection is encrypted (`grpcs`).
    pub tls: bool,
    /// The server.
    pub host: Host,
    /// The name of the server's instance; empty by default.
    pub instance: String,
}

/// `file:///directory`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileUrl {
    /// The directory, an absolute path.
    pub directory: PathBuf,
}

impl RemoteUrl {
    /// Returns the scheme.
    pub fn scheme(&self) -> &'static str {
        match self {
            Self::Redis(url) => {
                if url.tls {
                    "rediss"
                } else {
                    "redis"
                }
            }
            Self::S3(_) => "s3",
            Self::Reapi(url) => {
                if url.tls {
                    "grpcs"
                } else {
                    "grpc"
                }
            }
            Self::File(_) => "file",
        }
    }
}

impl FromStr for RemoteUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::NoScheme)?;
        match scheme.to_ascii_lowercase().as_str() {
            "redis" => redis(Parts::new("redis", rest)?, false),
            "rediss" => redis(Parts::new("rediss", rest)?, true),
            "s3" => s3(Parts::new("s3", rest)?),
            "grpc" => reapi(Parts::new("grpc", rest)?, false),
            "grpcs" => reapi(Parts::new("grpcs", rest)?, true),
            "file" => file(Parts::new("file", rest)?),
            other
                if other.len() <= 20
                    && other.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) =>
            {
                Err(UrlError::UnknownScheme { scheme: other.to_owned() })
            }
            _ => Err(UrlError::NoScheme),
        }
    }
}

impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme())?;
        match self {
            Self::Redis(url) => {
                write!(f, "{}/{}", url.host, url.database)?;
                if url.prefix.as_str() == REDIS_PREFIX { Ok(()) } else { write!(f, "?prefix={}", url.prefix) }
            }
            Self::S3(url) => {
                f.write_str(&url.bucket)?;
                if let Some(prefix) = &url.prefix {
                    write!(f, "/{prefix}")?;
                }
                url.endpoint.iter().try_for_each(|endpoint| write!(f, "?endpoint={endpoint}"))
            }
            Self::Reapi(url) => {
                write!(f, "{}", url.host)?;
                if url.instance.is_empty() { Ok(()) } else { write!(f, "/{}", url.instance) }
            }
            Self::File(url) => write!(f, "{}", url.directory.display()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.host)
    }
}

fn redis(mut parts: Parts, tls: bool) -> Result<RemoteUrl, UrlError> {
    let database = match parts.path.as_slice() {
        [] => FIRST_DATABASE,
        [number] if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            number.parse().map_err(|_| parts.invalid("database", "a number"))?
        }
        _ => {
            return Err(
                parts.invalid("path", "the number of a database, or nothing; a prefix is a parameter")
            );
        }
    };
    let prefix = parts.take("prefix")?.unwrap_or_else(|| REDIS_PREFIX.to_owned());
    let url = RedisUrl {
        tls,
        host: parts.host(Some(6379))?,
        user: parts.user.clone(),
        password: parts.password.clone(),
        database,
        prefix: prefix_name(&prefix).ok_or_else(|| parts.invalid("prefix", PREFIX))?,
    };
    if url.user.is_some() && url.password.is_none() {
        return Err(parts.invalid("password", "a password for the user: `user:password@host`"));
    }
    parts.no_more("`prefix`")?;
    Ok(RemoteUrl::Redis(url))
}

fn s3(mut parts: Parts) -> Result<RemoteUrl, UrlError> {
    parts.no_credentials(
        "no user and no password: the access key comes from the environment, or from AWS's files",
    )?;
    let bucket = parts.authority.clone();
    let is_char = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
    let has_ends = !bucket.starts_with(['.', '-']) && !bucket.ends_with(['.', '-']);
    if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(is_char) || !has_ends || bucket.contains("..")
    {
        return Err(parts.invalid("bucket", "3 to 63 bytes of `[a-z0-9.-]`"));
    }
    let endpoint = parts.take("endpoint")?.map(|text| endpoint(&text)).transpose();
    let style = match parts.take("style")?.as_deref() {
        None => None,
        Some("path") => Some(S3Style::Path),
        Some("virtual") => Some(S3Style::Virtual),
        Some(_) => return Err(parts.invalid("style", "`path` or `virtual`")),
    };
    let region = parts.take("region")?;
    let is_word =
        |text: &String| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if region.as_ref().is_some_and(|region| !is_word(region)) {
        return Err(parts.invalid("region", "a name of `[A-Za-z0-9._-]`"));
    }
    let prefix = parts.path.join("/");
    let url = S3Url {
        bucket,
        prefix: (!prefix.is_empty())
            .then(|| prefix_name(&prefix).ok_or_else(|| parts.invalid("prefix", PREFIX)))
            .transpose()?,
        endpoint: endpoint.map_err(|expected| parts.invalid("endpoint", expected))?,
        region,
        style,
        profile: parts.take("profile")?,
    };
    parts.no_more("`endpoint`, `region`, `style` or `profile`")?;
    Ok(RemoteUrl::S3(url))
}

/// Parses the parameter `endpoint`. The error is what was expected.
fn endpoint(text: &str) -> Result<Endpoint, &'static str> {
    let expected = "`http://host[:port]` or `https://host[:port]`";
    let (scheme, rest) = text.split_once("://").ok_or(expected)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (tls, port) = match scheme.to_ascii_lowercase().as_str() {
        "http" => (false, 80),
        "https" => (true, 443),
        _ => return Err(expected),
    };
    Ok(Endpoint { tls, host: host(rest, Some(port)).map_err(|_| expected)? })
}

/// What a segment of an instance cannot be: the API parses the names of blobs by these.
const RESERVED: [&str; 7] =
    ["blobs", "uploads", "actions", "actionResults", "operations", "capabilities", "compressed-blobs"];

fn reapi(parts: Parts, tls: bool) -> Result<RemoteUrl, UrlError> {
    parts.no_credentials("no user and no password")?;
    let is_char = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    let instance = parts.path.join("/");
    if instance.len() > 200 || !instance.bytes().all(is_char) {
        return Err(
            parts.invalid("instance", "at most 200 bytes, segments of `[A-Za-z0-9._-]` separated by `/`")
        );
    }
    if parts.path.iter().any(|segment| RESERVED.contains(&segment.as_str())) {
        return Err(
            parts.invalid("instance", "no segment that the API uses itself, such as `blobs` or `uploads`")
        );
    }
    let url = ReapiUrl { tls, host: parts.host(None)?, instance };
    parts.no_more("none")?;
    Ok(RemoteUrl::Reapi(url))
}

fn file(parts: Parts) -> Result<RemoteUrl, UrlError> {
    parts.no_credentials("no user and no password")?;
    if !matches!(parts.authority.as_str(), "" | "localhost") {
        return Err(parts.invalid("host", "none: `file:///directory`"));
    }
    let is_segment =
        |segment: &String| !matches!(segment.as_str(), "" | "." | "..") && !segment.contains(['/', '\0']);
    if parts.path.is_empty() || !parts.path.iter().all(is_segment) {
        return Err(
            parts.invalid("path", "the absolute path of a directory, without `.`, `..` and empty segments")
        );
    }
    let directory = PathBuf::from(format!("/{}", parts.path.join("/")));
    parts.no_more("none")?;
    Ok(RemoteUrl::File(FileUrl { directory }))
}

#[cfg(test)]
mod tests;

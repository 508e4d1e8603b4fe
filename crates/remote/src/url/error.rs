//! The errors of URLs.

use thiserror::Error;

/// A text is not the URL of an engine. The error has no part of the text that could be a password.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The text has no scheme.
    #[error("the remote cache is not a URL: expected one such as `redis://host:6379`, {SCHEMES}")]
    NoScheme,
    /// No engine has the scheme.
    #[error("the URL of the remote cache has the unknown scheme `{scheme}`: expected {SCHEMES}")]
    UnknownScheme {
        /// The scheme.
        scheme: String,
    },
    /// A part is not valid.
    #[error("the `{scheme}://` URL of the remote cache has an invalid {part}: expected {expected}")]
    Invalid {
        /// The scheme.
        scheme: &'static str,
        /// The part, such as `port`.
        part: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// The engine has no such parameter.
    #[error("the `{scheme}://` URL of the remote cache has the unknown parameter `{name}`: expected {known}")]
    UnknownParameter {
        /// The scheme.
        scheme: &'static str,
        /// The parameter's name.
        name: String,
        /// The parameters that there are.
        known: &'static str,
    },
}

const SCHEMES: &str = "`redis://`, `rediss://`, `s3://`, `grpc://`, `grpcs://` or `file://`";

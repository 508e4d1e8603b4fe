//! The errors of opening an engine.

use thiserror::Error;

use crate::url::UrlError;

/// A URL cannot be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL is not valid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The headers would be sent unencrypted to another host.
    #[error(
        "headers are sent over `grpc://` only to this host, since everyone on the network could read them: use `grpcs://`, or a \
         proxy on this host that encrypts"
    )]
    PlainHeaders,
    /// This build has no client for the engine.
    #[error("this build has no client for `{scheme}://`: use another engine, or a build that has one")]
    NoClient {
        /// The URL's scheme.
        scheme: &'static str,
    },
}

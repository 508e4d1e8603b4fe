//! What engines need besides their URLs.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::headers::Headers;

/// What an engine needs besides its URL.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Returns a variable of the environment, such as `AWS_ACCESS_KEY_ID`. `None`: there are no variables.
    pub variable: Option<Arc<Variable>>,
    /// A file of PEM certificates, whose authorities are trusted for TLS instead of the system's.
    pub authorities: Option<PathBuf>,
    /// The certificate of this client, for servers that demand one of each client.
    pub client_certificate: Option<ClientCertificate>,
    /// The headers that a server of the Remote Execution API gets with each call.
    pub headers: Option<HeaderSource>,
}

/// Returns the value of a variable of the environment.
pub type Variable = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The files of a client's certificate, in PEM. They are read for each connection, so they may be replaced by newer ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, followed by those of the authorities between it and one that the server trusts.
    pub certificate: PathBuf,
    /// The certificate's private key, not encrypted. It may be the same file.
    pub key: PathBuf,
}

/// Where headers come from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderSource {
    /// They are given.
    Given(Headers),
    /// A file with one header a line, as [`Headers`] parses them. It is read before the first call, and again when the server has
    /// refused what it had: it may have tokens that expire.
    File(PathBuf),
}

impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenOptions")
            .field("authorities", &self.authorities)
            .field("client_certificate", &self.client_certificate)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

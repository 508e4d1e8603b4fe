//! A URL becomes an engine.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use opkeep_cache::RemoteEngine;

use crate::error::OpenError;
use crate::net::Connector;
#[cfg(feature = "tls")]
use crate::net::Tls;
use crate::redis::RedisEngine;
use crate::url::{RedisUrl, RemoteUrl};

/// What an engine needs besides its URL.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Returns a variable of the environment, such as `AWS_ACCESS_KEY_ID`. `None`: there are no variables.
    pub variable: Option<Arc<Variable>>,
    /// A file of PEM certificates, whose authorities are trusted for TLS instead of the system's.
    pub authorities: Option<PathBuf>,
}

/// Returns the value of a variable of the environment.
pub type Variable = dyn Fn(&str) -> Option<String> + Send + Sync;

impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenOptions").field("authorities", &self.authorities).finish_non_exhaustive()
    }
}

/// Creates the client of the engine at `url`. It connects when it is called first.
///
/// # Errors
/// The URL is not valid, or this build has no client for it.
pub fn open(url: &str, options: &OpenOptions) -> Result<Arc<dyn RemoteEngine>, OpenError> {
    match url.parse()? {
        RemoteUrl::Redis(url) => Ok(Arc::new(RedisEngine::new(url.clone(), redis_connector(&url, options)?))),
        other => Err(OpenError::NoClient { scheme: other.scheme() }),
    }
}

#[cfg(feature = "tls")]
fn redis_connector(url: &RedisUrl, options: &OpenOptions) -> Result<Connector, OpenError> {
    let host = url.host.clone();
    Ok(match url.tls {
        true => Connector::encrypted(host, Tls::new(options.authorities.clone())),
        false => Connector::plain(host),
    })
}

#[cfg(not(feature = "tls"))]
fn redis_connector(url: &RedisUrl, _: &OpenOptions) -> Result<Connector, OpenError> {
    match url.tls {
        true => Err(OpenError::NoClient { scheme: "rediss" }),
        false => Ok(Connector::plain(url.host.clone())),
    }
}

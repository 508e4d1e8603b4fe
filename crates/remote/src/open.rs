//! A URL becomes an engine.

use std::sync::Arc;

use opkeep_cache::RemoteEngine;

use crate::error::OpenError;
use crate::file::FileEngine;
use crate::net::Connector;
#[cfg(feature = "tls")]
use crate::net::Tls;
use crate::options::OpenOptions;
#[cfg(feature = "grpc")]
use crate::reapi::ReapiEngine;
use crate::redis::RedisEngine;
use crate::s3::{Place, S3Engine};
use crate::url::{Host, RemoteUrl};

/// Creates the client of the engine at `url`. It connects when it is called first.
///
/// # Errors
/// The URL is not valid, or this build has no client for it, or headers would be sent unencrypted to another host.
pub fn open(url: &str, options: &OpenOptions) -> Result<Arc<dyn RemoteEngine>, OpenError> {
    match url.parse()? {
        RemoteUrl::Redis(url) => {
            let connector = connector(&url.host, url.tls, "rediss", options)?;
            Ok(Arc::new(RedisEngine::new(url, connector)))
        }
        RemoteUrl::S3(url) => {
            let connect =
                |place: &Place| connector(&place.endpoint.host, place.endpoint.tls, "https", options);
            Ok(Arc::new(S3Engine::new(url, options, connect)?))
        }
        RemoteUrl::File(url) => Ok(Arc::new(FileEngine::new(&url))),
        #[cfg(feature = "grpc")]
        RemoteUrl::Reapi(url) => {
            if options.headers.is_some() && !url.tls && !url.host.is_this_host() {
                return Err(OpenError::PlainHeaders);
            }
            let connector = connector(&url.host, url.tls, "grpcs", options)?;
            Ok(Arc::new(ReapiEngine::new(url, connector, options.headers.clone())))
        }
        #[cfg(not(feature = "grpc"))]
        other @ RemoteUrl::Reapi(_) => Err(OpenError::NoClient { scheme: other.scheme() }),
    }
}

#[cfg(feature = "tls")]
fn connector(host: &Host, tls: bool, _: &'static str, options: &OpenOptions) -> Result<Connector, OpenError> {
    Ok(match tls {
        true => Connector::encrypted(host.clone(), Tls::new(options)),
        false => Connector::plain(host.clone()),
    })
}

#[cfg(not(feature = "tls"))]
fn connector(host: &Host, tls: bool, scheme: &'static str, _: &OpenOptions) -> Result<Connector, OpenError> {
    match tls {
        true => Err(OpenError::NoClient { scheme }),
        false => Ok(Connector::plain(host.clone())),
    }
}

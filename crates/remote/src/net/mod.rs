//! Connections whose every step ends at a call's deadline, and within a tenth of a second of its cancellation.

mod connect;
mod limits;
mod pool;
mod resolve;
mod stream;
#[cfg(feature = "tls")]
mod tls;

pub(crate) use limits::check;
pub(crate) use pool::{Idle, Pool};
pub(crate) use stream::{Limited, Stream, remote_error};
#[cfg(feature = "tls")]
pub(crate) use tls::Tls;

use opkeep_cache::{RemoteContext, RemoteError};

use crate::url::Host;
use resolve::Resolver;

/// Makes connections to one server.
pub(crate) struct Connector {
    host: Host,
    resolver: Resolver,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
}

impl Connector {
    /// Connects to `host` without encryption.
    pub(crate) fn plain(host: Host) -> Self {
        Self {
            host,
            resolver: Resolver::system(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// Connects to `host` with TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn encrypted(host: Host, tls: Tls) -> Self {
        Self { host, resolver: Resolver::system(), tls: Some(tls) }
    }

    /// Makes a connection. The first bytes that are read or written over it perform TLS's handshake.
    pub(crate) fn connect(&self, context: &RemoteContext<'_>) -> Result<Stream, RemoteError> {
        let addresses = self.resolver.resolve(&self.host, context)?;
        let socket = connect::connect(&addresses, context)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return Ok(Stream::encrypted(socket, tls.session(&self.host)?));
        }
        Ok(Stream::plain(socket))
    }
}

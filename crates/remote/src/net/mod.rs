//! Connections whose every step ends at a call's deadline, and within a tenth of a second of its cancellation.

mod connect;
#[cfg(feature = "tls")]
mod handshake;
mod limits;
#[cfg(feature = "grpc")]
mod nonblocking;
mod pool;
mod resolve;
mod stream;
#[cfg(feature = "tls")]
mod tls;

#[cfg(feature = "tls")]
pub(crate) use handshake::PlainRequest;
pub(crate) use limits::check;
#[cfg(feature = "grpc")]
pub(crate) use limits::next_wait;
pub(crate) use pool::{Idle, Pool};
pub(crate) use stream::{Limited, Stream, TLS_RECORDS, remote_error};
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
    /// How to find out whether a server that gives no answer speaks no TLS.
    #[cfg(feature = "tls")]
    plain_request: Option<PlainRequest<'static>>,
}

impl Connector {
    /// Connects to `host` without encryption.
    pub(crate) fn plain(host: Host) -> Self {
        Self {
            host,
            resolver: Resolver::system(),
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(feature = "tls")]
            plain_request: None,
        }
    }

    /// Connects to `host` with TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn encrypted(host: Host, tls: Tls) -> Self {
        Self { host, resolver: Resolver::system(), tls: Some(tls), plain_request: None }
    }

    /// Sends `request` to a server that does not answer to TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn with_plain_request(self, request: PlainRequest<'static>) -> Self {
        Self { plain_request: Some(request), ..self }
    }

    /// Requests a protocol from the server of each encrypted connection, by the name that ALPN has for it.
    #[cfg(feature = "grpc")]
    pub(crate) fn with_protocol(self, name: &'static [u8]) -> Self {
        #[cfg(feature = "tls")]
        let connector = {
            let mut connector = self;
            connector.tls.iter_mut().for_each(|tls| tls.set_protocol(name));
            connector
        };
        #[cfg(not(feature = "tls"))]
        let connector = {
            let _ = name;
            self
        };
        connector
    }

    /// Makes a connection, which performs TLS's handshake.
    pub(crate) fn connect(&self, context: &RemoteContext<'_>) -> Result<Stream, RemoteError> {
        let addresses = self.resolver.resolve(&self.host, context)?;
        let socket = connect::connect(&addresses, context)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let mut stream = Stream::encrypted(socket, tls.session(&self.host)?);
            handshake::shake_hands(&mut stream, self.plain_request, &addresses, context)?;
            return Ok(stream);
        }
        Ok(Stream::plain(socket))
    }

    /// Whether the server answers to the first message of a handshake, and not without TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn speaks_tls(&self, context: &RemoteContext<'_>) -> bool {
        let context = &handshake::time_to_ask(context);
        let Ok(addresses) = self.resolver.resolve(&self.host, context) else { return false };
        let is_answered = |request: PlainRequest<'_>| request.is_answered(&addresses, context);
        !self.plain_request.is_some_and(is_answered)
            && handshake::answers_to_tls(&self.host, &addresses, context)
    }
}

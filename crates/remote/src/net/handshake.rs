//! TLS's handshake, and servers that do not speak TLS.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use opkeep_cache::{RemoteContext, RemoteError};

use super::connect::connect;
use super::stream::{Stream, TLS_RECORDS, remote_error};
use super::tls::unverified;
use crate::url::Host;

/// The time after which a server whose handshake has not ended is asked whether it answers without TLS, and that for its answer.
const ASKED_AFTER: Duration = Duration::from_secs(1);

/// A request without TLS, for servers that take the first bytes of a handshake for a part of a request, and wait for the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainRequest<'a> {
    pub(crate) bytes: &'a [u8],
    /// The bytes that an answer may begin with.
    pub(crate) answers: &'a [u8],
}

/// Performs the handshake of a connection to one of `addresses`. A server that does not answer to it is asked with `plain_request`.
pub(super) fn shake_hands(
    stream: &mut Stream,
    plain_request: Option<PlainRequest<'_>>,
    addresses: &[SocketAddr],
    context: &RemoteContext<'_>,
) -> Result<(), RemoteError> {
    let Some(request) = plain_request else { return handshake(stream, context) };
    match handshake(stream, &time_to_ask(context)) {
        Err(RemoteError::TimedOut) if context.time_left().is_ok() => {}
        ended => return ended,
    }
    if request.is_answered(addresses, &time_to_ask(context)) {
        let reason = "the server answers without TLS, which the URL demands".to_owned();
        return Err(RemoteError::Unreachable { reason });
    }
    handshake(stream, context)
}

/// Whether the server at one of `addresses` answers to the first message of a handshake.
pub(super) fn answers_to_tls(host: &Host, addresses: &[SocketAddr], context: &RemoteContext<'_>) -> bool {
    let mut hello = Vec::new();
    let Ok(mut session) = unverified(host) else { return false };
    if session.write_tls(&mut hello).is_err() {
        return false;
    }
    PlainRequest { bytes: &hello, answers: &TLS_RECORDS }.is_answered(addresses, context)
}

impl PlainRequest<'_> {
    /// Whether a server at one of `addresses` answers as expected.
    pub(super) fn is_answered(self, addresses: &[SocketAddr], context: &RemoteContext<'_>) -> bool {
        let Ok(socket) = connect(addresses, context) else { return false };
        let mut stream = Stream::plain(socket);
        let mut connection = stream.within(context);
        let mut first = [0];
        let answer = connection.write_all(self.bytes).and_then(|()| connection.read_exact(&mut first));
        answer.is_ok() && self.answers.contains(&first[0])
    }
}

/// Returns these limits for a question that takes no longer than [`ASKED_AFTER`].
pub(super) fn time_to_ask<'a>(context: &RemoteContext<'a>) -> RemoteContext<'a> {
    let mut context = *context;
    context.deadline = context.deadline.min(Instant::now() + ASKED_AFTER);
    context
}

fn handshake(stream: &mut Stream, context: &RemoteContext<'_>) -> Result<(), RemoteError> {
    stream.handshake(context).map_err(|error| {
        let reason = match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                "the server closed the connection before TLS began: it may not speak TLS"
            }
            _ if is_other_protocol(&error) => "the server answers without TLS, which the URL demands",
            _ => return remote_error(&error),
        };
        RemoteError::Unreachable { reason: reason.to_owned() }
    })
}

/// Whether what arrived is no record of TLS.
fn is_other_protocol(error: &io::Error) -> bool {
    use rustls::{Error, InvalidMessage};
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(inner, Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)))
}

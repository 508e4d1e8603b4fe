//! gRPC's side of a server in the test's process: HTTP/2 over one connection, in a thread of its own.

use std::future::{Future, poll_fn};
use std::net::TcpStream;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use opkeep_testkit::grpc::{Socket, framed};

/// How a call is answered.
#[derive(Clone)]
pub(super) enum Reply {
    /// With messages and the status OK.
    Messages(Vec<Vec<u8>>),
    /// With a status that is not OK.
    Status(u32, &'static str),
    /// With bytes as they are, and the status OK.
    Bytes(Vec<u8>),
    /// With a message, and no status.
    NoStatus(Vec<u8>),
    /// As a server that is none of gRPC.
    Http(u16, &'static str),
    /// Never.
    Never,
    /// By these headers alone.
    Headers(Vec<(&'static str, String)>),
    /// With messages, the status OK, and these headers after it.
    Trailers(Vec<Vec<u8>>, Vec<(&'static str, String)>),
    /// By the end of the connection, which this call and all later ones do not reach.
    GoAway,
    /// By the end of the connection at once, whatever other calls are in progress.
    Abrupt,
}

/// What follows the reply to a call.
#[derive(PartialEq, Eq)]
enum Next {
    GoOn,
    Shutdown,
    Abort,
}

/// What a server does.
pub(super) trait Handler: Send + Sync {
    /// Returns the reply to a call with these headers before its messages have arrived, if there is one.
    fn early(&self, method: &str, headers: &HeaderMap) -> Option<Reply>;

    /// Returns the reply to a call with these messages.
    fn reply(&self, method: &str, messages: Vec<Vec<u8>>) -> Reply;
}

/// Answers the calls over one connection.
pub(super) fn serve(stream: TcpStream, handler: &dyn Handler) {
    let socket = Socket::new(stream).unwrap();
    let work = async {
        let Ok(mut connection) = h2::server::handshake(socket.clone()).await else { return };
        let mut calls: Vec<Pin<Box<dyn Future<Output = Next> + '_>>> = Vec::new();
        poll_fn(|waker| {
            loop {
                match connection.poll_accept(waker) {
                    Poll::Ready(Some(Ok((request, respond)))) => {
                        calls.push(Box::pin(answer(request, respond, handler)));
                    }
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => break,
                }
            }
            let mut ends = Vec::new();
            calls.retain_mut(|call| match call.as_mut().poll(waker) {
                Poll::Pending => true,
                Poll::Ready(next) => {
                    ends.push(next);
                    false
                }
            });
            if ends.contains(&Next::Abort) {
                connection.abrupt_shutdown(h2::Reason::NO_ERROR);
            } else if ends.contains(&Next::Shutdown) {
                connection.graceful_shutdown();
            }
            Poll::Pending
        })
        .await;
    };
    socket.block_on(work).unwrap();
}

/// Answers one call.
async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    handler: &dyn Handler,
) -> Next {
    let method = request.uri().path().to_owned();
    assert_eq!(request.headers()["te"], "trailers");
    assert_eq!(request.headers()["content-type"], "application/grpc");
    assert!(request.headers()["grpc-timeout"].to_str().unwrap().ends_with('m'));
    let reply = match handler.early(&method, request.headers()) {
        Some(reply) => reply,
        None => {
            let Some(messages) = receive(request.into_body()).await else { return Next::GoOn };
            handler.reply(&method, messages)
        }
    };
    if matches!(reply, Reply::GoAway) {
        respond.send_reset(h2::Reason::REFUSED_STREAM);
        return Next::Shutdown;
    }
    if matches!(reply, Reply::Abrupt) {
        return Next::Abort;
    }
    if let Reply::Never = reply {
        std::future::pending::<()>().await;
    }
    // The client may have left.
    let _ = send(reply, &mut respond).await;
    Next::GoOn
}

async fn receive(mut body: RecvStream) -> Option<Vec<Vec<u8>>> {
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.ok()?;
        body.flow_control().release_capacity(data.len()).ok()?;
        bytes.extend_from_slice(&data);
    }
    let (mut rest, mut messages) = (&bytes[..], Vec::new());
    while let [0, a, b, c, d, after @ ..] = rest {
        let (message, after) = after.split_at(u32::from_be_bytes([*a, *b, *c, *d]) as usize);
        messages.push(message.to_vec());
        rest = after;
    }
    assert!(rest.is_empty());
    Some(messages)
}

async fn send(reply: Reply, respond: &mut SendResponse<Bytes>) -> Result<(), h2::Error> {
    let head = Response::builder().header("content-type", "application/grpc+proto");
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let bytes = match reply {
        Reply::Messages(messages) => messages.iter().flat_map(|message| framed(message)).collect(),
        Reply::Bytes(bytes) => bytes,
        Reply::NoStatus(message) => {
            trailers.clear();
            framed(&message)
        }
        Reply::Status(code, message) => {
            let head = head.header("grpc-status", code).header("grpc-message", message);
            return respond.send_response(head.body(()).unwrap(), true).map(drop);
        }
        Reply::Http(status, body) => {
            let head = Response::builder().status(status).header("content-type", "text/html");
            let mut stream = respond.send_response(head.body(()).unwrap(), false)?;
            return stream.send_data(body.into(), true);
        }
        Reply::Headers(headers) => {
            let head = headers.iter().fold(head, |head, (name, value)| head.header(*name, value));
            return respond.send_response(head.body(()).unwrap(), true).map(drop);
        }
        Reply::Trailers(messages, more) => {
            trailers.extend(more.iter().map(|(name, value)| (name.parse().ok(), value.parse().unwrap())));
            messages.iter().flat_map(|message| framed(message)).collect()
        }
        Reply::Never | Reply::GoAway | Reply::Abrupt => return Ok(()),
    };
    let mut stream = respond.send_response(head.body(()).unwrap(), false)?;
    send_all(&mut stream, bytes.into()).await?;
    stream.send_trailers(trailers)
}

async fn send_all(stream: &mut SendStream<Bytes>, mut bytes: Bytes) -> Result<(), h2::Error> {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let Some(capacity) = poll_fn(|waker| stream.poll_capacity(waker)).await else { return Ok(()) };
        let part = bytes.split_to(capacity?.min(bytes.len()));
        stream.send_data(part, false)?;
    }
    Ok(())
}

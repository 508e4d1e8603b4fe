//! gRPC: one call over a connection.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response, StatusCode};
use opkeep_text::counted;
use prost::Message;

use super::failure::Failure;
use super::messages::BlobStatus;
use super::status::{Code, Status};
use crate::headers::Headers;
use crate::renewable::Renewable;

/// The bytes before each message: whether it is compressed, and its length.
const PREFIX: usize = 5;
const USER_AGENT: &str = concat!("opkeep/", env!("CARGO_PKG_VERSION"));

/// Makes calls over one connection, in one thread.
#[derive(Clone)]
pub(super) struct Rpc {
    pub(super) requests: SendRequest<Bytes>,
    pub(super) server: Rc<ServerName>,
    /// The headers of each call besides those of gRPC.
    pub(super) headers: Arc<Headers>,
    /// Where these come from. A server may name them, and those of earlier calls.
    pub(super) credentials: Arc<Renewable<Headers>>,
    pub(super) deadline: Instant,
    /// Whether an answer to any call has arrived.
    pub(super) has_answer: Rc<Cell<bool>>,
}

/// What requests call their server.
#[derive(Clone, Debug)]
pub(super) struct ServerName {
    pub(super) scheme: &'static str,
    /// `host:port`.
    pub(super) authority: String,
}

/// The end of sending a message.
enum Sent {
    /// All of it is sent.
    All,
    /// The server answers already, and needs no more of the request.
    Answered(Response<RecvStream>),
}

impl Rpc {
    /// Calls a method that has one message as its request and one as its answer, of `largest` bytes at most.
    pub(super) async fn unary<T: Message + Default>(
        self,
        method: &'static str,
        request: &impl Message,
        largest: usize,
    ) -> Result<T, Failure> {
        let mut answer = None;
        let request = request.encode_to_vec();
        self.call(method, [request].into_iter(), largest, |message| match answer.replace(message) {
            None => Ok(()),
            Some(_) => Err(Failure::invalid(format!("`{method}` has two answers"))),
        })
        .await?;
        let answer = answer.ok_or_else(|| Failure::invalid(format!("`{method}` has no answer")))?;
        decode(method, answer)
    }

    /// Calls a method with several messages, and passes each message of its answer to `receive`.
    pub(super) async fn call(
        mut self,
        method: &'static str,
        messages: impl Iterator<Item = Vec<u8>>,
        largest: usize,
        mut receive: impl FnMut(Bytes) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let head = self.head(method)?;
        self.requests = self.requests.ready().await?;
        let (response, mut stream) = self.requests.send_request(head, false)?;
        let response = send(messages, &mut stream, response).await?;
        self.has_answer.set(true);
        let (head, mut body) = response.into_parts();
        if head.status != StatusCode::OK {
            return Err(self.status(&head.headers).unwrap_or(Status::of_http(head.status)).into());
        }
        if let Some(status) = self.status(&head.headers) {
            return ended(status);
        }
        if !is_grpc(&head.headers) {
            return Err(Failure::invalid("the server does not speak gRPC"));
        }
        receive_all(&mut body, largest, &mut receive).await?;
        let status = body.trailers().await?.and_then(|trailers| self.status(&trailers));
        ended(status.ok_or_else(|| Failure::invalid(format!("the answer to `{method}` has no status")))?)
    }

    /// Reads the status from the last headers of an answer. A server may name the credentials that it refuses.
    fn status(&self, headers: &HeaderMap) -> Option<Status> {
        Status::read(headers, |message| self.credentials.redacted(message))
    }

    /// The status of one blob of an answer, if it is not OK.
    pub(super) fn status_of_blob(&self, status: Option<BlobStatus>) -> Option<Status> {
        let status = status?;
        let code = Code(status.code.into());
        let redact = |message: &str| self.credentials.redacted(message);
        (code != Code::OK).then(|| Status::of_server(code, &status.message, redact))
    }

    fn head(&self, method: &str) -> Result<Request<()>, Failure> {
        let time = self.deadline.saturating_duration_since(Instant::now()).as_millis();
        // gRPC allows eight digits.
        let time = time.clamp(1, 99_999_999);
        let head = Request::post(format!("{}://{}{method}", self.server.scheme, self.server.authority))
            .header("te", "trailers")
            .header(CONTENT_TYPE, "application/grpc")
            .header("grpc-timeout", format!("{time}m"))
            .header("grpc-accept-encoding", "identity")
            .header("user-agent", USER_AGENT);
        let head = self.headers.iter().fold(head, |head, (name, value)| head.header(name, value));
        head.body(()).map_err(|error| Failure::invalid(error.to_string()))
    }
}

/// Decodes a message of the server's.
pub(super) fn decode<T: Message + Default>(method: &str, message: Bytes) -> Result<T, Failure> {
    T::decode(message).map_err(|error| Failure::invalid(format!("the answer to `{method}`: {error}")))
}

fn ended(status: Status) -> Result<(), Failure> {
    if status.code == Code::OK { Ok(()) } else { Err(status.into()) }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// Sends all messages, and returns the head of the answer.
async fn send(
    messages: impl Iterator<Item = Vec<u8>>,
    stream: &mut SendStream<Bytes>,
    mut response: ResponseFuture,
) -> Result<Response<RecvStream>, Failure> {
    let mut messages = messages.peekable();
    while let Some(message) = messages.next() {
        let is_last = messages.peek().is_none();
        if let Sent::Answered(response) = send_one(framed(&message)?, is_last, stream, &mut response).await? {
            return Ok(response);
        }
    }
    Ok(response.await?)
}

/// Returns a message with its prefix.
fn framed(message: &[u8]) -> Result<Bytes, Failure> {
    let length = u32::try_from(message.len())
        .map_err(|_| Failure::invalid(format!("a message of {}", counted(message.len(), "byte"))))?;
    let mut bytes = Vec::with_capacity(PREFIX + message.len());
    bytes.push(0);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(message);
    Ok(bytes.into())
}

/// Sends one message as the server takes it.
async fn send_one(
    mut bytes: Bytes,
    is_last: bool,
    stream: &mut SendStream<Bytes>,
    response: &mut ResponseFuture,
) -> Result<Sent, Failure> {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let capacity = poll_fn(|waker| match Pin::new(&mut *response).poll(waker) {
            Poll::Ready(response) => Poll::Ready(Err(response)),
            Poll::Pending => stream.poll_capacity(waker).map(Ok),
        });
        match capacity.await {
            Err(response) => return Ok(Sent::Answered(response?)),
            Ok(Some(Ok(capacity))) => {
                let part = bytes.split_to(capacity.min(bytes.len()));
                stream.send_data(part, is_last && bytes.is_empty())?;
            }
            // The stream has ended, and its answer or error follows.
            Ok(Some(Err(_)) | None) => return Ok(Sent::Answered(response.await?)),
        }
    }
    Ok(Sent::All)
}

/// Passes each message of an answer's body to `receive`.
async fn receive_all(
    body: &mut RecvStream,
    largest: usize,
    receive: &mut impl FnMut(Bytes) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut arrived = BytesMut::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        arrived.extend_from_slice(&data);
        while let Some(message) = next_message(&mut arrived, largest)? {
            receive(message)?;
        }
    }
    if arrived.is_empty() { Ok(()) } else { Err(Failure::invalid("the last message of an answer is cut")) }
}

/// Takes a message from what has arrived, if it is complete.
fn next_message(arrived: &mut BytesMut, largest: usize) -> Result<Option<Bytes>, Failure> {
    let [flag, a, b, c, d, ..] = arrived[..] else { return Ok(None) };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if flag != 0 {
        return Err(Failure::invalid("a message of an answer is compressed"));
    }
    if length > largest {
        let reason = format!(
            "a message of an answer has {length}, at most {largest} are allowed",
            length = counted(length, "byte")
        );
        return Err(Failure::Invalid(reason));
    }
    if arrived.len() < PREFIX + length {
        return Ok(None);
    }
    arrived.advance(PREFIX);
    Ok(Some(arrived.split_to(length).freeze()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_when_they_are_complete() {
        let bytes = [framed(b"first").unwrap(), framed(b"").unwrap(), framed(&[7; 300]).unwrap()].concat();
        for step in 1..=bytes.len() {
            let (mut arrived, mut taken) = (BytesMut::new(), Vec::new());
            for part in bytes.chunks(step) {
                arrived.extend_from_slice(part);
                while let Some(message) = next_message(&mut arrived, 300).unwrap() {
                    taken.push(message);
                }
            }
            assert_eq!(taken, [&b"first"[..], b"", &[7; 300]], "in steps of {step}");
            assert!(arrived.is_empty());
        }
    }

    #[test]
    fn a_message_that_is_compressed_or_too_large_is_refused() {
        let mut large = BytesMut::from(&[0, 0, 0, 1, 45][..]);
        assert_eq!(next_message(&mut large, 301), Ok(None));
        assert!(matches!(next_message(&mut large, 300), Err(Failure::Invalid(_))));
        let mut compressed = BytesMut::from(&[1, 0, 0, 0, 0][..]);
        assert!(matches!(next_message(&mut compressed, 300), Err(Failure::Invalid(_))));
    }
}

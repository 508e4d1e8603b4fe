//! One connection, and the loop that drives it. There is no runtime: the thread that makes a call polls the protocol and the
//! call's requests, and waits for the socket in between.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use h2::client::{self, SendRequest};
use opkeep_cache::RemoteContext;

use super::failure::Failure;
use super::transport::Transport;
use crate::net::{Idle, Stream, next_wait};

/// The bytes that may arrive before they are read, of one answer and of all of them. Blobs arrive in batches of 4 MiB.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
/// The size of the headers of an answer.
const LARGEST_HEADERS: u32 = 64 << 10;

pub(super) struct Connection {
    requests: SendRequest<Bytes>,
    protocol: client::Connection<Transport, Bytes>,
    transport: Transport,
}

/// Whether something that was polled can go on at once.
struct Awake(AtomicBool);

impl Wake for Awake {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Idle for Connection {
    /// The server may have sent a ping, or settings, which are answered here.
    fn is_idle(&mut self) -> bool {
        self.transport.begin_turn();
        self.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }
}

impl Connection {
    /// Begins the protocol.
    pub(super) fn open(stream: Stream, context: &RemoteContext<'_>) -> Result<Self, Failure> {
        let transport = Transport::new(stream);
        let mut settings = client::Builder::new();
        settings
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(LARGEST_HEADERS)
            .enable_push(false);
        let handshake = settings.handshake(transport.clone());
        let (requests, protocol) = drive(&transport, context, handshake, |_| Poll::Pending)??;
        Ok(Self { requests, protocol, transport })
    }

    /// Returns what sends requests.
    pub(super) fn requests(&self) -> SendRequest<Bytes> {
        self.requests.clone()
    }

    /// Drives the connection until `work` has ended.
    pub(super) fn run<T>(
        &mut self,
        work: impl Future<Output = T>,
        context: &RemoteContext<'_>,
    ) -> Result<T, Failure> {
        let transport = self.transport.clone();
        drive(&transport, context, work, |waker| self.poll(waker))
    }

    /// Reads and writes what can be without waiting. Ready when the connection has ended.
    fn poll(&mut self, waker: &mut Context<'_>) -> Poll<Failure> {
        let protocol = pin!(&mut self.protocol);
        protocol.poll(waker).map(|end| match end {
            Ok(()) => Failure::Unprocessed("the server has ended the connection".to_owned()),
            Err(error) => error.into(),
        })
    }
}

/// Polls `work` and `connection` until `work` has ended.
fn drive<T>(
    transport: &Transport,
    context: &RemoteContext<'_>,
    work: impl Future<Output = T>,
    mut connection: impl FnMut(&mut Context<'_>) -> Poll<Failure>,
) -> Result<T, Failure> {
    let awake = Arc::new(Awake(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&awake));
    let mut waker = Context::from_waker(&waker);
    let mut work = pin!(work);
    loop {
        let time = next_wait(context).map_err(Failure::Other)?;
        awake.0.store(false, Ordering::Release);
        transport.begin_turn();
        let end = connection(&mut waker);
        if transport.has_moved() {
            context.note_progress();
        }
        if let Poll::Ready(value) = work.as_mut().poll(&mut waker) {
            return Ok(value);
        }
        if let Poll::Ready(failure) = end {
            // Requests that had ended before it have given their answers.
            return Err(failure);
        }
        if !awake.0.load(Ordering::Acquire) {
            transport.wait(time).map_err(|error| Failure::Closed(error.to_string()))?;
        }
    }
}

//! The bytes below HTTP/2. The protocol reads and writes them without waiting; the connection waits when neither is possible.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::Stream;

/// A connection that the protocol and its loop share. One thread at a time uses it.
#[derive(Clone)]
pub(super) struct Transport(Arc<Mutex<State>>);

struct State {
    stream: Stream,
    /// Whether bytes wait to be written.
    is_blocked: bool,
    /// Whether bytes have arrived.
    has_read: bool,
    /// Whether bytes have moved in either direction in this turn.
    has_moved: bool,
    /// The number of reads until the protocol's turn ends.
    reads_left: usize,
}

/// The number of reads in one turn of the protocol. It reads until nothing has arrived, which is never if a server sends faster
/// than the protocol parses.
const READS_PER_TURN: usize = 64;

/// The maximum length of a line of HTTP/1 that is shown.
const LONGEST_LINE: usize = 100;

impl Transport {
    pub(super) fn new(stream: Stream) -> Self {
        Self(Arc::new(Mutex::new(State {
            stream,
            is_blocked: false,
            has_read: false,
            has_moved: false,
            reads_left: READS_PER_TURN,
        })))
    }

    /// Begins a turn of the protocol, which ends after some reads even if more has arrived.
    pub(super) fn begin_turn(&self) {
        let mut state = self.state();
        (state.reads_left, state.has_moved) = (READS_PER_TURN, false);
    }

    /// Whether bytes were read or written in this turn.
    pub(super) fn has_moved(&self) -> bool {
        self.state().has_moved
    }

    /// Waits for `time`, or until the protocol can go on.
    pub(super) fn wait(&self, time: Duration) -> io::Result<()> {
        let mut state = self.state();
        let is_blocked = state.is_blocked;
        state.stream.wait(is_blocked, time)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes or flushes.
    fn send<T>(&self, call: impl FnOnce(&mut Stream) -> io::Result<T>) -> Poll<io::Result<T>> {
        let mut state = self.state();
        let answer = poll(call(&mut state.stream));
        state.is_blocked = answer.is_pending();
        answer
    }
}

/// The loop polls the protocol again after each wait, so nothing is woken here.
fn poll<T>(answer: io::Result<T>) -> Poll<io::Result<T>> {
    match answer {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        answer => Poll::Ready(answer),
    }
}

/// Returns the first line of what a server sends, if it is that of an answer in HTTP/1.
fn http1_status(bytes: &[u8]) -> Option<String> {
    if !bytes.starts_with(b"HTTP/1.") {
        return None;
    }
    let line = bytes.iter().copied().take(LONGEST_LINE).take_while(|byte| !byte.is_ascii_control());
    Some(String::from_utf8_lossy(&line.collect::<Vec<_>>()).into_owned())
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.state();
        let Some(reads_left) = state.reads_left.checked_sub(1) else {
            // The loop checks the limits of the call, and continues without waiting.
            context.waker().wake_by_ref();
            return Poll::Pending;
        };
        state.reads_left = reads_left;
        let bytes = buffer.initialize_unfilled();
        let answer = poll(state.stream.read_now(bytes));
        state.has_moved |= matches!(answer, Poll::Ready(Ok(1..)));
        if let Poll::Ready(Ok(length)) = answer
            && !std::mem::replace(&mut state.has_read, true)
            && let Some(line) = bytes.get(..length).and_then(http1_status)
        {
            let reason =
                format!("the server, or a proxy before it, does not speak HTTP/2: it answers `{line}`");
            return Poll::Ready(Err(io::Error::other(reason)));
        }
        answer.map_ok(|length| buffer.advance(length))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let answer = self.send(|stream| stream.write_now(bytes));
        self.state().has_moved |= matches!(answer, Poll::Ready(Ok(1..)));
        answer
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.send(Stream::flush_now)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

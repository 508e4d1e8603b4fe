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
}

impl Transport {
    pub(super) fn new(stream: Stream) -> Self {
        Self(Arc::new(Mutex::new(State { stream, is_blocked: false })))
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

/// The loop polls the protocol again after each wait, so nothing is woken.
fn poll<T>(answer: io::Result<T>) -> Poll<io::Result<T>> {
    match answer {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        answer => Poll::Ready(answer),
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let answer = poll(self.state().stream.read_now(buffer.initialize_unfilled()));
        answer.map_ok(|length| buffer.advance(length))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.send(|stream| stream.write_now(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.send(Stream::flush_now)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

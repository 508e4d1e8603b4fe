//! A socket that does not block, and the loop that polls what uses it.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use rustix::event::{PollFd, PollFlags, poll as wait_for};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection in one thread. Clones are the same connection.
#[derive(Clone, Debug)]
pub struct Socket {
    stream: Rc<TcpStream>,
    /// Whether bytes wait to be written.
    is_blocked: Rc<Cell<bool>>,
}

/// Whether something that was polled can go on at once.
struct Awake(AtomicBool);

impl Wake for Awake {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Socket {
    /// Makes a connection one that does not block.
    ///
    /// # Errors
    /// The system does not do that.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: Rc::new(stream), is_blocked: Rc::default() })
    }

    /// Polls until the end of the work, and waits for the socket in between.
    ///
    /// # Errors
    /// The system does not wait.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> io::Result<T> {
        let awake = Arc::new(Awake(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&awake));
        let mut work = pin!(work);
        loop {
            if let Poll::Ready(value) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Ok(value);
            }
            if !awake.0.swap(false, Ordering::SeqCst) {
                let output = if self.is_blocked.get() { PollFlags::OUT } else { PollFlags::empty() };
                wait_for(&mut [PollFd::new(&*self.stream, PollFlags::IN | output)], None)?;
            }
        }
    }
}

fn poll<T>(answer: io::Result<T>) -> Poll<io::Result<T>> {
    match answer {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        answer => Poll::Ready(answer),
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let answer = poll((&*self.stream).read(buffer.initialize_unfilled()));
        answer.map_ok(|length| buffer.advance(length))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let answer = poll((&*self.stream).write(bytes));
        self.is_blocked.set(answer.is_pending());
        answer
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

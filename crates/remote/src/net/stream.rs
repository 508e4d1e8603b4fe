//! Bytes to and from a server, within the limits of a call.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use opkeep_cache::{RemoteContext, RemoteError};
use rustix::event::{PollFd, PollFlags};

use super::connect::poll_for;
use super::limits::{check, next_wait};

/// The first byte of what a server with TLS sends to a client that it does not know: of an alert, or of a message of the handshake.
pub(crate) const TLS_RECORDS: [u8; 2] = [0x15, 0x16];

/// A connection, encrypted or not.
pub(crate) struct Stream {
    /// A socket that does not block.
    pub(super) socket: TcpStream,
    #[cfg(feature = "tls")]
    pub(super) session: Option<Box<rustls::ClientConnection>>,
}

impl Stream {
    pub(super) fn plain(socket: TcpStream) -> Self {
        Self {
            socket,
            #[cfg(feature = "tls")]
            session: None,
        }
    }

    #[cfg(feature = "tls")]
    pub(super) fn encrypted(socket: TcpStream, session: rustls::ClientConnection) -> Self {
        Self { socket, session: Some(Box::new(session)) }
    }

    /// Performs TLS's handshake. After the end of a time limit, it can be continued.
    #[cfg(feature = "tls")]
    pub(super) fn handshake(&mut self, context: &RemoteContext<'_>) -> io::Result<()> {
        let mut socket = Socket { socket: &self.socket, context };
        if let Some(session) = &mut self.session {
            while session.is_handshaking() {
                session.complete_io(&mut socket)?;
            }
        }
        Ok(())
    }

    /// Reads and writes within the limits of one call. After an error, the state of the connection is not known.
    pub(crate) fn within<'a>(&'a mut self, context: &'a RemoteContext<'a>) -> Limited<'a> {
        Limited { stream: self, context }
    }

    /// Whether the server closed the connection, or sent what nothing waits for.
    pub(crate) fn has_input(&self) -> bool {
        let mut byte = [0];
        !matches!(self.socket.peek(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// A connection within the limits of a call.
pub(crate) struct Limited<'a> {
    stream: &'a mut Stream,
    context: &'a RemoteContext<'a>,
}

/// The socket below, which waits in slices.
struct Socket<'a> {
    socket: &'a TcpStream,
    context: &'a RemoteContext<'a>,
}

/// Returns the reason why a connection failed.
pub(crate) fn remote_error(error: &io::Error) -> RemoteError {
    let limit = error.get_ref().and_then(|inner| inner.downcast_ref::<RemoteError>());
    limit.cloned().unwrap_or_else(|| RemoteError::Unreachable { reason: error.to_string() })
}

impl Socket<'_> {
    /// Makes a call that does not block, until it succeeds or the limits end it. They also end it if there is always something to read.
    fn wait_for<T>(
        &self,
        flags: PollFlags,
        mut call: impl FnMut(&mut &TcpStream) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut socket = self.socket;
        loop {
            match call(&mut socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                answer => {
                    let answer = answer?;
                    self.context.note_progress();
                    check(self.context).map_err(io::Error::other)?;
                    return Ok(answer);
                }
            }
            let time = next_wait(self.context).map_err(io::Error::other)?;
            poll_for(&mut [PollFd::new(self.socket, flags)], time)?;
        }
    }
}

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait_for(PollFlags::IN, |socket| socket.read(buffer))
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wait_for(PollFlags::OUT, |socket| socket.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Limited<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut socket = Socket { socket: &self.stream.socket, context: self.context };
        #[cfg(feature = "tls")]
        if let Some(session) = &mut self.stream.session {
            return rustls::Stream::new(session.as_mut(), &mut socket).read(buffer);
        }
        socket.read(buffer)
    }
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut socket = Socket { socket: &self.stream.socket, context: self.context };
        #[cfg(feature = "tls")]
        if let Some(session) = &mut self.stream.session {
            return rustls::Stream::new(session.as_mut(), &mut socket).write(bytes);
        }
        socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut socket = Socket { socket: &self.stream.socket, context: self.context };
        #[cfg(feature = "tls")]
        if let Some(session) = &mut self.stream.session {
            return rustls::Stream::new(session.as_mut(), &mut socket).flush();
        }
        socket.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    use opkeep_cache::CancelToken;

    use super::*;

    /// A server that always has more to send leaves no wait in which the limits would be checked.
    #[test]
    fn limits_end_a_call_whose_answer_never_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        listener.accept().unwrap().0.write_all(&[0; 64]).unwrap();
        socket.peek(&mut [0]).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut stream = Stream::plain(socket);
        let mut read = |context: &RemoteContext<'_>| {
            let answer = stream.within(context).read(&mut [0; 8]);
            answer.map_err(|error| remote_error(&error))
        };
        let (now, cancel) = (Instant::now(), CancelToken::new());
        let within = RemoteContext::new(now + Duration::from_secs(60), Some(&cancel));
        assert_eq!(read(&within), Ok(8));
        assert_eq!(read(&RemoteContext::new(now, None)), Err(RemoteError::TimedOut));
        cancel.cancel();
        assert_eq!(read(&within), Err(RemoteError::Cancelled));
    }
}

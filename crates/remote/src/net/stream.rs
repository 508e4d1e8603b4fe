//! Bytes to and from a server, within the limits of a call.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use opkeep_cache::{RemoteContext, RemoteError};
use rustix::event::{PollFd, PollFlags};

use super::connect::poll_for;
use super::limits::next_wait;

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
    /// Makes a call that does not block, until it succeeds or the limits end it.
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
                    self.context.note_progress();
                    return answer;
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

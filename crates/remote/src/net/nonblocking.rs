//! Bytes to and from a server without waiting, for a protocol that reads and writes at the same time.

use std::io::{self, Read, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use super::connect::poll_for;
use super::stream::Stream;

impl Stream {
    /// Reads what has arrived; nothing at the end of the connection. `WouldBlock`: nothing has arrived.
    pub(crate) fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.now(|stream| stream.read(buffer))
    }

    /// Writes what the connection takes. `WouldBlock`: it takes nothing.
    pub(crate) fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.now(|stream| stream.write(bytes))
    }

    /// Sends what was written. `WouldBlock`: a part is not sent.
    pub(crate) fn flush_now(&mut self) -> io::Result<()> {
        self.now(|stream| stream.flush())
    }

    /// Waits for `time`, or until bytes have arrived, or, with `is_blocked`, until the connection takes bytes.
    pub(crate) fn wait(&mut self, is_blocked: bool, time: Duration) -> io::Result<()> {
        #[cfg(feature = "tls")]
        let is_blocked = match &mut self.session {
            None => is_blocked,
            // Flushing also reads: what it has read is no longer in the socket.
            Some(session) => match session.process_new_packets() {
                Ok(state) if state.plaintext_bytes_to_read() == 0 => session.wants_write(),
                _ => return Ok(()),
            },
        };
        let flags = if is_blocked { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        poll_for(&mut [PollFd::new(&self.socket, flags)], time)
    }

    fn now<T>(&mut self, mut call: impl FnMut(&mut dyn ReadWrite) -> io::Result<T>) -> io::Result<T> {
        let mut socket = &self.socket;
        loop {
            #[cfg(feature = "tls")]
            let answer = match &mut self.session {
                None => call(&mut socket),
                Some(session) => call(&mut rustls::Stream::new(session.as_mut(), &mut socket)),
            };
            #[cfg(not(feature = "tls"))]
            let answer = call(&mut socket);
            match answer {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                answer => return answer,
            }
        }
    }
}

trait ReadWrite: Read + Write {}

impl<T: Read + Write> ReadWrite for T {}

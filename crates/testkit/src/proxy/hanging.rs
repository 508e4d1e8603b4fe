//! A port where connecting gets no answer.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::port::Port;

/// The time after which connecting is taken to hang.
const HANGS_AFTER: Duration = Duration::from_millis(200);

/// A port on loopback where connecting gets no answer, as from a host behind a firewall that drops packets. A proxy that is silent,
/// by contrast, accepts connections.
#[derive(Debug)]
pub struct HangingPort {
    port: Port,
    _listener: TcpListener,
    /// They wait to be accepted.
    _waiting: Vec<TcpStream>,
}

impl HangingPort {
    /// Makes such a port: its listener accepts nothing, and its queue is full.
    ///
    /// # Errors
    /// No port is to be had, or the kernel lets connections into a full queue.
    pub fn start() -> io::Result<Self> {
        let port = Port::reserve()?;
        let listener = TcpListener::bind(port.address())?;
        rustix::net::listen(&listener, 0)?;
        let mut waiting = Vec::new();
        while waiting.len() < 10 {
            match TcpStream::connect_timeout(&port.address(), HANGS_AFTER) {
                Ok(stream) => waiting.push(stream),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Ok(Self { port, _listener: listener, _waiting: waiting });
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("connections do not hang here"))
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }
}

//! Ports on loopback that stay reserved while nothing listens on them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that the kernel gives to outgoing connections: none of them takes the port of a server that restarts,
/// or connects to itself.
const FIRST: u16 = 15_000;
const COUNT: u16 = 16_000;

/// A port on 127.0.0.1 that no other test takes, in any process, until this is dropped.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// The lock: a Unix socket without a file. It is in the network namespace that the port is in, and ends with the process.
    _lock: UnixListener,
}

impl Port {
    /// Reserves a port on which nothing listens.
    ///
    /// # Errors
    /// All are taken.
    pub fn reserve() -> io::Result<Self> {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let start = std::process::id() % u32::from(COUNT);
        for _ in 0..COUNT {
            let offset = u32::from(NEXT.fetch_add(1, Ordering::Relaxed) % COUNT);
            let number = FIRST + ((start + 7 * offset) % u32::from(COUNT)) as u16;
            if let Ok(port) = Self::lock(number) {
                return Ok(port);
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    /// Reserves this port, if it is free.
    fn lock(number: u16) -> io::Result<Self> {
        let name = UnixAddr::from_abstract_name(format!("opkeep-test-port-{number}"))?;
        let lock = UnixListener::bind_addr(&name)?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).map(|_| Self { number, _lock: lock })
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_reserved_once() {
        let port = Port::reserve().unwrap();
        // As another process does.
        assert_eq!(Port::lock(port.number()).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_ne!(Port::reserve().unwrap().number(), port.number());
    }

    #[test]
    fn a_port_with_a_server_is_not_reserved() {
        let port = Port::reserve().unwrap();
        let number = port.number();
        let _server = TcpListener::bind(port.address()).unwrap();
        drop(port);
        assert!(Port::lock(number).is_err());
    }
}

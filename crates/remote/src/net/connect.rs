//! A connection to one of several addresses.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use opkeep_cache::{RemoteContext, RemoteError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect as begin_connect, socket_with, sockopt};

use super::limits::next_wait;

/// The time for which an address is tried alone. A host may have an address that nothing answers, often its first.
const HEAD_START: Duration = Duration::from_millis(250);

/// Connects to the first of `addresses` that answers. The socket does not block.
pub(super) fn connect(
    addresses: &[SocketAddr],
    context: &RemoteContext<'_>,
) -> Result<TcpStream, RemoteError> {
    let mut addresses = addresses.iter();
    let mut pending: Vec<(SocketAddr, OwnedFd)> = Vec::new();
    let mut failure = String::from("no address");
    let mut next_start = Instant::now();
    loop {
        let wait = next_wait(context)?;
        if pending.is_empty() || Instant::now() >= next_start {
            match addresses.next() {
                Some(address) => match begin(address) {
                    Ok(socket) => pending.push((*address, socket)),
                    Err(error) => failure = format!("{address}: {}", io::Error::from(error)),
                },
                None if pending.is_empty() => return Err(RemoteError::Unreachable { reason: failure }),
                None => {}
            }
            next_start = Instant::now() + HEAD_START;
        }
        wait_until_ready(&pending, wait.min(HEAD_START))?;
        let mut tried = Vec::new();
        for (address, socket) in pending {
            match state(&socket) {
                Ok(State::Connected) => {
                    context.note_progress();
                    return prepared(socket);
                }
                Ok(State::Pending) => tried.push((address, socket)),
                Err(error) => failure = format!("{address}: {}", io::Error::from(error)),
            }
        }
        pending = tried;
    }
}

fn begin(address: &SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match begin_connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(error) => Err(error),
    }
}

fn wait_until_ready(sockets: &[(SocketAddr, OwnedFd)], time: Duration) -> Result<(), RemoteError> {
    let mut sockets: Vec<_> = sockets.iter().map(|(_, socket)| PollFd::new(socket, PollFlags::OUT)).collect();
    poll_for(&mut sockets, time).map_err(|error| RemoteError::Unreachable { reason: error.to_string() })
}

/// Waits for `time`, or until one of the files is ready.
pub(super) fn poll_for(files: &mut [PollFd<'_>], time: Duration) -> io::Result<()> {
    let time = Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    };
    match poll(files, Some(&time)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

enum State {
    Connected,
    Pending,
}

fn state(socket: &OwnedFd) -> Result<State, Errno> {
    sockopt::socket_error(socket)??;
    match rustix::net::getpeername(socket) {
        Ok(_) => Ok(State::Connected),
        Err(Errno::NOTCONN) => Ok(State::Pending),
        Err(error) => Err(error),
    }
}

fn prepared(socket: OwnedFd) -> Result<TcpStream, RemoteError> {
    let socket = TcpStream::from(socket);
    // A request is written as a whole, and its answer awaited.
    socket.set_nodelay(true).map_err(|error| RemoteError::Unreachable { reason: error.to_string() })?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use opkeep_cache::CancelToken;

    use super::*;

    /// A listener whose queue is full: connections to it are neither accepted nor refused.
    fn full() -> (SocketAddr, Vec<OwnedFd>) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        rustix::net::bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let listener = TcpListener::from(listener);
        let address = listener.local_addr().unwrap();
        let mut kept: Vec<_> = (0..8).map(|_| begin(&address).unwrap()).collect();
        kept.push(listener.into());
        (address, kept)
    }

    fn closed() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    fn context(limit: Duration) -> RemoteContext<'static> {
        RemoteContext::new(Instant::now() + limit, None)
    }

    #[test]
    fn an_address_that_nothing_answers_delays_the_next_one_only() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        let (black_hole, _kept) = full();
        let addresses = [closed(), black_hole, good];
        let socket = connect(&addresses, &context(Duration::from_secs(60))).unwrap();
        assert_eq!(socket.peer_addr().unwrap(), good);
    }

    #[test]
    fn nothing_answers() {
        let (black_hole, _kept) = full();
        let answer = connect(&[black_hole], &context(Duration::from_millis(150))).map(drop);
        assert_eq!(answer, Err(RemoteError::TimedOut));
        let cancel = CancelToken::new();
        cancel.cancel();
        let context = RemoteContext::new(Instant::now() + Duration::from_secs(600), Some(&cancel));
        assert_eq!(connect(&[black_hole], &context).map(drop), Err(RemoteError::Cancelled));
    }

    #[test]
    fn all_refuse() {
        let closed = closed();
        match connect(&[closed, closed], &context(Duration::from_secs(60))) {
            Err(RemoteError::Unreachable { reason }) => {
                assert!(reason.contains(&closed.to_string()), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
}

//! The threads of a proxy: one accepts, and each connection has two for each direction.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::edit::Edits;
use super::settings::Direction;
use super::state::{Pair, Shared, Step};

/// The most bytes that are read at a time, and the most pieces that wait in a direction.
const PIECE: usize = 64 << 10;
const PIECES: usize = 64;
/// The time after which a thread that cannot write looks whether it should end.
const WRITE_TIMEOUT: Duration = Duration::from_millis(20);

/// The time that the server's host has to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What a side sent.
enum Piece {
    Bytes {
        due: Instant,
        bytes: Vec<u8>,
    },
    End {
        due: Instant,
    },
    /// The side reset its connection.
    Reset,
}

/// Accepts connections and relays them, until the proxy ends and all connections are closed.
pub(super) fn run(shared: &Shared) {
    thread::scope(|scope| {
        while let Some(listener) = shared.listener() {
            match listener.accept() {
                Ok((client, _)) => {
                    scope.spawn(move || relay(shared, client));
                }
                // It was shut down, and is replaced later; or the client went away.
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
    });
}

/// Listens on the port again, whose older connections may still be open.
pub(super) fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port))
}

/// Relays a connection until both directions have ended. If the server cannot be reached, the client's is closed.
fn relay(shared: &Shared, client: TcpStream) {
    let Ok(server) = TcpStream::connect_timeout(&shared.server(), CONNECT_TIMEOUT) else { return };
    let pair = Arc::new(Pair { client, server });
    for stream in [&pair.client, &pair.server] {
        if stream.set_nodelay(true).and_then(|()| stream.set_write_timeout(Some(WRITE_TIMEOUT))).is_err() {
            return;
        }
    }
    let id = shared.add(&pair);
    thread::scope(|scope| {
        for direction in Direction::BOTH {
            let (sender, receiver) = sync_channel(PIECES);
            let pair = &*pair;
            scope.spawn(move || read(shared, id, direction, pair.source(direction), &sender));
            scope.spawn(move || forward(shared, id, direction, pair.destination(direction), &receiver));
        }
    });
    shared.remove(id);
}

/// Reads what a side sends, until it ends its stream.
fn read(shared: &Shared, id: u64, direction: Direction, mut source: &TcpStream, pieces: &SyncSender<Piece>) {
    let mut buffer = vec![0; PIECE];
    loop {
        let read = match source.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read,
        };
        let settings = shared.settings();
        let delay = match direction {
            Direction::ToServer => settings.delay_to_server,
            Direction::ToClient => settings.delay_to_client,
        };
        let due = Instant::now() + delay;
        let (piece, is_last) = match read {
            Ok(0) => (Piece::End { due }, true),
            Ok(length) => (Piece::Bytes { due, bytes: buffer[..length].to_vec() }, false),
            Err(_) => (Piece::Reset, true),
        };
        if direction == Direction::ToServer && !is_last {
            shared.record_request(id);
        }
        if pieces.send(piece).is_err() || is_last {
            return;
        }
    }
}

/// Forwards what a side sent, until it ends its stream.
fn forward(
    shared: &Shared,
    id: u64,
    direction: Direction,
    destination: &TcpStream,
    pieces: &Receiver<Piece>,
) {
    let mut edits = Edits::default();
    for piece in pieces {
        match piece {
            Piece::Bytes { due, bytes } => {
                shared.wait_until(id, direction, due);
                forward_bytes(shared, id, direction, destination, &mut edits, &bytes);
            }
            Piece::End { due } => {
                shared.wait_until(id, direction, due);
                shared.wait_for_network(id, direction);
                shared.end_stream(id, direction);
            }
            Piece::Reset => {
                shared.wait_for_network(id, direction);
                shared.end_connection(id, true);
            }
        }
    }
}

fn forward_bytes(
    shared: &Shared,
    id: u64,
    direction: Direction,
    destination: &TcpStream,
    edits: &mut Edits,
    mut bytes: &[u8],
) {
    while !bytes.is_empty() {
        let rate = shared.settings().bytes_per_second;
        // In pieces of a fiftieth of a second.
        let most = rate.map_or(usize::MAX, |rate| usize::try_from(rate / 50).unwrap_or(usize::MAX).max(1));
        match shared.step(id, direction, bytes.len().min(most)) {
            Step::Edit(kind) => edits.begin(kind),
            Step::Stop(fault) => shared.happen(id, direction, fault),
            Step::Discard => return,
            Step::Forward(length, fault) => {
                let (passed, rest) = bytes.split_at(length);
                bytes = rest;
                let began = Instant::now();
                let written = write(destination, &edits.apply(passed), || shared.has_ended(id, direction));
                if let Some(fault) = fault {
                    shared.happen(id, direction, fault);
                }
                match written {
                    Ok(()) => {}
                    Err(_) => return shared.end_connection(id, true),
                }
                if let Some(rate) = rate {
                    let time = Duration::from_secs_f64(length as f64 / rate.max(1) as f64);
                    shared.wait_until(id, direction, began + time);
                }
            }
        }
    }
}

/// Writes all bytes, unless the direction ends meanwhile.
fn write(mut destination: &TcpStream, mut bytes: &[u8], has_ended: impl Fn() -> bool) -> io::Result<()> {
    while !bytes.is_empty() {
        match destination.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => bytes = &bytes[length..],
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut if !has_ended() => {}
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Ok(()),
                _ => return Err(error),
            },
        }
    }
    Ok(())
}

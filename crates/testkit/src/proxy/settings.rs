//! What a proxy does to the bytes that pass.

use std::time::Duration;

/// Settings of a proxy. By default it changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// Whether new connections are refused, as by a host on which no server runs.
    pub refuses: bool,
    /// Whether nothing passes, as in a network that is cut. Connections stay open, new ones are accepted, and what was sent
    /// passes later, when this is false.
    pub is_silent: bool,
    /// The time that each byte takes from the client to the server, on top of the network's.
    pub delay_to_server: Duration,
    /// The time that each byte takes from the server to the client, on top of the network's.
    pub delay_to_client: Duration,
    /// The most bytes that pass a second, in each connection and in each direction.
    pub bytes_per_second: Option<u64>,
    /// What happens at which byte.
    pub faults: Vec<Fault>,
}

impl ProxySettings {
    /// Settings with one fault, and nothing else.
    pub fn with_fault(fault: Fault) -> Self {
        Self { faults: vec![fault], ..Self::default() }
    }
}

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

impl Direction {
    pub(super) const BOTH: [Self; 2] = [Self::ToServer, Self::ToClient];

    pub(super) fn index(self) -> usize {
        self as usize
    }
}

/// The bytes that the position of a fault counts, since the settings were set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Those of one direction.
    Only(Direction),
    /// All, in the order in which they pass.
    Both,
}

impl Counted {
    pub(super) fn includes(self, direction: Direction) -> bool {
        match self {
            Self::Only(only) => only == direction,
            Self::Both => true,
        }
    }

    /// The position, from the bytes of each direction.
    pub(super) fn position(self, passed: [u64; 2]) -> u64 {
        match self {
            Self::Only(direction) => passed[direction.index()],
            Self::Both => passed.iter().sum(),
        }
    }
}

/// Something that happens once exactly `at` bytes have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The number of bytes before it.
    pub at: u64,
    /// The bytes that count.
    pub counted: Counted,
    /// Whether each connection counts its own bytes and has the fault. Otherwise the bytes of all connections count, and the
    /// fault happens once.
    pub in_each_connection: bool,
    /// What happens.
    pub kind: FaultKind,
}

impl Fault {
    /// A fault that happens once, after `at` bytes in both directions and all connections.
    pub fn after(at: u64, kind: FaultKind) -> Self {
        Self { at, counted: Counted::Both, in_each_connection: false, kind }
    }

    /// The same, where only bytes of this direction count.
    pub fn only(self, direction: Direction) -> Self {
        Self { counted: Counted::Only(direction), ..self }
    }

    /// The same, in each connection.
    pub fn in_each_connection(self) -> Self {
        Self { in_each_connection: true, ..self }
    }
}

/// What happens to a connection at a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Both sides see the end of the stream, as if the other side had closed the connection.
    Close,
    /// Both sides see a reset, as if the other side's process had been killed. Bytes that were forwarded before, and that a side
    /// has not read yet, may be lost.
    Reset,
    /// The receiver of these bytes sees the end of the stream. The other direction goes on.
    HalfClose,
    /// Nothing passes any more in the connection, which stays open until other settings are set.
    Silence,
    /// The next byte is changed: these bits are inverted.
    Corrupt(u8),
    /// The next bytes, of this number, pass twice.
    Repeat(usize),
    /// The next bytes, of this number, change places with as many that follow.
    Swap(usize),
    /// The next bytes, of this number, do not pass.
    Omit(usize),
}

//! What the threads of a proxy share: settings, counts, open connections, and which fault is next.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use super::settings::{Direction, Fault, FaultKind, ProxySettings};

/// What passed through a proxy since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyCounts {
    /// Connections that were accepted.
    pub connections: u64,
    /// Those of them that are open.
    pub open: u64,
    /// Bytes from clients, without those that a fault added.
    pub bytes_to_server: u64,
    /// Bytes from the server, without those that a fault added.
    pub bytes_to_client: u64,
    /// How often a connection's client began to send, at first or after it was sent an answer. A request whose answer begins
    /// before the request ends may count twice, except with a delay that is longer than sending it takes.
    pub round_trips: u64,
}

/// A connection to a client, and the one to the server that belongs to it.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) client: TcpStream,
    pub(super) server: TcpStream,
}

impl Pair {
    pub(super) fn source(&self, direction: Direction) -> &TcpStream {
        match direction {
            Direction::ToServer => &self.client,
            Direction::ToClient => &self.server,
        }
    }

    pub(super) fn destination(&self, direction: Direction) -> &TcpStream {
        match direction {
            Direction::ToServer => &self.server,
            Direction::ToClient => &self.client,
        }
    }

    /// Shuts down both; an error means that the other side did already.
    fn shutdown(&self, how: Shutdown) {
        for stream in [&self.client, &self.server] {
            let _ = stream.shutdown(how);
        }
    }
}

/// Bytes that passed since the settings were set, by direction, and the faults that happened.
#[derive(Debug, Default)]
struct Progress {
    passed: [u64; 2],
    stages: Vec<Stage>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Ahead,
    /// All bytes before it are with a thread, which makes the fault happen as soon as it has forwarded them.
    Reached,
    Happened,
}

#[derive(Debug)]
struct Open {
    pair: Arc<Pair>,
    progress: Progress,
    is_silent: bool,
    /// Whether a direction forwards no bytes any more.
    has_ended: [bool; 2],
    is_reset: bool,
    /// Whether the client got an answer after its last request.
    is_answered: bool,
}

/// What a thread does with the next bytes of its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Forwards this number of bytes; then the fault of this number happens.
    Forward(usize, Option<usize>),
    /// Begins a change of the bytes.
    Edit(FaultKind),
    /// Makes the fault of this number happen.
    Stop(usize),
    /// Throws away the bytes.
    Discard,
}

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    settings: ProxySettings,
    server: SocketAddr,
    listener: Option<Arc<TcpListener>>,
    counts: ProxyCounts,
    progress: Progress,
    /// The faults that happened since the settings were set.
    happened: u64,
    connections: BTreeMap<u64, Open>,
    is_ending: bool,
}

impl Shared {
    pub(super) fn new(server: SocketAddr, listener: TcpListener) -> Self {
        let state = State {
            settings: ProxySettings::default(),
            server,
            listener: Some(Arc::new(listener)),
            counts: ProxyCounts::default(),
            progress: Progress::default(),
            happened: 0,
            connections: BTreeMap::new(),
            is_ending: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, time: Option<Duration>) -> MutexGuard<'a, State> {
        match time {
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(time) => self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0,
        }
    }

    pub(super) fn settings(&self) -> ProxySettings {
        self.lock().settings.clone()
    }

    pub(super) fn counts(&self) -> ProxyCounts {
        let state = self.lock();
        ProxyCounts { open: state.connections.len() as u64, ..state.counts }
    }

    pub(super) fn happened(&self) -> u64 {
        self.lock().happened
    }

    pub(super) fn server(&self) -> SocketAddr {
        self.lock().server
    }

    pub(super) fn set_server(&self, server: SocketAddr) {
        self.lock().server = server;
    }

    /// Replaces the settings. The positions of faults count from here. `listen` is called to accept connections again.
    pub(super) fn set(
        &self,
        settings: ProxySettings,
        listen: impl FnOnce() -> io::Result<TcpListener>,
    ) -> io::Result<()> {
        let mut state = self.lock();
        if settings.refuses {
            state.stop_listening();
        } else if state.listener.is_none() {
            state.listener = Some(Arc::new(listen()?));
        }
        state.progress = Progress::new(&settings.faults);
        state.happened = 0;
        for open in state.connections.values_mut() {
            open.progress = Progress::new(&settings.faults);
            open.is_silent = false;
        }
        state.settings = settings;
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits until connections are accepted; `None`: the proxy ends.
    pub(super) fn listener(&self) -> Option<Arc<TcpListener>> {
        let mut state = self.lock();
        loop {
            if state.is_ending {
                return None;
            }
            if let Some(listener) = &state.listener {
                return Some(Arc::clone(listener));
            }
            state = self.wait(state, None);
        }
    }

    /// Ends all connections and threads.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.is_ending = true;
        state.stop_listening();
        for open in state.connections.values_mut() {
            open.has_ended = [true, true];
            open.pair.shutdown(Shutdown::Both);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Adds an accepted connection, and returns its number.
    pub(super) fn add(&self, pair: &Arc<Pair>) -> u64 {
        let mut state = self.lock();
        state.counts.connections += 1;
        let id = state.counts.connections;
        if state.is_ending {
            pair.shutdown(Shutdown::Both);
        }
        let open = Open {
            pair: Arc::clone(pair),
            progress: Progress::new(&state.settings.faults),
            is_silent: false,
            has_ended: [state.is_ending; 2],
            is_reset: false,
            is_answered: true,
        };
        state.connections.insert(id, open);
        // A fault before the first byte.
        for fault in 0..state.settings.faults.len() {
            if state.settings.faults[fault].at == 0 && state.stops(fault) && state.is_ahead(id, fault) {
                state.reach(id, fault, Stage::Reached);
                state.happen(id, fault, None);
            }
        }
        id
    }

    /// Removes a connection whose threads have ended.
    pub(super) fn remove(&self, id: u64) {
        self.lock().connections.remove(&id);
        self.changed.notify_all();
    }

    /// Records that a client sent bytes.
    pub(super) fn record_request(&self, id: u64) {
        let mut state = self.lock();
        let Some(open) = state.connections.get_mut(&id) else { return };
        let begins = std::mem::take(&mut open.is_answered);
        state.counts.round_trips += u64::from(begins);
    }

    /// Waits until this time, or until the direction forwards nothing more.
    pub(super) fn wait_until(&self, id: u64, direction: Direction, time: Instant) {
        let mut state = self.lock();
        loop {
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() || state.has_ended(id, direction) {
                return;
            }
            state = self.wait(state, Some(left));
        }
    }

    /// Waits while nothing passes, unless the direction ends.
    pub(super) fn wait_for_network(&self, id: u64, direction: Direction) {
        let mut state = self.lock();
        while !state.has_ended(id, direction) && state.must_wait(id, direction) {
            state = self.wait(state, None);
        }
    }

    /// Whether the direction forwards nothing more.
    pub(super) fn has_ended(&self, id: u64, direction: Direction) -> bool {
        self.lock().has_ended(id, direction)
    }

    /// Decides on the next bytes of a direction, of which `available` are there.
    pub(super) fn step(&self, id: u64, direction: Direction, available: usize) -> Step {
        let mut state = self.lock();
        loop {
            if state.has_ended(id, direction) {
                return Step::Discard;
            }
            if state.must_wait(id, direction) {
                state = self.wait(state, None);
                continue;
            }
            return state.step(id, direction, available);
        }
    }

    /// Makes a fault happen whose bytes the thread of this direction has forwarded.
    pub(super) fn happen(&self, id: u64, direction: Direction, fault: usize) {
        self.lock().happen(id, fault, Some(direction));
        self.changed.notify_all();
    }

    /// Ends the stream to the destination, after its source ended it.
    pub(super) fn end_stream(&self, id: u64, direction: Direction) {
        let state = self.lock();
        if let Some(open) = state.connections.get(&id).filter(|open| !open.is_reset) {
            let _ = open.pair.destination(direction).shutdown(Shutdown::Write);
        }
    }

    /// Ends a connection, by closing or by a reset.
    pub(super) fn end_connection(&self, id: u64, by_reset: bool) {
        if let Some(open) = self.lock().connections.get_mut(&id) {
            open.end(by_reset);
        }
        self.changed.notify_all();
    }

    /// Ends all connections, by closing or by a reset.
    pub(super) fn end_connections(&self, by_reset: bool) {
        self.lock().connections.values_mut().for_each(|open| open.end(by_reset));
        self.changed.notify_all();
    }
}

impl Progress {
    fn new(faults: &[Fault]) -> Self {
        Self { passed: [0; 2], stages: vec![Stage::Ahead; faults.len()] }
    }
}

impl Open {
    fn end(&mut self, by_reset: bool) {
        self.has_ended = [true, true];
        if by_reset {
            self.is_reset = true;
            // The kernel resets a connection that is closed without lingering: as soon as the last thread drops it. Shutting down
            // the reading side sends nothing, and wakes the threads.
            for stream in [&self.pair.client, &self.pair.server] {
                let _ = set_socket_linger(stream, Some(Duration::ZERO));
            }
            self.pair.shutdown(Shutdown::Read);
        } else if !self.is_reset {
            // What the sides still send is read and thrown away until they close, too: closing now would reset them.
            self.pair.shutdown(Shutdown::Write);
        }
    }
}

impl State {
    fn stop_listening(&mut self) {
        if let Some(listener) = self.listener.take() {
            // The thread that accepts wakes up; the port refuses connections at once.
            let _ = rustix::net::shutdown(&*listener, rustix::net::Shutdown::Both);
        }
    }

    fn has_ended(&self, id: u64, direction: Direction) -> bool {
        self.is_ending || self.connections.get(&id).is_none_or(|open| open.has_ended[direction.index()])
    }

    /// Whether a fault of this number ends or stops a stream, rather than changing bytes.
    fn stops(&self, fault: usize) -> bool {
        use FaultKind::{Close, HalfClose, Reset, Silence};
        matches!(self.settings.faults[fault].kind, Close | Reset | HalfClose | Silence)
    }

    /// The bytes and the stages of the faults that count for this fault in this connection.
    fn progress(&mut self, id: u64, fault: usize) -> Option<&mut Progress> {
        match self.settings.faults[fault].in_each_connection {
            true => self.connections.get_mut(&id).map(|open| &mut open.progress),
            false => Some(&mut self.progress),
        }
    }

    fn stage(&mut self, id: u64, fault: usize) -> Option<&mut Stage> {
        self.progress(id, fault)?.stages.get_mut(fault)
    }

    fn is_ahead(&mut self, id: u64, fault: usize) -> bool {
        self.stage(id, fault).is_some_and(|stage| *stage == Stage::Ahead)
    }

    /// Whether the bytes of a direction wait: for other settings, or for a fault that another thread makes happen.
    fn must_wait(&mut self, id: u64, direction: Direction) -> bool {
        let is_reached = |state: &mut Self, fault: usize| {
            state.settings.faults[fault].counted.includes(direction)
                && state.stage(id, fault).is_some_and(|stage| *stage == Stage::Reached)
        };
        let is_silent =
            self.settings.is_silent || self.connections.get(&id).is_some_and(|open| open.is_silent);
        is_silent || (0..self.settings.faults.len()).any(|fault| is_reached(self, fault))
    }

    fn step(&mut self, id: u64, direction: Direction, available: usize) -> Step {
        let mut bytes = available;
        let mut then = None;
        for index in 0..self.settings.faults.len() {
            let fault = self.settings.faults[index];
            if !fault.counted.includes(direction) || !self.is_ahead(id, index) {
                continue;
            }
            let passed = self.progress(id, index).map_or([0; 2], |progress| progress.passed);
            let left = fault.at.saturating_sub(fault.counted.position(passed));
            match (left, self.stops(index)) {
                (0, true) => {
                    self.reach(id, index, Stage::Reached);
                    return Step::Stop(index);
                }
                (0, false) => {
                    self.reach(id, index, Stage::Happened);
                    return Step::Edit(fault.kind);
                }
                (left, stops) if left <= bytes as u64 => {
                    if left < bytes as u64 || then.is_none() {
                        then = stops.then_some(index);
                    }
                    bytes = left as usize;
                }
                _ => {}
            }
        }
        self.progress.passed[direction.index()] += bytes as u64;
        if let Some(open) = self.connections.get_mut(&id) {
            open.progress.passed[direction.index()] += bytes as u64;
            open.is_answered |= direction == Direction::ToClient;
        }
        match direction {
            Direction::ToServer => self.counts.bytes_to_server += bytes as u64,
            Direction::ToClient => self.counts.bytes_to_client += bytes as u64,
        }
        if let Some(fault) = then {
            self.reach(id, fault, Stage::Reached);
        }
        Step::Forward(bytes, then)
    }

    /// Sets the stage of a fault that was ahead. It counts from now on, before the client can see the byte before it.
    fn reach(&mut self, id: u64, fault: usize, new: Stage) {
        self.happened += 1;
        if let Some(stage) = self.stage(id, fault) {
            *stage = new;
        }
    }

    fn happen(&mut self, id: u64, fault: usize, direction: Option<Direction>) {
        // Other settings may have come since the fault was reached.
        let Some(Fault { kind, counted, .. }) = self.settings.faults.get(fault).copied() else { return };
        match self.stage(id, fault) {
            Some(stage) if *stage == Stage::Reached => *stage = Stage::Happened,
            _ => return,
        }
        let Some(open) = self.connections.get_mut(&id) else { return };
        match kind {
            FaultKind::Close => open.end(false),
            FaultKind::Reset => open.end(true),
            FaultKind::Silence => open.is_silent = true,
            FaultKind::HalfClose => {
                // Before the first byte: all directions that count.
                for ended in Direction::BOTH {
                    if direction.map_or(counted.includes(ended), |direction| direction == ended) {
                        open.has_ended[ended.index()] = true;
                        let _ = open.pair.destination(ended).shutdown(Shutdown::Write);
                    }
                }
            }
            FaultKind::Corrupt(_) | FaultKind::Repeat(_) | FaultKind::Swap(_) | FaultKind::Omit(_) => {}
        }
    }
}

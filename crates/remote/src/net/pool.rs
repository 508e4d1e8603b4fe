//! Connections that wait for their next call.

use std::mem;
use std::sync::{Mutex, PoisonError};

use opkeep_cache::fs::{ProcessId, without_fork};

/// The maximum number of connections that wait. Others are closed after their call.
const MOST_IDLE: usize = 8;

/// A connection that may wait.
pub(crate) trait Idle {
    /// Whether nothing has arrived that no call waits for, not even the end of the connection.
    fn is_idle(&mut self) -> bool;
}

/// The idle connections of a process.
pub(crate) struct Pool<C>(Mutex<Connections<C>>);

struct Connections<C> {
    process: ProcessId,
    connections: Vec<C>,
}

impl<C: Idle> Pool<C> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Connections { process: ProcessId::current(), connections: Vec::new() }))
    }

    /// Takes a connection that the server has not closed. The one that was used last is first.
    pub(crate) fn take(&self) -> Option<C> {
        loop {
            let mut connection = self.change(|connections| connections.pop())?;
            if connection.is_idle() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection after a call that took all of its answers.
    pub(crate) fn keep(&self, connection: C) {
        let surplus = self.change(|connections| {
            connections.push(connection);
            (connections.len() > MOST_IDLE).then(|| connections.remove(0))
        });
        drop(surplus);
    }

    /// Closes all connections: the server has closed one of them, and probably all.
    pub(crate) fn clear(&self) {
        drop(self.change(mem::take));
    }

    /// A forked child closes its copies of its parent's connections, which the parent goes on using.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<C>) -> T) -> T {
        let (inherited, answer) = without_fork(|| {
            let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let mut inherited = Vec::new();
            if !idle.process.is_current() {
                inherited = mem::take(&mut idle.connections);
                idle.process = ProcessId::current();
            }
            (inherited, change(&mut idle.connections))
        });
        drop(inherited);
        answer
    }
}

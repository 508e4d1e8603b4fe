//! Connections that wait for their next call. There are as many as there were calls at once in the last minute: the connection that was
//! used last is taken first, so those that are not needed any more grow old.

use std::mem;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use opkeep_cache::fs::{ProcessId, without_fork};

/// The maximum number of connections that wait. Others are closed after their call.
const MOST_IDLE: usize = 64;
/// The time after which a connection that waits is closed by the next call over another one.
const LONGEST_IDLE: Duration = Duration::from_secs(60);

/// A connection that may wait.
pub(crate) trait Idle {
    /// Whether nothing has arrived that no call waits for, not even the end of the connection.
    fn is_idle(&mut self) -> bool;
}

/// The idle connections of a process.
pub(crate) struct Pool<C>(Mutex<Connections<C>>);

struct Connections<C> {
    process: ProcessId,
    /// Those that have waited longest are first.
    connections: Vec<Waiting<C>>,
}

struct Waiting<C> {
    connection: C,
    since: Instant,
}

impl<C: Idle> Pool<C> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Connections { process: ProcessId::current(), connections: Vec::new() }))
    }

    /// Takes a connection that the server has not closed. The one that was used last is first.
    pub(crate) fn take(&self) -> Option<C> {
        self.take_at(Instant::now())
    }

    fn take_at(&self, now: Instant) -> Option<C> {
        loop {
            let (old, taken) = self.change(|waiting| (remove_old(waiting, now), waiting.pop()));
            // Not while others wait for the lock.
            drop(old);
            let mut connection = taken?.connection;
            if connection.is_idle() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection after a call that took all of its answers.
    pub(crate) fn keep(&self, connection: C) {
        self.keep_at(connection, Instant::now());
    }

    fn keep_at(&self, connection: C, now: Instant) {
        let surplus = self.change(|waiting| {
            let mut surplus = remove_old(waiting, now);
            if waiting.len() >= MOST_IDLE {
                surplus.push(waiting.remove(0));
            }
            waiting.push(Waiting { connection, since: now });
            surplus
        });
        drop(surplus);
    }

    /// Closes all connections: the server has closed one of them, and probably all.
    pub(crate) fn clear(&self) {
        drop(self.change(mem::take));
    }

    /// A forked child closes its copies of its parent's connections, which the parent goes on using.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<Waiting<C>>) -> T) -> T {
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

/// Removes the connections that have waited for too long.
fn remove_old<C>(waiting: &mut Vec<Waiting<C>>, now: Instant) -> Vec<Waiting<C>> {
    let is_old = |waiting: &Waiting<C>| now.saturating_duration_since(waiting.since) >= LONGEST_IDLE;
    let count = waiting.iter().take_while(|waiting| is_old(waiting)).count();
    waiting.drain(..count).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A connection that counts itself.
    struct Counted(#[expect(dead_code, reason = "its references are counted")] Arc<()>);

    impl Idle for Counted {
        fn is_idle(&mut self) -> bool {
            true
        }
    }

    /// Makes `calls` calls at once. Returns the number of new connections.
    fn call(pool: &Pool<Counted>, open: &Arc<()>, calls: usize, now: Instant) -> usize {
        let mut new = 0;
        let taken: Vec<_> = (0..calls).map(|_| pool.take_at(now)).collect();
        for taken in taken {
            new += usize::from(taken.is_none());
            pool.keep_at(taken.unwrap_or_else(|| Counted(Arc::clone(open))), now);
        }
        new
    }

    #[test]
    fn there_are_as_many_connections_as_calls_at_once() {
        let (pool, open, began) = (Pool::new(), Arc::new(()), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        let new: Vec<_> = [40, 40, 1, 40].map(|calls| call(&pool, &open, calls, at(0))).to_vec();
        assert_eq!((new, Arc::strong_count(&open) - 1), (vec![40, 0, 0, 0], 40));
        // One thread goes on, and the others have ended.
        for seconds in [20, 40, 59] {
            assert_eq!((call(&pool, &open, 1, at(seconds)), Arc::strong_count(&open) - 1), (0, 40));
        }
        assert_eq!((call(&pool, &open, 1, at(60)), Arc::strong_count(&open) - 1), (0, 1));
        // A pool that was not used for long has none.
        assert_eq!((call(&pool, &open, 1, at(120)), Arc::strong_count(&open) - 1), (1, 1));
    }

    #[test]
    fn there_are_not_too_many() {
        let (pool, open, now) = (Pool::new(), Arc::new(()), Instant::now());
        assert_eq!(call(&pool, &open, MOST_IDLE + 5, now), MOST_IDLE + 5);
        assert_eq!((call(&pool, &open, MOST_IDLE + 5, now), Arc::strong_count(&open) - 1), (5, MOST_IDLE));
    }
}

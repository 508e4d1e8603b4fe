//! The tickets that this process holds, in all of its caches.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use opkeep_digest::Digest;
use opkeep_fs::{ForkSafeCell, ProcessId, thread_number};

/// The tickets of one process. A forked child has its own: those of its parent are not the child's.
pub(crate) struct Holders {
    pub(crate) process: ProcessId,
    tickets: Mutex<Vec<HeldKey>>,
    in_child: ForkSafeCell<Box<Self>>,
}

/// The key of a ticket, and the thread that got it. Any thread may end it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct HeldKey {
    thread: u64,
    key: Digest,
    pub(crate) began: Instant,
}

impl Holders {
    /// The tickets of this process.
    pub(crate) fn current() -> &'static Self {
        static FIRST: ForkSafeCell<Box<Holders>> = ForkSafeCell::new();
        let mut current = Self::of(&FIRST);
        while !current.process.is_current() {
            current = Self::of(&current.in_child);
        }
        current
    }

    /// Returns the tickets in `place`.
    fn of(place: &ForkSafeCell<Box<Self>>) -> &Self {
        place.get_or_init(|| Box::new(Self::new()))
    }

    fn new() -> Self {
        Self { process: ProcessId::current(), tickets: Mutex::default(), in_child: ForkSafeCell::new() }
    }

    /// Adds a ticket of the calling thread.
    pub(crate) fn add(&self, key: Digest) -> HeldKey {
        let held = HeldKey { thread: thread_number(), key, began: Instant::now() };
        self.tickets().push(held);
        held
    }

    pub(crate) fn remove(&self, held: &HeldKey) {
        let mut tickets = self.tickets();
        if let Some(place) = tickets.iter().position(|ticket| ticket == held) {
            tickets.swap_remove(place);
        }
    }

    /// Whether the calling thread got a ticket that has not ended.
    pub(crate) fn has_own(&self) -> bool {
        let thread = thread_number();
        self.tickets().iter().any(|ticket| ticket.thread == thread)
    }

    /// The time since which the process has held a ticket of another key than `key`.
    pub(crate) fn oldest_of_others(&self, key: &Digest) -> Option<Instant> {
        self.tickets().iter().filter(|ticket| ticket.key != *key).map(|ticket| ticket.began).min()
    }

    /// Whether the process holds the ticket of `key`.
    pub(crate) fn has(&self, key: &Digest) -> bool {
        self.tickets().iter().any(|ticket| ticket.key == *key)
    }

    fn tickets(&self) -> MutexGuard<'_, Vec<HeldKey>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use opkeep_fs::without_fork;

    use super::*;

    #[test]
    fn no_fork_falls_into_the_first_use() {
        static PLACE: ForkSafeCell<Box<Holders>> = ForkSafeCell::new();
        let (fills, filled) = channel();
        without_fork(|| {
            thread::spawn(move || fills.send(Holders::of(&PLACE).process.is_current()));
            assert!(filled.recv_timeout(Duration::from_millis(50)).is_err(), "a fork may begin meanwhile");
        });
        assert!(filled.recv().unwrap());
    }
}

//! The tickets that this process holds, in all of its caches.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use opkeep_digest::Digest;
use opkeep_fs::ProcessId;

/// The tickets of one process. A forked child has its own: those of its parent are not the child's.
pub(crate) struct Holders {
    pub(crate) process: ProcessId,
    tickets: Mutex<Vec<HeldKey>>,
    in_child: OnceLock<Box<Self>>,
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
        static FIRST: LazyLock<Holders> = LazyLock::new(Holders::new);
        let mut current: &'static Self = &FIRST;
        while !current.process.is_current() {
            current = current.in_child.get_or_init(|| Box::new(Self::new()));
        }
        current
    }

    fn new() -> Self {
        Self { process: ProcessId::current(), tickets: Mutex::default(), in_child: OnceLock::new() }
    }

    /// Adds a ticket of the calling thread.
    pub(crate) fn add(&self, key: Digest) -> HeldKey {
        let held = HeldKey { thread: this_thread(), key, began: Instant::now() };
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
        let thread = this_thread();
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

/// The number of the calling thread. `thread::current` panics in a thread that is ending, whose destructors may still request
/// files.
fn this_thread() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        }
        number.get()
    })
}

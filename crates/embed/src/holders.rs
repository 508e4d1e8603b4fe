//! The number of tickets that each thread holds, in all caches of the process.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use opkeep_fs::ProcessId;

thread_local! {
    static OWN: RefCell<Option<Holder>> = const { RefCell::new(None) };
}

/// A thread that may hold tickets. Any thread may end them.
#[derive(Clone)]
pub(crate) struct Holder {
    tickets: Arc<AtomicUsize>,
    /// The tickets of its parent are not held by a forked child.
    process: ProcessId,
}

impl Holder {
    /// The calling thread.
    pub(crate) fn current() -> Self {
        let known = |own: &RefCell<Option<Self>>| {
            let mut own = own.borrow_mut();
            let known = own.take().filter(|known| known.process.is_current());
            own.insert(known.unwrap_or_else(Self::new)).clone()
        };
        // A thread that is ending requests nothing any more.
        OWN.try_with(known).unwrap_or_else(|_| Self::new())
    }

    fn new() -> Self {
        Self { tickets: Arc::default(), process: ProcessId::current() }
    }

    /// Whether the thread got a ticket that has not ended.
    pub(crate) fn holds_ticket(&self) -> bool {
        self.tickets.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn add(&self) {
        self.tickets.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self) {
        self.tickets.fetch_sub(1, Ordering::Relaxed);
    }
}

//! The renewal of tickets: a thread that gives each ticket's waiters a heartbeat, whatever the caller's threads do.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crate::held::Held;

/// The time between two heartbeats.
const INTERVAL: Duration = Duration::from_secs(1);

/// The tickets of a process. The thread exists while there are tickets.
pub(crate) struct Renewal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    tickets: Vec<Weak<Held>>,
    has_thread: bool,
}

impl Renewal {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new() })
    }

    /// Renews `ticket` from now on. Without a thread it is not renewed, and may become stale.
    pub(crate) fn add(self: &Arc<Self>, ticket: &Arc<Held>) {
        let mut state = self.locked();
        state.tickets.push(Arc::downgrade(ticket));
        // The thread may sleep for longer than this ticket may keep others waiting.
        if ticket.remaining() < INTERVAL {
            self.changed.notify_all();
        }
        if !state.has_thread {
            let own = Arc::clone(self);
            let thread = thread::Builder::new().name("opkeep-renewal".to_owned()).spawn(move || own.run());
            state.has_thread = thread.is_ok();
        }
    }

    /// Ends the thread soon if no ticket is left.
    pub(crate) fn ended(&self) {
        self.changed.notify_all();
    }

    fn run(&self) {
        let mut state = self.locked();
        loop {
            state.tickets.retain(|ticket| ticket.upgrade().is_some_and(|ticket| ticket.is_held()));
            if state.tickets.is_empty() {
                state.has_thread = false;
                return;
            }
            // A notification cuts the interval short, which renews early.
            let tickets = state.tickets.iter().filter_map(Weak::upgrade);
            let remaining = tickets.map(|ticket| ticket.remaining()).min().unwrap_or(INTERVAL);
            let woken = self.changed.wait_timeout(state, remaining.min(INTERVAL));
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            let tickets = mem::take(&mut state.tickets);
            drop(state);
            // The tickets are renewed while the state is not locked: a slow file system delays no new ticket.
            let renewed: Vec<_> = tickets
                .into_iter()
                .filter(|ticket| ticket.upgrade().is_some_and(|held| held.renew()))
                .collect();
            state = self.locked();
            state.tickets.extend(renewed);
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! A thread that visits items at set times. It exists while there are items.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use opkeep_fs::{ForkSafeCell, ProcessId};

/// The time until the next visit to an item whose visit panicked. However often it panics, it is visited again: callers wait for what the
/// visits find out, and another host takes over a lease that is not renewed.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// An item that is visited.
pub(crate) trait Timed: Send + Sync + 'static {
    /// The name of the thread.
    const THREAD: &'static str;

    /// Visits the item, for at most `share`. Returns the time of the next visit, if there is one.
    fn visit(&self, share: Duration) -> Option<Instant>;
}

/// The items of one process. An item that its user has dropped is not visited.
pub(crate) struct Timer<T> {
    /// The time that the visits to all items may take together.
    round: Duration,
    state: Mutex<State<T>>,
    changed: Condvar,
    /// The process of the thread.
    process: ProcessId,
    /// The timer of a forked child: it does not have its parent's thread, and the parent's state may be locked for ever.
    in_child: ForkSafeCell<Arc<Timer<T>>>,
}

struct State<T> {
    items: Vec<(Instant, Weak<T>)>,
    has_thread: bool,
}

impl<T: Timed> Timer<T> {
    pub(crate) fn new(round: Duration) -> Arc<Self> {
        Arc::new(Self {
            round,
            state: Mutex::new(State { items: Vec::new(), has_thread: false }),
            changed: Condvar::new(),
            process: ProcessId::current(),
            in_child: ForkSafeCell::new(),
        })
    }

    /// Adds a visit to `item` at the time `at`. Returns false if no thread can be started: then the item is not visited.
    pub(crate) fn add(self: &Arc<Self>, at: Instant, item: &Arc<T>) -> bool {
        let mut timer = self;
        while !timer.process.is_current() {
            timer = timer.in_child.get_or_init(|| Self::new(self.round));
        }
        let mut state = timer.locked();
        let is_next = state.items.iter().all(|(other, _)| at < *other);
        state.items.push((at, Arc::downgrade(item)));
        if !state.has_thread {
            let own = Arc::clone(timer);
            let thread = thread::Builder::new().name(T::THREAD.to_owned()).spawn(move || own.run());
            state.has_thread = thread.is_ok();
        } else if is_next {
            timer.changed.notify_all();
        }
        state.has_thread
    }

    fn run(&self) {
        let mut state = self.locked();
        loop {
            state.items.retain(|(_, item)| item.strong_count() > 0);
            let Some(next) = state.items.iter().map(|(at, _)| *at).min() else {
                state.has_thread = false;
                return;
            };
            let now = Instant::now();
            if now < next {
                let woken = self.changed.wait_timeout(state, next - now);
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let count = state.items.len();
            let items = mem::take(&mut state.items).into_iter();
            let (due, later): (Vec<_>, Vec<_>) = items.partition(|(at, _)| *at <= now);
            state.items = later;
            drop(state);
            let visited = self.visit_all(due, count);
            state = self.locked();
            state.items.extend(visited);
        }
    }

    /// Visits `due`, of `count` items, while the state is not locked. Returns the items that are to be visited again.
    fn visit_all(&self, due: Vec<(Instant, Weak<T>)>, count: usize) -> Vec<(Instant, Weak<T>)> {
        let number = |length| u32::try_from(length).unwrap_or(u32::MAX);
        let end = Instant::now() + self.round.saturating_mul(number(due.len())) / number(count).max(1);
        // The time that a short visit does not use is shared by the next ones.
        let visit = |(left, (_, item)): (usize, (Instant, Weak<T>))| {
            let share = end.saturating_duration_since(Instant::now()) / number(left).max(1);
            let visited = item.upgrade()?;
            // A panic, as of a function of the caller, must not end the visits to all items.
            let next = catch_unwind(AssertUnwindSafe(|| visited.visit(share)));
            Some((next.unwrap_or_else(|_| Instant::now().checked_add(AFTER_PANIC))?, item))
        };
        (1..=due.len()).rev().zip(due).filter_map(visit).collect()
    }

    fn locked(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Item {
        visits: AtomicUsize,
        panics: bool,
    }

    impl Timed for Item {
        const THREAD: &'static str = "test";

        fn visit(&self, _: Duration) -> Option<Instant> {
            let visits = self.visits.fetch_add(1, Ordering::SeqCst);
            if self.panics && visits == 0 {
                std::panic::resume_unwind(Box::new("a visit"));
            }
            (visits < 2).then(Instant::now)
        }
    }

    #[test]
    fn a_visit_that_panics_ends_no_other_visits() {
        let timer = Timer::new(Duration::from_secs(1));
        let items = [true, false].map(|panics| Arc::new(Item { visits: AtomicUsize::new(0), panics }));
        items.iter().for_each(|item| assert!(timer.add(Instant::now(), item)));
        let began = Instant::now();
        while items.iter().any(|item| item.visits.load(Ordering::SeqCst) < 3) {
            assert!(began.elapsed() < Duration::from_secs(60), "there are no more visits");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

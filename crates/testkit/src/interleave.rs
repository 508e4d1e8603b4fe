//! Threads that run one at a time, in a given order.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opkeep_fs::{FsCall, Permit, Watcher};

/// The work of one thread. Each call that asks the given watcher waits for the thread's turn.
pub type Body<'a> = Box<dyn FnOnce(Arc<dyn Watcher>) + Send + 'a>;

/// The longest time between two calls before a thread counts as stuck.
const STUCK: Duration = Duration::from_secs(20);

/// Runs `bodies`, each in a thread, one at a time: after each call to the disk, another may continue. `order` selects
/// it, counting round the unfinished ones, and starts again at its end. `between` is called whenever all threads wait,
/// with the number of the last one that ran.
///
/// The same bodies in the same order do the same, so that a failure can be repeated and reduced.
///
/// # Panics
/// If a body panics, or if one waits for another without a call to the disk, which here would be for ever.
pub fn interleave(order: &[u8], bodies: Vec<Body<'_>>, mut between: impl FnMut(usize)) {
    let board = Arc::new(Board { state: Mutex::new(State::new(bodies.len())), changed: Condvar::new() });
    std::thread::scope(|scope| {
        // At any exit, no thread waits for a turn that never comes.
        let _end = Free(&board);
        for (me, body) in bodies.into_iter().enumerate() {
            let seat = Seat { board: Arc::clone(&board), me };
            scope.spawn(move || {
                let _end = Done(seat.clone());
                seat.wait();
                body(Arc::new(seat));
            });
        }
        let mut order = order.iter().cycle();
        loop {
            let live = board.live();
            let next = usize::from(order.next().copied().unwrap_or(0)) % live.len().max(1);
            let Some(who) = live.get(next) else { break };
            board.run(*who);
            between(*who);
        }
    });
}

struct Board {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The thread whose turn it is.
    turn: Option<usize>,
    done: Vec<bool>,
    /// Releases every waiting thread.
    free: bool,
}

impl State {
    fn new(count: usize) -> Self {
        Self { turn: None, done: vec![false; count], free: false }
    }
}

impl Board {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> Vec<usize> {
        self.state().done.iter().enumerate().filter(|(_, done)| !**done).map(|(who, _)| who).collect()
    }

    /// Gives the turn to `who`, and waits until it is returned.
    fn run(&self, who: usize) {
        let mut state = self.state();
        state.turn = Some(who);
        self.changed.notify_all();
        let waited = self.changed.wait_timeout_while(state, STUCK, |state| state.turn.is_some());
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(state);
        assert!(!timeout.timed_out(), "thread {who} is stuck");
    }
}

struct Free<'a>(&'a Board);

impl Drop for Free<'_> {
    fn drop(&mut self) {
        self.0.state().free = true;
        self.0.changed.notify_all();
    }
}

#[derive(Clone)]
struct Seat {
    board: Arc<Board>,
    me: usize,
}

impl Seat {
    fn wait(&self) {
        let state = self.board.state();
        let waited = self.board.changed.wait_while(state, |state| !state.free && state.turn != Some(self.me));
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn give_back(&self, done: bool) {
        let mut state = self.board.state();
        state.turn = None;
        state.done[self.me] = done;
        self.board.changed.notify_all();
    }
}

impl Watcher for Seat {
    fn before(&self, _call: &FsCall<'_>) -> Permit {
        self.give_back(false);
        self.wait();
        Permit::Go
    }
}

/// Returns the turn for good, also if the body panics.
struct Done(Seat);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.give_back(true);
    }
}

#[cfg(test)]
mod tests {
    use opkeep_digest::Digest;
    use opkeep_store::{Store, StoreConfig};

    use super::*;

    #[test]
    fn the_same_order_does_the_same_and_another_does_not() {
        let run = |order: &[u8]| {
            let dir = tempfile::tempdir().unwrap();
            let body = |_| -> Body<'_> {
                Box::new(|watcher| {
                    let config = StoreConfig::new(dir.path()).with_watcher(watcher);
                    let target = Store::open(config).unwrap().reader().target("cpu").unwrap();
                    let _ = target.get(&Digest::of(b"x"));
                })
            };
            let mut ran = Vec::new();
            interleave(order, (0..3).map(body).collect(), |who| ran.push(who));
            ran
        };
        let first = run(&[0, 2, 1, 1, 7]);
        assert_eq!(first[..3], [0, 2, 1]);
        assert_eq!(run(&[0, 2, 1, 1, 7]), first);
        let alone = run(&[0]);
        assert!(alone.is_sorted() && alone.contains(&2), "{alone:?}");
    }

    #[test]
    fn one_that_panics_does_not_hold_up_the_others() {
        let ended = Mutex::new(false);
        let result = std::panic::catch_unwind(|| {
            let fails: Body<'_> = Box::new(|_| panic!("as it should"));
            let waits: Body<'_> = Box::new(|_| *ended.lock().unwrap() = true);
            interleave(&[0], vec![fails, waits], |_| {});
        });
        assert!(result.is_err() && *ended.lock().unwrap());
        let result = std::panic::catch_unwind(|| {
            interleave(&[0], vec![Box::new(|_| {}), Box::new(|_| {})], |_| panic!("as it should"));
        });
        assert!(result.is_err());
    }
}

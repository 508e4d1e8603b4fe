//! The keys whose entries a call asks for. Other callers wait for its answer, so the keys are given back also if the call panics.

use std::mem;
use std::sync::{Condvar, Mutex, PoisonError};

use opkeep_digest::Digest;

use super::board_state::State;

/// The keys whose entries a call asks for, until [`end`](Self::end). If it is dropped before, which a panic does, they are missing as
/// before, and those who wait for one of them go on.
pub(super) struct Asked<'a> {
    state: &'a Mutex<State>,
    /// Notified at the end.
    changed: &'a Condvar,
    keys: Vec<Digest>,
}

impl<'a> Asked<'a> {
    /// Takes `keys`, for which the call has begun to ask.
    pub(super) fn new(state: &'a Mutex<State>, changed: &'a Condvar, keys: Vec<Digest>) -> Self {
        Self { state, changed, keys }
    }

    /// Adds a key for which the call has begun to ask.
    pub(super) fn push(&mut self, key: Digest) {
        self.keys.push(key);
    }

    /// Ends the call, while the board is locked: those of the keys that did not arrive may be asked for again.
    pub(super) fn end(mut self, state: &mut State) {
        // From now on another call may ask for them, which a later drop must not end.
        mem::take(&mut self.keys).iter().for_each(|key| state.table.end_asking(key));
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let keys = mem::take(&mut self.keys);
        if keys.is_empty() {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        keys.iter().for_each(|key| state.table.end_asking(key));
        drop(state);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn asking<'a>(state: &'a Mutex<State>, changed: &'a Condvar, key: Digest) -> Asked<'a> {
        assert!(state.lock().unwrap().table.begin_asking(&key), "another call asks for it");
        Asked::new(state, changed, vec![key])
    }

    /// Callers wait for the answer of a call that panics.
    #[test]
    fn the_keys_of_a_call_that_panics_are_missing_again() {
        let (state, changed) = (Mutex::new(State::new(Duration::from_secs(30))), Condvar::new());
        let key = Digest::of(b"relu");
        let asked = asking(&state, &changed, key);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let on_its_way = |state: &mut State| state.table.is_on_its_way(&key);
                let long = Duration::from_secs(60);
                let waited = changed.wait_timeout_while(state.lock().unwrap(), long, on_its_way).unwrap();
                !waited.1.timed_out()
            });
            let call = AssertUnwindSafe(move || {
                let _asked = asked;
                std::panic::resume_unwind(Box::new("the call"));
            });
            assert!(catch_unwind(call).is_err());
            assert!(waiter.join().unwrap(), "it waits for ever");
        });
        drop(asking(&state, &changed, key));
    }

    /// Another call asks for the key after the end.
    #[test]
    fn the_end_of_a_call_ends_no_later_one() {
        let (state, changed) = (Mutex::new(State::new(Duration::from_secs(30))), Condvar::new());
        let key = Digest::of(b"relu");
        let first = asking(&state, &changed, key);
        first.end(&mut state.lock().unwrap());
        let second = asking(&state, &changed, key);
        assert!(state.lock().unwrap().table.is_on_its_way(&key));
        drop(second);
        assert!(!state.lock().unwrap().table.is_on_its_way(&key));
    }
}

//! A cell that no forked child finds locked.

use std::sync::OnceLock;

use crate::without_fork;

/// A value that is set once, by any thread. While one thread sets it, no thread forks this process: a child that found the cell half
/// set would wait for ever for a thread that it does not have.
#[derive(Debug)]
pub struct ForkSafeCell<T>(OnceLock<T>);

impl<T> ForkSafeCell<T> {
    /// Creates a cell without a value.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Returns the value, if it is set.
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// Sets the value.
    ///
    /// # Errors
    /// There is one, which stays. The other one is returned.
    pub fn set(&self, value: T) -> Result<(), T> {
        without_fork(|| self.0.set(value))
    }

    /// Returns the value; `create` creates it if it is not set. Forks wait for `create`, which must be short and start no process.
    pub fn get_or_init(&self, create: impl FnOnce() -> T) -> &T {
        match self.0.get() {
            Some(value) => value,
            None => without_fork(|| self.0.get_or_init(create)),
        }
    }
}

impl<T> Default for ForkSafeCell<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn no_fork_falls_into_the_time_in_which_it_is_set() {
        static CELLS: [ForkSafeCell<u8>; 2] = [const { ForkSafeCell::new() }; 2];
        let (sets, is_set) = channel();
        without_fork(|| {
            thread::spawn(move || {
                CELLS[0].set(1).unwrap();
                sets.send(0).unwrap();
                CELLS[1].get_or_init(|| 2);
                sets.send(1).unwrap();
            });
            assert!(is_set.recv_timeout(Duration::from_millis(50)).is_err(), "a fork may begin meanwhile");
            assert_eq!(CELLS[0].get(), None);
        });
        assert_eq!([is_set.recv().unwrap(), is_set.recv().unwrap()], [0, 1]);
        assert_eq!(CELLS.each_ref().map(|cell| cell.get().copied()), [Some(1), Some(2)]);
    }

    #[test]
    fn it_is_set_once() {
        let cell = ForkSafeCell::default();
        assert_eq!((cell.set(1), cell.set(2), *cell.get_or_init(|| 3)), (Ok(()), Err(2), 1));
    }
}

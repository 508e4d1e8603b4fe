//! The process that a value belongs to. A forked child has copies of all values of its parent.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ffi;

/// A process, to be compared with the current one. After a fork, the child has a copy of each value of its parent; the copies
/// must not end what the parent still uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId {
    number: u32,
    /// Numbers are used again, so that of a descendant may be this one.
    generation: u64,
}

impl ProcessId {
    /// Returns this process.
    pub fn current() -> Self {
        // Without the handlers, the numbers of processes decide alone.
        let _ = ffi::install();
        Self { number: std::process::id(), generation: ffi::generation() }
    }

    /// Its number, which is unique among the processes that run now.
    pub fn number(self) -> u32 {
        self.number
    }

    /// Whether this process is the current one, and not an ancestor of it.
    pub fn is_current(self) -> bool {
        self.is_current_generation() && self.number == std::process::id()
    }

    /// The same without a system call. Wrongly true in a child that was made without the C library's `fork`.
    pub(crate) fn is_current_generation(self) -> bool {
        self.generation == ffi::generation()
    }
}

/// Has the C library call `act` when the process exits, by the end of `main` or by `exit`, and not when a signal ends it. Other threads
/// still run then. Functions that were registered later are called first. `act` must not panic, and a forked child calls it as well.
///
/// # Errors
/// There is no memory for it.
pub fn at_exit(act: extern "C" fn()) -> std::io::Result<()> {
    ffi::at_exit(act)
}

/// The number of the calling thread, which no other thread of the process ever has. `thread::current` panics in a thread that is
/// ending, whose destructors may still call a library.
pub fn thread_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    if NUMBER.get() == 0 {
        NUMBER.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }
    NUMBER.get()
}

/// Calls `change` while no thread forks this process. So a forked child finds all that it changes complete, and no lock held
/// that only such calls take: a lock, or a cell that is filled once, which another thread was using would stay locked in the
/// child for ever. For short changes of memory: forks wait, so `change` must start no process.
pub fn without_fork<T>(change: impl FnOnce() -> T) -> T {
    let _ = ffi::install();
    let _held = ffi::hold_forks();
    change()
}

/// Reports once in each forked child that a value is a copy, without a system call: for counts that the parent writes itself.
/// A child that was made without the C library's `fork` is not noticed.
#[derive(Debug)]
pub struct ForkMark(AtomicU64);

impl ForkMark {
    /// Marks a value of this process.
    pub fn new() -> Self {
        let _ = ffi::install();
        Self(AtomicU64::new(ffi::generation()))
    }

    /// Whether the value is the copy of another process's, at the first call in this process.
    pub fn is_first_in_child(&self) -> bool {
        let (known, now) = (self.0.load(Ordering::Relaxed), ffi::generation());
        known != now && self.0.compare_exchange(known, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Default for ForkMark {
    fn default() -> Self {
        Self::new()
    }
}

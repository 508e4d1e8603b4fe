//! A value of which each process has its own, also a forked child.

use opkeep_fs::{ForkSafeCell, ProcessId};

/// A value of the process that created it. A forked child does not use its copy, whose state may be locked for ever, or belong to
/// threads that the child does not have: it creates a value of its own.
pub(crate) struct PerProcess<T> {
    value: T,
    process: ProcessId,
    in_child: ForkSafeCell<Box<PerProcess<T>>>,
}

impl<T> PerProcess<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value, process: ProcessId::current(), in_child: ForkSafeCell::new() }
    }

    /// Returns the value of this process; `create` creates that of a forked child.
    pub(crate) fn get(&self, create: impl Fn() -> T) -> &T {
        let mut own = self;
        while !own.process.is_current() {
            own = own.in_child.get_or_init(|| Box::new(Self::new(create())));
        }
        &own.value
    }
}

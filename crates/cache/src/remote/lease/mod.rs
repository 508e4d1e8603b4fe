//! The leases of all hosts on the entries of one target.
//!
//! A lease saves work, and nothing else depends on it: entries are immutable and checked, so an engine that grants a lease twice, or
//! loses one, costs a build.

mod batch;
mod entries;
mod held;
mod observer;
mod row;
mod rows;
mod schedule;
mod table;

pub use batch::{LeaseBatch, Question};
pub(crate) use held::HeldLease;
pub(in crate::remote) use held::{HeldLeases, OnFailure};
pub use observer::{LeaseObserver, LeaseReading, LeaseStep};
pub use schedule::{BatchOutcome, Poll, PollSchedule};
pub use table::LeaseTable;

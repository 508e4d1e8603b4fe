//! Runs compilers for backends: with the environment that they are given and no other, to a deadline, with bounded
//! output, and so that nothing is left behind.
//!
//! [`Run`] runs a program to its end; [`Group`] is one that goes on, with whatever it starts in turn.

mod disk;
mod ffi;
mod group;
mod output;
mod run;

pub use disk::keep_log;
pub use group::{Group, Orphan};
pub use output::{Output, tail};
pub use run::{Ended, Run};

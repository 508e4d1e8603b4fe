//! Runs compilers for backends: with the environment that they are given and no other, to a deadline, with bounded
//! output, and so that nothing is left behind.
//!
//! [`Run`] runs a program to its end, and [`Running`] is one beside which others can be started; [`Group`] is one that
//! goes on, with whatever it starts in turn.

mod ending;
mod error;
mod ffi;
mod group;
mod log;
mod output;
mod probe_dir;
mod run;
mod running;
mod sandbox;
mod shortage;

pub use ending::ending;
pub use error::ProcessError;
pub use group::{Group, Orphan};
pub use log::keep_log;
pub use output::{Output, tail};
pub use probe_dir::ProbeDir;
pub use run::{Ended, Run};
pub use running::Running;
pub use sandbox::{
    Declared, DigestFile, Domain, DomainBuilder, DomainError, Found, Inputs, InputsError, Observation,
    Observer, Program, Sandbox, UNKEYED, Unchanged, Unkeyed,
};
pub use shortage::is_short_of_resources;

//! Runs compilers for backends: with exactly the environment that the backend gives, until a deadline, with bounded
//! output, and without leaving a process behind. It names no compiler, since several backends use it.
//!
//! [`ProcessBuilder`] starts a program, [`RunningProcess`] waits for it. [`ForwardingProcess`] runs one in the place of its caller:
//! with the open files that it may inherit, and both outputs as they come. A [`ProcessGroup`] is a long-lived program
//! with all its children. A [`Sandbox`] confines a program to the files that a key covers, or observes which files it
//! reads.

mod ending;
mod error;
mod ffi;
mod forwarding;
mod group;
mod log;
mod output;
mod probe_dir;
mod process_builder;
mod process_output;
mod running_process;
mod sandbox;
mod shortage;
mod signals;

pub use ending::ending;
pub use error::ProcessError;
pub use ffi::landlock_abi;
pub use forwarding::{Forwarded, ForwardingProcess, InheritedFiles, Stream};
pub use group::{OnParentExit, ProcessGroup};
pub use log::keep_log;
pub use output::{Output, error_line, tail};
pub use probe_dir::ProbeDir;
pub use process_builder::ProcessBuilder;
pub use process_output::ProcessOutput;
pub use running_process::RunningProcess;
pub use sandbox::{
    Before, Declared, DigestFile, Domain, DomainBuilder, DomainError, Found, Inputs, InputsError, Learned,
    Observation, Observer, Peer, Program, Sandbox, UNKEYED, Unchanged, Unkeyed, Written, program_interpreter,
};
pub use shortage::is_short_of_resources;
pub use signals::SignalRelay;

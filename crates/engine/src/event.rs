//! What a build tells while it runs.

use std::time::Duration;

use crate::Outcome;

/// Who is told what happens.
pub(crate) type Observer = dyn Fn(Event<'_>) + Send + Sync;

/// Something that happened in a build. Sent from the build's threads, in no particular order between kernels.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// All keys are known.
    Planned {
        /// How many operators were asked for.
        operators: usize,
        /// How many kernels they come to.
        kernels: usize,
    },
    /// A kernel is about to be compiled.
    Started {
        /// Its name.
        kernel: &'a str,
    },
    /// Another process is compiling a kernel that we need.
    Waiting {
        /// Its name.
        kernel: &'a str,
    },
    /// A kernel is there, or failed.
    Finished {
        /// Its name.
        kernel: &'a str,
        /// How it came out.
        outcome: Outcome,
        /// How long it took since it was started.
        elapsed: Duration,
    },
    /// Something that does not stop the build and should be known. Each is told once.
    Warning {
        /// What.
        text: &'a str,
    },
}

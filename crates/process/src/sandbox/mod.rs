//! What a program may read, and what it does read.
//!
//! A kernel's key covers the files that its compiler reads. Nobody can list these by hand: a compiler includes headers by
//! itself, a linker follows scripts, a wrapper reads its flags from a file. So the compiler is observed once on small
//! sources ([`Observer`]): which files were opened, which were looked for in vain, which directories were listed. From
//! that come the [`Inputs`] of the toolchain: what counts by content, and what must stay as it is for the observation to
//! hold. Compiles then run in a [`Domain`] in which nothing else can be read.
//!
//! Sockets and the clock are not restricted, and neither is writing: compiler wrappers write logs.

mod domain;
mod inputs;
mod interpreter;
mod listing;
mod observation;
mod observer;
mod proc;
mod unkeyed;

pub use domain::{Domain, DomainBuilder, DomainError};
pub use inputs::{Declared, DigestFile, Inputs, InputsError, Unchanged};
pub use observation::{Found, Observation, Program};
pub use observer::Observer;
pub use unkeyed::{UNKEYED, Unkeyed};

/// What a program is started in. As provided, nothing confines or observes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sandbox<'a> {
    /// What it may read.
    pub domain: Option<&'a Domain>,
    /// Observes what it reads.
    pub observer: Option<&'a Observer>,
}

//! What a program may read, and what it does read.
//!
//! A kernel's key covers the files that its compiler reads. No list of these that is written by hand is ever complete:
//! a compiler includes headers by itself, a linker follows scripts, a wrapper reads its flags from a file. So the
//! compiler is observed once on small sources ([`Observer`]): which files were opened, which paths were looked for and
//! not found or only looked at, which directories were listed. From that follow the [`Inputs`] of the toolchain: what
//! counts by content, and what must stay as it is for the observation to hold. If one of the latter changes, that alone
//! does not change a key; the toolchain is observed again, and what it reads then counts. Compiles run in a [`Domain`]
//! in which nothing else can be read.
//!
//! | class | what | why |
//! |---|---|---|
//! | counts | all that the probe read: programs, interpreters of scripts, shared libraries, headers, scripts, flag files; what the user declares | it can change kernels |
//! | readable, does not count | [`UNKEYED`], each with its reason: the loader's cache, locale, users, time zone, distribution, `/dev/null` and the like, `/proc`, `/sys` | what follows from it counts elsewhere |
//! | the compile's own | its work directory | it is empty when the compile begins |
//! | all else | | cannot be read |
//!
//! A job never widens the set. What only some jobs need is declared by the user, and counts for all.
//!
//! The same system calls are refused in the probe and in each compile: other ways to open files (`io_uring`, file
//! handles), extended attributes, and other root directories (`chroot`, mounts, namespaces).
//!
//! # What is not restricted
//!
//! Sockets, the clock, the host's name, the number of processors, the umask, and writing: compiler wrappers write logs.
//! What a program takes from these is in no key unless it shows in the steps of the probe. Neither are the dates, link
//! counts and inode numbers of files, what is at a file that the program itself writes, errors of calls that change
//! files (`utime`, `mkdir`, `unlink`), limits and niceness, the text of PATH, and the directory in `$0`.
//!
//! Programs of another architecture (32-bit programs on a 64-bit machine) cannot be observed and are refused.

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

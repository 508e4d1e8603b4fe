//! Limits on the files that a program reads, and the observation of these files.
//!
//! A kernel's key covers the files that its compiler reads. A list of them that is written by hand is never complete: a
//! compiler includes headers by itself, a linker follows scripts, a wrapper reads its flags from a file. So the
//! compiler is observed once on small sources ([`Observer`]): the files that it opens, the paths that it looks for in
//! vain or only looks at, the directories that it lists. The [`Inputs`] of the toolchain follow from that: the files
//! that count by content, and the state that must hold for the observation to stay true. If that state changes, the key
//! does not change for that reason alone; the toolchain is observed again, and the files that it then reads count.
//! Compiles run in a [`Domain`] in which nothing else can be read.
//!
//! | class | what | why |
//! |---|---|---|
//! | counts | all that the probe read: programs, interpreters of scripts, shared libraries, headers, scripts, flag files; files that the user declares | it can change kernels |
//! | readable, does not count | [`UNKEYED`], each with its reason: the loader's cache, locale, users, time zone, distribution, `/dev/null` and the like, `/proc`, `/sys` | its effects count elsewhere |
//! | the compile's own files | its work directory | it is empty when the compile begins |
//! | all else | | cannot be read |
//!
//! A job never widens the set. A file that only some jobs need is declared by the user, and counts for all.
//!
//! The same system calls are refused in the probe and in each compile: alternative ways to open files (`io_uring`, file
//! handles), extended attributes, changes of the root directory (`chroot`, mounts, namespaces), and the memory, descriptors
//! and message queues of other processes.
//!
//! # What is not restricted
//!
//! Sockets (an observation names those that were connected), the clock, the host's name, the number of processors, the umask, and writing (compiler wrappers write
//! logs). Their effect on a program is in no key unless it shows in the steps of the probe. Nor are these in a key:
//! dates, link counts and inode numbers of files, files that the program itself writes, errors of calls that change
//! files (`utime`, `mkdir`, `unlink`), limits and niceness, the text of PATH, and the directory in `$0`.
//!
//! Programs of another architecture (32-bit programs on a 64-bit machine) cannot be observed and are refused.

mod domain;
mod inputs;
mod interpreter;
mod listening;
mod listing;
mod observation;
mod observer;
mod own;
mod parents;
mod paths;
mod peers;
mod proc;
mod reported_calls;
mod response_files;
mod unkeyed;
mod writes;

pub use domain::{Domain, DomainBuilder, DomainError};
pub use inputs::{Declared, DigestFile, Inputs, InputsError, Unchanged};
pub use interpreter::program_interpreter;
pub use observation::{Before, Found, Learned, Observation, Program, Written};
pub use observer::Observer;
pub use peers::Peer;
pub use unkeyed::{UNKEYED, Unkeyed};

/// The sandbox that a program is started in. By default, nothing confines or observes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sandbox<'a> {
    /// Limits the files that it may read.
    pub domain: Option<&'a Domain>,
    /// Observes the files that it reads.
    pub observer: Option<&'a Observer>,
}

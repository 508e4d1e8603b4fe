//! The files that importing the toolkit reads, and the confinement of compiles to them.
//!
//! - **Probe** ([`toolkit_probe`], `py/probe.py`). The toolkit is imported, and `opc` and the compilers are asked for
//!   their options and versions, while they are observed.
//! - **Record** ([`record`]). The toolchain's fingerprint contains everything that the probe read, by content and never
//!   by path: the interpreter, the imported modules, the other files that were read, and the libraries and programs that
//!   were loaded or run. It also contains the files that the user declares.
//! - **Guards** ([`guards`]). The toolkit is then imported in the domain of the record. Landlock is used only if this
//!   import reads the same modules.
//! - **Domain** ([`read_domain`]: each path with its reason; [`reach`]: the same paths as Landlock rules, and the check of
//!   each observed path). `Extra` has what one job adds: the sources of its import closure, the modules that it names,
//!   and knowledge banks. It has nothing that the job's key does not contain.
//!
//! Landlock and observation are used together, unlike in the CPU backend: a compile takes seconds, so a few
//! microseconds for each call that names a file do not matter, and the observer names the paths that Landlock denies
//! silently.

pub(crate) mod guards;
pub(crate) mod interpreter;
pub(crate) mod listing;
pub(crate) mod reach;
pub(crate) mod read_domain;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod sandbox;
pub(crate) mod toolkit_probe;
pub(crate) mod unkeyed;

//! The files that importing the toolkit reads, and the confinement of compiles to them.
//!
//! - **Probe** ([`toolkit_probe`], `py/probe.py`). The toolkit is imported, and `opc` and the compilers are asked for
//!   their options and versions, while they are observed.
//! - **Record** ([`record`]). What that read is in the toolchain's fingerprint, by content and never by place: the
//!   interpreter, modules that importing the toolkit reads, files that are read and libraries and programs that are
//!   loaded and run meanwhile, and what the user declares.
//! - **Guards** ([`guards`]). The toolkit is then imported in the domain of the record. Landlock is used only if the
//!   same modules result.
//! - **Domain** ([`domain`]: each path with its reason; [`reach`]: the same as rules of Landlock, and as an answer for
//!   each path that was observed). `Extra` is what one job adds: sources by its import closure, modules that it names,
//!   knowledge banks, and nothing that its key does not contain.
//!
//! Landlock and observation are used together, other than for the CPU: a compile takes seconds, so that a few
//! microseconds for each call that names a file do not matter, and what Landlock denies without a message gets named.

pub(crate) mod domain;
pub(crate) mod guards;
pub(crate) mod interpreter;
pub(crate) mod listing;
pub(crate) mod reach;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod sandbox;
pub(crate) mod toolkit_probe;
pub(crate) mod unkeyed;

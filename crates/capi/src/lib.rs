//! The C interface of opkeep: [`opkeep_embed`] for frameworks in C, C++, or any language that can call C.
//!
//! The functions are in [`ffi`]; `include/opkeep.h` declares them, `include/opkeep.hpp` wraps them for C++17. The header is
//! generated from this crate: `cargo test -p opkeep-capi --test suite` compares them, and with `OPKEEP_UPDATE_HEADER=1` in
//! the environment it writes the header.
//!
//! * **Handles** are numbers in a struct, one struct for each kind. A number is never used again, so a handle that was
//!   released, or that never was one, is a typed error and never an access to freed memory. The struct can be copied; the
//!   copies are one handle.
//! * **Memory** that a function returns belongs to a handle (the files of a hit, the findings of a report) or to the thread
//!   (the last error, the last warning), as its documentation states. The caller frees nothing.
//! * **Errors** are codes, with a message for each thread. No panic leaves a function: it is the code
//!   [`Code::Internal`].
//! * **Threads.** Any thread may call any function with any handle, also at the same time. There are no callbacks.
//! * **Forks.** A forked child may use all handles, except that the tickets belong to the parent. The table of handles is
//!   locked while the process forks, so that the child never finds it locked by a thread that it does not have.
//!
//! `unsafe` code is in [`ffi`] only; the other modules are safe.

pub mod code;
mod environment;
mod error;
mod exit;
pub mod ffi;
mod guard;
mod handles;
mod hit;
mod last_error;
mod report;
mod warnings;

pub use code::{Code, Format, Mode, Outcome, Severity, WarningKind};

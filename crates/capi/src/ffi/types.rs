//! The types that several functions use.

use std::ffi::{c_char, c_void};

/// The number of the interface. A program that was compiled for another number must not use the library; the soname has
/// the number, so the loader does not load another one. Additions do not change it.
pub const OPKEEP_ABI: u32 = 1;
/// The size of a digest in bytes.
pub const OPKEEP_DIGEST_SIZE: usize = 32;
/// A flag of a request: do not wait for another caller, but make the files as well.
pub const OPKEEP_NO_WAIT: u32 = 1;
/// A flag of a group: the files work on this machine only, such as a launcher that is linked to its C library. They are not
/// sent to a remote cache.
pub const OPKEEP_LOCAL: u32 = 1;
/// A flag of a request: the files work on this machine only, as those of a group with `OPKEEP_LOCAL`. They are neither requested from
/// a remote cache nor sent there, and other hosts do not wait for them.
pub const OPKEEP_STAYS_HERE: u32 = 2;

/// The handle of a cache. 0 in `id` is no handle. Copies are one handle.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Cache {
    /// The number of the handle.
    pub id: u64,
}

/// The handle of the files for one target. 0 in `id` is no handle. Copies are one handle.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The number of the handle.
    pub id: u64,
}

/// The handle of the files of a hit. 0 in `id` is no handle. Copies are one handle.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    /// The number of the handle.
    pub id: u64,
}

/// The handle of a ticket: the duty to make files while other callers wait. 0 in `id` is no handle. Copies are one handle.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// The number of the handle.
    pub id: u64,
}

/// The handle of a token that cancels waits. 0 in `id` is no handle. Copies are one handle.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Cancel {
    /// The number of the handle.
    pub id: u64,
}

/// The handle of the findings of a validation. 0 in `id` is no handle. Copies are one handle.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// The number of the handle.
    pub id: u64,
}

/// A file: its name and its bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// The name: 1 to 200 letters, digits, `_`, `-` and `.`, without a directory.
    pub name: *const c_char,
    /// The bytes.
    pub data: *const c_void,
    /// The number of bytes, at least 1.
    pub size: usize,
}

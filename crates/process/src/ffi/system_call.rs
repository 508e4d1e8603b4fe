//! Results of system calls.

use std::io;

/// A system call whose failure is a negative result.
pub(super) fn call(call: impl FnOnce() -> libc::c_long) -> io::Result<libc::c_long> {
    match call() {
        result if result < 0 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

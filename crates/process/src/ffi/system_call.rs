//! Results of system calls.

use std::io;

/// Returns the version of Landlock that the kernel has and that is on.
pub fn landlock_abi() -> Option<u32> {
    /// `LANDLOCK_CREATE_RULESET_VERSION` of Linux's `uapi/linux/landlock.h`.
    const VERSION: libc::c_uint = 1;
    let no_ruleset = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag, the call reads no memory, and opens nothing; the pointer must be null and the length 0.
    let abi =
        call(|| unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, no_ruleset, 0_usize, VERSION) });
    abi.ok().and_then(|abi| u32::try_from(abi).ok()).filter(|abi| *abi > 0)
}

/// A system call whose failure is a negative result.
pub(super) fn call(call: impl FnOnce() -> libc::c_long) -> io::Result<libc::c_long> {
    match call() {
        result if result < 0 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

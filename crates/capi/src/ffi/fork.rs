//! Handlers around `fork`.

/// Calls `before` before each fork of the process, and `after` after it, in the parent and in the child, on the thread that
/// forks. Best effort: without memory, no handlers are installed.
pub(crate) fn install(before: extern "C" fn(), after: extern "C" fn()) {
    let (before, after): (unsafe extern "C" fn(), unsafe extern "C" fn()) = (before, after);
    // SAFETY: the functions take nothing, do not unwind, and exist for the life of the process: the library is linked with
    // `nodelete`, and so is never unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
}

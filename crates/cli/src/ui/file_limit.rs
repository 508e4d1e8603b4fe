//! The limit on the size of files (`ulimit -f`): a write that fails, not a signal that kills.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Resource, getrlimit};
use signal_hook::consts::SIGXFSZ;

/// Knows whether a file of this process met the limit.
pub(crate) struct FileLimit(Arc<AtomicBool>);

impl FileLimit {
    /// From now on what is beyond the limit cannot be written, as on a full disk, and everything goes on as it does there.
    ///
    /// The signal is handled, not ignored, so that compilers have it as ever: handlers end with `exec`. One that went on
    /// would have to notice each write that fails.
    pub(crate) fn watch() -> Self {
        let reached = Arc::new(AtomicBool::new(false));
        // Without a handler the signal ends us, as it ends any program.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::clone(&reached));
        Self(reached)
    }

    /// What there is to say if a file met the limit since this was asked last.
    pub(crate) fn reached(&self) -> Option<String> {
        self.0.swap(false, Ordering::Relaxed).then(|| {
            let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
            format!(
                "a file met the limit of this process on the size of files, {limit} bytes, and was not written: raise it \
                 (`ulimit -f unlimited`)"
            )
        })
    }
}

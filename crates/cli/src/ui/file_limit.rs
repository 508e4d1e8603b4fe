//! The limit on the size of files (`ulimit -f`): makes a write beyond it fail, in place of a signal that ends the
//! process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Resource, getrlimit};
use signal_hook::consts::SIGXFSZ;

use crate::ui::text::counted;

/// A flag that is set when a file of this process reaches the limit.
pub(crate) struct FileLimit(Arc<AtomicBool>);

impl FileLimit {
    /// Makes a write beyond the limit fail, as on a full disk, from now on.
    ///
    /// The signal is handled, not ignored: `exec` removes handlers, so the signal still ends compilers, which need not notice
    /// each write that fails.
    pub(crate) fn watch() -> Self {
        let reached = Arc::new(AtomicBool::new(false));
        // Without a handler, the signal ends the process.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::clone(&reached));
        Self(reached)
    }

    /// Returns the warning, if a file reached the limit since the last call.
    pub(crate) fn reached(&self) -> Option<String> {
        self.0.swap(false, Ordering::Relaxed).then(|| {
            let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
            format!(
                "a file reached the limit of this process on the size of files, {}, and was not written: raise it \
                 (`ulimit -f unlimited`)",
                counted(limit, "byte")
            )
        })
    }
}

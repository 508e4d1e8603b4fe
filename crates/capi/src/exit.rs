//! The end of a program that has not closed its caches.
//!
//! What it published a moment ago may not be in the remote cache yet. Other hosts that need it wait for it, since this host has the
//! leases, and a process that is gone renews none: without a wait here, they would build it after a lease's time to live.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use opkeep_embed::FileCache;
use opkeep_fs::at_exit;

use crate::handles;

/// Has the process wait at its exit until what it published is sent. For a cache with a remote one.
pub(crate) fn send_at_exit() {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    if !IS_REGISTERED.swap(true, Ordering::SeqCst) && at_exit(send_all).is_err() {
        IS_REGISTERED.store(false, Ordering::SeqCst);
    }
}

extern "C" fn send_all() {
    let began = Instant::now();
    // A panic must not leave a function that C calls.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        for cache in handles::all::<FileCache>() {
            // The caches share the time that each may take. No host waits for what earlier processes left.
            cache.finish_own_uploads(cache.config().close_limit.saturating_sub(began.elapsed()), None);
        }
    }));
}

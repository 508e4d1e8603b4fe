//! A hook before each change of the file system.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use opkeep_fs::{Fs, FsCall, FsOp, Permit, Watcher};

/// A file system that calls `act` before each call that creates, renames, links or removes a name, and before the first
/// call after each of them: `act` runs between two calls of the code under test.
pub fn at_each_change(act: impl Fn(&FsCall<'_>) + Send + Sync + 'static) -> Fs {
    Fs::new().with_watcher(Arc::new(Changes { act, has_changed: AtomicBool::new(false) }))
}

struct Changes<F> {
    act: F,
    /// Whether the last call was a change.
    has_changed: AtomicBool,
}

impl<F: Fn(&FsCall<'_>) + Send + Sync> Watcher for Changes<F> {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        let changes = matches!(
            call.op,
            FsOp::Create | FsOp::CreateDir | FsOp::Rename | FsOp::Link | FsOp::Remove | FsOp::RemoveDir
        );
        if self.has_changed.swap(changes, Ordering::Relaxed) || changes {
            (self.act)(call);
        }
        Permit::Go
    }
}

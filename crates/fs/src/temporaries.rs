//! The temporary files and directories that this process has now: a program that a signal ends removes them.
//!
//! A destructor removes each of them. A signal, and the end of `main` while other threads work, run no destructors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::process::{ProcessId, without_fork};

static LIVE: Mutex<Live> = Mutex::new(Live { next: 0, of_number: BTreeMap::new() });
/// What is done before the first one is listed.
static ON_FIRST: OnceLock<fn()> = OnceLock::new();
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

struct Live {
    next: u64,
    of_number: BTreeMap<u64, Temporary>,
}

struct Temporary {
    path: PathBuf,
    is_dir: bool,
    process: ProcessId,
}

/// A temporary file or directory is listed until this is dropped.
#[derive(Debug)]
pub(crate) struct Listed(u64);

impl Listed {
    pub(crate) fn file(path: &Path) -> Self {
        Self::new(path, false)
    }

    pub(crate) fn dir(path: &Path) -> Self {
        Self::new(path, true)
    }

    fn new(path: &Path, is_dir: bool) -> Self {
        begin();
        let temporary = Temporary { path: path.to_owned(), is_dir, process: ProcessId::current() };
        without_fork(|| {
            let mut live = locked();
            let number = live.next;
            live.next += 1;
            live.of_number.insert(number, temporary);
            Self(number)
        })
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        without_fork(|| locked().of_number.remove(&self.0));
    }
}

/// Does what is to be done before the first temporary file, also for one without a name.
pub(crate) fn begin() {
    if !HAS_BEGUN.swap(true, Ordering::SeqCst)
        && let Some(act) = ON_FIRST.get()
    {
        act();
    }
}

fn locked() -> MutexGuard<'static, Live> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `act` before this process has its first temporary file or directory. For a program that handles signals only from then on.
pub fn on_first_temporary(act: fn()) {
    let _ = ON_FIRST.set(act);
}

/// Takes the temporary files and directories of this process off the list. Returns whether each is a directory.
pub(crate) fn take_own() -> Vec<(PathBuf, bool)> {
    let taken = without_fork(|| std::mem::take(&mut locked().of_number));
    let own = taken.into_values().filter(|it| it.process.is_current());
    own.map(|it| (it.path, it.is_dir)).collect()
}

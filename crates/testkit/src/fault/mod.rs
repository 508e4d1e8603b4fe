//! A disk with faults: for tests of any code that asks a [`Watcher`] before each access.
//!
//! [`FaultyDisk`] numbers the calls of an operation and causes one fault at one of them: an error, a short read or
//! write, the end of the process, or an interruption by another process. So a loop tries every fault at every call:
//!
//! ```
//! use opkeep_store::{StoreConfig, Store};
//! use opkeep_testkit::DirSnapshot;
//! use opkeep_testkit::fault::{Fault, FaultyDisk};
//!
//! let directory = tempfile::tempdir()?;
//! let before = DirSnapshot::of(directory.path())?;
//! let disk = FaultyDisk::new(directory.path());
//! let open = || Store::open(StoreConfig::new(directory.path()).with_watcher(disk.clone()));
//! open()?;
//! for (at, op) in (1..).zip(disk.calls()) {
//!     for fault in Fault::all_for(op) {
//!         before.restore(directory.path())?;
//!         disk.arm(at, fault);
//!         let _may_fail = open();
//!         assert!(disk.has_sprung());
//!         Store::open(StoreConfig::new(directory.path()))?;
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Death
//!
//! After [`Fault::Death`] every call is refused, so nothing is cleaned up and nothing more reaches the disk, whatever
//! the code does about its errors. Let the operation return: that closes its files and so releases its locks, as the
//! kernel does for a killed process.
//!
//! # Loss of power
//!
//! The disk also records the changes since [`FaultyDisk::arm`] that were not synced; older files are safe. After a
//! death, [`FaultyDisk::losses`] lists the possible results of a power cut at that moment, and [`Loss::apply`] applies
//! one to the real files. [`DirSnapshot`](crate::DirSnapshot) restores them for the next. The model is worse than any single file
//! system:
//!
//! * Of a file that was written to and not synced since, all bytes are there, none, half, or garbage of the same
//!   length.
//! * Each new name, rename and removal is done or undone, unless its directory was synced since; for a rename that is
//!   the directory of the new name. Up to four changes: every combination. Up to sixteen: each alone, and each with all
//!   later ones. More: none, all, only the oldest and only the newest; a death at an earlier call covers the rest.
//! * Modes and times keep their set values, since no promise depends on them.

mod power;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use opkeep_fs::{FsCall, FsOp, Permit, Watcher};
pub use power::Loss;
use rustix::io::Errno;

use power::Journal;

/// The fault of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call is not made, and fails with this error.
    Error(Errno),
    /// Half of the bytes are read or written. A write then fails as on a full disk.
    Short,
    /// The process ends before the call.
    Death,
    /// The process ends when half of the bytes are written.
    DeathWithin,
}

impl Fault {
    /// Errors of a failing disk, a full disk, another user's disk, a busy process, an exchanged server, and a file
    /// system without locks.
    pub const ERRORS: [Errno; 6] =
        [Errno::IO, Errno::NOSPC, Errno::ACCESS, Errno::MFILE, Errno::STALE, Errno::NOLCK];

    /// Every fault that is possible for a call of this kind.
    pub fn all_for(op: FsOp) -> Vec<Self> {
        let mut faults: Vec<_> = Self::ERRORS.map(Self::Error).into();
        faults.push(Self::Death);
        if matches!(op, FsOp::Read | FsOp::Write) {
            faults.push(Self::Short);
        }
        if op == FsOp::Write {
            faults.push(Self::DeathWithin);
        }
        faults
    }

    /// Whether the process is dead after it.
    pub const fn is_death(self) -> bool {
        matches!(self, Self::Death | Self::DeathWithin)
    }
}

/// Causes a fault in one call. Use it for one operation at a time: only then the numbers of calls are reproducible.
pub struct FaultyDisk {
    state: Mutex<State>,
}

struct State {
    calls: Vec<FsOp>,
    trap: Option<(usize, Trap)>,
    dead: bool,
    journal: Journal,
}

enum Trap {
    Fault(Fault),
    Meanwhile(Box<dyn FnOnce() + Send>),
}

impl FaultyDisk {
    /// A disk without a fault yet. A power cut affects the files below `root`, and no others.
    pub fn new(root: &Path) -> Arc<Self> {
        let state = State { calls: Vec::new(), trap: None, dead: false, journal: Journal::new(root) };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// Sets `fault` for the call number `at` from now; the first is 1. Earlier calls are forgotten, also a death.
    pub fn arm(&self, at: usize, fault: Fault) {
        self.set(Some((at, Trap::Fault(fault))));
    }

    /// Lets another process do `deed` just before the call number `at` from now, which is then made as usual.
    pub fn interrupt(&self, at: usize, deed: impl FnOnce() + Send + 'static) {
        self.set(Some((at, Trap::Meanwhile(Box::new(deed)))));
    }

    /// Removes the fault. Earlier calls are forgotten, also a death.
    pub fn disarm(&self) {
        self.set(None);
    }

    fn set(&self, trap: Option<(usize, Trap)>) {
        let mut state = self.state();
        state.calls.clear();
        state.journal.forget();
        state.dead = false;
        state.trap = trap;
    }

    /// The calls since then, without the refused calls of a dead process.
    pub fn calls(&self) -> Vec<FsOp> {
        self.state().calls.clone()
    }

    /// Whether the call with the fault was made.
    pub fn has_sprung(&self) -> bool {
        self.state().trap.is_none()
    }

    /// The changes that were not synced, in their order, as texts: equal files with equal texts have the same possible
    /// losses.
    pub fn at_risk(&self) -> Vec<String> {
        self.state().journal.at_risk()
    }

    /// The possible results of a power cut now, including no loss; empty if there are no unsynced changes.
    pub fn losses(&self) -> Vec<Loss> {
        self.state().journal.losses()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher for FaultyDisk {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        let mut state = self.state();
        if state.dead {
            return Permit::Fail(Errno::IO.into());
        }
        state.calls.push(call.op);
        let number = state.calls.len();
        let half = Permit::Short(call.bytes / 2);
        let permit = match state.trap.take_if(|(at, _)| *at == number).map(|(_, trap)| trap) {
            None => Permit::Go,
            Some(Trap::Fault(Fault::Error(error))) => return Permit::Fail(error.into()),
            Some(Trap::Fault(Fault::Short)) => half,
            Some(Trap::Fault(Fault::Death)) => {
                state.dead = true;
                return Permit::Fail(Errno::IO.into());
            }
            Some(Trap::Fault(Fault::DeathWithin)) => {
                state.dead = true;
                half
            }
            Some(Trap::Meanwhile(deed)) => {
                // The other process may use this disk, too.
                drop(state);
                deed();
                state = self.state();
                Permit::Go
            }
        };
        state.journal.note(call);
        permit
    }
}

//! A disk on which things go wrong: for tests of anything that asks a [`Watcher`] before each access.
//!
//! [`FaultyDisk`] numbers the calls of an operation and springs one trap at one of them: an error, half a read or
//! write, the end of the process, or another process that comes first. Trying every fault at every number is then a loop:
//!
//! ```
//! use opkeep_store::{StoreConfig, Store};
//! use opkeep_testkit::Folder;
//! use opkeep_testkit::fault::{Fault, FaultyDisk};
//!
//! let directory = tempfile::tempdir()?;
//! let before = Folder::of(directory.path())?;
//! let disk = FaultyDisk::new(directory.path());
//! let open = || Store::open(StoreConfig { watcher: Some(disk.clone()), ..StoreConfig::new(directory.path()) });
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
//! the code does about its errors. The operation must be left to return: that closes its files, and so ends its locks,
//! which is what the kernel does for a process that was killed.
//!
//! # Loss of power
//!
//! The disk also remembers what was not synced, from [`FaultyDisk::arm`] on: what was there before is safe. After a
//! death, [`FaultyDisk::losses`] lists what a power cut at that moment could have left, and [`Loss::apply`] does it to
//! the real files. [`Folder`](crate::Folder) keeps them, to try the next. The model, worse than any one file system:
//!
//! * The bytes of a file that was written to and not synced since are all there, none, half, or garbage of the same
//!   length.
//! * Each new name, rename and removal is done or undone, unless its directory was synced since; for a rename that is the
//!   directory of the new name. Up to four changes: every combination. Up to sixteen: each alone, and all since each.
//!   More: none, all, the oldest alone and the newest alone; what all since one would leave, a death there leaves too.
//! * Modes and times are as they were set, since no promise rests on them.

mod power;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use opkeep_fs::{FsCall, FsOp, Permit, Watcher};
pub use power::Loss;
use rustix::io::Errno;

use power::Journal;

/// What goes wrong with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call is not made, and fails so.
    Error(Errno),
    /// Half of the bytes are read or written. A write fails then, for want of space.
    Short,
    /// The process ends before the call.
    Death,
    /// The process ends when half of the bytes are written.
    DeathWithin,
}

impl Fault {
    /// Errors of a failing disk, a full one, one of another user, a busy process, a server that was exchanged, and a
    /// file system without locks.
    pub const ERRORS: [Errno; 6] =
        [Errno::IO, Errno::NOSPC, Errno::ACCESS, Errno::MFILE, Errno::STALE, Errno::NOLCK];

    /// Every fault that a call of this kind can meet.
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

/// Makes one call go wrong. Give it to one operation at a time: only then do numbers mean the same each time.
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
    /// A disk on which nothing goes wrong yet. What is below `root` can be lost with the power; other files cannot.
    pub fn new(root: &Path) -> Arc<Self> {
        let state = State { calls: Vec::new(), trap: None, dead: false, journal: Journal::new(root) };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// Has the call number `at` from now meet `fault`; the first is 1. Everything before is forgotten, death included.
    pub fn arm(&self, at: usize, fault: Fault) {
        self.set(Some((at, Trap::Fault(fault))));
    }

    /// Lets another process do `deed` just before the call number `at` from now, which is then made as usual.
    pub fn interrupt(&self, at: usize, deed: impl FnOnce() + Send + 'static) {
        self.set(Some((at, Trap::Meanwhile(Box::new(deed)))));
    }

    /// Has nothing go wrong from now on. Everything before is forgotten, death included.
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

    /// What was called since then, refused calls of the dead left out.
    pub fn calls(&self) -> Vec<FsOp> {
        self.state().calls.clone()
    }

    /// Whether the call that was to go wrong has come.
    pub fn has_sprung(&self) -> bool {
        self.state().trap.is_none()
    }

    /// What was changed and not synced, in the order of time, in words: from equal files with equal words here, the
    /// same can be left.
    pub fn at_risk(&self) -> Vec<String> {
        self.state().journal.at_risk()
    }

    /// What can be left if the power fails now, that all is well included; nothing if nothing is at risk.
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
                // The other process may ask this disk for something.
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

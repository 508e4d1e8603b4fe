//! A crash-safe, shareable, self-checking on-disk store for compiled kernels.
//!
//! The store keeps *entries*: a few named byte strings under a 256-bit key. It knows no operator, no compiler and no
//! framework; what the key covers and what the members mean is its caller's affair.
//!
//! # Layout
//!
//! ```text
//! <root>/                     CACHEDIR.TAG  .gitignore  op_cache.ini (limits, for people to set)
//!   v1/                       the format's version; STORE.TAG in it says that it is a store's
//!     <target>/               one directory a chip: Ascend910B1, cpu-x86_64, ... Limits are for each by itself
//!       entries/ab/abcd….kern one file an entry: published by one rename, read with one open;
//!                             last modified = last used
//!       locks/abcd…           one a key, only while a process creates that entry
//!       tmp/                  entries being written, or being deleted
//!       quarantine/           damaged entries, each with the reason beside it
//!       STORE.TAG             without it the directory is another program's, and nothing is written there
//!       size                  an estimate of the size of all that; no files are counted for it
//!       stats                 hits, misses, compiles, ...
//!       numbers.lock          held while one of these two is written
//!       gc.lock               held by the process that evicts
//!   v2/                       another version's, if one ran here: never opened, never counted, never deleted
//! ```
//!
//! # An entry
//!
//! All numbers little-endian.
//!
//! ```text
//! prefix   8  "OPKKERN\0"
//!          4  format, 2             4  length of the prefix, its digest included
//!         32  key                   8  length of the file
//!          8  created, Unix ns      8  cost: how long it took to make, in microseconds; 0: not known
//!          4  validation stamp, the caller's
//!          4  number of members     8  checksum of all bytes behind the eager members
//!        per member:  1  flags (1 = eager)   1  length of its name   8  length   32  SHA-256   n  name
//!         32  SHA-256 of the prefix so far
//! members  eager ones first, then the others; nothing between, nothing behind
//! ```
//!
//! A hit is one open, one fstat, one read. It checks that the key in the prefix is the one asked for, the prefix's
//! digest, the exact length, the SHA-256 of every member it returns (the eager ones), and the checksum of the rest.
//! The checksum's steps are bijections, so no change of a single byte escapes it: **an entry with any one byte changed
//! is never a hit**. Members that are not eager are checked by SHA-256 when they are read.
//!
//! # Promises
//!
//! * A reader sees a whole entry or none: entries appear by rename only, and are never written to afterwards.
//! * Readers take no locks. Locks ([`KeyLock`]) save work and guard removals; no hit's correctness rests on one.
//! * Damage (bytes that were fully read and do not check) is a miss with a reason, and can be quarantined. Trouble
//!   (EIO, ESTALE, EMFILE, EACCES, a short read) is a miss that leaves the entry alone.
//! * Only directories and files of trusted owners are used: a cached kernel is code that will run. See [`StoreConfig`].
//! * A directory that exceeds its limit loses entries that were idle for half an hour, cheap ones first ([`TargetStore::gc`]).
//!   It happens when a store is opened and while entries are put, by one process at a time; no process waits for it, and a
//!   look-up never does it. See [`Limits`].
//! * A look-up writes nothing but when the entry was last used, every ten minutes, and failing to write that loses no
//!   hit. What is counted ([`Statistics`]) is written once, when the last user is done.
//! * Only what the store itself would call so is ever deleted.
//! * A whole target can be checked beside builds ([`TargetStore::verify`]): every byte, every digest, and by its
//!   caller every content; that writes nothing. [`TargetStore::repair`] quarantines what is not whole, each entry under
//!   its key's lock and only if it still is the file that was judged.
//! * Whose a directory is, and who can write to it, is asked when it is used: of the root, `v1`, a target's directory and those
//!   in it when the target is opened; of one of the 256 directories of entries by the first look-up in it, and by each put,
//!   quarantine, eviction and listing; of `tmp`, `locks` and `quarantine` by each write. An eviction asks once for the entries
//!   of one directory, and goes on in the directories that it asked about, whatever their paths name by then. Of an entry's
//!   file it is asked by each look-up.
//! * Nothing follows a symbolic link below the root, whatever became one, and whenever: no path with a link in any of its
//!   parts is opened, written, renamed or deleted. The kernel sees to it with each call (`openat2`, Linux 5.6 and later),
//!   so it costs a look-up nothing. Where the kernel or a container does not know that call, each path is walked part by
//!   part, which costs a look-up a few microseconds.
//!
//! All promises are listed in the crate's `PROMISES.md`, each with the tests that fail without it.
//!
//! ```
//! use opkeep_digest::Digest;
//! use opkeep_store::{StoreConfig, EntryBuilder, Lookup, Store};
//!
//! # let directory = tempfile::tempdir()?;
//! let store = Store::open(StoreConfig::new(directory.path()))?.target("cpu-x86_64")?;
//! let key = Digest::of(b"everything that can change the kernel's bytes");
//! let entry = EntryBuilder::new(1).eager("object", b"\x7fELF...").lazy("header", b"for people");
//! store.put(&key, &entry)?;
//!
//! let Lookup::Hit(entry) = store.get(&key) else { panic!("just put") };
//! assert_eq!(entry.member("object"), Some(&b"\x7fELF..."[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checksum;
mod corruption;
mod entry;
mod error;
mod files;
mod gc;
mod inventory;
mod kernel_cache;
mod layout;
mod limits;
mod limits_file;
mod lock;
mod marker;
mod mode;
mod number_file;
mod outcome;
mod ownership;
mod problem;
mod repair;
mod size;
mod stats;
mod store;
mod usage_tracker;
mod verify;

pub use corruption::Corruption;
pub use entry::{Entry, EntryBuilder, MAX_ENTRY_BYTES};
pub use error::StoreError;
pub use gc::{GcOptions, GcReport};
pub use inventory::{FileTotals, TargetUsage};
pub use kernel_cache::resolve_path;
pub use limits::{LimitSettings, LimitWarning, Limits};
pub use lock::{KeyLock, LockOutcome, LockWaiter, TryLockOutcome, WaitOptions};
pub use marker::{is_store, is_target_directory};
pub use mode::{CacheMode, ParseModeError};
pub use outcome::{DamagedEntry, Lookup, Miss, Overwrite, PutOutcome};
pub use problem::{OtherFile, OtherFileKind, ProblemKind, StoreProblem};
pub use repair::{
    RepairAction, RepairActionKind, RepairOptions, RepairReport, UnrepairedItem, UnrepairedReason,
};
pub use size::SizeEstimate;
pub use stats::Statistics;
pub use store::target::TargetStore;
pub use store::{Access, Store, StoreConfig};
pub use verify::{Progress, VerifyOptions, VerifyReport};

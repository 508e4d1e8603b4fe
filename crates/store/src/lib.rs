//! A crash-safe, shareable, self-checking on-disk store for compiled kernels.
//!
//! The store keeps *entries*: a few named byte strings under a 256-bit key. It knows no operator, no compiler and no
//! framework; the caller decides what the key covers and what the members mean.
//!
//! # Layout
//!
//! ```text
//! <root>/                     CACHEDIR.TAG  .gitignore  op_cache.ini (limits, for people to set)
//!   v1/                       the version of the format; its STORE.TAG marks it as a store's
//!     <target>/               one directory a chip: Ascend910B1, cpu-x86_64, ... Each has its own limits
//!       entries/ab/abcd….kern one file an entry: published by one rename, read with one open;
//!                             last modified = last used
//!       locks/abcd…           one a key, only while a process creates that entry
//!       tmp/                  entries being written, or being deleted
//!       quarantine/           damaged entries, each with the reason beside it
//!       STORE.TAG             marks the directory; without it the store writes nothing there
//!       size                  an estimate of the size of the directory, kept without counting files
//!       stats                 hits, misses, compiles, ...
//!       numbers.lock          held while `size` or `stats` is written
//!       gc.lock               held by the process that evicts
//!     .builds/                records of builds, of the caller's content: at most 200 and 8 MiB, the oldest are removed
//!   v2/                       the directory of another version: never opened, counted or deleted
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
//!          8  created, Unix ns      8  cost: microseconds to create it; 0: unknown
//!          4  validation stamp of the caller
//!          4  number of members     8  checksum of all bytes behind the eager members
//!        per member:  1  flags (1 = eager)   1  length of its name   8  length   32  SHA-256   n  name
//!         32  SHA-256 of the prefix so far
//! members  eager ones first, then the lazy ones, without gaps, up to the end of the file
//! ```
//!
//! A hit is one open, one fstat, one read. It checks the requested key, the digest of the prefix, the exact length, the
//! SHA-256 of every eager member (a hit returns only these), and the checksum of the rest.
//! The checksum's steps are bijections, so no change of a single byte escapes it: **an entry with any one byte changed
//! is never a hit**. Members that are not eager are checked by SHA-256 when they are read.
//!
//! # Promises
//!
//! * A reader sees a complete entry or none: entries appear by rename only, and are never written to afterwards.
//! * Readers take no locks. Locks ([`KeyLock`]) save work and guard removals; a hit is correct without one.
//! * Damage (the bytes were read completely and fail a check) is a miss with a reason, and can be quarantined. An I/O error
//!   (EIO, ESTALE, EMFILE, EACCES, a short read) is a miss that does not change the entry.
//! * Only directories and files of trusted owners are used: a cached kernel is code that will run. See [`StoreConfig`].
//! * When a directory exceeds its limit, entries that were idle for half an hour are evicted, cheap ones first
//!   ([`TargetStore::gc`]). Eviction runs when a store is opened and while entries are put, in one process at a time; no
//!   process waits for it, and a look-up never starts it. See [`Limits`].
//! * A look-up writes only the time of the last use, at most every ten minutes; if that fails, the hit stands. The
//!   [`Statistics`] are written once, when the last clone of a target is dropped.
//! * The store deletes only files with names that the store itself gives.
//! * A target can be checked beside builds ([`TargetStore::verify`]): every byte, every digest, and, by the caller, every
//!   content; that writes nothing. [`TargetStore::repair`] quarantines invalid entries, each under its key's lock and only if
//!   the file still is the one that was checked.
//! * Owner and mode of a directory are checked when it is used: of the root, `v1`, a target's directory and the directories in
//!   it when the target is opened; of each of the 256 directories of entries at the first look-up in it, and at each put,
//!   quarantine, eviction and listing; of `tmp`, `locks` and `quarantine` at each write. An eviction checks a directory once
//!   for all its entries, and keeps that directory open, even if its path names another one by then. Owner and mode of an
//!   entry's file are checked at each look-up.
//! * No access below the root follows a symbolic link, even if a directory becomes one at any time: no path with a link in any
//!   of its parts is opened, written, renamed or deleted. The kernel enforces it in each call (`openat2`, Linux 5.6 and
//!   later), at no cost for a look-up. Where the kernel or a container lacks that call, each path is opened part by part,
//!   which costs a look-up a few microseconds.
//!
//! The crate's `PROMISES.md` lists all promises, each with the tests that fail without it.
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
mod entry_members;
mod error;
mod files;
mod gc;
mod inventory;
mod kernel_cache;
mod layout;
mod limits;
mod limits_file;
mod lock;
mod mark;
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
pub use entry::{ENTRY_FORMAT, Entry, EntryBuilder, EntryHead, MAX_ENTRY_BYTES, MemberHead};
pub use entry_members::EntryMembers;
pub use error::StoreError;
pub use gc::{EvictionPreview, GcOptions, GcReport, NextEviction};
pub use inventory::{FileTotals, TargetUsage};
pub use kernel_cache::resolve_path;
pub use limits::{LimitParameter, LimitRules, LimitSettings, LimitWarning, Limits};
pub use limits_file::{LIMITS_SECTION, LimitLine, LimitsFile};
pub use lock::{KeyLock, LockOutcome, LockWaiter, OpenFilePermit, TryLockOutcome, WaitOptions};
pub use mark::{Destination, UnsentEntry};
pub use marker::{is_store, is_target_directory};
pub use mode::{CacheMode, ParseModeError};
pub use outcome::{DamagedEntry, Lookup, Miss, Overwrite, PutOutcome};
pub use problem::{OtherFile, OtherFileKind, ProblemKind, StoreProblem};
pub use repair::quarantine::QuarantinedEntry;
pub use repair::{
    RepairAction, RepairActionKind, RepairOptions, RepairReport, UnrepairedItem, UnrepairedReason,
};
pub use size::SizeEstimate;
pub use stats::{Counter, Statistics};
pub use store::build_records::{BuildRecordKind, BuildRecords};
pub use store::directories::is_target_name;
pub use store::read::OpenEntry;
pub use store::target::TargetStore;
pub use store::{Access, Store, StoreConfig};
pub use verify::{Progress, VerifyOptions, VerifyReport};

//! The calls of the C library around a fork: a forked child closes the lock files of its parent, and learns that it is a child.
//!
//! A forked child shares the open files of its parent. So it would keep a lock alive after its parent was killed, and unlock
//! it if it dropped its copy of the lock. The handlers here, which the C library calls around each `fork`, close all
//! [listed](list) descriptors in the child, and count the forks.
//!
//! **No fork falls between opening and listing.** If another thread forks after a file was opened and before it is listed,
//! the child keeps that file. So a thread that opens a lock file compares [`settled_forks`] before with [`forks`] after it is
//! listed, and opens it again if they differ: the file that is locked then is one that no child has. Forks wait for nothing.
//!
//! **No other file is closed.** A descriptor is taken off the list before it is closed, so its number is free only when it
//! is not listed. A fork copies the table of descriptors first and the memory afterwards. If a thread closed another file in
//! between, and got its number for a lock file that it listed, the child closes that other file, which is closed for the code
//! in the child, too.
//!
//! Spawned programs are not concerned: all lock files are closed on `exec`. A child that was made without handlers (`vfork`,
//! `_Fork`, a direct system call) keeps the files until it executes a program or exits.
#![expect(
    unsafe_code,
    reason = "handlers around a fork, and the end of descriptors in a child, are not in a safe library"
)]

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::thread::sleep;
use std::time::Duration;

/// One more than the largest descriptor that can be listed. Linux allows no more by default (`fs.nr_open`).
const MOST: usize = 1 << 20;
const BITS: usize = 64;

/// The listed descriptors, one bit each. The memory of the part that was never used is not allocated.
static LISTED: [AtomicU64; MOST / BITS] = [const { AtomicU64::new(0) }; MOST / BITS];
/// The number of words of [`LISTED`] that were ever used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// The number of forks that this process has begun, and of those that have ended.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);
/// The number of forks between the first process and this one.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Whether the handlers are installed.
static STATE: AtomicU8 = AtomicU8::new(MISSING);
const MISSING: u8 = 0;
const IN_PROGRESS: u8 = 1;
const INSTALLED: u8 = 2;

/// Installs the handlers, once in a process and its forked children.
///
/// # Errors
/// There is no memory for them.
pub(crate) fn install() -> io::Result<()> {
    if STATE.load(SeqCst) == INSTALLED {
        return Ok(());
    }
    // Another thread installs them within microseconds. If it does not, this is a forked child without that thread.
    for _ in 0..100 {
        match STATE.compare_exchange(MISSING, IN_PROGRESS, SeqCst, SeqCst) {
            Ok(_) => break,
            Err(INSTALLED) => return Ok(()),
            Err(_) => sleep(Duration::from_millis(1)),
        }
    }
    // SAFETY: the handlers are functions of this program that use atomic variables and `close` only: nothing that another
    // thread may have locked at the fork. The C library removes them if it unloads this code.
    let failed = unsafe {
        libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child))
    };
    STATE.store(if failed == 0 { INSTALLED } else { MISSING }, SeqCst);
    if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failed)) }
}

extern "C" fn before_fork() {
    BEGUN.fetch_add(1, SeqCst);
}

extern "C" fn after_fork_in_parent() {
    ENDED.fetch_add(1, SeqCst);
}

extern "C" fn after_fork_in_child() {
    GENERATION.fetch_add(1, SeqCst);
    for (word, listed) in LISTED.iter().take(USED.load(SeqCst)).enumerate() {
        let mut bits = listed.swap(0, SeqCst);
        while bits != 0 {
            let descriptor = word * BITS + bits.trailing_zeros() as usize;
            // SAFETY: a listed descriptor is that of a `LockFile`, whose copy in this child neither uses nor closes it any more,
            // since the child is another generation. No other thread exists that could.
            unsafe { libc::close(descriptor as RawFd) };
            bits &= bits - 1;
        }
    }
    // The other threads, and the forks that they had begun, are not in the child.
    ENDED.store(BEGUN.load(SeqCst), SeqCst);
    STATE.store(INSTALLED, SeqCst);
}

/// Lists the descriptor of a lock file, which a forked child closes. Returns false if its number is too large.
pub(crate) fn list(descriptor: RawFd) -> bool {
    let number = descriptor as usize;
    let Some(word) = LISTED.get(number / BITS) else { return false };
    USED.fetch_max(number / BITS + 1, SeqCst);
    word.fetch_or(1 << (number % BITS), SeqCst);
    true
}

/// Takes a descriptor off the list. Call this before it is closed.
pub(crate) fn unlist(descriptor: RawFd) {
    let number = descriptor as usize;
    if let Some(word) = LISTED.get(number / BITS) {
        word.fetch_and(!(1 << (number % BITS)), SeqCst);
    }
}

/// Returns the number of forks that this process has begun.
pub(crate) fn forks() -> u64 {
    BEGUN.load(SeqCst)
}

/// Returns [`forks`], unless a fork is in progress.
pub(crate) fn settled_forks() -> Option<u64> {
    let begun = forks();
    (ENDED.load(SeqCst) == begun).then_some(begun)
}

/// Returns the number of forks between the first process and this one.
pub(crate) fn generation() -> u64 {
    GENERATION.load(SeqCst)
}

//! The calls of the C library around a fork: a forked child closes the lock files of its parent, and learns that it is a child.
//!
//! A forked child shares the open files of its parent. So it would keep a lock alive after its parent was killed, and unlock
//! it if it dropped its copy of the lock. The handlers here, which the C library calls around each `fork`, close all
//! [listed](list) descriptors in the child, and count the forks.
//!
//! **No fork falls between opening and listing.** If another thread forks after a file was opened and before it is listed,
//! the child keeps that file. So a thread that opens a lock file compares [`settled_forks`] before with [`forks`] after it is
//! listed, and opens it again if they differ: the file that is locked then is one that no child has.
//!
//! **No other file is closed.** A descriptor is taken off the list before it is closed, so its number is free only when it
//! is not listed. If other code closes it, such as a program that closes all its files, the number may be another file's: so
//! the list has the identity of each file, and the child closes no file with another one.
//!
//! **No fork falls into a change of memory** that a child must find complete and unlocked: [`hold_forks`]. These are the only
//! waits of a fork, and they are short.
//!
//! Spawned programs are not concerned: all lock files are closed on `exec`. A child that was made without handlers (`vfork`,
//! `_Fork`, a direct system call) keeps the files until it executes a program or exits.
//!
//! And one more call: [`is_ignored_signal`].
#![expect(
    unsafe_code,
    reason = "handlers around a fork, the end of descriptors in a child, and a signal's action are not in a safe library"
)]

use std::cell::{Cell, RefCell};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use crate::state::FileId;

/// One more than the largest descriptor that can be listed. Linux allows no more by default (`fs.nr_open`).
const MOST: usize = 1 << 20;
const BITS: usize = 64;

/// The listed descriptors, one bit each. The memory of the part that was never used is not allocated.
static LISTED: [AtomicU64; MOST / BITS] = [const { AtomicU64::new(0) }; MOST / BITS];
/// The file of each listed descriptor.
static FILES: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
/// The number of words of [`LISTED`] that were ever used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// The number of forks that this process has begun, and of those that have ended.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);
/// The number of forks between the first process and this one.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Locked while this process forks, and while a thread holds forks back.
static FORK: Mutex<()> = Mutex::new(());
thread_local! {
    static FORKING: RefCell<Option<NoForks>> = const { RefCell::new(None) };
    /// Whether this thread has locked [`FORK`].
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

/// No other thread forks this process while one exists. `None` if the thread has another one, for as long.
pub(crate) struct NoForks(Option<MutexGuard<'static, ()>>);

impl Drop for NoForks {
    fn drop(&mut self) {
        if self.0.is_some() {
            HOLDS.set(false);
        }
    }
}

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
    // SAFETY: the handlers are functions of this program that use atomic variables, `fstat`, `close`, and a lock that this thread
    // takes before the fork: nothing that another thread may have locked. The C library removes them if it unloads this code.
    let failed = unsafe {
        libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child))
    };
    STATE.store(if failed == 0 { INSTALLED } else { MISSING }, SeqCst);
    if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failed)) }
}

/// Has the C library call `act` when the process exits, by the end of `main` or by `exit`, while other threads still run. It must not
/// panic.
///
/// # Errors
/// There is no memory for it.
pub(crate) fn at_exit(act: extern "C" fn()) -> io::Result<()> {
    // SAFETY: the function lives as long as this code, and the C library calls it before it unloads that.
    match unsafe { libc::atexit(act) } {
        0 => Ok(()),
        _ => Err(io::ErrorKind::OutOfMemory.into()),
    }
}

/// Whether this process ignores a signal now: unless it chose that itself, it was started so, as by `nohup`. False for a number that no
/// signal has. Needs no `/proc`.
pub fn is_ignored_signal(number: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call changes nothing; it writes the present one to `action`, or fails.
    if unsafe { libc::sigaction(number, std::ptr::null(), action.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call wrote it.
    unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

extern "C" fn before_fork() {
    BEGUN.fetch_add(1, SeqCst);
    // If the handlers are installed twice, the lock is held by now.
    let _ = FORKING
        .try_with(|held| _ = held.try_borrow_mut().map(|mut held| _ = held.get_or_insert_with(hold_forks)));
}

extern "C" fn after_fork_in_parent() {
    allow_forks();
    ENDED.fetch_add(1, SeqCst);
}

fn allow_forks() {
    let _ = FORKING.try_with(|held| held.try_borrow_mut().map(|mut held| held.take()));
}

extern "C" fn after_fork_in_child() {
    allow_forks();
    GENERATION.fetch_add(1, SeqCst);
    for (word, listed) in LISTED.iter().take(USED.load(SeqCst)).enumerate() {
        let mut bits = listed.swap(0, SeqCst);
        while bits != 0 {
            let descriptor = word * BITS + bits.trailing_zeros() as usize;
            if file_of(descriptor as RawFd) == FILES.get(descriptor).map(|file| file.load(SeqCst)) {
                // SAFETY: this is the file of a `LockFile`, whose copy in this child neither uses nor closes it any more, since
                // the child is another generation. No other thread exists that could.
                unsafe { libc::close(descriptor as RawFd) };
            }
            bits &= bits - 1;
        }
    }
    // The other threads, and the forks that they had begun, are not in the child.
    ENDED.store(BEGUN.load(SeqCst), SeqCst);
    STATE.store(INSTALLED, SeqCst);
}

/// The file that is open with this descriptor.
fn file_of(descriptor: RawFd) -> Option<u64> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the call writes a `stat` to `stat`, or fails.
    if unsafe { libc::fstat(descriptor, stat.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call wrote it.
    let stat = unsafe { stat.assume_init() };
    Some(short(FileId { dev: stat.st_dev, ino: stat.st_ino }))
}

/// The identity of a file in one word.
fn short(FileId { dev, ino }: FileId) -> u64 {
    dev.rotate_left(BITS as u32 / 2) ^ ino
}

/// Waits for the forks that are in progress, and lets no other one begin until the result is dropped. The caller must start no
/// program meanwhile. A signal handler may fork all the same, in the thread that holds forks back: that fork does not wait, since
/// it would wait for itself.
pub(crate) fn hold_forks() -> NoForks {
    if HOLDS.get() {
        return NoForks(None);
    }
    let held = FORK.lock().unwrap_or_else(PoisonError::into_inner);
    HOLDS.set(true);
    NoForks(Some(held))
}

/// Lists the descriptor of the lock file `file`, which a forked child closes. Returns false if its number is too large.
pub(crate) fn list(descriptor: RawFd, file: FileId) -> bool {
    let number = descriptor as usize;
    let (Some(word), Some(listed)) = (LISTED.get(number / BITS), FILES.get(number)) else { return false };
    USED.fetch_max(number / BITS + 1, SeqCst);
    listed.store(short(file), SeqCst);
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

#[cfg(test)]
mod tests {
    use super::is_ignored_signal;

    #[test]
    fn an_ignored_signal_is_distinguished_from_others() {
        // A Rust program ignores this one from its begin on; no program can ignore SIGKILL.
        assert!(is_ignored_signal(libc::SIGPIPE));
        for signal in [libc::SIGKILL, libc::SIGUSR2, 0, -1, 100_000] {
            assert!(!is_ignored_signal(signal), "{signal}");
        }
    }
}

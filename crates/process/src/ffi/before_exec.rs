//! The steps of a child between fork and exec.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use super::notify;
use super::system_call::call;

/// The first descriptor that belongs to this process and not to the programs that it runs.
const FIRST_INHERITED: libc::c_uint = 3;

/// Settings that a child applies before its program starts.
#[derive(Debug)]
pub(crate) struct BeforeExec {
    /// The signal that the kernel sends to it when the thread that started it ends for any reason.
    pub(crate) when_orphaned: Signal,
    /// The descriptors beside the first three that the program keeps.
    pub(crate) descriptors: KeptDescriptors,
    /// A Landlock ruleset.
    pub(crate) ruleset: Option<Arc<OwnedFd>>,
    /// The socket that takes the descriptor of its reported system calls.
    pub(crate) observer: Option<Arc<OwnedFd>>,
}

/// Which of the descriptors that this process inherited or left open a program keeps, beside the first three.
#[derive(Debug)]
pub(crate) enum KeptDescriptors {
    /// All of them.
    All,
    /// Only these.
    Only(Vec<RawFd>),
}

impl KeptDescriptors {
    /// None of them.
    pub(crate) const NONE: Self = Self::Only(Vec::new());
}

/// Makes `command` apply `steps` in the child, between fork and exec. Unless `steps` keep them, descriptors that this process
/// inherited or left open are closed in the program: no key could cover the data that it reads through them.
pub(crate) fn before_exec(command: &mut Command, mut steps: BeforeExec) {
    if let KeptDescriptors::Only(kept) = &mut steps.descriptors {
        kept.sort_unstable();
    }
    let parent = getpid();
    let is_confined = steps.ruleset.is_some() || steps.observer.is_some();
    let observer = steps.observer.as_ref().map(|observer| observer.as_raw_fd());
    let filter = is_confined.then(|| notify::filter(observer));
    let prepare = move || {
        set_parent_process_death_signal(Some(steps.when_orphaned))?;
        // If the parent was gone before the call, no signal comes.
        if getppid() != Some(parent) {
            return Err(rustix::io::Errno::SRCH.into());
        }
        // A compiler need not notice each write that fails: beyond the limit on the size of files, the signal ends it. Python
        // ignores the signal, and programs inherit that.
        // SAFETY: the default action is no function that could be called.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
        if let KeptDescriptors::Only(kept) = &steps.descriptors {
            close_inherited(kept)?;
        }
        if is_confined {
            call(|| {
                let [on, none]: [libc::c_ulong; 2] = [1, 0];
                // SAFETY: this prctl takes numbers only.
                unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, on, none, none, none).into() }
            })?;
        }
        if let Some(ruleset) = &steps.ruleset {
            call(|| {
                let flags: libc::c_ulong = 0;
                // SAFETY: the call takes a descriptor, which `ruleset` keeps open, and flags.
                unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), flags) }
            })?;
        }
        match (&steps.observer, &filter) {
            (Some(observer), Some(filter)) => {
                let (listener, wait) = notify::listen(filter)?;
                send(observer, &listener, wait)
            }
            (None, Some(filter)) => notify::set(filter, 0).map(drop),
            (_, None) => Ok(()),
        }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed: `prepare` makes system calls alone, on
    // memory that was allocated before the fork and on its own stack, and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// Marks each descriptor except the first three and `kept`, which are sorted, as close-on-exec. Closing them now would close the one
/// through which the standard library learns that the program could not be started.
fn close_inherited(kept: &[RawFd]) -> io::Result<()> {
    let mut from = FIRST_INHERITED;
    for kept in kept.iter().filter_map(|fd| libc::c_uint::try_from(*fd).ok()) {
        if kept > from {
            close_range(from, kept - 1)?;
        }
        from = from.max(kept.saturating_add(1));
    }
    close_range(from, libc::c_uint::MAX)
}

/// Marks the descriptors from `first` to `last` as close-on-exec.
fn close_range(first: libc::c_uint, last: libc::c_uint) -> io::Result<()> {
    let flags = libc::CLOSE_RANGE_CLOEXEC;
    // SAFETY: the call takes numbers only.
    if call(|| unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) }).is_ok() {
        return Ok(());
    }
    // Linux before 5.11 lacks the call. No process has more descriptors than its limit.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 20);
    let end = u32::try_from(limit).unwrap_or(1 << 20).min(1 << 20).min(last.saturating_add(1));
    for fd in first..end {
        // SAFETY: setting a descriptor's flag touches no memory; one that is not open is an error without effect.
        unsafe { libc::fcntl(fd as libc::c_int, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

/// Sends a listener's descriptor through a socket, and how its calls wait.
fn send(socket: &OwnedFd, fd: &OwnedFd, wait: notify::Wait) -> io::Result<()> {
    let fds = [fd.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut buffer = SendAncillaryBuffer::new(&mut space);
    if !buffer.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(socket, &[IoSlice::new(&[wait as u8])], &mut buffer, notify::OF_LISTENER)?;
    Ok(())
}

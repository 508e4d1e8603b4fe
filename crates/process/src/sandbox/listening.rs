//! Waiting for a program's calls, and the descriptor to which they are reported.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};

use crate::ffi::{Listener, Wait};

/// Waits until there is something to read; false if the observation is stopped or nothing more can come.
pub(super) fn is_ready(fd: &impl AsFd, stopped: &io::PipeReader) -> io::Result<bool> {
    loop {
        let mut fds = [PollFd::new(fd, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        let [ready, over] = fds.map(|fd| fd.revents());
        if ready.contains(PollFlags::IN) {
            return Ok(true);
        }
        if !ready.is_empty() || !over.is_empty() {
            return Ok(false);
        }
    }
}

/// The state of a program's calls when the observation is about to end.
pub(super) enum LastCall {
    /// A call waits.
    Waits,
    /// No process is left that could make a call.
    Ended,
    /// A process still runs after the wait.
    Running,
}

/// Waits for the end of all processes that are observed, or for a call, for at most `most`.
pub(super) fn last_call(listener: &Listener, most: Duration) -> io::Result<LastCall> {
    let most = Timespec::try_from(most).map_err(io::Error::other)?;
    let mut fds = [PollFd::new(listener, PollFlags::IN)];
    match poll(&mut fds, Some(&most)) {
        Err(rustix::io::Errno::INTR) => {}
        polled => drop(polled?),
    }
    Ok(match fds[0].revents() {
        ready if ready.contains(PollFlags::IN) => LastCall::Waits,
        ready if ready.contains(PollFlags::HUP) => LastCall::Ended,
        _ => LastCall::Running,
    })
}

/// The descriptor that a child sends; `None` if the child ended before.
pub(super) fn receive(socket: &OwnedFd) -> io::Result<Option<Listener>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut buffer = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut byte)];
    let received = recvmsg(socket, &mut parts, &mut buffer, RecvFlags::CMSG_CLOEXEC)?;
    if received.flags.contains(ReturnFlags::CTRUNC) {
        // This process has too many open files to receive it.
        return Err(rustix::io::Errno::MFILE.into());
    }
    let mut fds = buffer.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fd = fds.next().and_then(|mut fds| fds.next());
    drop(buffer);
    let wait = if byte == [Wait::Killable as u8] { Wait::Killable } else { Wait::Interruptible };
    Ok(fd.map(|fd| Listener::new(fd, wait)))
}

//! Waiting for a program's calls, and the descriptor to which they are reported.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
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

/// Whether no process is left that could make a call.
pub(super) fn has_ended(listener: &Listener) -> io::Result<bool> {
    let mut fds = [PollFd::new(listener, PollFlags::IN)];
    poll(&mut fds, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(fds[0].revents().contains(PollFlags::HUP))
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

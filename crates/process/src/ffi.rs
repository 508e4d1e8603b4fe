//! The only `unsafe` code of this crate: what a child does before it starts.
#![expect(unsafe_code, reason = "a child has to be told before it starts what happens when its parent dies")]

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Has the kernel send `signal` to the child when the thread that starts it ends, however that happens.
pub(crate) fn signal_when_orphaned(command: &mut Command, signal: Signal) {
    let parent = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(signal))?;
        // A parent that was gone before the call sends no signal.
        if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; these are two system calls (prctl,
    // getppid), and nothing is allocated.
    unsafe { command.pre_exec(ask) };
}

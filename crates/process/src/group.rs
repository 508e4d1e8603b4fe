//! A program in its own process group, so that it ends with all its children.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};

use opkeep_fs::ProcessId;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};

use crate::ffi::{self, BeforeExec, KeptDescriptors};
use crate::{Domain, Observer, Sandbox};

/// The fate of a program whose parent exits first, for any reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnParentExit {
    /// The kernel kills it; its children may run on.
    Kill,
    /// The kernel sends SIGTERM to it; it ends its group itself.
    Terminate,
}

/// A running program with all its children. They are killed when this is dropped, except by a forked child of the process that
/// started it.
#[derive(Debug)]
pub struct ProcessGroup {
    child: Child,
    /// The process that started it.
    owner: ProcessId,
    reaped: bool,
}

impl ProcessGroup {
    /// Starts a program in its own process group. The parent of [`OnParentExit`] is the calling thread.
    ///
    /// # Errors
    /// It could not be started.
    pub fn start(command: &mut Command, orphan: OnParentExit, sandbox: Sandbox<'_>) -> io::Result<Self> {
        Self::start_with(command, orphan, sandbox, KeptDescriptors::NONE)
    }

    /// Starts a program in the same way. It keeps these open files that this process inherited.
    pub(crate) fn start_with(
        command: &mut Command,
        orphan: OnParentExit,
        sandbox: Sandbox<'_>,
        descriptors: KeptDescriptors,
    ) -> io::Result<Self> {
        command.process_group(0);
        let signal = match orphan {
            OnParentExit::Kill => Signal::KILL,
            OnParentExit::Terminate => Signal::TERM,
        };
        let steps = BeforeExec {
            when_orphaned: signal,
            descriptors,
            ruleset: sandbox.domain.map(Domain::ruleset),
            observer: sandbox.observer.map(Observer::socket),
        };
        ffi::before_exec(command, steps);
        Ok(Self { child: command.spawn()?, owner: ProcessId::current(), reaped: false })
    }

    /// The program, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Whether the program itself has ended. It is not reaped, so that its process number stays its own.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn has_ended(&self) -> io::Result<bool> {
        let Some(pid) = self.id() else { return Ok(true) };
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match waitid(WaitId::Pid(pid), look) {
            Ok(status) => Ok(status.is_some()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// A descriptor that becomes readable when the program itself ends; `None` if the system has none (Linux before
    /// 5.3) or no descriptor is free.
    pub(crate) fn end_descriptor(&self) -> Option<OwnedFd> {
        self.id().and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
    }

    /// Whether this process started the program, and not its parent before a fork.
    pub(crate) fn is_own(&self) -> bool {
        self.owner.is_current()
    }

    /// Sends SIGTERM to the whole group. A process may ignore it.
    pub(crate) fn terminate_group(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills the rest of the group and returns the status of the program itself.
    ///
    /// # Errors
    /// The system does not report the status; or another process started the program, of which this is a forked child.
    pub fn end(&mut self) -> io::Result<ExitStatus> {
        if !self.is_own() {
            return Err(io::Error::other("the program belongs to the parent process"));
        }
        self.signal(Signal::KILL);
        let status = self.child.wait()?;
        self.reaped = true;
        Ok(status)
    }

    /// Returns the status of a program that has ended. Its children run on.
    ///
    /// # Errors
    /// As of [`end`](Self::end).
    pub(crate) fn end_without_children(&mut self) -> io::Result<ExitStatus> {
        if !self.is_own() {
            return Err(io::Error::other("the program belongs to the parent process"));
        }
        let status = self.child.wait()?;
        self.reaped = true;
        Ok(status)
    }

    /// Sends a signal to the program and all its children that are in its group.
    pub(crate) fn signal(&self, signal: Signal) {
        // Until the program is reaped, no other process has its number, so this signals only its own group.
        if let Some(group) = self.id().filter(|_| !self.reaped && self.is_own()) {
            // Usually the group is already gone.
            let _ = kill_process_group(group, signal);
        }
    }

    fn id(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // The status is not needed.
        let _ = self.end();
    }
}

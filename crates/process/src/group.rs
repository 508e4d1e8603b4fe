//! A program in a process group of its own, so that it ends with all its children.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};

use crate::ffi::{self, BeforeExec};
use crate::{Domain, Observer, Sandbox};

/// What becomes of a program whose parent dies before it, however that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnParentExit {
    /// It is killed; what it had started may run to its own end.
    Kill,
    /// It is told by SIGTERM, and sees to the rest of its group itself.
    Terminate,
}

/// A running program and whatever it starts. When this is dropped, all of them are killed.
#[derive(Debug)]
pub struct ProcessGroup {
    child: Child,
    reaped: bool,
}

impl ProcessGroup {
    /// Starts a program in a group of its own. The parent that its fate hangs on is the thread that calls this.
    ///
    /// # Errors
    /// It could not be started.
    pub fn start(command: &mut Command, orphan: OnParentExit, sandbox: Sandbox<'_>) -> io::Result<Self> {
        command.process_group(0);
        let signal = match orphan {
            OnParentExit::Kill => Signal::KILL,
            OnParentExit::Terminate => Signal::TERM,
        };
        let steps = BeforeExec {
            when_orphaned: signal,
            ruleset: sandbox.domain.map(Domain::ruleset),
            observer: sandbox.observer.map(Observer::socket),
        };
        ffi::before_exec(command, steps);
        Ok(Self { child: command.spawn()?, reaped: false })
    }

    /// The program, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Whether the program itself has ended. It is not reaped, so that its number stays its own.
    ///
    /// # Errors
    /// The system does not say.
    pub fn has_ended(&self) -> io::Result<bool> {
        let Some(pid) = self.id() else { return Ok(true) };
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match waitid(WaitId::Pid(pid), look) {
            Ok(status) => Ok(status.is_some()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// What can be waited for: there is something to read in it when the program itself has ended. None where the system
    /// has no such thing (Linux before 5.3), or no file to spare.
    pub(crate) fn tells_of_its_end(&self) -> Option<OwnedFd> {
        self.id().and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
    }

    /// Sends SIGTERM to all of the group. A process that ignores it goes on.
    pub(crate) fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills whatever of the group still runs, and says how the program itself ended.
    ///
    /// # Errors
    /// The system does not say.
    pub fn end(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        let status = self.child.wait()?;
        self.reaped = true;
        Ok(status)
    }

    fn signal(&self, signal: Signal) {
        // While the program is not reaped its number cannot be another's, so this meets its own children only.
        if let Some(group) = self.id().filter(|_| !self.reaped) {
            // The group is gone already, as a rule.
            let _ = kill_process_group(group, signal);
        }
    }

    fn id(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // A drop needs no status.
        let _ = self.end();
    }
}

//! Processes that end with this one.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::disk;
use crate::ffi::end_with_parent;

/// The time in which a server ends that was asked to.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// A process in a group of its own, which is killed when this is dropped, and when the test program ends for any reason.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
}

impl Process {
    /// Starts a command, which writes to the log and reads nothing.
    pub(super) fn spawn(command: &mut Command, log: &Path) -> io::Result<Self> {
        let log = disk::log(log)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        end_with_parent(command);
        let mut owned = Command::new("");
        std::mem::swap(command, &mut owned);
        Ok(Self { child: spawn_from_lasting_thread(owned)? })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The status of a process that has ended.
    pub(super) fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process_group(group.ok_or(io::ErrorKind::NotFound)?, signal).map_err(io::Error::from)
    }

    /// Sends a signal that ends the process, and waits for the end.
    pub(super) fn end(&mut self, signal: Signal) -> io::Result<()> {
        if self.status()?.is_some() {
            return Ok(());
        }
        self.signal(signal)?;
        // A stopped process ends only when it goes on.
        self.signal(Signal::CONT)?;
        let began = Instant::now();
        while self.status()?.is_none() {
            if began.elapsed() > END_TIMEOUT {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.end(Signal::KILL);
    }
}

/// Starts a command from a thread that ends with this process: the kernel kills a child with the thread that started it, and a
/// test's thread may end before the server is used by the next test.
fn spawn_from_lasting_thread(command: Command) -> io::Result<Child> {
    type Request = (Command, Sender<io::Result<Child>>);
    static SPAWNER: OnceLock<Sender<Request>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, requests) = channel::<Request>();
        thread::spawn(move || {
            for (mut command, answer) in requests {
                let _ = answer.send(command.spawn());
            }
        });
        sender
    });
    let (answer, spawned) = channel();
    let gone = |_| io::Error::other("the thread that starts servers has ended");
    spawner
        .send((command, answer))
        .map_err(|_| io::Error::other("the thread that starts servers has ended"))?;
    // In a forked child of this process there is no such thread.
    spawned.recv_timeout(END_TIMEOUT).map_err(gone)?
}

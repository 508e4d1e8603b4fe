//! Locks on open files (`flock`).
//!
//! A lock belongs to the process that took it. A [`LockFile`] is listed from the time it is opened until it is closed, and a
//! forked child closes all that are listed: so the lock ends with its process, whatever the children do. The child's copy
//! of a lock refers to a closed file; it unlocks nothing, and returns errors.
//!
//! **Closed by other code.** A program that becomes a daemon may close all its files, and then get their numbers for its own.
//! So a lock file remembers which file it is, and is looked at before each use: if the number is no file's or another one's, it
//! is not used, unlocked or closed any more. The lock ended when the file was closed. The look and the use are two calls: a
//! thread must not close files that it did not open while another thread uses this crate.

use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;

use crate::call::{FsOp, Watch};
use crate::ffi;
use crate::limits::has_no_locks;
use crate::process::ProcessId;
use crate::state::{FileId, FileStat};

/// The number of attempts to open a lock file while the process forks.
const ATTEMPTS: u32 = 1000;
/// The pause while a fork is in progress.
const PAUSE: Duration = Duration::from_millis(1);

/// A file that was opened to be locked. A forked child closes it.
#[derive(Debug)]
pub struct LockFile {
    /// `None` while it is dropped.
    file: Option<File>,
    id: FileId,
    process: ProcessId,
}

/// A locked file, unlocked when dropped. Closing it would not suffice: a program that another thread is starting has the
/// file open for a moment, too. The copy in a forked child does nothing, since the lock belongs to the parent.
#[derive(Debug)]
pub struct FileLock {
    file: LockFile,
    /// For the watcher of the unlock call.
    watched: Option<(Watch, PathBuf)>,
}

/// The outcome of an attempt to lock. None of them is an error.
#[derive(Debug)]
pub enum TryLock {
    /// The lock is held now.
    Held(FileLock),
    /// Another process or thread holds it. The file stays open.
    Busy(LockFile),
    /// The file system has no locks.
    Unsupported(LockFile),
}

impl LockFile {
    /// Opens a file such that no forked child has it: not even one that another thread forks meanwhile.
    ///
    /// # Errors
    /// Those of `open`, which may be called several times; `EAGAIN` if the process forks all the time.
    pub fn open(mut open: impl FnMut() -> io::Result<File>) -> io::Result<Self> {
        ffi::install()?;
        for _ in 0..ATTEMPTS {
            let Some(before) = ffi::settled_forks() else {
                std::thread::sleep(PAUSE);
                continue;
            };
            let file = open()?;
            let (id, number) = (identity(&file)?, file.as_raw_fd());
            let file = Self { file: Some(file), id, process: ProcessId::current() };
            if !ffi::list(number, id) {
                return Err(Errno::MFILE.into());
            }
            if ffi::forks() == before {
                return Ok(file);
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// Returns the open file.
    ///
    /// # Errors
    /// The file is closed: this is a copy in a forked child, or other code closed it.
    pub fn file(&self) -> io::Result<&File> {
        let file = self.file.as_ref().filter(|_| self.process.is_current_generation());
        let file = file.filter(|file| identity(file).is_ok_and(|id| id == self.id));
        file.ok_or_else(|| io::Error::other("the lock file was closed, by a fork or by other code"))
    }

    /// Whether the file is open, and was opened by this process and not by its parent before a fork.
    pub fn is_own(&self) -> bool {
        self.process.is_current() && self.file().is_ok()
    }
}

fn identity(file: &File) -> io::Result<FileId> {
    Ok(FileStat::of(&rustix::fs::fstat(file)?).state.id)
}

impl Drop for LockFile {
    fn drop(&mut self) {
        let is_own = self.is_own();
        let Some(file) = self.file.take() else { return };
        if is_own {
            ffi::unlist(file.as_raw_fd());
        } else {
            // It was closed, and the number may be another file's by now.
            let _ = file.into_raw_fd();
        }
    }
}

impl FileLock {
    /// Tries to lock an open file, without waiting.
    ///
    /// # Errors
    /// That of the system. A file system without locks is no error.
    pub fn try_exclusive(file: LockFile) -> io::Result<TryLock> {
        Self::tried(file.try_with(File::try_lock), file, None)
    }

    /// Tries to take a shared lock of an open file, without waiting.
    ///
    /// # Errors
    /// That of the system. A file system without locks is no error.
    pub fn try_shared(file: LockFile) -> io::Result<TryLock> {
        Self::tried(file.try_with(File::try_lock_shared), file, None)
    }

    /// [`try_exclusive`](Self::try_exclusive) for the file at `path`, with each call watched.
    pub(crate) fn try_watched(file: LockFile, path: &Path, watch: &Watch) -> io::Result<TryLock> {
        let tried = watch.may(FsOp::Lock, path).map_err(TryLockError::Error);
        let watched = watch.is_watched().then(|| (watch.clone(), path.to_owned()));
        Self::tried(tried.and_then(|()| file.try_with(File::try_lock)), file, watched)
    }

    fn tried(
        tried: Result<(), TryLockError>,
        file: LockFile,
        watched: Option<(Watch, PathBuf)>,
    ) -> io::Result<TryLock> {
        match tried {
            Ok(()) => Ok(TryLock::Held(Self { file, watched })),
            Err(TryLockError::WouldBlock) => Ok(TryLock::Busy(file)),
            Err(TryLockError::Error(error)) if Errno::from_io_error(&error) == Some(Errno::INTR) => {
                Ok(TryLock::Busy(file))
            }
            Err(TryLockError::Error(error)) if has_no_locks(&error) => Ok(TryLock::Unsupported(file)),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Locks `file`, which no other process has. On a file system without locks, it is only open.
    pub(crate) fn of_new(file: LockFile) -> io::Result<Self> {
        match file.file()?.lock() {
            Err(error) if !has_no_locks(&error) => Err(error),
            _ => Ok(Self { file, watched: None }),
        }
    }

    /// Makes an exclusive lock a shared one.
    ///
    /// # Errors
    /// That of the system.
    pub fn share(&self) -> io::Result<()> {
        Ok(self.file()?.try_lock_shared()?)
    }

    /// The locked file.
    ///
    /// # Errors
    /// As [`LockFile::file`].
    pub fn file(&self) -> io::Result<&File> {
        self.file.file()
    }

    /// Whether this process holds the lock, and not its parent since before a fork.
    pub fn is_own(&self) -> bool {
        self.file.is_own()
    }

    /// Whether the locked file is still at `path`: another process may have removed it, and a new file may have the
    /// name.
    pub fn is_at(&self, path: &Path) -> bool {
        let found = std::fs::symlink_metadata(path).map(|found| FileId::of(&found));
        let own = self.file().and_then(File::metadata).map(|own| FileId::of(&own));
        matches!((own, found), (Ok(own), Ok(found)) if own == found)
    }
}

impl LockFile {
    fn try_with(&self, lock: fn(&File) -> Result<(), TryLockError>) -> Result<(), TryLockError> {
        lock(self.file().map_err(TryLockError::Error)?)
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if !self.is_own() {
            return;
        }
        let may = |(watch, path): &(Watch, PathBuf)| watch.may(FsOp::Unlock, path).is_ok();
        if let Ok(file) = self.file.file()
            && self.watched.as_ref().is_none_or(may)
        {
            let _ = file.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::os::unix::process::CommandExt;

    use rustix::io::FdFlags;

    use super::*;

    /// One test, since each fork of a test program copies the files of all tests in it.
    #[test]
    fn forks_while_a_lock_file_is_opened_or_closed() {
        a_file_that_a_forked_child_has_is_opened_again();
        a_file_with_the_number_of_a_closed_lock_stays_open_in_a_child();
        a_thread_that_holds_forks_back_forks();
    }

    /// As a signal handler does that interrupts the thread.
    fn a_thread_that_holds_forks_back_forks() {
        let (ends, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let fork = || {
                let mut program = std::process::Command::new("true");
                program.uid(rustix::process::geteuid().as_raw()).status().unwrap().success()
            };
            ends.send(crate::without_fork(|| fork() && crate::without_fork(fork) && fork())).unwrap();
        });
        assert_eq!(
            ended.recv_timeout(Duration::from_secs(20)),
            Ok(true),
            "the fork waits for its own thread"
        );
    }

    /// A child that was forked after a file was opened has that file, so another one is locked.
    fn a_file_that_a_forked_child_has_is_opened_again() {
        let temp = tempfile::NamedTempFile::new().unwrap();
        let mut opened = 0;
        let file = LockFile::open(|| {
            let file = File::open(temp.path());
            opened += 1;
            if opened == 1 {
                // With a user to set, the process is forked and not spawned.
                let mut program = std::process::Command::new("true");
                assert!(program.uid(rustix::process::geteuid().as_raw()).status().unwrap().success());
            }
            file
        });
        // Other tests fork nothing.
        assert_eq!(opened, 2);
        assert!(matches!(FileLock::try_exclusive(file.unwrap()), Ok(TryLock::Held(_))));
    }

    /// While the system still closes a lock file, another file gets its number; a child that is forked then has that one.
    fn a_file_with_the_number_of_a_closed_lock_stays_open_in_a_child() {
        let temp = tempfile::NamedTempFile::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut reader = listener.accept().unwrap().0;
        socket.set_nonblocking(true).unwrap();
        while (&socket).write(&[0; 1 << 16]).is_ok() {}
        socket.set_nonblocking(false).unwrap();
        // Closing it waits for the unsent bytes.
        rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::from_secs(60))).unwrap();
        let mut socket = Some(File::from(OwnedFd::from(socket)));
        let lock = LockFile::open(|| Ok(socket.take().unwrap())).unwrap();
        let number = lock.file().unwrap().as_raw_fd();
        let closing = std::thread::spawn(move || drop(lock));
        let opened = loop {
            let opened = rustix::io::fcntl_dupfd_cloexec(&temp, number).unwrap();
            if opened.as_raw_fd() == number {
                break opened;
            }
            assert!(!closing.is_finished(), "the number is free before the file is closed");
            std::thread::sleep(PAUSE);
        };
        assert!(!closing.is_finished());
        // Not closed in programs, so that one can look at it.
        rustix::io::fcntl_setfd(&opened, FdFlags::empty()).unwrap();
        let mut program = std::process::Command::new("readlink");
        program.arg(format!("/proc/self/fd/{number}")).uid(rustix::process::geteuid().as_raw());
        let found = String::from_utf8(program.output().unwrap().stdout).unwrap();
        assert_eq!(found.trim_end(), temp.path().to_str().unwrap());
        std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
        closing.join().unwrap();
    }
}

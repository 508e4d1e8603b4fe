//! New files under temporary names, published by one rename.
//!
//! Errors of closing a temporary file are ignored: the file was synced before, so closing has nothing left to write.

use std::borrow::Borrow;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use crate::call::FsOp;
use crate::dir::Dir;
use crate::process::ProcessId;
use crate::state::{FileId, FileState};

/// A new file under a temporary name, removed when dropped unless it was published. The copy in a forked child removes
/// nothing.
#[derive(Debug)]
pub struct TempFile<D: Borrow<Dir>> {
    dir: D,
    name: String,
    /// `None` after it is closed.
    file: Option<File>,
    is_published: bool,
    process: ProcessId,
}

impl<D: Borrow<Dir>> TempFile<D> {
    /// Creates it in `dir`, called `<prefix><process>-<number>`.
    ///
    /// # Errors
    /// That of the system.
    pub fn create(dir: D, prefix: &str, mode: u32) -> io::Result<Self> {
        let process = ProcessId::current();
        loop {
            let name = name_in(process, prefix);
            match dir.borrow().create_file(&name, mode) {
                Ok(file) => return Ok(Self { dir, name, file: Some(file), is_published: false, process }),
                // A dead process with this number left it, or a process of another host has it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Its temporary name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its temporary path.
    pub fn path(&self) -> PathBuf {
        self.dir.borrow().path().join(&self.name)
    }

    /// The open file, until [`close`](Self::close).
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Which file it is, until [`close`](Self::close), whatever has its name.
    pub fn id(&self) -> Option<FileId> {
        Some(FileId::of(&self.file.as_ref()?.metadata().ok()?))
    }

    /// Its state now.
    ///
    /// # Errors
    /// That of the system.
    pub fn state(&self) -> io::Result<FileState> {
        Ok(self.dir.borrow().look(&self.name)?.state)
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    /// That of the system.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(mut file) = self.file.as_ref() else { return Ok(()) };
        let watch = self.dir.borrow().watch();
        let short = match watch.is_watched() {
            true => watch.permit(FsOp::Write, &self.path(), None, bytes.len())?,
            false => None,
        };
        match short {
            None => file.write_all(bytes),
            Some(short) => {
                file.write_all(&bytes[..short.min(bytes.len())])?;
                Err(Errno::NOSPC.into())
            }
        }
    }

    /// Sets its mode, whatever the umask.
    ///
    /// # Errors
    /// That of the system.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.dir.borrow().watch().may_in(FsOp::SetMode, self.dir.borrow().path(), &self.name)?;
        self.file.as_ref().map_or(Ok(()), |file| file.set_permissions(Permissions::from_mode(mode)))
    }

    /// Makes its bytes durable.
    ///
    /// # Errors
    /// That of the system: a full disk or quota may show only here.
    pub fn sync(&self) -> io::Result<()> {
        self.dir.borrow().watch().may_in(FsOp::SyncData, self.dir.borrow().path(), &self.name)?;
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }

    /// Closes it: some file systems set a file's times only then.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Gives it the name `name` in `to`, replacing an existing file.
    ///
    /// # Errors
    /// That of the system.
    pub fn publish(mut self, to: &Dir, name: &str) -> io::Result<()> {
        if let Err(error) = self.dir.borrow().rename(&self.name, to, name) {
            // A file server may have renamed it, lost its answer, and refused the repeated request.
            let own = self.id();
            if own.is_none() || to.look(name).ok().map(|found| found.state.id) != own {
                return Err(error);
            }
        }
        self.is_published = true;
        Ok(())
    }

    /// Gives it the name `name` in `to`, unless that exists; returns whether it did.
    ///
    /// # Errors
    /// That of the system.
    pub fn publish_new(mut self, to: &Dir, name: &str) -> io::Result<bool> {
        let named = name_new(self.dir.borrow(), &self.name, to, name)?;
        self.is_published = named == Named::Renamed;
        Ok(named != Named::Taken)
    }

    /// The same in its own directory.
    ///
    /// # Errors
    /// That of the system.
    pub fn publish_new_here(mut self, name: &str) -> io::Result<bool> {
        let dir = self.dir.borrow();
        let named = name_new(dir, &self.name, dir, name)?;
        self.is_published = named == Named::Renamed;
        Ok(named != Named::Taken)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Renamed,
    /// It has both names now.
    Linked,
    Taken,
}

fn name_new(dir: &Dir, temporary: &str, to: &Dir, name: &str) -> io::Result<Named> {
    let named = match dir.rename_new(temporary, to, name) {
        Err(error) if cannot_rename_new(&error) => dir.link(temporary, to, name).map(|()| Named::Linked),
        renamed => renamed.map(|()| Named::Renamed),
    };
    match named {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Named::Taken),
        // The file system has neither such renames nor links: look first.
        Err(error) if cannot_link(&error) && to.may_exist(name) => Ok(Named::Taken),
        Err(error) if cannot_link(&error) => dir.rename(temporary, to, name).map(|()| Named::Renamed),
        named => named,
    }
}

impl<D: Borrow<Dir>> Drop for TempFile<D> {
    fn drop(&mut self) {
        if !self.is_published && self.process.is_current() {
            // A file that cannot be removed is pruned later.
            let _ = self.dir.borrow().remove(&self.name);
        }
    }
}

/// A name that no other process on this machine uses now: `<prefix><process>-<number>`.
pub fn unique_name(prefix: &str) -> String {
    name_in(ProcessId::current(), prefix)
}

fn name_in(process: ProcessId, prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}{}-{}", process.number(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Whether a file system, or the kernel, has no rename that keeps an existing file.
pub fn cannot_rename_new(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP))
}

/// Whether a file system has no second names.
fn cannot_link(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::PERM | Errno::NOSYS | Errno::NOTSUP))
}

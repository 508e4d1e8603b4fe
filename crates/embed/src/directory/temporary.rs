//! Temporary files, and those that killed processes left.
//!
//! They lie in a directory of their own, one for each user, below the base directory: no framework reads it, and it is small,
//! however many kernels there are.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::io;

use opkeep_fs::{Dir, FileId, FileKind, TempFile, unique_name};

/// The mode of the directory: no other user needs it.
pub(super) const MODE: u32 = 0o700;
/// The start of the names of its files; a random number, that of the process and one of the file follow.
const PREFIX: &str = "new-";
/// The age from which on a file is one that a killed process left, in nanoseconds. A file is written within seconds.
const LEFT_AFTER: i64 = 3_600_000_000_000;
/// The number of names that are looked at each time.
const LOOKS: usize = 1000;

/// The name of the directory of `user`.
pub(super) fn name(user: u32) -> String {
    format!("tmp.opkeep-user-{user}")
}

/// The open directory of the temporary files of this user.
pub(super) struct Temporary {
    dir: Dir,
    user: u32,
    has_pruned: Cell<bool>,
}

impl Temporary {
    pub(super) fn new(dir: Dir, user: u32) -> Self {
        Self { dir, user, has_pruned: Cell::new(false) }
    }

    /// Creates a file of these bytes. The first time, files that are left are removed.
    pub(super) fn create(&self, bytes: &[u8], mode: u32) -> io::Result<TempFile<&Dir>> {
        let file = TempFile::create(&self.dir, &random(PREFIX), mode)?;
        file.write(bytes)?;
        if !self.has_pruned.replace(true) {
            // Not needed for the file.
            let _ = self.prune(&file);
        }
        Ok(file)
    }

    /// Gives `file`, which is called `name` in `from`, the same name in `to`, in place of a file of that name. Returns whether it
    /// has that name then: other processes may replace both.
    pub(super) fn link(&self, from: &Dir, name: &str, file: FileId, to: &Dir) -> io::Result<bool> {
        let new = loop {
            let new = new_name(PREFIX);
            match from.link(name, &self.dir, &new) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                linked => break linked.map(|()| new)?,
            }
        };
        let linked = id_in(&self.dir, &new);
        let renamed = if linked == Some(file) { self.dir.rename(&new, to, name) } else { Ok(()) };
        // It is still there if it was not renamed, or if another process has linked the same file.
        if linked.is_some() && id_in(&self.dir, &new) == linked {
            let _ = self.dir.remove(&new);
        }
        renamed.map(|()| id_in(to, name) == Some(file))
    }

    /// Removes names that were given long before `new` was written. So the clock of the file system decides, which may be another
    /// machine's. A link keeps the time at which its file was written, but not that of the last change.
    fn prune(&self, new: &TempFile<&Dir>) -> io::Result<()> {
        let names = self.dir.list()?;
        let mut others = names.utf8().filter(|name| is_temporary(name) && *name != new.name()).peekable();
        if others.peek().is_none() {
            return Ok(());
        }
        let oldest = new.state()?.mtime - LEFT_AFTER;
        for name in others.take(LOOKS) {
            let Ok(found) = self.dir.look(name) else { continue };
            if found.kind == FileKind::File && found.user == self.user && found.state.ctime < oldest {
                self.dir.remove(name)?;
            }
        }
        Ok(())
    }
}

/// The identity of what is called `name`.
pub(super) fn id_in(dir: &Dir, name: &str) -> Option<FileId> {
    dir.look(name).ok().map(|found| found.state.id)
}

/// A name that no other process uses now, also of another host or container, whose processes may have the same numbers.
pub(super) fn new_name(prefix: &str) -> String {
    unique_name(&random(prefix))
}

/// The prefix, and a random number of 16 digits.
fn random(prefix: &str) -> String {
    // The system's random numbers are its seed.
    format!("{prefix}{:016x}-", RandomState::new().hash_one(prefix))
}

/// Whether this module gives files such names: `new-<16 random digits>-<process>-<number>`.
fn is_temporary(name: &str) -> bool {
    let is_random =
        |text: &str| text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = name.strip_prefix(PREFIX).unwrap_or_default().split('-');
    parts.next().is_some_and(is_random)
        && parts.next().is_some_and(is_number)
        && parts.next().is_some_and(is_number)
        && parts.next().is_none()
}

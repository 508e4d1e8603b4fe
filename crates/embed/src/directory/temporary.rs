//! Temporary files, and those that killed processes left.
//!
//! They lie in a directory of their own, one for each user, below the base directory: no framework reads it, and it is small,
//! however many kernels there are.

use std::cell::Cell;
use std::io;

use opkeep_fs::{Dir, FileKind, TempFile, unique_name};

/// The mode of the directory: no other user needs it.
pub(super) const MODE: u32 = 0o700;
/// The start of the names of its files; a number of the process and one of the file follow.
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
        let file = TempFile::create(&self.dir, PREFIX, mode)?;
        file.write(bytes)?;
        if !self.has_pruned.replace(true) {
            // Not needed for the file.
            let _ = self.prune(&file);
        }
        Ok(file)
    }

    /// Gives the file called `name` in `from` the same name in `to`, in place of a file of that name.
    pub(super) fn link(&self, from: &Dir, name: &str, to: &Dir) -> io::Result<()> {
        let new = unique_name(PREFIX);
        from.link(name, &self.dir, &new)?;
        let renamed = self.dir.rename(&new, to, name);
        // It is still there if the rename failed, or if another process has linked the same file.
        let _ = self.dir.remove(&new);
        renamed
    }

    /// Removes files that are much older than `new`. So the clock of the file system decides, which may be another machine's.
    fn prune(&self, new: &TempFile<&Dir>) -> io::Result<()> {
        let names = self.dir.list()?;
        let mut others = names.utf8().filter(|name| is_temporary(name) && *name != new.name()).peekable();
        if others.peek().is_none() {
            return Ok(());
        }
        let oldest = new.state()?.mtime - LEFT_AFTER;
        for name in others.take(LOOKS) {
            let Ok(found) = self.dir.look(name) else { continue };
            if found.kind == FileKind::File && found.user == self.user && found.state.mtime < oldest {
                self.dir.remove(name)?;
            }
        }
        Ok(())
    }
}

/// Whether this module gives files such names: `new-<process>-<number>`.
fn is_temporary(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

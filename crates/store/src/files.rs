//! Operations on files: read a complete file, publish by one rename, create once.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use crate::layout::{LOCK, NEW, PUT};
use opkeep_fs::{Dir, FileStat, LockFile, RootedFs, TempFile, cannot_rename_new, unique_name};
use opkeep_text::counted;

/// Reads a file with one open, one fstat and one read.
///
/// # Errors
/// It has more than `limit` bytes, or it cannot be read.
pub(crate) fn read_whole(fs: &RootedFs, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (file, stat) = open(fs, path)?;
    match stat.state.len <= limit {
        true => read(fs, &file, path, stat.state.len),
        false => Err(io::Error::other(format!("it has more than {limit}", limit = counted(limit, "byte")))),
    }
}

/// Opens a regular file, and returns its state.
pub(crate) fn open(fs: &RootedFs, path: &Path) -> io::Result<(File, FileStat)> {
    let file = fs.open(path).map_err(|error| closed(fs, path, error))?;
    let stat = fs.stat(&file, path)?;
    match stat.is_file() {
        true => Ok((file, stat)),
        false => Err(io::Error::other("not a regular file")),
    }
}

/// Says why this user may not read the file, and what opens it: in a store of several users, it may be another one's. Other errors stay.
fn closed(fs: &RootedFs, path: &Path, error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    let Ok(found) = fs.look(path) else { return error };
    let groups = rustix::process::getgroups().unwrap_or_default();
    let groups = groups.into_iter().chain([rustix::process::getegid()]).map(|group| group.as_raw()).collect();
    let reader = Reader { user: rustix::process::geteuid().as_raw(), groups };
    io::Error::new(error.kind(), reader.why_closed(found.mode & 0o7777, found.user, found.group))
}

/// A user that reads files, and the groups that it is in.
struct Reader {
    user: u32,
    groups: Vec<u32>,
}

impl Reader {
    /// Returns why the user may not read a file of `owner` and `group`, and what would open it.
    fn why_closed(&self, mode: u32, owner: u32, group: u32) -> String {
        let Self { user, groups } = self;
        let (is_own, is_in_group) = (owner == *user, groups.contains(&group));
        let (class, bit) = match (is_own, is_in_group) {
            (true, _) => ('u', 0o400),
            (false, true) => ('g', 0o040),
            (false, false) => ('o', 0o004),
        };
        if mode & bit != 0 {
            return format!(
                "its owner is user {owner}, and its mode {mode:04o} would let user {user} read it; an access control list, or \
                 the file system, refuses"
            );
        }
        if is_own {
            return format!("its mode is {mode:04o}; `chmod u+r` opens it to its owner, this user");
        }
        let closed = format!("its owner is user {owner}, and its mode {mode:04o} keeps user {user} out");
        match class {
            'g' => format!("{closed}; `chmod g+r`, by that owner or root, opens it to its group"),
            _ if mode & 0o040 != 0 => {
                format!("{closed}, which is not in its group {group}; root can add that user to the group")
            }
            _ => format!(
                "{closed}, which is not in its group {group}; `chgrp` to a group of both, and `chmod g+r`, by that owner or \
                 root, open it to that group"
            ),
        }
    }
}

/// Reads the `length` bytes of a file that was just opened.
pub(crate) fn read(fs: &RootedFs, file: &File, path: &Path, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length as usize)?;
    fs.read(file, path, length as usize, &mut bytes)?;
    match bytes.len() as u64 == length {
        true => Ok(bytes),
        // The file system returned less than it announced: an I/O error, not damage.
        false => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ended early")),
    }
}

/// Writes `bytes` to a new file in `temps`, syncs its data and renames it to `name` in the open directory `shard`, with mode
/// `mode`. Leaves nothing on failure.
pub(crate) fn publish(temps: Dir, shard: &Dir, name: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
    let temp = TempFile::create(temps, PUT, 0o600)?;
    temp.write(bytes)?;
    temp.set_mode(mode)?;
    temp.sync()?;
    temp.publish(shard, name)
}

/// Writes a small file atomically, unless it exists.
pub(crate) fn write_new(fs: &RootedFs, path: &Path, text: &str) -> io::Result<()> {
    if fs.look(path).is_ok() {
        return Ok(());
    }
    let directory = path.parent().ok_or_else(|| io::Error::other("the path has no directory"))?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let temp = fs.temp_file(directory, NEW)?;
    temp.write(text.as_bytes())?;
    temp.set_mode(0o644)?;
    // The file is never written again, so damage by a power cut would stay.
    temp.sync()?;
    temp.publish_new_here(name).map(drop)
}

/// Creates a directory and its parents. An existing directory is no error.
pub(crate) fn create_dirs(fs: &RootedFs, path: &Path, mode: u32) -> io::Result<()> {
    match fs.create_dir(path, mode) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = path.parent().ok_or(error)?;
            create_dirs(fs, parent, mode)?;
            exists_is_fine(fs.create_dir(path, mode))
        }
        other => exists_is_fine(other),
    }
}

/// Creates one directory. An existing directory is no error. A shared directory gets its mode, regardless of the umask,
/// before it gets its name, so that the group can always enter it.
pub(crate) fn create_dir(fs: &RootedFs, path: &Path, shared: bool) -> io::Result<()> {
    if !shared {
        return exists_is_fine(fs.create_dir(path, 0o755));
    }
    if fs.look(path).is_ok() {
        return Ok(());
    }
    let open_up = |path: &Path| fs.set_dir_mode(&fs.open_dir(path)?, 0o2775);
    let parent = path.parent().ok_or_else(|| io::Error::other("the path has no directory"))?;
    let temp = parent.join(unique_name(NEW));
    fs.create_dir(&temp, 0o755)?;
    let named = open_up(&temp).and_then(|()| fs.rename_new(&temp, path));
    let Err(error) = named else { return Ok(()) };
    // If this fails, the empty directory is pruned later.
    let _ = fs.remove_dir(&temp);
    match error {
        error if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // Until its mode is set, the group cannot enter the directory.
        error if cannot_rename_new(&error) => {
            exists_is_fine(fs.create_dir(path, 0o755))?;
            open_up(path)
        }
        error => Err(error),
    }
}

fn exists_is_fine(made: io::Result<()>) -> io::Result<()> {
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// The modes of a file that several processes share, without and with a group.
struct Modes {
    own: u32,
    shared: u32,
}

/// The modes of lock files: a process that can open a lock can hold it.
const FOR_LOCKS: Modes = Modes { own: 0o600, shared: 0o660 };
/// The modes of counters files: a process that may read entries may read the counters.
const FOR_NUMBERS: Modes = Modes { own: 0o644, shared: 0o664 };

/// Opens a file to lock it, and creates it if it is missing.
pub(crate) fn open_lock(fs: &RootedFs, path: &Path, shared: bool) -> io::Result<LockFile> {
    open_or_create(fs, path, shared, &FOR_LOCKS, RootedFs::open_lock)
}

/// Opens a file of numbers to change it, and creates it if it is missing.
pub(crate) fn open_numbers(fs: &RootedFs, path: &Path, shared: bool) -> io::Result<File> {
    open_or_create(fs, path, shared, &FOR_NUMBERS, RootedFs::open_to_change)
}

fn open_or_create<T>(
    fs: &RootedFs,
    path: &Path,
    shared: bool,
    modes: &Modes,
    open: fn(&RootedFs, &Path, Option<u32>) -> io::Result<T>,
) -> io::Result<T> {
    if !shared {
        return open(fs, path, Some(modes.own));
    }
    // The umask may exclude the group, so a new file gets its mode before it gets its name.
    let directory = path.parent().unwrap_or(path);
    loop {
        match open(fs, path, None) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let temp = fs.temp_file(directory, LOCK)?;
        temp.set_mode(modes.shared)?;
        temp.publish_new_here(name)?;
    }
}

/// Touches an open file. Returns the file's new time, which is now by the file system's clock.
pub(crate) fn touch(fs: &RootedFs, file: &File, path: &Path) -> io::Result<SystemTime> {
    fs.touch(file, path)?;
    fs.stat(file, path).map(|now| now.modified())
}

/// Restores a file to its path. If another file has that name by now, that file stays, and the restored one is removed.
pub(crate) fn restore(fs: &RootedFs, from: &Path, to: &Path) -> io::Result<()> {
    match fs.link(from, to) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => fs.remove(from),
    }
}

/// Replaces the content of an open file.
pub(crate) fn overwrite(fs: &RootedFs, file: &File, path: &Path, text: &str) -> io::Result<()> {
    fs.set_length(file, path, 0)?;
    fs.write_start(file, path, text.as_bytes())
}

/// Whether all names in the directory are in `names`, except those of temporary files of dead processes.
pub(crate) fn holds_only(dir: &Dir, names: &[&str]) -> bool {
    let is_one = |found: &str| names.contains(&found) || found.starts_with(NEW);
    dir.list().is_ok_and(|found| found.utf8().all(is_one))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What opens a file depends on the class of permissions that is the reader's: what the others may do does not count.
    #[test]
    fn a_closed_file_is_opened_to_the_class_of_its_reader() {
        let why = |mode: u32, user: u32, groups: &[u32]| {
            Reader { user, groups: groups.to_vec() }.why_closed(mode, 1, 7)
        };
        let cases: [(u32, u32, &[u32], &str); 9] = [
            (0o000, 1, &[7], "`chmod u+r`"),
            (0o044, 1, &[7], "`chmod u+r`"),
            (0o400, 1, &[7], "an access control list"),
            (0o600, 2, &[5, 7], "`chmod g+r`"),
            (0o604, 2, &[7], "`chmod g+r`"),
            (0o640, 2, &[7], "an access control list"),
            (0o640, 2, &[5], "is not in its group 7; root can add that user"),
            (0o600, 2, &[5], "is not in its group 7; `chgrp`"),
            (0o604, 2, &[5], "an access control list"),
        ];
        for (mode, user, groups, expected) in cases {
            let text = why(mode, user, groups);
            assert!(text.contains(expected), "{mode:04o} for user {user} in {groups:?}: {text}");
            assert_eq!(text.contains("chmod u+r"), expected.contains("chmod u+r"), "{text}");
        }
    }
}

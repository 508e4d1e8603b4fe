//! Moving files between folders: every change that a repair makes to the disk, but for what it fills in.
//!
//! All names are reached through the descriptors of open folders, links never followed, nothing ever replaced.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::disk::{Identity, give};
use crate::own_name::{OWN, displaced_as};
use crate::survey::look::Dir;

const FOLDER_MODE: Mode = Mode::from_raw_mode(0o750);
const FILE_MODE: Mode = Mode::from_raw_mode(0o640);

/// Makes the folder `name` in `dir`, if it is not there, and opens it.
pub(crate) fn folder(dir: &Dir, name: &OsStr) -> io::Result<Dir> {
    match new_folder(dir, name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => dir.below(name),
        made => made,
    }
}

/// Makes the folder `name` in `dir`, which must not be there, and opens it.
pub(crate) fn new_folder(dir: &Dir, name: &OsStr) -> io::Result<Dir> {
    rustix::fs::mkdirat(dir, name, FOLDER_MODE)?;
    let made = dir.below(name)?;
    give(dir, &made);
    Ok(made)
}

/// Writes a file that must not be there yet, and brings it to the disk.
pub(crate) fn write_new(dir: &Dir, name: &str, bytes: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(dir, name, flags, FILE_MODE)?);
    give(dir, &file);
    file.write_all(bytes)?;
    file.sync_all()
}

/// Renames a file of our own over another one of our own.
pub(crate) fn rename_over(dir: &Dir, name: &str, new: &str) -> io::Result<()> {
    Ok(rustix::fs::renameat(dir, name, dir, new)?)
}

/// Moves a file to a name that must be free.
pub(crate) fn rename_new(from: impl AsFd, name: &str, to: impl AsFd, new: &str) -> io::Result<()> {
    let (from, to) = (from.as_fd(), to.as_fd());
    match rustix::fs::renameat_with(from, name, to, new, RenameFlags::NOREPLACE) {
        // The file system, or the kernel, does not know how to keep what is there.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => rename_by_link(from, name, to, new),
        renamed => Ok(renamed?),
    }
}

/// The same where a rename always replaces: a link never does.
fn rename_by_link(from: BorrowedFd<'_>, name: &str, to: BorrowedFd<'_>, new: &str) -> io::Result<()> {
    match rustix::fs::linkat(from, name, to, new, AtFlags::empty()) {
        Ok(()) => remove_linked(from, name, to, new),
        // Neither links nor such renames: what remains is to look.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) if !exists(to, new) => {
            Ok(rustix::fs::renameat(from, name, to, new)?)
        }
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => Err(Errno::EXIST.into()),
        Err(error) => Err(error.into()),
    }
}

/// Removes the name `name` of a file that is called `new`, too. Another program may have given that name to a file of its
/// own: so it is renamed, and compared, before it is removed. A call that is killed in between leaves a displaced file.
fn remove_linked(from: BorrowedFd<'_>, name: &str, to: BorrowedFd<'_>, new: &str) -> io::Result<()> {
    let remove = |name: &str| Ok(rustix::fs::unlinkat(from, name, AtFlags::empty())?);
    // No other program uses our names.
    if name.starts_with(OWN) {
        return remove(name);
    }
    let old = displaced_as(name);
    match rustix::fs::renameat(from, name, from, &*old) {
        Ok(()) if is_same(from, &old, to, new) => remove(&old),
        Ok(()) => {
            // If the name was taken once more, the file stays displaced.
            match rustix::fs::linkat(from, &*old, from, name, AtFlags::empty()) {
                Ok(()) => remove(&old),
                Err(_) => Ok(()),
            }
        }
        Err(Errno::NOENT) => Ok(()),
        // What remains is to remove it as it is.
        Err(Errno::NAMETOOLONG) => remove(name),
        Err(error) => Err(error.into()),
    }
}

/// Whether two names are of one file.
fn is_same(dir: BorrowedFd<'_>, one: &str, there: BorrowedFd<'_>, other: &str) -> bool {
    let look =
        |dir, name| rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|it| Identity::of(&it));
    look(there, other).is_some_and(|other| Identity::are_of([look(dir, one), look(dir, one)], &other))
}

/// Whether anything bears that name, or we cannot tell.
pub(crate) fn exists(dir: impl AsFd, name: &str) -> bool {
    !matches!(rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
}

/// Removes a file of our own.
pub(crate) fn remove(dir: impl AsFd, name: &str) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?)
}

/// Removes a folder if nothing is in it.
pub(crate) fn remove_folder(dir: &Dir, name: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)?)
}

/// Makes a folder's names durable. Best effort: not every file system can.
pub(crate) fn sync(dir: &Dir) {
    let _ = rustix::fs::fsync(dir);
}

/// The file system that an open folder is on.
pub(crate) fn device(dir: &Dir) -> io::Result<u64> {
    Ok(rustix::fs::fstat(dir)?.st_dev)
}

/// Opens a lock file, which must be a regular one. None if there is none.
///
/// To lock it as CANN does it must be open for writing; where that is not allowed, for reading.
pub(crate) fn lock_file(dir: &Dir, name: &str) -> io::Result<Option<(File, bool)>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open =
        |access| rustix::fs::openat(dir, OsStr::from_bytes(name.as_bytes()), flags | access, Mode::empty());
    let (file, writable) = match open(OFlags::RDWR) {
        Ok(file) => (file, true),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => (open(OFlags::RDONLY)?, false),
        Err(error) => return Err(error.into()),
    };
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(Some((file.into(), writable)))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests look at what was done")]

    use std::fs;

    use super::*;

    #[test]
    fn what_is_there_is_never_replaced() {
        type Rename = fn(BorrowedFd<'_>, &str, BorrowedFd<'_>, &str) -> io::Result<()>;
        let usual: Rename = |from, name, to, new| rename_new(from, name, to, new);
        for rename in [usual, rename_by_link] {
            let base = tempfile::tempdir().unwrap();
            let path = |name: &str| base.path().join(name);
            fs::write(path("a"), "a").unwrap();
            fs::write(path("b"), "b").unwrap();
            let dir = Dir::open(base.path()).unwrap();
            let dir = dir.as_fd();
            let error = rename(dir, "a", dir, "b").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(
                (fs::read(path("a")).unwrap(), fs::read(path("b")).unwrap()),
                (b"a".into(), b"b".into())
            );
            rename(dir, "a", dir, "c").unwrap();
            assert!(!path("a").exists() && fs::read(path("c")).unwrap() == b"a");
            for name in [".opkeep-old-1-1-a.old", "d"] {
                rename(dir, "c", dir, name).unwrap();
                rename(dir, name, dir, "c").unwrap();
            }
            let error = rename(dir, "b", dir, "c").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(rename(dir, "x", dir, "d").unwrap_err().kind(), io::ErrorKind::NotFound);
            let mut names: Vec<_> = Dir::open(base.path()).unwrap().names().unwrap();
            names.sort_by(|one, other| one.name.cmp(&other.name));
            assert_eq!(names.iter().map(|name| &name.name).collect::<Vec<_>>(), ["b", "c"]);
        }
    }

    /// Between the link and the removal, another program gave a file of its own the old name.
    #[test]
    fn a_file_that_takes_the_old_name_is_not_removed() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        let long = "a".repeat(250);
        for (name, is_taken) in [("a", false), ("a", true), (&*long, false), (".opkeep-tmp-1-1", false)] {
            fs::write(path("b"), "ours").unwrap();
            match is_taken {
                true => fs::write(path(name), "theirs").unwrap(),
                false => fs::hard_link(path("b"), path(name)).unwrap(),
            }
            let dir = Dir::open(base.path()).unwrap();
            remove_linked(dir.as_fd(), name, dir.as_fd(), "b").unwrap();
            let names = dir.names().unwrap().len();
            assert_eq!((path(name).exists(), names), (is_taken, if is_taken { 2 } else { 1 }), "{name}");
            assert!(!is_taken || fs::read(path(name)).unwrap() == b"theirs");
            assert_eq!(fs::read(path("b")).unwrap(), b"ours");
            let _ = fs::remove_file(path(name));
            // Removed by another program, it is gone as well.
            remove_linked(dir.as_fd(), "a", dir.as_fd(), "b").unwrap();
        }
    }
}

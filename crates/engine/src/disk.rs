//! Every access to the disk: the only module of this crate that may touch `std::fs`.
#![expect(clippy::disallowed_methods, reason = "this is the crate's I/O module")]

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;
use rustix::io::Errno;
use thiserror::Error;

/// A file to be digested, and what it was when it was opened. A pipe is none: it would be waited for.
pub(crate) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    Ok((file, metadata))
}

pub(crate) fn metadata(path: &Path) -> io::Result<Metadata> {
    std::fs::metadata(path)
}

pub(crate) fn read_own(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)?;
    let metadata = file.metadata()?;
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.len() > limit {
        return Err(io::Error::other("not ours, or too long"));
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// How files begin that are being written.
pub(crate) const TEMP: &str = ".new-";

/// Replaces a file as a whole.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or_else(|| io::Error::other("no folder"))?;
    let mut temp = tempfile::Builder::new().prefix(TEMP).tempfile_in(folder)?;
    temp.write_all(bytes)?;
    temp.persist(path).map(drop).map_err(|error| error.error)
}

/// Why a directory cannot be one of this user's own.
#[derive(Debug, Error)]
pub(crate) enum NotPrivate {
    /// Another user may change what is in it.
    #[error(
        "`{}` belongs to user {owner} and has mode {mode:04o}, expected user {user} and a mode in which only the owner \
         writes, such as 0700; remove it, or give it this owner and mode",
        path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its permissions.
        mode: u32,
        /// This user.
        user: u32,
    },
    /// It cannot be made or looked at, or is no directory.
    #[error("`{}` cannot be used: {source}; have a directory of this user's there", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl From<NotPrivate> for io::Error {
    fn from(error: NotPrivate) -> Self {
        match error {
            NotPrivate::Io { source, .. } => source,
            error => Self::other(error),
        }
    }
}

/// Makes a folder for this user, or takes one that is this user's and that nobody else can write to.
pub(crate) fn private_folder(path: &Path) -> Result<(), NotPrivate> {
    let cannot = |source| NotPrivate::Io { path: path.to_owned(), source };
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(cannot(error)),
        _ => {}
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    let found = opened.and_then(|folder| folder.metadata()).map_err(cannot)?;
    let (owner, user) = (found.uid(), rustix::process::geteuid().as_raw());
    if owner != user || found.mode() & 0o022 != 0 {
        return Err(NotPrivate::Foreign { path: path.to_owned(), owner, mode: found.mode() & 0o7777, user });
    }
    Ok(())
}

pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Makes a new file and locks it. Where there are no locks it goes without: nobody takes it for abandoned there.
pub(crate) fn create_locked(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    match file.lock() {
        Err(error) if !has_no_locks(&error) => Err(error),
        _ => Ok(file),
    }
}

/// How many files this process may have open.
pub(crate) fn most_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Whether a file cannot be opened since there are as many open as may be, in the process or on the machine.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

fn has_no_locks(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS))
}

/// What asking for a lock came to.
#[derive(Debug)]
pub(crate) enum TryLock {
    Locked(File),
    /// Another holds it.
    Busy,
    /// There is none to be had at the moment: too many files are open.
    Full,
    /// Its folder is not there.
    NoFolder,
    /// There is none to be had.
    Unsupported,
}

/// Locks a file, made if need be, if nobody else does.
pub(crate) fn try_lock(path: &Path) -> TryLock {
    let flags = OFlags::NOFOLLOW.bits() as i32;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if is_full(&error) => return TryLock::Full,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return TryLock::NoFolder,
        Err(_) => return TryLock::Unsupported,
    };
    match file.try_lock() {
        Ok(()) => TryLock::Locked(file),
        Err(std::fs::TryLockError::WouldBlock) => TryLock::Busy,
        Err(std::fs::TryLockError::Error(_)) => TryLock::Unsupported,
    }
}

/// Opens a file that is there, to be locked together with others.
pub(crate) fn open_shared(path: &Path) -> Option<File> {
    let flags = OFlags::NOFOLLOW.bits() as i32;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).ok()
}

/// Locks a file together with others, in place of a lock that is held alone.
pub(crate) fn share(file: &File) -> Option<()> {
    file.try_lock_shared().ok()
}

/// Writes a time into an open file, in place of what is there.
pub(crate) fn write_time(mut file: &File, time: SystemTime) -> Option<()> {
    let nanos = time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos();
    file.set_len(0).ok()?;
    file.seek(SeekFrom::Start(0)).ok()?;
    writeln!(file, "{nanos}").ok()
}

/// The time that [`write_time`] wrote.
pub(crate) fn read_time(mut file: &File) -> Option<SystemTime> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(64).read_to_string(&mut text).ok()?;
    let nanos = text.strip_suffix('\n')?.parse().ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(nanos))
}

/// Which file or directory is at `path`, by whatever path it is reached.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// A path without links and detours, as far as it is there.
pub(crate) fn resolve(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    std::fs::canonicalize(&absolute).unwrap_or(absolute)
}

/// What tells that a file was taken, and by another than before: its number, and its time.
pub(crate) type Sign = (u64, SystemTime);

/// Writes into the time of a file that somebody has just taken it. Best effort.
pub(crate) fn sign(file: &File) {
    let _ = file.set_modified(SystemTime::now());
}

/// What was signed last at `path`.
pub(crate) fn sign_at(path: &Path) -> Option<Sign> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    Some((metadata.ino(), metadata.modified().ok()?))
}

/// The lock of a work folder whose owner is gone; held, so that nobody else takes the folder meanwhile.
pub(crate) fn take_abandoned(path: &Path) -> Option<File> {
    let flags = OFlags::NOFOLLOW.bits() as i32;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).ok()?;
    file.try_lock().ok()?;
    is_at(&file, path).then_some(file)
}

/// Whether an open file still is the one at `path`: somebody may have removed it, and its name may be another's by now.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let same = |ours: Metadata, there: Metadata| (ours.dev(), ours.ino()) == (there.dev(), there.ino());
    file.metadata().is_ok_and(|ours| std::fs::symlink_metadata(path).is_ok_and(|there| same(ours, there)))
}

pub(crate) fn remove_file(path: &Path) {
    let _ = std::fs::remove_file(path);
}

/// Removes a folder and what is in it; links in it are removed, not followed. Folders that are closed to us, as a compiler
/// may have left them, are opened first.
pub(crate) fn remove_folder(path: &Path) {
    let removed = std::fs::remove_dir_all(path);
    if removed.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
        open_up(path);
        let _ = std::fs::remove_dir_all(path);
    }
}

/// Opens a folder of ours, and those in it, to us.
fn open_up(folder: &Path) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        if std::fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
            let _ = std::fs::set_permissions(&folder, Permissions::from_mode(0o700));
            folders.extend(list(&folder).into_iter().map(|(path, _)| path));
        }
    }
}

/// Removes the largest files of a folder and of those in it, until no more than `bytes` are left.
pub(crate) fn shrink(folder: &Path, bytes: u64) {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for (path, _) in list(&folder) {
            match std::fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => folders.push(path),
                Ok(found) => files.push((found.len(), path)),
                Err(_) => {}
            }
        }
    }
    files.sort_unstable();
    let mut room = bytes;
    for (length, path) in files {
        match room.checked_sub(length) {
            Some(left) => room = left,
            None => {
                room = 0;
                remove_file(&path);
            }
        }
    }
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

/// What is in a folder: paths, with when each was last changed.
pub(crate) fn list(folder: &Path) -> Vec<(PathBuf, SystemTime)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.modified().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use rustix::process::{Uid, geteuid};

    use super::*;

    /// Does something as a user whom permissions stop. Only this thread becomes one.
    fn as_a_user(act: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                if geteuid().is_root() {
                    let nobody = Uid::from_raw(65534);
                    rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
                }
                act();
            });
            thread.join().unwrap();
        });
    }

    #[test]
    fn a_folder_goes_whatever_was_closed_in_it() {
        let base = tempfile::tempdir().unwrap();
        let (work, others) = (base.path().join("work"), base.path().join("others"));
        if geteuid().is_root() {
            chown(base.path(), Some(65534), None).unwrap();
        }
        as_a_user(|| {
            std::fs::create_dir(&others).unwrap();
            std::fs::write(others.join("file"), "").unwrap();
            for (name, mode) in [("a/b", 0o500), ("a", 0o500), ("c", 0), ("d", 0o600)] {
                std::fs::create_dir_all(work.join(name)).unwrap();
                std::fs::write(work.join(name).join("file"), "").unwrap();
                std::os::unix::fs::symlink(&others, work.join(name).join("link")).unwrap();
                std::fs::set_permissions(work.join(name), Permissions::from_mode(mode)).unwrap();
            }
            std::fs::set_permissions(&others, Permissions::from_mode(0o500)).unwrap();
            assert!(std::fs::remove_dir_all(&work).is_err());
            remove_folder(&work);
        });
        assert!(!work.exists(), "{:?}", list(&work));
        // What a link leads to is left as it was.
        assert!(others.join("file").exists());
        assert_eq!(metadata(&others).unwrap().mode() & 0o777, 0o500);
    }
}

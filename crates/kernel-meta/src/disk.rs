//! Every access to the disk: the only module of this crate that may.
//!
//! A [`Folder`] is opened once, and everything in it is reached through that descriptor, by name. Whoever renames a
//! parent folder, or puts a link in its place, cannot make us write elsewhere.
#![expect(clippy::disallowed_methods, reason = "this is the crate's I/O module")]

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use opkeep_digest::Digest;
use rustix::fs::{AtFlags, CWD, Dir, DirEntry, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::own_name::OWN;
use crate::quarantine::io::rename_new;
use crate::survey::look;
use crate::{DirectoryRisk, ViewError};

/// The lock of our builds in a directory.
pub(crate) const LOCK: &str = ".opkeep.lock";
/// The prefix of temporary files.
const TEMP: &str = ".opkeep-tmp-";
const FOLDER_MODE: u32 = 0o750;
const FILE_MODE: Mode = Mode::from_raw_mode(0o640);
/// No `.json` and no manifest is larger; a file that is, is not ours.
pub(crate) const MAX_READ: u64 = 256 << 20;
/// How often a folder may vanish while we wait for its lock.
const ENTRIES: usize = 100;
const FIRST_POLL: Duration = Duration::from_millis(1);
const LAST_POLL: Duration = Duration::from_millis(20);

/// What is mounted for this process, a line each (proc(5), `mountinfo`); nothing, where that cannot be read.
pub(crate) fn mount_table() -> String {
    std::fs::read("/proc/self/mountinfo")
        .map_or_else(|_| String::new(), |table| String::from_utf8_lossy(&table).into_owned())
}

/// Which file it is, and in which state: any write, truncation, rename or change of times makes another identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) size: u64,
    /// Nanoseconds since 1970.
    pub(crate) mtime: i64,
    /// Nanoseconds since 1970.
    pub(crate) ctime: i64,
}

impl Identity {
    pub(crate) fn of(stat: &Stat) -> Self {
        let nanos =
            |seconds: i64, nanos: u64| seconds.saturating_mul(1_000_000_000).saturating_add_unsigned(nanos);
        Self {
            dev: stat.st_dev,
            ino: stat.st_ino,
            size: stat.st_size.unsigned_abs(),
            mtime: nanos(stat.st_mtime, stat.st_mtime_nsec),
            ctime: nanos(stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Whether it is the same file with the same bytes, wherever it was moved: a rename changes `ctime`.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        let of = |file: &Self| (file.dev, file.ino, file.size, file.mtime);
        of(self) == of(other)
    }

    /// Whether it has the same size and time. A directory may have been copied with its times, or mounted anew: then device
    /// and inode differ.
    pub(crate) fn is_as_long_and_old(&self, other: &Self) -> bool {
        (self.size, self.mtime) == (other.size, other.mtime)
    }

    /// Whether `looks`, two at one file, saw the `other`, unwritten since and wherever it was moved. Some file systems in user
    /// space give a file a new inode number at each look.
    pub(crate) fn are_of(looks: [Option<Self>; 2], other: &Self) -> bool {
        let [Some(found), Some(again)] = looks else { return false };
        (found.ino == other.ino || found.ino != again.ino) && found.is_as_long_and_old(other)
    }

    /// Whether the file has rested for `time`, so that a change after `now` must show in its times.
    pub(crate) fn rested(&self, now: SystemTime, time: Duration) -> bool {
        before(self.ctime.max(self.mtime), now, time)
    }

    /// Whether the file was last written at least `time` ago.
    pub(crate) fn written_before(&self, now: SystemTime, time: Duration) -> bool {
        before(self.mtime, now, time)
    }
}

/// Whether `nanos` since 1970 is at least `time` before `now`.
fn before(nanos: i64, now: SystemTime, time: Duration) -> bool {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    u128::try_from(nanos).unwrap_or(0) + time.as_nanos() <= now
}

/// Makes the folder `path` and its parents. If it cannot, says which of them is in the way.
fn make_folder(path: &Path) -> Result<(), ViewError> {
    let Err(source) = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path) else {
        return Ok(());
    };
    for parent in path.ancestors().filter(|parent| !parent.as_os_str().is_empty()) {
        let found = match (std::fs::symlink_metadata(parent), std::fs::metadata(parent)) {
            (Ok(_), Ok(target)) if target.is_dir() => break,
            (Ok(_), Ok(target)) if target.is_file() => "a file",
            (Ok(_), Ok(_)) => "a device, pipe or socket",
            (Ok(_), Err(_)) => "a symbolic link that leads to nothing usable",
            (Err(_), _) => continue,
        };
        return Err(ViewError::NotAFolder { path: parent.to_owned(), found });
    }
    Err(ViewError::io("create the folder", path, source))
}

/// An open folder. Once [entered](Folder::enter), locked, unless its file system has no locks.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    dir: OwnedFd,
    lock: File,
    locked: bool,
    watch: Watch,
}

/// Called with the name of each file that is about to be made, renamed or removed. For tests.
#[derive(Clone, Default)]
pub(crate) struct Watch(pub(crate) Option<Arc<Watcher>>);

type Watcher = dyn Fn(&str) + Send + Sync;

impl Watch {
    pub(crate) fn tell(&self, name: &str) {
        if let Some(watch) = &self.0 {
            watch(name);
        }
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Watch").field(&self.0.is_some()).finish()
    }
}

/// What bears a name.
#[derive(Debug)]
pub(crate) enum Bearer {
    Nothing,
    File(Identity),
    /// A link, a directory, a pipe, a device.
    Other,
    Unknown(io::Error),
}

impl Folder {
    /// Opens the folder at `path`, made if needed, without waiting for its lock.
    pub(crate) fn open(path: &Path) -> Result<Self, ViewError> {
        make_folder(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(CWD, path, flags, Mode::empty())
            .map_err(|source| ViewError::io("open the folder", path, source))?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let lock = rustix::fs::openat(&dir, LOCK, flags, FILE_MODE)
            .map_err(|source| ViewError::io("open", path.join(LOCK), source))?;
        Ok(Self { path: path.to_owned(), dir, lock: lock.into(), locked: false, watch: Watch::default() })
    }

    /// Opens the directory at `path` to look at it: nothing is made, and nothing locked. None if it is not there.
    pub(crate) fn look(path: &Path) -> Result<Option<Self>, ViewError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let failed = |source: Errno| ViewError::io("open the folder", path, source);
        let dir = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        // It is never locked: the directory itself stands in for the lock file.
        let lock = rustix::io::dup(&dir).map_err(failed)?.into();
        Ok(Some(Self { path: path.to_owned(), dir, lock, locked: false, watch: Watch::default() }))
    }

    /// Opens the directory called `name` in this one, to look at it. Links are not followed.
    pub(crate) fn below(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = match rustix::fs::openat(&self.dir, name, flags, Mode::empty()) {
            // Which of the two a link gives depends on the file system.
            Err(Errno::LOOP | Errno::NOTDIR) => {
                return Err(io::Error::other("it is a link, and links are not followed"));
            }
            opened => opened?,
        };
        let lock = rustix::io::dup(&dir)?.into();
        Ok(Self { path: self.path.join(name), dir, lock, locked: false, watch: Watch::default() })
    }

    /// Whether `name` is a directory, or a link to one.
    pub(crate) fn leads_to_directory(&self, name: &str) -> bool {
        rustix::fs::statat(&self.dir, name, AtFlags::empty())
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    /// Opens the folder at `path`, made if needed, and waits for its lock, at most for `patience`.
    pub(crate) fn enter(path: &Path, patience: Duration) -> Result<Self, ViewError> {
        let began = Instant::now();
        for _ in 0..ENTRIES {
            let mut folder = Self::open(path)?;
            folder.acquire(began, patience)?;
            // Whoever deleted the folder while we waited left us the lock of a folder that nobody can enter.
            if folder.is_current() {
                return Ok(folder);
            }
        }
        // Some file systems in user space give a file a new number at each look. There a lock is worth nothing.
        Self::open(path)
    }

    fn acquire(&mut self, began: Instant, patience: Duration) -> Result<(), ViewError> {
        let mut pause = FIRST_POLL;
        loop {
            match self.lock.try_lock() {
                Ok(()) => {
                    self.locked = true;
                    return Ok(());
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(TryLockError::Error(error)) if without_locks(&error) => return Ok(()),
                Err(TryLockError::Error(error)) => {
                    return Err(ViewError::io("lock", self.path.join(LOCK), error));
                }
            }
            let waited = began.elapsed();
            if waited >= patience {
                return Err(ViewError::Locked { path: self.path.join(LOCK), seconds: waited.as_secs_f64() });
            }
            sleep(pause.min(patience - waited));
            pause = (pause * 2).min(LAST_POLL);
        }
    }

    /// Whether a newcomer who opens the same path meets the same folder and the same lock.
    fn is_current(&self) -> bool {
        let same = |ours: rustix::io::Result<Stat>, theirs: rustix::io::Result<Stat>| match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino),
            _ => false,
        };
        same(rustix::fs::fstat(&self.dir), rustix::fs::stat(&self.path))
            && same(
                rustix::fs::fstat(&self.lock),
                rustix::fs::statat(&self.dir, LOCK, AtFlags::SYMLINK_NOFOLLOW),
            )
    }

    /// Whether we hold the lock. False only where the file system has none.
    pub(crate) fn is_locked(&self) -> bool {
        self.locked
    }

    /// The time by the clock that stamps the folder's files, which on a network file system is not ours.
    pub(crate) fn now(&self) -> SystemTime {
        let now = || Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let times = Timestamps { last_access: now(), last_modification: now() };
        let touched = rustix::fs::futimens(&self.lock, &times).and_then(|()| rustix::fs::fstat(&self.lock));
        match touched {
            Ok(stat) => UNIX_EPOCH + Duration::from_nanos(Identity::of(&stat).mtime.unsigned_abs()),
            Err(_) => SystemTime::now(),
        }
    }

    /// The regular file called `name`, if there is one. Links are not followed.
    pub(crate) fn identity(&self, name: &str) -> Option<Identity> {
        let stat = rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then(|| Identity::of(&stat))
    }

    /// Gives the folder's lock to whose the folder is, if this user may: others must be able to take it.
    pub(crate) fn give_lock(&self) {
        give(&self.dir, &self.lock);
    }

    /// What bears the name `name`. Links are not followed.
    pub(crate) fn bearer(&self, name: &str) -> Bearer {
        match rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Bearer::Nothing,
            Err(error) => Bearer::Unknown(error.into()),
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                Bearer::File(Identity::of(&stat))
            }
            Ok(_) => Bearer::Other,
        }
    }

    /// The same directory, with `watch` called for what is changed in it.
    pub(crate) fn watched(mut self, watch: &Watch) -> Self {
        self.watch = watch.clone();
        self
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// The directory, to be looked into.
    pub(crate) fn as_dir(&self) -> Result<look::Dir, ViewError> {
        let dir =
            self.dir.try_clone().map_err(|source| ViewError::io("open the folder", &self.path, source))?;
        Ok(look::Dir::of(&self.path, dir))
    }

    /// Why kernels in the directory cannot be relied on: another user may write there, or put another directory in the
    /// place of this one or of one above it.
    pub(crate) fn risk(&self) -> Option<DirectoryRisk> {
        let stat = rustix::fs::fstat(&self.dir).ok()?;
        let own = risk_of(&self.path, &stat, false);
        own.or_else(|| {
            // Links are above it, too, whoever made them; what they lead to counts.
            let real = std::fs::canonicalize(&self.path).unwrap_or_default();
            let mut above = self.path.ancestors().skip(1).chain(real.ancestors().skip(1));
            above.find_map(|above| risk_of(above, &rustix::fs::stat(above).ok()?, true))
        })
    }

    /// Whether there is anything called `name`, or we cannot tell.
    pub(crate) fn exists(&self, name: &str) -> bool {
        !matches!(rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
    }

    /// What `take` makes of the file called `name`; its identity too, unless the file changed meanwhile.
    fn examine<T>(
        &self,
        name: &str,
        take: impl FnOnce(&File, u64) -> io::Result<T>,
    ) -> io::Result<(T, Option<Identity>)> {
        // Not blocking, so that a pipe of that name does not hang us.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.dir, name, flags, Mode::empty())?);
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("not a regular file"));
        }
        let before = Identity::of(&stat);
        let taken = take(&file, before.size)?;
        let after = Identity::of(&rustix::fs::fstat(&file)?);
        Ok((taken, (before == after).then_some(before)))
    }

    /// The digest of the file called `name`.
    pub(crate) fn digest(&self, name: &str) -> io::Result<(Digest, Option<Identity>)> {
        self.examine(name, |file, _| Digest::of_reader(file))
    }

    /// The content of the file called `name`.
    pub(crate) fn read(&self, name: &str) -> io::Result<(Vec<u8>, Option<Identity>)> {
        self.examine(name, |file, size| {
            if size > MAX_READ {
                return Err(io::Error::other("too large to be ours"));
            }
            let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
            file.take(MAX_READ).read_to_end(&mut bytes)?;
            Ok(bytes)
        })
    }

    /// Writes `bytes` to a new temporary file, not synced yet.
    pub(crate) fn stage(&self, bytes: &[u8]) -> Result<Temp<'_>, ViewError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{TEMP}{}-{number}", std::process::id());
            self.watch.tell(&name);
            let file = match rustix::fs::openat(&self.dir, name.as_str(), flags, FILE_MODE) {
                Ok(file) => File::from(file),
                // Without locks, a process of another host may have our number.
                Err(Errno::EXIST) => continue,
                Err(source) => return Err(ViewError::io("create", self.path.join(&name), source)),
            };
            let written = (&file).write_all(bytes);
            let temp = Temp { folder: self, name, file: Some(file), there: true };
            return match written {
                Ok(()) => Ok(temp),
                Err(source) => Err(ViewError::io("write", self.path.join(&temp.name), source)),
            };
        }
    }

    /// Removes the file called `name`, itself and not where a link points. It is no error if there is none.
    pub(crate) fn unlink(&self, name: &str) -> Result<(), ViewError> {
        self.watch.tell(name);
        match rustix::fs::unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(source) => Err(ViewError::io("remove", self.path.join(name), source)),
        }
    }

    /// All names in the directory.
    pub(crate) fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.dir)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.retain(|name| !matches!(name.as_str(), "." | ".."));
        Ok(names)
    }

    /// Names of our temporary and displaced files, and of the manifest. Best effort: those that can be listed.
    pub(crate) fn own_names(&self) -> Vec<String> {
        let Ok(entries) = Dir::read_from(&self.dir) else { return Vec::new() };
        let own = |entry: Result<DirEntry, Errno>| {
            let entry = entry.ok()?;
            entry.file_name().to_str().ok().filter(|name| name.starts_with(OWN)).map(str::to_owned)
        };
        entries.filter_map(own).collect()
    }

    /// Removes those of the files with these names that are temporary files of writers that died. Best effort: they take
    /// space, but nothing reads them.
    pub(crate) fn remove_stale_temps(&self, names: &[String], now: SystemTime, alive: Duration) {
        for name in names.iter().filter(|name| name.starts_with(TEMP)) {
            // Under the lock there is no other writer. Without one, a young file may have a living writer.
            let dead = || self.locked || self.identity(name).is_none_or(|file| file.rested(now, alive));
            if dead() {
                let _ = self.unlink(name);
            }
        }
    }

    /// Makes the folder's names durable. Best effort: after a power cut, files that are not there are written again.
    pub(crate) fn sync(&self) {
        let _ = rustix::fs::fsync(&self.dir);
    }
}

/// Why what is in the directory `path` cannot be relied on. In a sticky one, others cannot touch what is not theirs.
fn risk_of(path: &Path, stat: &Stat, is_above: bool) -> Option<DirectoryRisk> {
    let (owner, user, mode) = (stat.st_uid, geteuid().as_raw(), stat.st_mode & 0o7777);
    let is_foreign = owner != user && owner != 0;
    let is_open = mode & 0o002 != 0 && !(is_above && mode & 0o1000 != 0);
    (is_foreign || is_open).then(|| DirectoryRisk { path: path.to_owned(), owner, user, mode })
}

/// Gives what was made in the folder `dir` to whose that is: what an administrator makes there, the framework of somebody
/// else is to read and to write. Best effort: only administrators may.
pub(crate) fn give(dir: impl AsFd, made: impl AsFd) {
    let (Ok(dir), Ok(found)) = (rustix::fs::fstat(dir), rustix::fs::fstat(&made)) else { return };
    if (dir.st_uid, dir.st_gid) != (found.st_uid, found.st_gid) {
        let (user, group) = (Uid::from_raw(dir.st_uid), Gid::from_raw(dir.st_gid));
        let _ = rustix::fs::fchown(made, Some(user), Some(group));
    }
}

/// How many files this process may have open.
pub(crate) fn most_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Whether locking failed because the file system has no locks.
fn without_locks(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOSYS].iter().any(|none| code == Some(none.raw_os_error()))
}

/// A complete file under a temporary name, removed unless it is published.
#[derive(Debug)]
pub(crate) struct Temp<'a> {
    folder: &'a Folder,
    name: String,
    /// Until its bytes are on the disk.
    file: Option<File>,
    there: bool,
}

impl Temp<'_> {
    /// Brings the bytes to the disk and closes the file. A full disk or quota may only show here, and some file systems set a
    /// file's time when it is closed.
    pub(crate) fn sync(&mut self) -> Result<(), ViewError> {
        let Some(file) = self.file.take() else { return Ok(()) };
        file.sync_data().map_err(|source| ViewError::io("sync", self.folder.path.join(&self.name), source))
    }

    /// Gives the file its name, replacing what had it: for files of ours only.
    pub(crate) fn publish(mut self, name: &str) -> Result<(), ViewError> {
        let Folder { path, dir, watch, .. } = self.folder;
        watch.tell(name);
        rustix::fs::renameat(dir, self.name.as_str(), dir, name)
            .map_err(|source| ViewError::io("replace", path.join(name), source))?;
        self.there = false;
        Ok(())
    }

    /// Gives it to whose the folder is, if this user may. Before it is synced.
    pub(crate) fn give(&self) {
        self.file.iter().for_each(|file| give(&self.folder.dir, file));
    }

    /// Lets only whom `mode` says read it. Before it is synced.
    pub(crate) fn restrict(&self, mode: u32) -> Result<(), ViewError> {
        let path = || self.folder.path.join(&self.name);
        let restrict = |file| rustix::fs::fchmod(file, Mode::from_raw_mode(mode));
        let restricted = self.file.as_ref().map_or(Ok(()), restrict);
        restricted.map_err(|source| ViewError::io("change the mode of", path(), source))
    }

    /// Which file it is.
    pub(crate) fn identity(&self) -> Result<Identity, ViewError> {
        let stat = rustix::fs::statat(&self.folder.dir, &*self.name, AtFlags::SYMLINK_NOFOLLOW);
        stat.map(|stat| Identity::of(&stat))
            .map_err(|source| ViewError::io("look at", self.folder.path.join(&self.name), source))
    }

    /// Gives the file its name, unless something bears it. Whether it did.
    pub(crate) fn publish_new(mut self, name: &str) -> Result<bool, ViewError> {
        let Folder { path, dir, watch, .. } = self.folder;
        watch.tell(name);
        match rename_new(dir, &self.name, dir, name) {
            Ok(()) => self.there = false,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(source) => return Err(ViewError::io("name", path.join(name), source)),
        }
        Ok(true)
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if self.there {
            let _ = self.folder.unlink(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_lock_young_temps_stay() {
        let base = tempfile::tempdir().unwrap();
        let mut folder = Folder::enter(base.path(), Duration::ZERO).unwrap();
        let old = |folder: &Folder| folder.now() + Duration::from_secs(61);
        let left = || base.path().join(".opkeep-tmp-1-1").exists();
        std::fs::write(base.path().join(".opkeep-tmp-1-1"), "").unwrap();

        folder.locked = false;
        folder.remove_stale_temps(&folder.own_names(), folder.now(), Duration::from_secs(60));
        assert!(left());
        folder.remove_stale_temps(&folder.own_names(), old(&folder), Duration::from_secs(60));
        assert!(!left());

        std::fs::write(base.path().join(".opkeep-tmp-1-1"), "").unwrap();
        folder.locked = true;
        folder.remove_stale_temps(&folder.own_names(), folder.now(), Duration::from_secs(60));
        assert!(!left());
    }

    #[test]
    fn the_lock_of_a_deleted_folder_does_not_count() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("view");
        let folder = Folder::enter(&path, Duration::ZERO).unwrap();
        assert!(folder.is_locked() && folder.is_current());
        std::fs::remove_dir_all(&path).unwrap();
        assert!(!folder.is_current());
        // The holder of the dead lock keeps nobody out of the new folder.
        let newer = Folder::enter(&path, Duration::ZERO).unwrap();
        assert!(newer.is_locked() && newer.is_current() && !folder.is_current());
    }

    #[test]
    fn the_folders_clock_moves() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::open(base.path()).unwrap();
        let off = SystemTime::now().duration_since(folder.now()).unwrap_or_else(|later| later.duration());
        assert!(off < Duration::from_secs(5), "{off:?}");
    }
}

//! The directory of a view, opened once: all files in it are reached by name through that descriptor. If another
//! process renames a parent directory, or replaces it by a link, no file is written elsewhere.

use std::fs::File;
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use opkeep_digest::Digest;
use opkeep_fs::{Dir, FileKind, FileLock, FileStat, FileState, Fs, LockFile, TempFile, TryLock};
use rustix::fs::{AtFlags, FileType, Timespec, Timestamps};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::manifest;
use crate::own_name::OWN;
use crate::{DirectoryRisk, ViewError};

/// The name of the lock file of our builds in a directory.
pub const LOCK: &str = ".opkeep.lock";
/// The prefix of the names of temporary files.
const TEMP: &str = ".opkeep-tmp-";
const DIR_MODE: u32 = 0o750;
const FILE_MODE: u32 = 0o640;
/// The maximum size of a `.json` or manifest that is read, in bytes. A larger file is not ours.
pub const MAX_READ: u64 = 256 << 20;
/// The maximum number of attempts to lock a directory that is deleted while its lock is waited for.
const LOCK_ATTEMPTS: usize = 100;
const FIRST_POLL: Duration = Duration::from_millis(1);
const LAST_POLL: Duration = Duration::from_millis(20);

/// Creates the directory `path` and its parents. On failure, the error names the one of them that is not a directory.
fn make_dir(fs: &Fs, path: &Path) -> Result<(), ViewError> {
    let Err(source) = fs.create_dirs(path, DIR_MODE) else { return Ok(()) };
    for parent in path.ancestors().filter(|parent| !parent.as_os_str().is_empty()) {
        let found = match (fs.look(parent), fs.metadata(parent)) {
            (Ok(_), Ok(target)) if target.is_dir() => break,
            (Ok(_), Ok(target)) if target.is_file() => "a file",
            (Ok(_), Ok(_)) => "a device, pipe or socket",
            (Ok(_), Err(_)) => "a symbolic link that leads to nothing usable",
            (Err(_), _) => continue,
        };
        return Err(ViewError::NotADirectory { path: parent.to_owned(), found });
    }
    Err(ViewError::io("create the directory", path, source))
}

/// The open directory of a view. After [`enter`](ViewDir::enter), it is locked, unless its file system has no locks.
#[derive(Debug)]
pub struct ViewDir {
    dir: Dir,
    fs: Fs,
    lock: Lock,
}

#[derive(Debug)]
enum Lock {
    Held(FileLock),
    /// The lock file is open, but not locked: not yet, or since the file system has no locks.
    Open(LockFile),
    /// The directory is only read, and the lock file is not opened.
    Unused,
}

/// The file found under a name.
#[derive(Debug)]
pub(crate) enum NameEntry {
    Nothing,
    File(FileState),
    /// A link, a directory, a pipe or a device.
    Other,
    Unknown(io::Error),
}

impl ViewDir {
    /// Opens the directory at `path`, which is created if missing, without waiting for its lock.
    pub(crate) fn open(fs: &Fs, path: &Path) -> Result<Self, ViewError> {
        let dir = fs.open_dir(path).or_else(|_| {
            make_dir(fs, path)?;
            fs.open_dir(path).map_err(|source| ViewError::io("open the directory", path, source))
        })?;
        let lock = dir.open_lock(LOCK, Some(FILE_MODE));
        let lock = lock.map_err(|source| ViewError::io("open", path.join(LOCK), source))?;
        Ok(Self { dir, fs: fs.clone(), lock: Lock::Open(lock) })
    }

    /// Opens the directory at `path` for reading. Nothing is created or locked. Returns `None` if it is missing.
    pub fn look(path: &Path) -> Result<Option<Self>, ViewError> {
        let fs = Fs::new();
        match fs.open_dir(path) {
            Ok(dir) => Ok(Some(Self { dir, fs, lock: Lock::Unused })),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(None)
            }
            Err(source) => Err(ViewError::io("open the directory", path, source)),
        }
    }

    /// Opens the directory called `name` in this one for reading. Links are not followed.
    pub(crate) fn below(&self, name: &str) -> io::Result<Self> {
        let dir = self.dir.below(name).map_err(|error| match Errno::from_io_error(&error) {
            // The file system decides which of the two errors a link causes.
            Some(Errno::LOOP | Errno::NOTDIR) => io::Error::other("it is a link, and links are not followed"),
            _ => error,
        })?;
        Ok(Self { dir, fs: self.fs.clone(), lock: Lock::Unused })
    }

    /// Returns whether `name` is a directory, or a link to one.
    pub(crate) fn leads_to_directory(&self, name: &str) -> bool {
        rustix::fs::statat(&self.dir, name, AtFlags::empty())
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    /// Opens the directory at `path`, which is created if missing, and waits for its lock, at most for `lock_timeout`.
    pub fn enter(fs: &Fs, path: &Path, lock_timeout: Duration) -> Result<Self, ViewError> {
        let began = Instant::now();
        for _ in 0..LOCK_ATTEMPTS {
            let entered = Self::open(fs, path)?.acquire(began, lock_timeout)?;
            // If another process deleted the directory meanwhile, this lock is that of the deleted directory, and
            // protects nothing.
            if entered.is_current() {
                return Ok(entered);
            }
        }
        // Some file systems in user space report a new inode number at each call. A lock has no effect there.
        Self::open(fs, path)
    }

    fn acquire(self, began: Instant, lock_timeout: Duration) -> Result<Self, ViewError> {
        let Self { dir, fs, lock } = self;
        let Lock::Open(mut file) = lock else { return Ok(Self { dir, fs, lock }) };
        let path = dir.path().join(LOCK);
        let mut pause = FIRST_POLL;
        loop {
            let tried = FileLock::try_exclusive(file);
            file = match tried.map_err(|source| ViewError::io("lock", &path, source))? {
                TryLock::Held(lock) => return Ok(Self { dir, fs, lock: Lock::Held(lock) }),
                TryLock::Unsupported(file) => return Ok(Self { dir, fs, lock: Lock::Open(file) }),
                TryLock::Busy(file) => file,
            };
            let waited = began.elapsed();
            if waited >= lock_timeout {
                return Err(ViewError::Locked { path, seconds: waited.as_secs_f64() });
            }
            sleep(pause.min(lock_timeout - waited));
            pause = (pause * 2).min(LAST_POLL);
        }
    }

    fn lock_file(&self) -> Option<&File> {
        match &self.lock {
            Lock::Held(lock) => lock.file().ok(),
            Lock::Open(file) => file.file().ok(),
            Lock::Unused => None,
        }
    }

    /// Returns whether a process that opens the same path now gets the same directory and the same lock.
    fn is_current(&self) -> bool {
        let id = |found: io::Result<FileStat>| found.ok().map(|found| found.state.id);
        let is_dir = id(self.dir.stat()).is_some_and(|own| {
            let found = self.fs.metadata(self.path()).ok();
            found.is_some_and(|found| FileState::of(&found).id == own)
        });
        let lock = self.lock_file().and_then(|lock| Some(FileState::of(&lock.metadata().ok()?).id));
        is_dir && lock.is_some() && lock == id(self.dir.look(LOCK))
    }

    /// Returns whether this process holds the lock; after [`enter`](Self::enter), false only if the file system has no
    /// locks.
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self.lock, Lock::Held(_))
    }

    /// Returns the current time by the clock that sets the times of the directory's files: on a network file system,
    /// the server's clock.
    pub fn now(&self) -> SystemTime {
        let now = || Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let times = Timestamps { last_access: now(), last_modification: now() };
        let touched = self.lock_file().and_then(|lock| {
            rustix::fs::futimens(lock, &times).ok()?;
            lock.metadata().ok()?.modified().ok()
        });
        touched.unwrap_or_else(SystemTime::now)
    }

    /// Returns the state of the regular file called `name`, if it exists. Links are not followed.
    pub fn file_state(&self, name: &str) -> Option<FileState> {
        self.dir.file_state(name)
    }

    /// Changes the owner of the lock file to the directory's owner, if this user may, so that others can take the lock.
    pub fn give_lock(&self) {
        self.lock_file().into_iter().for_each(|lock| self.dir.give(lock));
    }

    /// Returns the type of the file called `name`. Links are not followed.
    pub(crate) fn entry(&self, name: &str) -> NameEntry {
        match self.dir.look(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => NameEntry::Nothing,
            Err(error) => NameEntry::Unknown(error),
            Ok(found) if found.kind == FileKind::File => NameEntry::File(found.state),
            Ok(_) => NameEntry::Other,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Returns the file system through which the directory was opened.
    pub(crate) fn fs(&self) -> &Fs {
        &self.fs
    }

    /// Returns a second descriptor of the directory, through which reading does not change the access time of files.
    pub(crate) fn as_dir(&self) -> Result<Dir, ViewError> {
        let dir = self.dir.try_clone();
        dir.map(Dir::quiet).map_err(|source| ViewError::io("open the directory", self.path(), source))
    }

    /// Returns the reason why kernels in the directory cannot be relied on, if any: another user may write there, or
    /// may replace this directory or one above it.
    pub(crate) fn risk(&self) -> Option<DirectoryRisk> {
        let own = risk_of(self.path(), &self.dir.stat().ok()?, false);
        own.or_else(|| {
            // The given path may lead through links, so both the directories in it and those in the real path count.
            let real = self.fs.real_path(self.path()).unwrap_or_default();
            let mut above = self.path().ancestors().skip(1).chain(real.ancestors().skip(1));
            above.find_map(|above| risk_of(above, &self.fs.open_dir(above).ok()?.stat().ok()?, true))
        })
    }

    /// Returns whether a file called `name` exists; true if that is unknown because of an error.
    pub fn exists(&self, name: &str) -> bool {
        self.dir.may_exist(name)
    }

    /// Returns the digest of the file called `name`, and its state unless the file changed meanwhile.
    pub(crate) fn digest(&self, name: &str) -> io::Result<(Digest, Option<FileState>)> {
        let file = self.dir.open_file(name)?;
        let state = || file.metadata().map(|found| (found.is_file(), FileState::of(&found)));
        let (is_file, before) = state()?;
        if !is_file {
            return Err(io::Error::other("not a regular file"));
        }
        let digest = Digest::of_reader(&file)?;
        Ok((digest, Some(before).filter(|before| state().is_ok_and(|(_, after)| after == *before))))
    }

    /// Returns the content of the file called `name`, and its state.
    pub fn read(&self, name: &str) -> io::Result<(Vec<u8>, Option<FileState>)> {
        let mut bytes = Vec::new();
        match self.dir.read(name, MAX_READ, &mut bytes).complete()? {
            Some(state) => Ok((bytes, Some(state))),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Returns the text of the manifest; empty if it is missing or no readable file can have its name.
    ///
    /// # Errors
    /// The system could not read it: then it is not lost, and no file of ours may be taken for a foreign one.
    pub(crate) fn manifest_text(&self) -> Result<Vec<u8>, ViewError> {
        match self.read(manifest::NAME) {
            Ok((text, _)) => Ok(text),
            Err(error) if error.raw_os_error().is_some() => {
                Err(ViewError::io("read", self.path().join(manifest::NAME), error))
            }
            Err(_) => Ok(Vec::new()),
        }
    }

    /// Writes `bytes` to a new temporary file, without syncing it.
    pub fn stage(&self, bytes: &[u8]) -> Result<StagedFile<'_>, ViewError> {
        let file = TempFile::create(&self.dir, TEMP, FILE_MODE)
            .map_err(|source| ViewError::io("create", self.path().join(TEMP), source))?;
        file.write(bytes).map_err(|source| ViewError::io("write", file.path(), source))?;
        Ok(StagedFile { dir: self, file })
    }

    /// Removes the file called `name`; of a link, the link itself. A missing file is no error.
    pub fn unlink(&self, name: &str) -> Result<(), ViewError> {
        match self.dir.remove(name) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(ViewError::io("remove", self.path().join(name), source))
            }
            _ => Ok(()),
        }
    }

    /// Returns all names in the directory.
    pub fn list(&self) -> io::Result<Vec<String>> {
        let names = self.dir.list()?;
        Ok(names.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect())
    }

    /// Returns the names of our temporary and displaced files, and of the manifest. Best effort: empty if the directory
    /// cannot be listed.
    pub fn own_names(&self) -> Vec<String> {
        let names = self.dir.list().unwrap_or_default();
        names.utf8().filter(|name| name.starts_with(OWN)).map(str::to_owned).collect()
    }

    /// Removes the temporary files among `names` whose writers are dead. Best effort: they only take space.
    pub fn remove_stale_temps(&self, names: &[String], now: SystemTime, alive: Duration) {
        for name in names.iter().filter(|name| name.starts_with(TEMP)) {
            // While this process holds the lock, no other writer exists. Without a lock, a young file may have a
            // running writer.
            let is_dead =
                || self.is_locked() || self.file_state(name).is_none_or(|file| file.rested(now, alive));
            if is_dead() {
                let _ = self.unlink(name);
            }
        }
    }

    /// Makes the names in the directory durable. Best effort: after a power cut, missing files are written again.
    pub fn sync(&self) {
        let _ = self.dir.sync();
    }
}

/// Returns the reason why the files in the directory `path` cannot be relied on, if any. In a sticky directory above
/// the view's, other users cannot replace files that are not theirs.
fn risk_of(path: &Path, found: &FileStat, is_above: bool) -> Option<DirectoryRisk> {
    let (owner, user, mode) = (found.user, geteuid().as_raw(), found.mode);
    let is_foreign = owner != user && owner != 0;
    let is_open = mode & 0o002 != 0 && !(is_above && mode & 0o1000 != 0);
    (is_foreign || is_open).then(|| DirectoryRisk { path: path.to_owned(), owner, user, mode })
}

/// A complete file under a temporary name, which is removed unless it is published.
#[derive(Debug)]
pub struct StagedFile<'a> {
    dir: &'a ViewDir,
    file: TempFile<&'a Dir>,
}

impl StagedFile<'_> {
    fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> ViewError + use<> {
        let path = self.file.path();
        move |source| ViewError::io(action, path, source)
    }

    /// Makes the bytes durable and closes the file. Some file systems report a full disk or quota only here, and some
    /// set the file's time when it is closed.
    pub fn sync(&mut self) -> Result<(), ViewError> {
        if self.file.file().is_some() {
            self.file.sync().map_err(self.failed("sync"))?;
            self.file.close();
        }
        Ok(())
    }

    /// Changes the owner of the file to the directory's owner, if this user may. Call this before [`sync`](Self::sync).
    pub fn give(&self) {
        self.file.file().into_iter().for_each(|file| self.dir.dir.give(file));
    }

    /// Sets the mode of the file. Call this before [`sync`](Self::sync).
    pub fn restrict(&self, mode: u32) -> Result<(), ViewError> {
        self.file.set_mode(mode).map_err(self.failed("change the mode of"))
    }

    /// Returns the state of the file.
    pub(crate) fn state(&self) -> Result<FileState, ViewError> {
        self.file.state().map_err(self.failed("look at"))
    }

    /// Gives the file the name `name`, and replaces the file that has it. Only for names of our own files.
    pub fn publish(self, name: &str) -> Result<(), ViewError> {
        let Self { dir, file } = self;
        file.publish(&dir.dir, name).map_err(|source| ViewError::io("replace", dir.path().join(name), source))
    }

    /// Gives the file the name `name`, if it is free. Returns whether the file has the name.
    pub(crate) fn publish_new(self, name: &str) -> Result<bool, ViewError> {
        let Self { dir, file } = self;
        file.publish_new(&dir.dir, name)
            .map_err(|source| ViewError::io("name", dir.path().join(name), source))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests make files")]

    use super::*;

    #[test]
    fn without_a_lock_young_temps_stay() {
        let base = tempfile::tempdir().unwrap();
        let mut dir = ViewDir::enter(&Fs::new(), base.path(), Duration::ZERO).unwrap();
        let left = || base.path().join(".opkeep-tmp-1-1").exists();
        std::fs::write(base.path().join(".opkeep-tmp-1-1"), "").unwrap();

        let lock = std::mem::replace(&mut dir.lock, Lock::Unused);
        dir.remove_stale_temps(&dir.own_names(), dir.now(), Duration::from_secs(60));
        assert!(left());
        let later = SystemTime::now() + Duration::from_secs(61);
        dir.remove_stale_temps(&dir.own_names(), later, Duration::from_secs(60));
        assert!(!left());

        std::fs::write(base.path().join(".opkeep-tmp-1-1"), "").unwrap();
        dir.lock = lock;
        dir.remove_stale_temps(&dir.own_names(), dir.now(), Duration::from_secs(60));
        assert!(!left());
    }

    #[test]
    fn the_lock_of_a_deleted_directory_does_not_count() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("view");
        let dir = ViewDir::enter(&Fs::new(), &path, Duration::ZERO).unwrap();
        assert!(dir.is_locked() && dir.is_current());
        std::fs::remove_dir_all(&path).unwrap();
        assert!(!dir.is_current());
        // The lock of the deleted directory does not lock the new directory.
        let newer = ViewDir::enter(&Fs::new(), &path, Duration::ZERO).unwrap();
        assert!(newer.is_locked() && newer.is_current() && !dir.is_current());
    }

    #[test]
    fn the_clock_of_the_directory_is_current() {
        let base = tempfile::tempdir().unwrap();
        let dir = ViewDir::open(&Fs::new(), base.path()).unwrap();
        let off = SystemTime::now().duration_since(dir.now()).unwrap_or_else(|later| later.duration());
        assert!(off < Duration::from_secs(5), "{off:?}");
    }
}

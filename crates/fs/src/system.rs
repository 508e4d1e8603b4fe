//! Paths from a caller or the environment: links are followed.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use opkeep_text::counted;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, openat};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::geteuid;

use crate::call::{FsOp, Watch, Watcher};
use crate::clock::{Clock, FileClock};
use crate::dir::Dir;
use crate::lock::{FileLock, LockFile, TryLock};
use crate::new_file::{NewFile, TEMP};
use crate::state::{FileKind, FileStat};

// Without NONBLOCK, opening a pipe would block until a process writes to it.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// The file system by paths. Links are followed unless a function says otherwise.
#[derive(Clone, Default)]
pub struct Fs {
    watch: Watch,
    clock: Option<Arc<dyn Clock>>,
}

impl Fs {
    /// The file system, unwatched.
    pub const fn new() -> Self {
        Self { watch: Watch::none(), clock: None }
    }

    /// The same, with `watcher` called before each call.
    #[must_use]
    pub fn with_watcher(self, watcher: Arc<dyn Watcher>) -> Self {
        Self { watch: Watch::new(Some(watcher)), ..self }
    }

    /// The same, with the time of `clock`.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..self }
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    pub(crate) fn watched_by(watch: &Watch) -> Self {
        Self { watch: watch.clone(), clock: None }
    }

    /// The time now.
    pub fn now(&self) -> SystemTime {
        self.clock.as_ref().map_or_else(SystemTime::now, |clock| clock.now())
    }

    /// A clock that continues from now, whatever the machine's clock is set to meanwhile.
    pub fn clock(&self) -> FileClock {
        FileClock::new(self.clock.clone())
    }

    /// The metadata of the file that `path` leads to.
    ///
    /// # Errors
    /// That of the system.
    pub fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.watch.may(FsOp::Look, path)?;
        std::fs::metadata(path)
    }

    /// The same; of a link, that of the link itself.
    ///
    /// # Errors
    /// That of the system.
    pub fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.watch.may(FsOp::Look, path)?;
        std::fs::symlink_metadata(path)
    }

    /// The state of `path`; of a link, that of the link itself.
    ///
    /// # Errors
    /// That of the system.
    pub fn look(&self, path: &Path) -> io::Result<FileStat> {
        self.watch.may(FsOp::Look, path)?;
        Ok(FileStat::of(&rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Whether `path` leads to something.
    pub fn exists(&self, path: &Path) -> bool {
        self.metadata(path).is_ok()
    }

    /// Whether `path` leads to a regular file.
    pub fn is_file(&self, path: &Path) -> bool {
        self.metadata(path).is_ok_and(|found| found.is_file())
    }

    /// Whether `path` leads to a directory.
    pub fn is_dir(&self, path: &Path) -> bool {
        self.metadata(path).is_ok_and(|found| found.is_dir())
    }

    /// Whether `path` leads to a file that some user may execute.
    pub fn is_program(&self, path: &Path) -> bool {
        self.metadata(path).is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
    }

    /// Whether this user may write to the file at `path`.
    pub fn is_writable(&self, path: &Path) -> bool {
        self.watch.may(FsOp::Look, path).is_ok() && rustix::fs::access(path, Access::WRITE_OK).is_ok()
    }

    /// The path without links that leads to the same file as `path`.
    ///
    /// # Errors
    /// That of the system.
    pub fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.watch.may(FsOp::Look, path)?;
        std::fs::canonicalize(path)
    }

    /// The same; `path` unchanged if it leads nowhere.
    pub fn resolved(&self, path: &Path) -> PathBuf {
        self.real_path(path).unwrap_or_else(|_| path.to_owned())
    }

    /// Creates a symbolic link at `path` to `target`.
    ///
    /// # Errors
    /// That of the system: something is at `path`.
    pub fn create_link(&self, target: &Path, path: &Path) -> io::Result<()> {
        self.watch.may(FsOp::Create, path)?;
        std::os::unix::fs::symlink(target, path)
    }

    /// The target of the link at `path`, as stored.
    ///
    /// # Errors
    /// That of the system.
    pub fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.watch.may(FsOp::Look, path)?;
        std::fs::read_link(path)
    }

    /// The names in the directory `path` with their kinds, in no order. Links in it are not followed.
    ///
    /// # Errors
    /// That of the system.
    pub fn list(&self, path: &Path) -> io::Result<Vec<(OsString, FileKind)>> {
        let names = self.open_dir(path)?.list_once()?;
        Ok(names.iter().map(|(name, kind)| (name.to_owned(), kind)).collect())
    }

    /// The path and the state of each file in the directory `path`, in no order. Links in it are not followed; files
    /// that are removed meanwhile are left out.
    ///
    /// # Errors
    /// That of the system.
    pub fn list_stats(&self, path: &Path) -> io::Result<Vec<(PathBuf, FileStat)>> {
        let dir = self.open_dir(path)?;
        let names = dir.list()?;
        Ok(names.iter().filter_map(|(name, _)| Some((path.join(name), dir.look(name).ok()?))).collect())
    }

    /// Opens the directory at `path`. Links on the way are followed.
    ///
    /// # Errors
    /// That of the system.
    pub fn open_dir(&self, path: &Path) -> io::Result<Dir> {
        Dir::open_watched(path, &self.watch, false)
    }

    /// Opens the file at `path` for reading. A pipe does not block.
    ///
    /// # Errors
    /// That of the system.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        self.watch.may(FsOp::Open, path)?;
        Ok(retry_on_intr(|| openat(CWD, path, READ, Mode::empty()))?.into())
    }

    /// Opens the regular file at `path` for reading.
    ///
    /// # Errors
    /// That of the system, and for a directory, a pipe or a device.
    pub fn open_file(&self, path: &Path) -> io::Result<(File, Metadata)> {
        let file = self.open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        Ok((file, metadata))
    }

    /// Opens the file `inner` below the directory `dir`, unless a link is on the way: so it is in that directory, even
    /// if another process changes names at the same time.
    ///
    /// # Errors
    /// That of the system: `ELOOP` or `ENOTDIR` for a link.
    pub fn open_beneath(&self, dir: &Path, inner: &Path) -> io::Result<File> {
        self.watch.may_in(FsOp::Open, dir, inner)?;
        let mut names = inner.iter();
        let name = names.next_back().unwrap_or_default();
        let mut at: OwnedFd = openat(CWD, dir, READ | OFlags::DIRECTORY, Mode::empty())?;
        for dir in names {
            at = openat(&at, dir, READ | OFlags::NOFOLLOW | OFlags::DIRECTORY, Mode::empty())?;
        }
        Ok(openat(&at, name, READ | OFlags::NOFOLLOW, Mode::empty())?.into())
    }

    /// The content of the regular file at `path`, at most `limit` bytes.
    ///
    /// # Errors
    /// That of the system, and if the file is larger or no regular file.
    pub fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let (file, metadata) = self.open_file(path)?;
        self.read_opened(path, file, &metadata, limit)
    }

    /// The same as text; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// As those of [`read`](Self::read).
    pub fn read_text(&self, path: &Path, limit: u64) -> io::Result<String> {
        let bytes = self.read(path, limit)?;
        Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into()))
    }

    /// The content of a file that this user owns, at most `limit` bytes. `path` must not be a link.
    ///
    /// # Errors
    /// That of the system, and if it is larger, not a regular file, or another user's.
    pub fn read_own(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let (file, metadata) = self.open_unlinked(path)?;
        if metadata.uid() != geteuid().as_raw() {
            return Err(io::Error::other("it is not a file of this user's"));
        }
        self.read_opened(path, file, &metadata, limit)
    }

    /// Opens the regular file at `path`, which must not be a link, for reading.
    ///
    /// # Errors
    /// That of the system: `ELOOP` for a link; and for a directory, a pipe or a device.
    pub fn open_unlinked(&self, path: &Path) -> io::Result<(File, Metadata)> {
        self.watch.may(FsOp::Open, path)?;
        let opened = retry_on_intr(|| openat(CWD, path, READ | OFlags::NOFOLLOW, Mode::empty()));
        let file = File::from(opened?);
        let metadata = file.metadata()?;
        match metadata.is_file() {
            true => Ok((file, metadata)),
            false => Err(io::Error::other("it is not a file")),
        }
    }

    /// The content of an open file with this metadata, at most `limit` bytes.
    ///
    /// # Errors
    /// That of the system, and if it is larger.
    pub fn read_opened(
        &self,
        path: &Path,
        file: File,
        metadata: &Metadata,
        limit: u64,
    ) -> io::Result<Vec<u8>> {
        let length = metadata.len();
        if length > limit {
            return Err(io::Error::other(format!(
                "it has {length}, at most {limit} are read",
                length = counted(length, "byte")
            )));
        }
        self.watch.permit(FsOp::Read, path, None, length as usize)?;
        // Files of /proc report no length.
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX))?;
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Whether the file at `path` begins with `magic`.
    pub fn starts_with(&self, path: &Path, magic: &[u8]) -> bool {
        let mut head = vec![0; magic.len()];
        self.open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == magic
    }

    /// Writes a file in place. After a crash, a part of it may be there: for files that no other process reads.
    ///
    /// # Errors
    /// That of the system.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.watch.permit(FsOp::Write, path, None, bytes.len())?;
        std::fs::write(path, bytes)
    }

    /// Creates a file, which must be missing, with `bytes` and the mode `mode` less the umask, and makes it durable. After
    /// an error there is no file; after a crash, a part of it may be there.
    ///
    /// # Errors
    /// That of the system: `EEXIST` for an existing file or link, which is kept.
    pub fn write_new(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let missing = || io::Error::other("this is no file's name");
        let (parent, name) = path.parent().zip(path.file_name()).ok_or_else(missing)?;
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let dir = self.open_dir(parent)?;
        let mut file = dir.create_file(name, mode)?;
        let written = self
            .watch
            .permit(FsOp::Write, path, None, bytes.len())
            .and_then(|short| match short {
                None => file.write_all(bytes),
                Some(short) => {
                    file.write_all(&bytes[..short.min(bytes.len())])?;
                    Err(Errno::NOSPC.into())
                }
            })
            .and_then(|()| self.watch.may(FsOp::SyncData, path))
            .and_then(|()| file.sync_all());
        match written {
            // Not every file system can sync a directory.
            Ok(()) => drop(dir.sync()),
            // An incomplete file that cannot be removed stays.
            Err(_) => drop(dir.remove(name)),
        }
        written
    }

    /// Replaces a file by the concatenation of `pieces`, completely or not at all. Its mode is `mode` less the umask.
    ///
    /// # Errors
    /// That of the system.
    pub fn replace(&self, path: &Path, pieces: &[&[u8]], mode: u32) -> io::Result<()> {
        self.replace_by(path, pieces, mode, false)
    }

    /// The same, with the mode `mode` whatever the umask is.
    ///
    /// # Errors
    /// That of the system.
    pub fn replace_with_mode(&self, path: &Path, pieces: &[&[u8]], mode: u32) -> io::Result<()> {
        self.replace_by(path, pieces, mode, true)
    }

    fn replace_by(&self, path: &Path, pieces: &[&[u8]], mode: u32, is_exact: bool) -> io::Result<()> {
        let new = self.new_file(path, pieces, mode, is_exact)?;
        self.watch.permit(FsOp::Rename, &new.path(), Some(path), 0)?;
        new.publish(path)
    }

    /// A file with these bytes that can get the name `path`; with exactly this mode if it `is_exact`.
    pub(crate) fn new_file(
        &self,
        path: &Path,
        pieces: &[&[u8]],
        mode: u32,
        is_exact: bool,
    ) -> io::Result<NewFile> {
        let dir = path.parent().ok_or_else(|| io::Error::other("this is no file's name"))?;
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        self.watch.may(FsOp::Create, path)?;
        let new = NewFile::create(dir, mode)?;
        for piece in pieces {
            self.watch.permit(FsOp::Write, &new.path(), None, piece.len())?;
            new.file().write_all(piece)?;
        }
        if is_exact {
            self.watch.may(FsOp::SetMode, &new.path())?;
            new.file().set_permissions(Permissions::from_mode(mode))?;
        }
        Ok(new)
    }

    /// Sets the mode of the file or directory that `path` leads to.
    ///
    /// # Errors
    /// That of the system.
    pub fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.watch.may(FsOp::SetMode, path)?;
        std::fs::set_permissions(path, Permissions::from_mode(mode))
    }

    /// Whether `name` is that of a file that an interrupted [`replace`](Self::replace) left.
    pub fn is_temporary(name: &str) -> bool {
        name.starts_with(TEMP)
    }

    /// Creates a directory that must be missing.
    ///
    /// # Errors
    /// That of the system.
    pub fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.watch.may(FsOp::CreateDir, path)?;
        DirBuilder::new().mode(mode).create(path)
    }

    /// Creates a directory and those above it; existing ones are fine.
    ///
    /// # Errors
    /// That of the system.
    pub fn create_dirs(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.watch.may(FsOp::CreateDir, path)?;
        DirBuilder::new().recursive(true).mode(mode).create(path)
    }

    /// Renames a file or directory, replacing an existing one of the new name.
    ///
    /// # Errors
    /// That of the system.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.watch.permit(FsOp::Rename, from, Some(to), 0)?;
        std::fs::rename(from, to)
    }

    /// Removes a file or link. A missing one is fine.
    ///
    /// # Errors
    /// That of the system.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.watch.may(FsOp::Remove, path)?;
        match std::fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Opens the file at `path`, which must not be a link, for locking it. If it is missing and `create` is
    /// given, creates it with that mode.
    ///
    /// # Errors
    /// That of the system.
    pub fn open_lock(&self, path: &Path, create: Option<u32>) -> io::Result<LockFile> {
        self.watch.may(FsOp::OpenLock, path)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits() as i32);
        if let Some(mode) = create {
            options.create(true).truncate(false).mode(mode);
        }
        LockFile::open(|| options.open(path))
    }

    /// Tries to lock the file at `path`, created with `mode` if missing, without waiting.
    ///
    /// # Errors
    /// That of the system. A file system without locks is no error.
    pub fn try_lock(&self, path: &Path, mode: u32) -> io::Result<TryLock> {
        FileLock::try_watched(self.open_lock(path, Some(mode))?, path, &self.watch)
    }

    /// Tries to lock the existing file at `path`. `None` if another process holds it, replaced it, or it cannot be
    /// opened.
    pub fn try_lock_existing(&self, path: &Path) -> Option<FileLock> {
        let tried = FileLock::try_watched(self.open_lock(path, None).ok()?, path, &self.watch).ok()?;
        let TryLock::Held(lock) = tried else { return None };
        lock.is_at(path).then_some(lock)
    }

    /// Creates a file, which must be missing, and locks it. On a file system without locks, it is only created: no
    /// process takes it for abandoned there.
    ///
    /// # Errors
    /// That of the system.
    pub fn create_locked(&self, path: &Path, mode: u32) -> io::Result<FileLock> {
        self.watch.may(FsOp::Create, path)?;
        let mut is_created = false;
        let file = LockFile::open(|| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(!is_created).mode(mode);
            options.open(path).inspect(|_| is_created = true)
        })?;
        self.watch.may(FsOp::Lock, path)?;
        FileLock::of_new(file)
    }
}

impl std::fmt::Debug for Fs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fs").field("watched", &self.watch.is_watched()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_no_file_and_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(CWD, &pipe, Mode::RWXU).unwrap();
        assert!(Fs::new().read(&pipe, 10).unwrap_err().to_string().contains("not a file"));
        assert!(Fs::new().read_own(&pipe, 10).is_err());
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let fs = Fs::new();
        fs.replace(&path, &[b"one", b"two"], 0o600).unwrap();
        assert_eq!(fs.read(&path, 6).unwrap(), b"onetwo");
        assert!(fs.read(&path, 5).unwrap_err().to_string().contains("at most 5"));
        assert!(fs.read(Path::new("/proc/self/status"), 1 << 20).unwrap().starts_with(b"Name:"));
        assert!(fs.starts_with(&path, b"one") && !fs.starts_with(&path, b"two"));
        assert_eq!(fs.list(dir.path()).unwrap().len(), 1, "no temporary file is left");
    }

    #[test]
    fn a_mode_is_exact_if_that_is_stated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let fs = Fs::new();
        // No usual umask leaves the bits by which others write.
        fs.replace_with_mode(&path, &[b"x"], 0o622).unwrap();
        assert_eq!(fs.metadata(&path).unwrap().mode() & 0o7777, 0o622);
        fs.set_mode(&path, 0o606).unwrap();
        assert_eq!(fs.metadata(&path).unwrap().mode() & 0o7777, 0o606);
    }

    #[test]
    fn a_new_file_replaces_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("file"), dir.path().join("link"));
        let fs = Fs::new();
        fs.write_new(&path, b"one", 0o600).unwrap();
        assert_eq!(fs.metadata(&path).unwrap().mode() & 0o7777, 0o600);
        std::os::unix::fs::symlink("nothing", &link).unwrap();
        for taken in [&path, &link] {
            let error = fs.write_new(taken, b"two", 0o600).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(fs.read(&path, 9).unwrap(), b"one");
        assert!(!fs.exists(&dir.path().join("nothing")));
    }

    /// A full disk, or an error of any call, leaves no part of a file.
    #[test]
    fn a_new_file_is_complete_or_missing() {
        struct Fail(std::sync::atomic::AtomicUsize, bool);
        impl Watcher for Fail {
            fn before(&self, _: &crate::FsCall<'_>) -> crate::Permit {
                match self.0.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) {
                    1 if self.1 => crate::Permit::Short(2),
                    1 => crate::Permit::Fail(io::ErrorKind::StorageFull.into()),
                    _ => crate::Permit::Go,
                }
            }
        }
        let mut failed = 0;
        for (call, short) in (1..20).flat_map(|call| [(call, false), (call, true)]) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            let fs = Fs::new().with_watcher(Arc::new(Fail(call.into(), short)));
            let written = fs.write_new(&path, b"one", 0o600);
            failed += usize::from(written.is_err());
            assert_eq!(written.is_ok(), path.exists(), "call {call}: {written:?}");
        }
        assert!(failed >= 5, "{failed}");
    }

    #[test]
    fn a_link_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("file"), dir.path().join("link"));
        let fs = Fs::new();
        fs.write(&path, b"one").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        let (file, metadata) = fs.open_unlinked(&path).unwrap();
        assert_eq!(fs.read_opened(&path, file, &metadata, 3).unwrap(), b"one");
        assert_eq!(Errno::from_io_error(&fs.open_unlinked(&link).unwrap_err()), Some(Errno::LOOP));
        assert!(fs.open_unlinked(dir.path()).is_err());
    }

    #[test]
    fn a_link_on_the_way_leads_to_nothing_beneath() {
        let dir = tempfile::tempdir().unwrap();
        let fs = Fs::new();
        fs.create_dirs(&dir.path().join("a/b"), 0o700).unwrap();
        fs.write(&dir.path().join("a/b/file"), b"x").unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
        assert!(fs.open_beneath(dir.path(), Path::new("a/b/file")).is_ok());
        assert!(fs.open_beneath(dir.path(), Path::new("link/b/file")).is_err());
        assert!(fs.open_beneath(&dir.path().join("link"), Path::new("b/file")).is_ok());
    }
}

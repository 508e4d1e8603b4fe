//! The files of a shared directory.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use opkeep_cache::{ClaimAnswer, LeaseToken, LeaseValue, ObjectName, RemoteError};
use opkeep_digest::Digest;
use opkeep_fs::{Dir, FileKind, FileRead, FileStat, ForkSafeCell, RootedFs, TempFile, idle, unique_name};

/// The size of the largest object, in bytes.
pub(super) const MAX_OBJECT: u64 = 1 << 31;
/// The directory of files that are being written. No segment of an object's name contains a `+`.
const TEMPORARY: &str = "+tmp";
/// What the name of a directory of files begins with; two hexadecimal digits follow.
pub(super) const FILES: char = '+';
/// The bit of a directory whose group shares it.
const SET_GROUP_ID: u32 = 0o2000;
/// The most that one call adds to a counter.
const MAX_STEP: u64 = 1 << 20;
/// The longest time for which an object may be written.
const MAX_WRITE: Duration = Duration::from_secs(24 * 3600);
/// The number of attempts to write into a directory that other hosts remove when it is empty.
const MAX_ATTEMPTS: usize = 8;
/// The content of a lease is shorter.
const MAX_LEASE: u64 = 100;

/// A directory that hosts share.
#[derive(Clone, Debug)]
pub(super) struct SharedDir {
    path: PathBuf,
    /// Whether temporary files of killed processes were removed.
    has_pruned: Arc<AtomicBool>,
}

/// The open directory, and the modes of what is created in it.
pub(super) struct Root {
    fs: RootedFs,
    path: PathBuf,
    stat: FileStat,
    has_pruned: Arc<AtomicBool>,
}

/// How an object is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    IfAbsent,
    Replace,
    /// In place of an existing one, and not synced: after a power cut, no lease counts.
    Lease,
    /// If there is none, and not synced.
    NewLease,
}

impl SharedDir {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), has_pruned: Arc::default() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the directory.
    pub(super) fn enter(&self) -> Result<Root, RemoteError> {
        let mut fs = RootedFs::new(None, None);
        let entered = fs.real_path(&self.path).and_then(|path| {
            let stat = fs.enter(&path)?.stat()?;
            Ok((path, stat))
        });
        match entered {
            Ok((path, stat)) => Ok(Root { fs, path, stat, has_pruned: Arc::clone(&self.has_pruned) }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(RemoteError::Unreachable {
                reason: format!("`{}` does not exist: is it mounted?", self.path.display()),
            }),
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns the time by the file system's clock; by this host's, if nothing can be written.
    pub(super) fn now(&self, root: &Root) -> SystemTime {
        let created = root
            .open_or_create(&root.path.join(TEMPORARY))
            .and_then(|dir| TempFile::create(dir, host_prefix(), 0o600)?.state());
        created.map_or_else(|_| SystemTime::now(), |state| state.modified())
    }

    /// Returns the content of an object, which is empty if something else has its name. A file that another host replaced meanwhile is
    /// read again.
    pub(super) fn read(&self, root: &Root, name: &ObjectName) -> Result<Option<Vec<u8>>, RemoteError> {
        root.read(name, MAX_OBJECT).map_err(failed)
    }

    /// Writes an object. Returns whether it did.
    pub(super) fn write(
        &self,
        root: &Root,
        name: &ObjectName,
        content: &[u8],
        put: Put,
    ) -> Result<bool, RemoteError> {
        root.write(name, content, put).map_err(failed)
    }

    /// Creates a lease, unless it exists.
    pub(super) fn claim(
        &self,
        root: &Root,
        name: &ObjectName,
        value: &LeaseValue,
    ) -> Result<ClaimAnswer, RemoteError> {
        if self.write(root, name, value.to_string().as_bytes(), Put::NewLease)? {
            return Ok(ClaimAnswer::Granted);
        }
        let held =
            root.read(name, MAX_LEASE).map_err(failed)?.and_then(|content| LeaseValue::decode(&content));
        Ok(ClaimAnswer::Held(held))
    }

    /// Whether a lease has this token.
    pub(super) fn has_token(
        &self,
        root: &Root,
        name: &ObjectName,
        token: &LeaseToken,
    ) -> Result<bool, RemoteError> {
        let content = root.read(name, MAX_LEASE).map_err(failed)?;
        Ok(content.and_then(|content| LeaseValue::decode(&content)).is_some_and(|held| held.token == *token))
    }

    /// Removes an object, or what has its name; of the directories, only an empty one.
    pub(super) fn remove(&self, root: &Root, name: &ObjectName) -> Result<(), RemoteError> {
        match root.remove(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                let reason = format!("a directory that is not empty has the name of the object `{name}`");
                Err(RemoteError::Refused { reason })
            }
            removed => removed.map_err(failed),
        }
    }

    /// Removes the directories of objects that are gone, as far as they are empty. Best effort.
    pub(super) fn remove_empty_dirs(&self, root: &Root, names: &[ObjectName]) {
        let mut dirs: Vec<_> = names.iter().map(|name| root.place_of(name).0).collect();
        opkeep_order::sort(&mut dirs);
        dirs.dedup();
        while !dirs.is_empty() {
            dirs.retain_mut(|dir| root.fs.remove_dir(dir).is_ok() && dir.pop() && *dir != root.path);
            dirs.dedup();
        }
    }

    /// Returns the value of a counter, which is the length of its file.
    pub(super) fn count(&self, root: &Root, name: &ObjectName) -> Result<u64, RemoteError> {
        match root.fs.look(&root.path_of(name)) {
            Ok(stat) if stat.is_file() => Ok(stat.state.len),
            Ok(_) => Ok(0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(failed(error)),
        }
    }

    /// Adds to a counter. On a network file system, one of two additions at the same time may be lost; the value is another one
    /// nevertheless.
    pub(super) fn add(&self, root: &Root, name: &ObjectName, by: u64) -> Result<(), RemoteError> {
        root.add(name, by.min(MAX_STEP)).map_err(failed)
    }
}

/// Returns the directory of an object below the shared one, and the name of its file.
pub(super) fn files_dir(name: &ObjectName) -> (PathBuf, &str) {
    let (parent, last) = name.as_str().rsplit_once('/').unwrap_or(("", name.as_str()));
    let digest = Digest::of(last.as_bytes()).to_string();
    let files = format!("{FILES}{}", digest.get(..2).unwrap_or_default());
    (Path::new(parent).join(files), last)
}

impl Root {
    /// Returns the path of an object.
    fn path_of(&self, name: &ObjectName) -> PathBuf {
        let (dir, last) = self.place_of(name);
        dir.join(last)
    }

    /// Returns the directory of an object, and the name of its file.
    fn place_of<'n>(&self, name: &'n ObjectName) -> (PathBuf, &'n str) {
        let (dir, last) = files_dir(name);
        (self.path.join(dir), last)
    }

    fn read(&self, name: &ObjectName, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let (path, last) = self.place_of(name);
        let dir = match self.fs.open_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            dir => dir?,
        };
        let mut content = Vec::new();
        match dir.read(last, limit, &mut content) {
            // A lease that is renewed all the time, of which each state is as good as another.
            FileRead::Changing => Ok(None),
            FileRead::Link | FileRead::NotAFile | FileRead::TooLarge(_) => Ok(Some(Vec::new())),
            // A socket cannot be opened.
            FileRead::Failed(_) if is_no_file(&dir, last) => Ok(Some(Vec::new())),
            read => Ok(read.complete()?.map(|_| content)),
        }
    }

    fn remove(&self, name: &ObjectName) -> io::Result<()> {
        let path = self.path_of(name);
        let is_dir = || self.fs.look(&path).is_ok_and(|found| found.kind == FileKind::Dir);
        match self.fs.remove(&path) {
            Err(_) if is_dir() => self.fs.remove_dir(&path),
            removed => removed,
        }
    }

    /// Frees the name of an object that is to be written, if something else than a file has it. No file replaces a directory: an empty one
    /// is removed, and another one moved, since its files are another program's.
    fn free(&self, dir: &Dir, last: &str) -> io::Result<()> {
        let freed = match dir.look(last).map(|found| found.kind) {
            Ok(FileKind::File) | Err(_) => return Ok(()),
            Ok(FileKind::Dir) => dir.remove_dir(last),
            Ok(_) => dir.remove(last),
        };
        match freed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                let temporary = self.open_or_create(&self.path.join(TEMPORARY))?;
                dir.rename(last, &temporary, unique_name(&format!("{last}.{}", host_prefix())))
            }
            freed => freed,
        }
    }

    fn write(&self, name: &ObjectName, content: &[u8], put: Put) -> io::Result<bool> {
        again_if_gone(|| self.write_once(name, content, put))
    }

    fn write_once(&self, name: &ObjectName, content: &[u8], put: Put) -> io::Result<bool> {
        let (path, last) = self.place_of(name);
        let dir = self.open_or_create(&path)?;
        let is_new = matches!(put, Put::IfAbsent | Put::NewLease);
        if is_new && dir.may_exist(last) {
            return Ok(false);
        }
        let temporary = self.open_or_create(&self.path.join(TEMPORARY))?;
        let file = TempFile::create(temporary, host_prefix(), 0o600)?;
        if !self.has_pruned.swap(true, Ordering::Relaxed) {
            prune(&self.open_or_create(&self.path.join(TEMPORARY))?, file.state()?.modified());
        }
        file.write(content)?;
        file.set_mode(self.file_mode())?;
        if matches!(put, Put::IfAbsent | Put::Replace) {
            file.sync()?;
        }
        if is_new {
            return file.publish_new(&dir, last);
        }
        if put == Put::Replace {
            self.free(&dir, last)?;
        }
        file.publish(&dir, last).map(|()| true)
    }

    fn add(&self, name: &ObjectName, by: u64) -> io::Result<()> {
        again_if_gone(|| self.add_once(name, by))
    }

    fn add_once(&self, name: &ObjectName, by: u64) -> io::Result<()> {
        let (path, last) = self.place_of(name);
        let dir = self.open_or_create(&path)?;
        self.free(&dir, last)?;
        let path = dir.path().join(last);
        let file = self.fs.open_to_change(&path, Some(self.file_mode()))?;
        // Each write goes to the end, whatever other processes write.
        rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::APPEND)?;
        self.fs.write(&file, &path, &vec![0; usize::try_from(by).unwrap_or_default()])
    }

    /// Opens a directory below the root, and creates it and those above it if they are missing.
    fn open_or_create(&self, path: &Path) -> io::Result<Dir> {
        match self.fs.open_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && path != self.path => {}
            opened => return opened,
        }
        if let Some(parent) = path.parent() {
            self.open_or_create(parent)?;
        }
        let created = self.fs.create_dir(path, 0o777);
        let dir = match created {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => self.fs.open_dir(path)?,
        };
        if created.is_ok() && self.is_of_group() {
            self.fs.set_dir_mode(&dir, self.stat.mode)?;
        }
        Ok(dir)
    }

    fn is_of_group(&self) -> bool {
        self.stat.mode & SET_GROUP_ID != 0
    }

    fn file_mode(&self) -> u32 {
        if self.is_of_group() { self.stat.mode & 0o666 } else { 0o644 }
    }
}

/// Whether something else than a file has a name.
fn is_no_file(dir: &Dir, name: &str) -> bool {
    dir.look(name).is_ok_and(|found| !found.is_file())
}

/// Runs `act` again if a directory is gone, which another host may have removed as an empty one.
fn again_if_gone<T>(act: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let is_gone = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::StaleNetworkFileHandle)
    };
    for _ in 1..MAX_ATTEMPTS {
        match act() {
            Err(error) if is_gone(&error) => {}
            done => return done,
        }
    }
    act()
}

/// Removes the temporary files that nothing has written to for a day. Best effort.
fn prune(temporary: &Dir, now: SystemTime) {
    let Ok(names) = temporary.list() else { return };
    for (name, _) in names.iter() {
        let is_old = |stat: FileStat| stat.is_file() && idle(stat.modified(), now) > MAX_WRITE;
        if name.to_str().is_some_and(is_temporary) && temporary.look(name).is_ok_and(is_old) {
            let _ = temporary.remove(name);
        }
    }
}

/// Whether a file has a name as a host gives it: the host's prefix, its process, and a number. Other programs' files have other names.
fn is_temporary(name: &str) -> bool {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = name.split('-');
    let is_prefix = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.next().is_some_and(is_prefix) && parts.clone().count() == 2 && parts.all(is_digits)
}

/// Returns the start of this process's temporary names: processes of two hosts may have one number.
fn host_prefix() -> &'static str {
    static PREFIX: ForkSafeCell<String> = ForkSafeCell::new();
    // The system's random numbers are the seed.
    PREFIX.get_or_init(|| format!("{:016x}-", RandomState::new().hash_one(())))
}

/// Returns the error for that of the system.
pub(super) fn failed(error: io::Error) -> RemoteError {
    let reason = error.to_string();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            RemoteError::Full { reason }
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            RemoteError::Refused { reason }
        }
        // A link, or something that is no file.
        io::ErrorKind::Other | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
            RemoteError::Invalid { reason }
        }
        _ => RemoteError::Unreachable { reason },
    }
}

//! Every access to the disk: the only module of this crate that may touch `std::fs`.
#![expect(clippy::disallowed_methods, reason = "this is the crate's I/O module")]

use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{CWD, OFlags, RenameFlags};
use rustix::io::Errno;

/// Which file a path led to, so that a later look can tell whether it still does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    dev: u64,
    ino: u64,
}

impl Inode {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { dev: metadata.dev(), ino: metadata.ino() }
    }

    /// The file that `path` names now, itself and not where a link points.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        std::fs::symlink_metadata(path).map(|metadata| Self::of(&metadata))
    }
}

/// A whole file, read with one open, one fstat and one read.
pub(crate) struct WholeFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) metadata: Metadata,
    pub(crate) file: File,
}

/// Reads a file. More than `limit` bytes are not read: the bytes are then empty, and the metadata says how many.
pub(crate) fn read_whole(path: &Path, limit: u64) -> io::Result<WholeFile> {
    // Without NONBLOCK a pipe would hold us up until somebody writes to it.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let length = metadata.len();
    let mut bytes = Vec::new();
    if length <= limit {
        bytes.try_reserve_exact(length as usize)?;
        (&file).take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != length {
            // The file system gave less than it had promised: trouble, not damage.
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ended early"));
        }
    }
    Ok(WholeFile { bytes, metadata, file })
}

/// Writes `bytes` to a new file in `temps`, syncs its data and renames it to `name` in the open folder `shard`. Leaves
/// nothing on failure.
pub(crate) fn publish(temps: &Path, shard: &File, name: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
    use rustix::fs::{AtFlags, renameat, statat};
    let mut temp = tempfile::Builder::new().prefix("put-").tempfile_in(temps)?;
    temp.as_file_mut().write_all(bytes)?;
    temp.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
    temp.as_file().sync_data()?;
    let (file, path) = temp.into_parts();
    if let Err(error) = renameat(CWD, &*path, shard, name) {
        // A server may have done it, lost its answer, and then refused to do it twice.
        let own = file.metadata()?;
        match statat(shard, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) if there.st_dev == own.dev() && there.st_ino == own.ino() => {}
            _ => return Err(error.into()),
        }
    }
    // It has moved: there is nothing to remove.
    let _ = path.keep();
    Ok(())
}

/// Writes a small file once, whole or not at all; one that is there stays as it is.
pub(crate) fn write_new(path: &Path, text: &str) -> io::Result<()> {
    if Inode::at(path).is_ok() {
        return Ok(());
    }
    let folder = path.parent().ok_or_else(|| io::Error::other("no folder"))?;
    let mut temp = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    temp.write_all(text.as_bytes())?;
    temp.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    match temp.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        _ => Ok(()),
    }
}

/// The names of what is in a folder, those that are text; none in one that cannot be read.
pub(crate) fn names(path: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// Whether everything in a folder is called one of `names`.
pub(crate) fn holds_only(path: &Path, names: &[&str]) -> bool {
    std::fs::read_dir(path).is_ok_and(|mut entries| {
        entries.all(|entry| entry.is_ok_and(|entry| names.iter().any(|name| entry.file_name() == *name)))
    })
}

/// Opens a folder, so that what is looked at is what is used. Links are followed only if `follow`.
pub(crate) fn open_folder(path: &Path, follow: bool) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

/// Creates a folder and those above it; one that is there is fine. True if it was not.
pub(crate) fn create_folders(path: &Path, mode: u32) -> io::Result<bool> {
    if path.is_dir() {
        return Ok(false);
    }
    DirBuilder::new().recursive(true).mode(mode).create(path).map(|()| true)
}

/// Creates one folder; one that is there is fine. A shared one gets its bits whatever the umask, and before it gets its
/// name: the group never meets it closed.
pub(crate) fn create_folder(path: &Path, shared: bool) -> io::Result<()> {
    if !shared {
        return exists_is_fine(DirBuilder::new().mode(0o755).create(path));
    }
    if Inode::at(path).is_ok() {
        return Ok(());
    }
    let parent = path.parent().ok_or_else(|| io::Error::other("no folder"))?;
    let temp = tempfile::Builder::new().prefix(".new-").tempdir_in(parent)?;
    open_folder(temp.path(), false)?.set_permissions(std::fs::Permissions::from_mode(0o2775))?;
    let named = rustix::fs::renameat_with(CWD, temp.path(), CWD, path, RenameFlags::NOREPLACE);
    match named {
        Ok(()) => {
            // It has another name now; nothing is left to remove.
            let _ = temp.keep();
            Ok(())
        }
        Err(Errno::EXIST) => Ok(()),
        // A file system that cannot rename so: the folder is closed to the group for a moment.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            exists_is_fine(DirBuilder::new().mode(0o755).create(path))?;
            open_folder(path, false)?.set_permissions(std::fs::Permissions::from_mode(0o2775))
        }
        Err(error) => Err(error.into()),
    }
}

fn exists_is_fine(made: io::Result<()>) -> io::Result<()> {
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Moves a file within the store.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

/// Moves a file back to where it was; if another has taken its place, that one stays and this one goes.
pub(crate) fn put_back(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::hard_link(from, to) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => remove(from),
    }
}

/// Removes a file, or a link, never what it points to. One that is not there is fine.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Syncs a folder, so that renames into it survive a power cut.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Opens a lock file, made if need be. Never shared with children: std opens everything close-on-exec.
pub(crate) fn open_lock(path: &Path, shared: bool) -> io::Result<File> {
    let open = |create| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create).truncate(false).mode(0o600);
        options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)
    };
    if !shared {
        return open(true);
    }
    // The umask closes a new file to the group, so it is opened up before it gets its name.
    let folder = path.parent().unwrap_or(path);
    loop {
        match open(false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let temp = tempfile::Builder::new().prefix("lock-").tempfile_in(folder)?;
        temp.as_file().set_permissions(std::fs::Permissions::from_mode(0o660))?;
        match temp.persist_noclobber(path) {
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map_err(|error| error.error),
        }
    }
}

/// What an attempt to lock came to.
pub(crate) enum TryLock {
    Locked,
    Busy,
    Unsupported,
}

/// Tries to lock, at once.
pub(crate) fn try_lock(file: &File) -> io::Result<TryLock> {
    match file.try_lock() {
        Ok(()) => Ok(TryLock::Locked),
        Err(TryLockError::WouldBlock) => Ok(TryLock::Busy),
        Err(TryLockError::Error(error)) => match Errno::from_io_error(&error) {
            Some(Errno::INTR) => Ok(TryLock::Busy),
            Some(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS) => Ok(TryLock::Unsupported),
            _ => Err(error),
        },
    }
}

/// Replaces the content of an open file.
pub(crate) fn overwrite(file: &File, text: &str) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    file.set_len(0)?;
    file.write_all_at(text.as_bytes(), 0)
}

/// The beginning of an open file, up to `limit` bytes.
pub(crate) fn read_start(file: &File, limit: usize) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; limit];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

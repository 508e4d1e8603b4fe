//! What the store does with files: whole files read, published by one rename, written once.

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::io::Errno;

use crate::disk::{Disk, Inode};

/// A whole file, read with one open, one fstat and one read.
pub(crate) struct WholeFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) metadata: Metadata,
    pub(crate) file: File,
}

/// Reads a file. More than `limit` bytes are not read: the bytes are then empty, and the metadata says how many.
pub(crate) fn read_whole(disk: &Disk, path: &Path, limit: u64) -> io::Result<WholeFile> {
    let file = disk.open(path)?;
    let metadata = disk.stat(&file, path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let length = metadata.len();
    let mut bytes = Vec::new();
    if length <= limit {
        bytes.try_reserve_exact(length as usize)?;
        disk.read(&file, path, length as usize, &mut bytes)?;
        if bytes.len() as u64 != length {
            // The file system gave less than it had promised: trouble, not damage.
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ended early"));
        }
    }
    Ok(WholeFile { bytes, metadata, file })
}

/// A new file under a name of its own, removed when dropped unless it got another.
pub(crate) struct Temp<'d> {
    disk: &'d Disk,
    file: File,
    path: PathBuf,
    keep: bool,
}

impl<'d> Temp<'d> {
    /// In `folder`, called `<prefix><process>-<number>`.
    pub(crate) fn new(disk: &'d Disk, folder: &Path, prefix: &str) -> io::Result<Self> {
        loop {
            let path = folder.join(unique(prefix));
            match disk.create(&path) {
                Ok(file) => return Ok(Self { disk, file, path, keep: false }),
                // A process of the same number left it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes all of it, with mode `mode`, and syncs its data if `sync`.
    pub(crate) fn fill(&self, bytes: &[u8], mode: u32, sync: bool) -> io::Result<()> {
        self.disk.write(&self.file, &self.path, bytes)?;
        self.disk.set_mode(&self.file, &self.path, mode)?;
        if sync { self.disk.sync_data(&self.file, &self.path) } else { Ok(()) }
    }

    /// Gives it the name `path`, unless something is there: then that stays, and this is false.
    pub(crate) fn name_new(mut self, path: &Path) -> io::Result<bool> {
        let named = match self.disk.rename_new(&self.path, path) {
            Ok(()) => {
                self.keep = true;
                Ok(())
            }
            Err(error) if cannot_rename_new(&error) => self.disk.link(&self.path, path),
            Err(error) => Err(error),
        };
        match named {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Gives it the name `name` in the open folder `shard`, instead of what is there.
    fn replace(mut self, shard: &File, name: &str, path: &Path) -> io::Result<()> {
        if let Err(error) = self.disk.rename_into(&self.path, shard, name, path) {
            // A server may have done it, lost its answer, and then refused to do it twice.
            let own = Inode::of(&self.disk.stat(&self.file, &self.path)?);
            if self.disk.look_in(shard, name, path).ok().map(|seen| seen.inode) != Some(own) {
                return Err(error);
            }
        }
        self.keep = true;
        Ok(())
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed is collected later.
            let _ = self.disk.remove(&self.path);
        }
    }
}

/// What the names of files that are being written begin with, of folders that are being made, and of entries that are
/// being deleted.
pub(crate) const PUT: &str = "put-";
pub(crate) const NEW: &str = ".new-";
pub(crate) const LOCK: &str = "lock-";
pub(crate) const EVICT: &str = "evict-";

/// A name that no other process on this machine uses now.
pub(crate) fn unique(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Writes `bytes` to a new file in `temps`, syncs its data and renames it to `name` in the open folder `shard`, which is
/// at `dir`, with mode `mode`. Leaves nothing on failure.
pub(crate) fn publish(
    disk: &Disk,
    temps: &Path,
    (shard, dir): (&File, &Path),
    name: &str,
    bytes: &[u8],
    mode: u32,
) -> io::Result<()> {
    let temp = Temp::new(disk, temps, PUT)?;
    temp.fill(bytes, mode, true)?;
    temp.replace(shard, name, &dir.join(name))
}

/// Which process made a file that [`unique`] named with one of `prefixes`.
pub(crate) fn maker(name: &str, prefixes: &[&str]) -> Option<u32> {
    let rest = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    let (process, number) = rest.split_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(process) && digits(number)).then(|| process.parse().ok()).flatten()
}

/// Writes a small file once, whole or not at all; one that is there stays as it is.
pub(crate) fn write_new(disk: &Disk, path: &Path, text: &str) -> io::Result<()> {
    if disk.look(path).is_ok() {
        return Ok(());
    }
    let folder = path.parent().ok_or_else(|| io::Error::other("no folder"))?;
    let temp = Temp::new(disk, folder, NEW)?;
    // Synced, since it is never written again: what a power cut leaves of it would stay.
    temp.fill(text.as_bytes(), 0o644, true)?;
    temp.name_new(path).map(drop)
}

/// Whether a file system has no rename that spares what is there.
fn cannot_rename_new(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP))
}

/// Creates a folder and those above it; one that is there is fine.
pub(crate) fn create_folders(disk: &Disk, path: &Path, mode: u32) -> io::Result<()> {
    match disk.create_folder(path, mode) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = path.parent().ok_or(error)?;
            create_folders(disk, parent, mode)?;
            exists_is_fine(disk.create_folder(path, mode))
        }
        other => exists_is_fine(other),
    }
}

/// Creates one folder; one that is there is fine. A shared one gets its bits whatever the umask, and before it gets its
/// name: the group never meets it closed.
pub(crate) fn create_folder(disk: &Disk, path: &Path, shared: bool) -> io::Result<()> {
    if !shared {
        return exists_is_fine(disk.create_folder(path, 0o755));
    }
    if disk.look(path).is_ok() {
        return Ok(());
    }
    let open_up = |path: &Path| disk.set_mode(&disk.open_folder(path)?, path, 0o2775);
    let parent = path.parent().ok_or_else(|| io::Error::other("no folder"))?;
    let temp = parent.join(unique(NEW));
    disk.create_folder(&temp, 0o755)?;
    let named = open_up(&temp).and_then(|()| disk.rename_new(&temp, path));
    let Err(error) = named else { return Ok(()) };
    // What cannot be removed is empty, and collected later.
    let _ = disk.remove_folder(&temp);
    match error {
        error if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // The folder is closed to the group for a moment.
        error if cannot_rename_new(&error) => {
            exists_is_fine(disk.create_folder(path, 0o755))?;
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

/// Who may open a file that several processes share: without and with a group.
pub(crate) struct Modes {
    own: u32,
    shared: u32,
}

/// Whoever can open a lock can hold it.
pub(crate) const FOR_LOCKS: Modes = Modes { own: 0o600, shared: 0o660 };
/// Whoever may read entries may read how many there are.
pub(crate) const FOR_NUMBERS: Modes = Modes { own: 0o644, shared: 0o664 };

/// Opens a file to lock or to change it, made if need be.
pub(crate) fn open_lock(disk: &Disk, path: &Path, shared: bool, modes: &Modes) -> io::Result<File> {
    if !shared {
        return disk.open_lock(path, Some(modes.own));
    }
    // The umask closes a new file to the group, so it is opened up before it gets its name.
    let folder = path.parent().unwrap_or(path);
    loop {
        match disk.open_lock(path, None) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let temp = Temp::new(disk, folder, LOCK)?;
        temp.fill(b"", modes.shared, false)?;
        temp.name_new(path)?;
    }
}

/// Touches an open file. The time that it has then is now, by the file system's clock.
pub(crate) fn touch(disk: &Disk, file: &File, path: &Path) -> io::Result<SystemTime> {
    disk.touch(file, path)?;
    disk.stat(file, path)?.modified()
}

/// Moves a file back to where it was; if another has taken its place, that one stays and this one goes.
pub(crate) fn put_back(disk: &Disk, from: &Path, to: &Path) -> io::Result<()> {
    match disk.link(from, to) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => disk.remove(from),
    }
}

/// Replaces the content of an open file.
pub(crate) fn overwrite(disk: &Disk, file: &File, path: &Path, text: &str) -> io::Result<()> {
    disk.set_length(file, path, 0)?;
    disk.write_start(file, path, text.as_bytes())
}

/// Whether everything in the open folder at `path` is called one of `names`, but for temps that somebody left who died.
pub(crate) fn holds_only(disk: &Disk, (folder, path): (&File, &Path), names: &[&str]) -> bool {
    let is_one = |found: &String| names.contains(&found.as_str()) || found.starts_with(NEW);
    disk.list_in(folder, path).is_ok_and(|found| found.iter().all(is_one))
}

//! Every access to the disk: the only module of this crate that may touch `std::fs`.
#![expect(clippy::disallowed_methods, reason = "this is the crate's I/O module")]

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use opkeep_digest::Digest;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::sandbox::FileState;

/// What is smaller stays when room is made for a log.
const SMALL: u64 = 256 * 1024;

/// Keeps the output of a compile that failed; where it is, unless it cannot be written, which must not hide the failure
/// itself. Where there is no room, what the compile left beside it goes: folders, and files that are not small.
pub fn keep_log(path: &Path, output: &str) -> Option<PathBuf> {
    let keep = || std::fs::write(path, output).is_ok();
    let make_room = || {
        for entry in std::fs::read_dir(path.parent()?).ok()?.flatten() {
            let small = entry.metadata().is_ok_and(|found| found.is_file() && found.len() < SMALL);
            if !small {
                let _ = std::fs::remove_file(entry.path()).or_else(|_| std::fs::remove_dir_all(entry.path()));
            }
        }
        Some(())
    };
    (keep() || (make_room().is_some() && keep())).then(|| path.to_owned())
}

/// How a script begins, and how much of its first line the kernel reads.
const SCRIPT: &[u8] = b"#!";
const SCRIPT_LINE: usize = 256;

/// What the kernel opens besides to execute the program at `path`, and whether that is since it is a script: the
/// interpreter of its first line, or of its ELF header.
pub(crate) fn interpreter(path: &Path) -> io::Result<Option<(PathBuf, bool)>> {
    let mut head = Vec::new();
    let mut file = File::open(path)?;
    file.by_ref().take(SCRIPT_LINE as u64).read_to_end(&mut head)?;
    if let Some(line) = head.strip_prefix(SCRIPT) {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
        let interpreter = words.next().map(|word| PathBuf::from(OsStr::from_bytes(word)));
        return Ok(interpreter.map(|path| (path, true)));
    }
    Ok(elf_interpreter(&head, &mut file)?.map(|path| (path, false)))
}

/// The dynamic loader that a 64-bit little-endian ELF file names (`PT_INTERP`); none for any other file.
fn elf_interpreter(head: &[u8], file: &mut File) -> io::Result<Option<PathBuf>> {
    const PT_INTERP: u64 = 3;
    let number = |bytes: &[u8], at: usize, length: usize| {
        bytes
            .get(at..at + length)
            .map(|bytes| bytes.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return Ok(None);
    }
    let (Some(at), Some(size), Some(count)) = (number(head, 32, 8), number(head, 54, 2), number(head, 56, 2))
    else {
        return Ok(None);
    };
    let mut table = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.by_ref().take(size * count).read_to_end(&mut table)?;
    for header in table.chunks(usize::try_from(size).unwrap_or_default().max(1)) {
        if let (Some(PT_INTERP), Some(at), Some(length)) =
            (number(header, 0, 4), number(header, 8, 8), number(header, 32, 8))
        {
            let mut name = Vec::new();
            file.seek(SeekFrom::Start(at))?;
            file.by_ref().take(length.min(libc::PATH_MAX as u64)).read_to_end(&mut name)?;
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            return Ok(Some(PathBuf::from(OsStr::from_bytes(name))));
        }
    }
    Ok(None)
}

/// What is at `path`, links followed; none if nothing can be found there.
pub(crate) fn metadata(path: &Path) -> Option<Metadata> {
    std::fs::metadata(path).ok()
}

/// The same, and where the link leads that is at `path` itself. Where there is no link this is one call: after each compile
/// all paths that its toolchain looked at are looked at.
pub(crate) fn metadata_and_link(path: &Path) -> (Option<Metadata>, Option<PathBuf>) {
    match std::fs::symlink_metadata(path) {
        Err(_) => (None, None),
        Ok(found) if found.is_symlink() => (metadata(path), link(path)),
        Ok(found) => (Some(found), None),
    }
}

pub(crate) fn state(found: &Metadata) -> FileState {
    let nanoseconds =
        |seconds: i64, nanoseconds: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds);
    FileState {
        dev: found.dev(),
        ino: found.ino(),
        size: found.len(),
        modified: nanoseconds(found.mtime(), found.mtime_nsec()),
        changed: nanoseconds(found.ctime(), found.ctime_nsec()),
        mode: found.mode() & 0o7777,
        user: found.uid(),
        group: found.gid(),
    }
}

pub(crate) fn exists(path: &Path) -> bool {
    metadata(path).is_some()
}

/// Whether this user may write to what is at `path`.
pub(crate) fn is_writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// When a file, or what is known of it, changed last.
pub(crate) fn changed(path: &Path) -> Option<SystemTime> {
    let found = metadata(path)?;
    let seconds = u64::try_from(found.ctime()).ok()?;
    let nanoseconds = u32::try_from(found.ctime_nsec()).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))
}

/// A path without links; of one that leads nowhere, its directory's.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

/// Whether two paths lead to one file.
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path| metadata(path).map(|found| (found.dev(), found.ino()));
    identity(one).is_some_and(|one| Some(one) == identity(other))
}

/// A digest of the names in a directory, in their order, each with whether it is a file, a directory or a link.
pub(crate) fn names(path: &Path) -> io::Result<Digest> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        // The kind of an entry that is gone by now does not matter: the directory's digest is another without it.
        let kind = match entry.file_type() {
            Ok(kind) if kind.is_dir() => b'd',
            Ok(kind) if kind.is_symlink() => b'l',
            Ok(kind) if kind.is_file() => b'f',
            _ => b'-',
        };
        names.push((entry.file_name(), kind));
    }
    names.sort_unstable();
    let mut bytes = Vec::new();
    for (name, kind) in &names {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend([0, *kind]);
    }
    Ok(Digest::of(&bytes))
}

/// A file as text, if it can be read.
pub(crate) fn text(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Where a symbolic link leads.
pub(crate) fn link(path: &Path) -> Option<PathBuf> {
    std::fs::read_link(path).ok()
}

/// The SHA-256 of a file.
pub(crate) fn digest(path: &Path) -> io::Result<Digest> {
    Digest::of_reader(File::open(path)?)
}

/// The process that a thread belongs to.
pub(crate) fn process_of(thread: i32) -> io::Result<i32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|number| number.trim().parse().ok())
        .ok_or_else(|| io::Error::other("a thread has no process"))
}

/// All files below the directory `path` and all directories, itself included, each in the order of their names. Links to
/// directories are not followed.
pub(crate) fn all_below(path: &Path, at_most: usize) -> io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (mut found, mut directories) = (Vec::new(), vec![path.to_owned()]);
    let mut next = 0;
    while let Some(directory) = directories.get(next).cloned() {
        next += 1;
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                directories.push(entry.path());
            } else if metadata(&entry.path()).is_some_and(|found| !found.is_dir()) {
                found.push(entry.path());
            }
            if found.len() + directories.len() > at_most {
                return Err(io::Error::other(format!("there are more than {at_most} files below it")));
            }
        }
    }
    found.sort_unstable();
    directories.sort_unstable();
    Ok((found, directories))
}

/// A lock younger than this may be between its making and its locking.
const SETTLED: Duration = Duration::from_secs(60);

/// Makes a directory for this user, or takes the one that is there; false if another user could write to that.
pub(crate) fn private_directory(path: &Path) -> io::Result<bool> {
    match create_directory(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    Ok(opened
        .and_then(|directory| directory.metadata())
        .is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0))
}

/// Makes a directory for this user.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Makes a directory for this user with a name that no one foresees.
pub(crate) fn temporary_directory(place: &Path) -> io::Result<tempfile::TempDir> {
    let private = Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix("opkeep-probe-").permissions(private).tempdir_in(place)
}

/// Whether the files of a small compile can be written.
pub(crate) fn has_room(dir: &Path) -> io::Result<()> {
    const ROOM: usize = 2048;
    let file = dir.join("room");
    std::fs::write(&file, [0; ROOM])?;
    std::fs::remove_file(file)
}

/// Makes a new file and locks it.
pub(crate) fn create_locked(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    match file.lock() {
        // Without locks the file goes unlocked. No process takes it for stale: it cannot lock it either.
        Err(error) if !has_no_locks(&error) => Err(error),
        _ => Ok(file),
    }
}

fn has_no_locks(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS))
}

/// Locks a file that no process holds, if it is not young.
pub(crate) fn take_stale_lock(path: &Path) -> Option<File> {
    let flags = OFlags::NOFOLLOW.bits() as i32;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).ok()?;
    let ours = file.metadata().ok()?;
    if !ours.modified().ok()?.elapsed().is_ok_and(|age| age >= SETTLED) {
        return None;
    }
    file.try_lock().ok()?;
    // Another process may have removed it in between.
    let there = std::fs::symlink_metadata(path).ok()?;
    ((ours.dev(), ours.ino()) == (there.dev(), there.ino())).then_some(file)
}

/// What is in a directory; nothing if it cannot be listed.
pub(crate) fn entries(path: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Removes a file that may be missing.
pub(crate) fn remove_file(path: &Path) {
    let _ = std::fs::remove_file(path);
}

/// Removes a directory that may be missing, with all that is in it.
pub(crate) fn remove_directory(path: &Path) {
    let _ = std::fs::remove_dir_all(path);
}

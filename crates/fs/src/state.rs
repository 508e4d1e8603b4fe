//! The identity and the state of files.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use rustix::fs::{FileType, Stat};

/// The identity of a file, whatever its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The device number of its file system.
    pub dev: u64,
    /// Its inode number.
    pub ino: u64,
}

impl FileId {
    /// That of `metadata`.
    pub fn of(metadata: &Metadata) -> Self {
        Self { dev: metadata.dev(), ino: metadata.ino() }
    }
}

/// The identity and the state of a file: a write, truncation, rename or change of times gives another state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileState {
    /// Which file it is.
    pub id: FileId,
    /// Its length in bytes.
    pub len: u64,
    /// When its content was last written, or its times were set, in nanoseconds since 1970.
    pub mtime: i64,
    /// When its content or its metadata, including its name, last changed, in nanoseconds since 1970.
    pub ctime: i64,
}

impl FileState {
    /// That of `metadata`.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            id: FileId::of(metadata),
            len: metadata.len(),
            mtime: nanos(metadata.mtime(), metadata.mtime_nsec().unsigned_abs()),
            ctime: nanos(metadata.ctime(), metadata.ctime_nsec().unsigned_abs()),
        }
    }

    /// Whether it is the same file with the same content, even if it was moved: a rename changes only `ctime`.
    pub fn is_same_content(&self, other: &Self) -> bool {
        let of = |file: &Self| (file.id, file.len, file.mtime);
        of(self) == of(other)
    }

    /// Whether it has the same length and time. A directory may have been copied with its times, or mounted again: then
    /// the [`FileId`] differs.
    pub fn is_as_long_and_old(&self, other: &Self) -> bool {
        (self.len, self.mtime) == (other.len, other.mtime)
    }

    /// Whether two looks at one file saw the content of `other`, even if it was moved. Some file systems in user space
    /// report a new inode number at each look.
    pub fn are_of(looks: [Option<Self>; 2], other: &Self) -> bool {
        let [Some(found), Some(again)] = looks else { return false };
        (found.id.ino == other.id.ino || found.id.ino != again.id.ino) && found.is_as_long_and_old(other)
    }

    /// Whether the file has been unchanged for `time`, so that a change after `now` shows in its times.
    pub fn rested(&self, now: SystemTime, time: Duration) -> bool {
        is_before(self.ctime.max(self.mtime), now, time)
    }

    /// When its content was last written, or its times were set.
    pub fn modified(&self) -> SystemTime {
        time_of(self.mtime)
    }

    /// When its content or its metadata, including its name, last changed.
    pub fn changed(&self) -> SystemTime {
        time_of(self.ctime)
    }

    /// Whether the file was last written at least `time` ago.
    pub fn written_before(&self, now: SystemTime, time: Duration) -> bool {
        is_before(self.mtime, now, time)
    }
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Link,
    /// A pipe, a device, a socket.
    Other,
}

impl From<FileType> for FileKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Dir,
            FileType::Symlink => Self::Link,
            _ => Self::Other,
        }
    }
}

/// The state of a file or directory, as the system reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileStat {
    /// Its kind.
    pub kind: FileKind,
    /// Its identity and state.
    pub state: FileState,
    /// When it was last read, as far as its file system records that, in nanoseconds since 1970.
    pub atime: i64,
    /// Its permissions.
    pub mode: u32,
    /// Its owner.
    pub user: u32,
    /// Its group.
    pub group: u32,
}

impl FileStat {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            kind: FileType::from_raw_mode(stat.st_mode).into(),
            state: FileState {
                id: FileId { dev: stat.st_dev, ino: stat.st_ino },
                len: stat.st_size.unsigned_abs(),
                mtime: nanos(stat.st_mtime, stat.st_mtime_nsec),
                ctime: nanos(stat.st_ctime, stat.st_ctime_nsec),
            },
            atime: nanos(stat.st_atime, stat.st_atime_nsec),
            mode: stat.st_mode & 0o7777,
            user: stat.st_uid,
            group: stat.st_gid,
        }
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == FileKind::File
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == FileKind::Dir
    }

    /// [`FileState::modified`].
    pub fn modified(&self) -> SystemTime {
        self.state.modified()
    }

    /// [`FileState::changed`].
    pub fn changed(&self) -> SystemTime {
        self.state.changed()
    }
}

fn nanos(seconds: i64, nanos: u64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add_unsigned(nanos)
}

fn time_of(nanos: i64) -> SystemTime {
    let since = Duration::from_nanos(nanos.unsigned_abs());
    let time = match nanos < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(since),
        false => SystemTime::UNIX_EPOCH.checked_add(since),
    };
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Whether `nanos` since 1970 is at least `time` before `now`.
fn is_before(nanos: i64, now: SystemTime, time: Duration) -> bool {
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    u128::try_from(nanos).unwrap_or(0) + time.as_nanos() <= now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_and_stat_are_one_state() {
        let file = tempfile::tempfile().unwrap();
        let from_stat = FileStat::of(&rustix::fs::fstat(&file).unwrap());
        let metadata = file.metadata().unwrap();
        assert_eq!(from_stat.state, FileState::of(&metadata));
        assert_eq!(from_stat.modified(), metadata.modified().unwrap());
        assert!(from_stat.is_file());
    }

    #[test]
    fn times_before_1970_stay_times() {
        assert_eq!(time_of(-1_500_000_000), SystemTime::UNIX_EPOCH - Duration::from_millis(1500));
        assert!(is_before(-1, SystemTime::UNIX_EPOCH, Duration::ZERO));
        assert!(!is_before(1, SystemTime::UNIX_EPOCH, Duration::ZERO));
    }
}

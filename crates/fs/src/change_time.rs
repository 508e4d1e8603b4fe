//! Which file systems show each change of a file in its change time.
//!
//! That of a disk is set by the kernel of the machine where the file changes, and no program can choose it. A file system
//! image reports the times that its builder chose: two images may have another content under the same device, inode
//! number, length and times.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{StatFs, fstatfs, statfs};
use rustix::io::Result;

use crate::FileState;

/// `f_type` of statfs(2) of file systems that have a change time of their own: ext2 to ext4, xfs, btrfs, f2fs, bcachefs,
/// zfs, jfs, tmpfs and ramfs.
const OWN: [u32; 9] = [
    0x0000_ef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0xca45_1a4e,
    0x2fc1_2fc1,
    0x3153_464a,
    0x0102_1994,
    0x8584_58f6,
];
/// Those that report the change time of another file system: overlay, nfs, lustre, gpfs, ceph and beegfs.
const PASSED_ON: [u32; 6] = [0x794c_7630, 0x0000_6969, 0x0bd0_0bd0, 0x4750_4653, 0x00c3_6400, 0x1983_0326];
/// The flag of a mount that cannot be written.
const READ_ONLY: u64 = 1;

/// Where a file system's change times come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeTimes {
    /// From the kernel, at each change.
    Own,
    /// From the file system below, which may be an image.
    PassedOn,
    /// From an image, or from a program.
    Chosen,
}

impl ChangeTimes {
    /// Those of the file system of an open file.
    pub fn of(file: impl AsFd) -> Self {
        Self::from(fstatfs(file))
    }

    /// Those of the file system at `path`.
    pub fn at(path: &Path) -> Self {
        Self::from(statfs(path))
    }

    fn from(found: Result<StatFs>) -> Self {
        // The type has the width of a word; some file systems sign-extend their 32 bits.
        found.map_or(Self::Chosen, |found| Self::new(found.f_type as u32, found.f_flags as u64))
    }

    fn new(kind: u32, flags: u64) -> Self {
        match () {
            // It may be the image of a disk.
            () if OWN.contains(&kind) && flags & READ_ONLY == 0 => Self::Own,
            () if PASSED_ON.contains(&kind) => Self::PassedOn,
            () => Self::Chosen,
        }
    }

    /// Whether another content of a file with this state would have another state, also after other mounts and on another
    /// day. Images have one time for both, or no change time.
    pub fn show_changes(self, file: &FileState) -> bool {
        match self {
            Self::Own => true,
            Self::PassedOn => file.ctime > file.mtime,
            Self::Chosen => false,
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests open files")]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::FileId;

    #[test]
    fn an_image_never_shows_changes() {
        let file = |mtime, ctime| FileState { id: FileId { dev: 1, ino: 2 }, len: 3, mtime, ctime };
        let (equal, later, unset) = (file(5, 5), file(5, 6), file(5, 0));
        let shown =
            |kind, flags| [equal, later, unset].map(|file| ChangeTimes::new(kind, flags).show_changes(&file));
        // squashfs, erofs, fuse, cramfs, iso9660, 9p, vfat; proc, whose inodes come and go.
        for kind in [0x7371_7368, 0xe0f5_e1e2, 0x6573_5546, 0x28cd_3d45, 0x9660, 0x0102_1997, 0x4d44, 0x9fa0]
        {
            assert_eq!(shown(kind, 0), [false; 3], "{kind:x}");
        }
        for kind in OWN {
            assert_eq!(shown(kind, 0), [true; 3], "{kind:x}");
            // A disk image that is mounted.
            assert_eq!(shown(kind, READ_ONLY), [false; 3], "{kind:x}");
        }
        // Some of their files are those of an image, by which both times are equal, or which has no change times.
        for kind in PASSED_ON {
            assert_eq!(shown(kind, 0), [false, true, false], "{kind:x}");
        }
    }

    #[test]
    fn the_path_and_the_open_file_have_one_answer() {
        for path in ["/proc/version", "/dev/shm", "/tmp", "/usr"] {
            let Ok(file) = File::open(path) else { continue };
            assert_eq!(ChangeTimes::of(&file), ChangeTimes::at(Path::new(path)), "{path}");
        }
        assert_eq!(ChangeTimes::at(Path::new("/proc/version")), ChangeTimes::Chosen);
        assert_eq!(ChangeTimes::at(Path::new("/absent")), ChangeTimes::Chosen);
    }
}

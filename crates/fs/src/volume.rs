//! The file system that a directory is on: its kind, and its free space.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{StatVfsMountFlags, fstatfs, fstatvfs};

/// `f_type` of statfs(2) of file systems that hold files of users, from Linux's `uapi/linux/magic.h`; for those that are not listed
/// there, from their sources. The last field is whether it is shared by hosts.
const KNOWN: [(u32, &str, bool); 26] = [
    (0x0000_ef53, "ext4", false),
    (0x5846_5342, "xfs", false),
    (0x9123_683e, "btrfs", false),
    (0xf2f5_2010, "f2fs", false),
    (0xca45_1a4e, "bcachefs", false),
    (0x2fc1_2fc1, "zfs", false),
    (0x0102_1994, "tmpfs", false),
    (0x8584_58f6, "ramfs", false),
    (0x794c_7630, "overlayfs", false),
    (0x7371_7368, "squashfs", false),
    (0x0000_4d44, "vfat", false),
    (0x5346_544e, "ntfs", false),
    (0x6573_5546, "fuse", false),
    (0x0000_6969, "nfs", true),
    (0xff53_4d42, "cifs", true),
    (0xfe53_4d42, "smb2", true),
    (0x0000_517b, "smb", true),
    (0x0102_1997, "9p", true),
    (0x00c3_6400, "ceph", true),
    (0x0bd0_0bd0, "lustre", true),
    (0x4750_4653, "gpfs", true),
    (0x1980_0326, "beegfs", true),
    (0x5346_414f, "afs", true),
    (0x7461_636f, "ocfs2", true),
    (0x0116_1970, "gfs2", true),
    (0x2003_0528, "orangefs", true),
];

/// The file system of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Volume {
    /// Its kind; `None` if it is none of the usual ones.
    pub kind: Option<&'static str>,
    /// Whether hosts share it by a network, as far as its kind says so.
    pub is_network: bool,
    /// The number of bytes that this user can still write.
    pub free_bytes: u64,
    /// The number of files that can still be created; `None` if the file system does not state a number.
    pub free_files: Option<u64>,
    /// Whether it is mounted for reading only.
    pub is_read_only: bool,
}

impl Volume {
    /// Returns the file system of an open file or directory.
    ///
    /// # Errors
    /// That of the system.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        // The type has the width of a word; some file systems sign-extend their 32 bits.
        let magic = fstatfs(file.as_fd())?.f_type as u32;
        let known = KNOWN.iter().find(|(kind, ..)| *kind == magic);
        let stat = fstatvfs(file.as_fd())?;
        Ok(Self {
            kind: known.map(|(_, name, _)| *name),
            is_network: known.is_some_and(|(_, _, is_network)| *is_network),
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            free_files: (stat.f_files > 0).then_some(stat.f_favail),
            is_read_only: stat.f_flag.contains(StatVfsMountFlags::RDONLY),
        })
    }
}

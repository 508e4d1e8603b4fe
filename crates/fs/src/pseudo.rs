//! File systems that hold no files of users: walks of a tree that a user named do not enter them.
//!
//! `/proc` alone has as many directories as a large data set, most of them closed, and reading its files may change
//! something, block, or reach a device. All other file systems are entered, also volumes that are mounted below the
//! tree.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{fstat, fstatfs, major, minor};

use crate::{Dir, Fs};

/// `f_type` of statfs(2), from Linux's `uapi/linux/magic.h`; for file systems that are not listed there, from their
/// sources.
const PSEUDO: [(u32, &str); 31] = [
    (0x0000_9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0xcafe_4a11, "bpf"),
    (0x6165_676c, "pstore"),
    (0x6265_6570, "configfs"),
    (0x1980_0202, "mqueue"),
    (0x9584_58f6, "hugetlbfs"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x6573_5543, "fusectl"),
    (0x0000_1cd1, "devpts"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x4341_5d53, "smackfs"),
    (0x5a3c_69f0, "apparmorfs"),
    (0xde5e_81e4, "efivarfs"),
    (0x0765_5821, "resctrl"),
    (0x6c6f_6f70, "binderfs"),
    (0x6759_6969, "rpc_pipefs"),
    (0x6e66_7364, "nfsd"),
    (0x6e73_6673, "nsfs"),
    (0x5049_5045, "pipefs"),
    (0x534f_434b, "sockfs"),
    (0x0904_1934, "anon_inode"),
    (0x5049_4446, "pidfs"),
    (0xabba_1974, "xenfs"),
    (0x0000_9fa1, "openpromfs"),
    (0x0000_9fa2, "usbdevfs"),
];

/// The types of tmpfs and ramfs: the kernel's tree of devices is one of them, and has no type of its own.
const MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// The pseudo file system that contains the open directory `dir`, if any.
pub fn pseudo_file_system(dir: impl AsFd) -> Option<&'static str> {
    // The type has the width of a word; some file systems sign-extend their 32 bits.
    let kind = fstatfs(dir.as_fd()).ok()?.f_type as u32;
    let known = PSEUDO.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name);
    known.or_else(|| (MEMORY.contains(&kind) && is_devtmpfs(&dir)).then_some("devtmpfs"))
}

/// The same for a directory `dir` in `above`, which is on no pseudo file system: asks only if another file system
/// begins there.
pub fn pseudo_below(above: impl AsFd, dir: impl AsFd) -> Option<&'static str> {
    let device = |dir: &dyn Fn() -> rustix::io::Result<rustix::fs::Stat>| dir().ok().map(|stat| stat.st_dev);
    let is_same = device(&|| fstat(above.as_fd())) == device(&|| fstat(dir.as_fd()));
    if is_same { None } else { pseudo_file_system(dir) }
}

/// The directory called `name` in `dir`; `None` if a pseudo file system begins there.
pub fn descend(dir: &Dir, name: &OsStr) -> io::Result<Option<Dir>> {
    let below = dir.below(name)?;
    Ok(if pseudo_below(dir, &below).is_some() { None } else { Some(below) })
}

/// The mounts of this process, one a line (proc(5), `mountinfo`); empty if they cannot be read.
fn mount_table() -> String {
    Fs::new().read_text(Path::new("/proc/self/mountinfo"), 64 << 20).unwrap_or_default()
}

/// Whether the mount table says that a directory is on a devtmpfs.
fn is_devtmpfs(dir: impl AsFd) -> bool {
    let Ok(stat) = fstat(dir) else { return false };
    let device = format!("{}:{}", major(stat.st_dev), minor(stat.st_dev));
    let is_it = |line: &str| {
        // `24 27 0:6 / /dev rw,relatime - devtmpfs devtmpfs rw`
        let kind = line.split_once(" - ").and_then(|(_, rest)| rest.split(' ').next());
        line.split(' ').nth(2) == Some(&device) && kind == Some("devtmpfs")
    };
    mount_table().lines().any(is_it)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests open directories")]
mod tests {
    use std::collections::BTreeSet;
    use std::fs::File;

    use super::*;

    #[test]
    fn every_pseudo_file_system_of_this_machine_is_known_and_no_other() {
        /// Those that hold files: on disks, in memory, on the network, and those that compose others.
        const ORDINARY: [&str; 18] = [
            "ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "ramfs", "overlay", "9p", "fuse", "nfs", "nfs4",
            "virtiofs", "squashfs", "vfat", "zfs", "f2fs", "erofs",
        ];
        let mut seen = 0;
        for line in mount_table().lines() {
            let path = line.split(' ').nth(4).unwrap();
            let kind = line.split_once(" - ").unwrap().1.split(' ').next().unwrap();
            // Another file system may be mounted over it, or this user may not enter it.
            let top =
                mount_table().lines().rfind(|line| line.split(' ').nth(4) == Some(path)).map(str::to_owned);
            let Some(dir) = File::open(path).ok().filter(|_| top.as_deref() == Some(line)) else { continue };
            if !dir.metadata().unwrap().is_dir() {
                continue;
            }
            let is_ordinary = ORDINARY.iter().any(|name| kind == *name || kind.starts_with("fuse."));
            let found = pseudo_file_system(&dir);
            assert!(!is_ordinary || found.is_none(), "{line}: {found:?}");
            if let Some(found) = found {
                assert_eq!(found, kind, "{line}");
                seen += 1;
            }
        }
        assert!(seen > 0, "not even /proc");
    }

    #[test]
    fn proc_is_one_wherever_it_is_entered() {
        let open = |path: &str| File::open(path).unwrap();
        assert_eq!(pseudo_file_system(open("/proc")), Some("proc"));
        assert_eq!(pseudo_file_system(open("/proc/self/task")), Some("proc"));
        assert_eq!(pseudo_below(open("/"), open("/proc")), Some("proc"));
        assert_eq!(pseudo_below(open("/"), open("/usr")), None);
        // The target of a link of it is on the target's file system.
        assert_eq!(pseudo_file_system(open("/proc/self/cwd")), None);
    }

    #[test]
    fn each_magic_stands_once() {
        let magics: BTreeSet<u32> = opkeep_order::set(PSEUDO.iter().map(|(magic, _)| *magic));
        assert_eq!(magics.len(), PSEUDO.len());
    }
}

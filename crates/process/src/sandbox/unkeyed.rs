//! What programs may read although it is in no key.

use std::path::Path;

/// A file, or a directory with all below it, that may be read and does not count, and why that is sound.
#[derive(Clone, Copy, Debug)]
pub struct Unkeyed {
    /// Where it is.
    pub path: &'static str,
    /// Why what it says reaches no kernel, or reaches it by what counts elsewhere.
    pub reason: &'static str,
    /// Whether its content is the machine's state at the moment, so that a change of it says nothing.
    pub is_volatile: bool,
}

const fn settled(path: &'static str, reason: &'static str) -> Unkeyed {
    Unkeyed { path, reason, is_volatile: false }
}

const fn volatile(path: &'static str, reason: &'static str) -> Unkeyed {
    Unkeyed { path, reason, is_volatile: true }
}

/// All of them. What is not volatile is looked at when an observation is used again: if it changed, the toolchain is
/// observed anew, since it may now read other files.
pub const UNKEYED: &[Unkeyed] = &[
    settled("/etc/ld.so.cache", "says where a library is; the library that is loaded counts by content"),
    settled("/etc/ld.so.conf", "the same"),
    settled("/etc/ld.so.conf.d", "the same"),
    settled("/usr/lib/locale", "messages and collation; programs run with LC_ALL=C"),
    settled("/usr/share/locale", "the same"),
    settled("/etc/locale.alias", "the same"),
    settled(
        "/etc/os-release",
        "clang asks for the distribution; what follows from it shows in its steps' arguments",
    ),
    settled("/usr/lib/os-release", "the same"),
    settled("/etc/lsb-release", "the same"),
    settled("/etc/debian_version", "the same"),
    settled("/etc/redhat-release", "the same"),
    settled("/etc/passwd", "says where a user's home is; what is read there counts"),
    settled("/etc/group", "the same"),
    settled("/etc/nsswitch.conf", "the same"),
    settled("/etc/localtime", "the clock is not restricted either"),
    settled("/usr/share/zoneinfo", "the same"),
    volatile("/dev/null", "it is empty"),
    volatile("/dev/zero", "it has zeros only"),
    volatile("/dev/full", "the same"),
    volatile("/dev/random", "chance is in no file"),
    volatile("/dev/urandom", "the same"),
    volatile("/dev/tty", "no terminal is connected"),
    volatile("/proc", "the state of processes and of the machine; links to files are followed to the files"),
    volatile("/sys", "the state of the machine: its processors and memory"),
];

impl Unkeyed {
    /// What covers `path`, if anything does.
    pub fn covering(path: &Path) -> Option<&'static Self> {
        UNKEYED.iter().find(|unkeyed| path.starts_with(unkeyed.path))
    }
}

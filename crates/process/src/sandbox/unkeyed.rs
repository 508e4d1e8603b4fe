//! Files that programs may read although no key covers them.

use std::path::Path;

/// A file, or a directory with all below it, that may be read and does not count, with the reason why that is sound.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Unkeyed {
    /// The path.
    pub path: &'static str,
    /// The reason why its content does not affect a kernel, or only through inputs that count.
    pub reason: &'static str,
    /// Whether its content is momentary state of the machine, so that a change means nothing.
    pub is_volatile: bool,
}

const fn settled(path: &'static str, reason: &'static str) -> Unkeyed {
    Unkeyed { path, reason, is_volatile: false }
}

const fn volatile(path: &'static str, reason: &'static str) -> Unkeyed {
    Unkeyed { path, reason, is_volatile: true }
}

/// All of them. Those that are not volatile are compared before an observation is used again: if one has changed, the
/// toolchain is observed again, since it may now read other files.
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

/// Files of `/proc/<number>` that belong to one process and are no state of the machine.
const OF_A_PROCESS: [&str; 3] = ["environ", "cmdline", "mem"];

impl Unkeyed {
    /// The entry that covers `path`, if any.
    pub fn covering(path: &Path) -> Option<&'static Self> {
        UNKEYED.iter().find(|unkeyed| path.starts_with(unkeyed.path)).filter(|_| !is_of_a_process(path))
    }
}

/// Whether a path is the environment, the arguments or the memory of a process that is named by its number: it may be
/// another process than the reading one, such as its parent.
fn is_of_a_process(path: &Path) -> bool {
    let Ok(below) = path.strip_prefix("/proc") else { return false };
    let mut parts = below.iter().filter_map(|part| part.to_str());
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    parts.next().is_some_and(is_number) && parts.next_back().is_some_and(|name| OF_A_PROCESS.contains(&name))
}

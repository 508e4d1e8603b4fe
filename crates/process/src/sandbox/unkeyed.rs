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

/// What `/proc` says of one process that is its own, and no state of the machine.
const OF_A_PROCESS: [&str; 3] = ["environ", "cmdline", "mem"];

impl Unkeyed {
    /// What covers `path`, if anything does.
    pub fn covering(path: &Path) -> Option<&'static Self> {
        UNKEYED.iter().find(|unkeyed| path.starts_with(unkeyed.path)).filter(|_| !is_of_a_process(path))
    }
}

/// Whether a path is the environment, the arguments or the memory of a process that is called by its number: perhaps
/// another than the one that asks, such as the one that started it.
fn is_of_a_process(path: &Path) -> bool {
    let Ok(below) = path.strip_prefix("/proc") else { return false };
    let mut parts = below.iter().filter_map(|part| part.to_str());
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    parts.next().is_some_and(is_number) && parts.next_back().is_some_and(|name| OF_A_PROCESS.contains(&name))
}

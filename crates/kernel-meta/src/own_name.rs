//! File names that only opkeep uses. No framework reads files with these names.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The maximum depth to which directories are searched.
pub const MAX_DEPTH: usize = 128;
/// The suffix of a quarantine's name.
pub const QUARANTINE: &str = ".opkeep-quarantine";
/// The prefix of temporary files, of displaced files and of the manifest.
pub(crate) const OWN: &str = ".opkeep-";
/// The prefix of displaced files. The name continues with a process, a number, the former name, and a suffix that no
/// framework reads.
const OLD: &str = ".opkeep-old-";
const OLD_END: &str = ".old";
/// The suffix of a displaced file that is never restored: it is of an outdated kernel.
const OUTDATED_END: &str = ".outdated";

/// Returns a new name for the file called `name` while it is displaced. The number in it is the time, since on another
/// host or in another container, a process with the same number may work in the directory.
pub(crate) fn displaced_as(name: &str) -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    let last = LAST.fetch_max(now, Ordering::Relaxed);
    let number = if last < now { now } else { LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1) };
    format!("{OLD}{}-{number}-{name}{OLD_END}", std::process::id())
}

/// Returns the former name of the displaced file `old`; `None` if `old` is not the name of a displaced file.
pub(crate) fn displaced_name(old: &str) -> Option<&str> {
    former_name(old, OLD_END)
}

/// Returns the former name of the file `old` of an outdated kernel; `None` if `old` is not the name of such a file.
pub(crate) fn outdated_name(old: &str) -> Option<&str> {
    former_name(old, OUTDATED_END)
}

fn former_name<'a>(old: &'a str, end: &str) -> Option<&'a str> {
    let mut parts = old.strip_prefix(OLD)?.strip_suffix(end)?.splitn(3, '-');
    let is_number =
        |part: Option<&str>| part.is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    let numbered = is_number(parts.next()) && is_number(parts.next());
    parts.next().filter(|name| numbered && !name.is_empty())
}

/// Returns the name under which the displaced file `old` is never restored.
pub(crate) fn outdated_as(old: &str) -> String {
    format!("{}{OUTDATED_END}", old.strip_suffix(OLD_END).unwrap_or(old))
}

/// Returns whether a directory with this name is a quarantine.
pub fn is_quarantine(name: &OsStr) -> bool {
    name.as_encoded_bytes().ends_with(QUARANTINE.as_bytes())
}

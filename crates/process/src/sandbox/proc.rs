//! Information from `/proc` about observed processes, and paths that lead through it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use opkeep_fs::Fs;

use super::parents::{MAX_LINKS, parts, without_parents};
use crate::ffi::Waiting;

/// A link into `/proc` that each system has.
const MOUNTS: &str = "/etc/mtab";

/// Upper bound of the size of a file of `/proc` about one thread.
const MAX_STATUS: u64 = 1 << 16;

/// The process that a thread belongs to.
pub(super) fn process_of(thread: i32) -> io::Result<i32> {
    let status = Fs::new().read_text(Path::new(&format!("/proc/{thread}/status")), MAX_STATUS)?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|number| number.trim().parse().ok())
        .ok_or_else(|| io::Error::other("a thread has no process"))
}

/// The bits that new files of a thread do not have.
pub(super) fn umask_of(thread: i32) -> io::Result<u32> {
    let status = Fs::new().read_text(Path::new(&format!("/proc/{thread}/status")), MAX_STATUS)?;
    let bits =
        status.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("Umask:")?.trim(), 8).ok());
    bits.ok_or_else(|| io::Error::other("a thread has no umask"))
}

/// The target of a symbolic link.
pub(super) fn link(path: &Path) -> Option<PathBuf> {
    Fs::new().read_link(path).ok()
}

/// The file that a call names.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Its absolute path; `None` if the call means an open file.
    pub(super) path: Option<PathBuf>,
    /// The processes whose links in `/proc` lead there.
    pub(super) processes: Vec<i32>,
    /// The first link on the way, if one that is not in `/proc` leads into it: each process finds another file there.
    pub(super) link: Option<PathBuf>,
    /// The links and the directories before a `..` by which the path is that one.
    pub(super) by: Vec<PathBuf>,
}

/// The file that a call names relative to the descriptor `dir`. `plain` remembers directories that are no links.
pub(super) fn resolve(
    waiting: &Waiting,
    dir: Option<i32>,
    name: OsString,
    plain: &mut BTreeSet<PathBuf>,
) -> io::Result<Named> {
    let process = format!("/proc/{}", waiting.thread);
    let name = PathBuf::from(name);
    let mut named = Named::default();
    if name.as_os_str().is_empty() {
        // Executed or changed by its descriptor (`fexecve`, `fchmod`).
        let by_fd = || link(Path::new(&format!("{process}/fd/{}", dir?)));
        named.path = by_fd().filter(|path| waiting.means_descriptor() && path.is_absolute());
        return Ok(named);
    }
    let mut path = if name.is_absolute() {
        name
    } else {
        let dir = match dir {
            Some(fd) => format!("{process}/fd/{fd}"),
            None => format!("{process}/cwd"),
        };
        let dir = link(Path::new(&dir)).filter(|dir| dir.is_absolute());
        dir.ok_or_else(|| io::Error::other("the directory of a relative path is not known"))?.join(name)
    };
    for _ in 0..MAX_LINKS {
        let real = without_parents(path, waiting.thread, plain);
        named.by.extend(real.by);
        named.processes.extend(real.processes);
        path = match through_proc(real.path, waiting.thread, &mut named.processes) {
            Proc::Elsewhere(next) => next,
            Proc::OpenFile => return Ok(named),
            Proc::Itself(path) => match into_proc(&path, plain) {
                Some((link, next)) => {
                    named.link = named.link.or(link);
                    next
                }
                // `lib/.` is the same path as `lib` to a map of paths, so it must be so to the file system.
                None => {
                    named.path = Some(path.components().collect());
                    return Ok(named);
                }
            },
        };
    }
    Err(io::Error::other("links of /proc lead on and on"))
}

/// The path below `/proc` that another path leads to, with the first link on the way. The observer cannot follow such a link as the
/// program does.
fn into_proc(path: &Path, plain: &mut BTreeSet<PathBuf>) -> Option<(Option<PathBuf>, PathBuf)> {
    if path.starts_with("/proc") {
        return None;
    }
    let (fs, mut at, mut first, mut links) = (Fs::new(), PathBuf::from("/"), None, 0);
    let mut rest = parts(path);
    if let (Some(parent), Some(name)) = (path.parent(), path.file_name())
        && plain.contains(parent)
    {
        (at, rest) = (parent.to_owned(), vec![name.to_owned()]);
    }
    while let Some(part) = rest.pop() {
        // In the target of a link.
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        if next.as_os_str() == "/proc" {
            let first = first.filter(|link: &PathBuf| link.as_os_str() != MOUNTS);
            return Some((first, rest.into_iter().rev().fold(next, |path, part| path.join(part))));
        }
        if plain.contains(&next) {
            at = next;
            continue;
        }
        match fs.read_link(&next) {
            Ok(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return None;
                }
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                first.get_or_insert(next);
                rest.extend(parts(&target));
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                if !rest.is_empty() && path.starts_with(&next) {
                    plain.insert(next.clone());
                }
                at = next;
            }
            Err(_) => return None,
        }
    }
    None
}

/// The result of following one link of `/proc`.
enum Proc {
    /// The path does not lead through one.
    Itself(PathBuf),
    /// The path continues here.
    Elsewhere(PathBuf),
    /// The link is an open file, which was observed when it was opened, or a pipe.
    OpenFile,
}

/// Follows a link of `/proc`, whose target differs for each process that follows it. Adds the process if the path has its number.
fn through_proc(path: PathBuf, thread: i32, processes: &mut Vec<i32>) -> Proc {
    const STANDARD: [(&str, &str); 4] = [
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
        ("/dev/fd", "/proc/self/fd"),
    ];
    for (standard, link) in STANDARD {
        match path.strip_prefix(standard) {
            Ok(rest) if rest.as_os_str().is_empty() => return Proc::Elsewhere(link.into()),
            Ok(rest) => return Proc::Elsewhere(Path::new(link).join(rest)),
            Err(_) => {}
        }
    }
    let Ok(rest) = path.strip_prefix("/proc") else { return Proc::Itself(path) };
    let mut parts = rest.components();
    let process = match parts.next().and_then(|part| part.as_os_str().to_str()) {
        Some("self" | "thread-self") => thread.to_string(),
        Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => number.to_owned(),
        _ => return Proc::Itself(path),
    };
    let mut dir = PathBuf::from(format!("/proc/{process}"));
    let is_named = !path.starts_with("/proc/self") && !path.starts_with("/proc/thread-self");
    let mut follow = |dir: &Path, name: &str| {
        processes.extend(process.parse::<i32>().ok().filter(|_| is_named));
        link(&dir.join(name))
    };
    loop {
        match parts.next().and_then(|part| part.as_os_str().to_str()) {
            Some(name @ ("cwd" | "root" | "exe")) => {
                let Some(target) = follow(&dir, name) else { return Proc::Itself(path) };
                let rest = parts.as_path();
                return Proc::Elsewhere(if rest.as_os_str().is_empty() { target } else { target.join(rest) });
            }
            // Each thread has the same links.
            Some("task") => {
                dir.push("task");
                dir.extend(parts.next());
            }
            Some(name @ ("fd" | "map_files")) => {
                // The link makes a file readable that was opened without being read.
                let part = parts.next().and_then(|part| part.as_os_str().to_str());
                let target = part.and_then(|part| follow(&dir, &format!("{name}/{part}")));
                return match target.filter(|target| target.is_absolute() && Fs::new().exists(target)) {
                    Some(target) if parts.as_path().as_os_str().is_empty() => Proc::Elsewhere(target),
                    Some(target) => Proc::Elsewhere(target.join(parts.as_path())),
                    None => Proc::OpenFile,
                };
            }
            _ => return Proc::Itself(path),
        }
    }
}

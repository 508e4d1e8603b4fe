//! Information from `/proc` about observed processes, and paths that lead through it.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use opkeep_fs::Fs;

use crate::ffi::Waiting;

/// The maximal number of links of `/proc` in one path, as in the kernel.
const MAX_LINKS: usize = 40;

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

/// The absolute path that a call names relative to the descriptor `dir`; `None` if it names none.
pub(super) fn resolve(waiting: &Waiting, dir: Option<i32>, name: OsString) -> io::Result<Option<PathBuf>> {
    let process = format!("/proc/{}", waiting.thread);
    let name = PathBuf::from(name);
    if name.as_os_str().is_empty() {
        // Executed or changed by its descriptor (`fexecve`, `fchmod`).
        let by_fd = || link(Path::new(&format!("{process}/fd/{}", dir?)));
        return Ok(by_fd().filter(|path| waiting.means_descriptor() && path.is_absolute()));
    }
    let path = if name.is_absolute() {
        name
    } else {
        let dir = match dir {
            Some(fd) => format!("{process}/fd/{fd}"),
            None => format!("{process}/cwd"),
        };
        let dir = link(Path::new(&dir)).filter(|dir| dir.is_absolute());
        dir.ok_or_else(|| io::Error::other("the directory of a relative path is not known"))?.join(name)
    };
    let mut path = path;
    for _ in 0..MAX_LINKS {
        match through_proc(path, waiting.thread) {
            Proc::Elsewhere(next) => path = next,
            // `lib/.` is the same path as `lib` to a map of paths, so it must be so to the file system.
            Proc::Itself(path) => return Ok(Some(path.components().collect())),
            Proc::OpenFile => return Ok(None),
        }
    }
    Err(io::Error::other("links of /proc lead on and on"))
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

/// Follows a link of `/proc`, whose target differs for each process that follows it.
fn through_proc(path: PathBuf, thread: i32) -> Proc {
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
    loop {
        match parts.next().and_then(|part| part.as_os_str().to_str()) {
            Some(name @ ("cwd" | "root" | "exe")) => {
                let Some(target) = link(&dir.join(name)) else { return Proc::Itself(path) };
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
                let target = parts.next().and_then(|part| link(&dir.join(name).join(part)));
                return match target.filter(|target| target.is_absolute() && Fs::new().exists(target)) {
                    Some(target) => Proc::Elsewhere(target),
                    None => Proc::OpenFile,
                };
            }
            _ => return Proc::Itself(path),
        }
    }
}

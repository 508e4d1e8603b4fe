//! Paths with `..`, which is the directory above the real one before it, and not the text before it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use opkeep_fs::Fs;

/// The maximal number of links in one path, as in the kernel.
pub(super) const MAX_LINKS: usize = 40;

/// A path without `..`.
#[derive(Debug, Default)]
pub(super) struct WithoutParents {
    /// The path. If a directory on the way is missing, or is none, it ends there: a call that names the given path fails, as long as this is so.
    pub(super) path: PathBuf,
    /// The links and the directories on the way by which it is that path.
    pub(super) by: Vec<PathBuf>,
    /// Processes that the path names by their numbers, and whose links in `/proc` are on the way.
    pub(super) processes: Vec<i32>,
}

/// Replaces each `..` and all before it by the real directory, as the kernel does for `thread`. What follows may be links. `plain` remembers directories
/// that are no links.
pub(super) fn without_parents(path: PathBuf, thread: i32, plain: &mut BTreeSet<PathBuf>) -> WithoutParents {
    let mut found = WithoutParents::default();
    let Some(mut left) = parents(&path) else {
        found.path = path;
        return found;
    };
    let (fs, mut at, mut links, mut goes_up) = (Fs::new(), PathBuf::from("/"), 0, false);
    let mut rest = parts(&path);
    while left > 0 {
        let Some(part) = rest.pop() else { break };
        if part == ".." {
            left -= 1;
            // Those above it exist as long as it does.
            if !goes_up && !at.starts_with("/proc") {
                found.by.push(at.clone());
            }
            goes_up = at.pop();
            continue;
        }
        goes_up = false;
        let next = at.join(&part);
        if plain.contains(&next) {
            at = next;
            continue;
        }
        let target = match own_link(&next, thread) {
            Some(own) => Ok(own),
            None => fs.read_link(&next),
        };
        match target {
            Ok(target) => {
                links += 1;
                found.processes.extend(process_with_link(&next).filter(|process| *process != thread));
                // A pipe has a text that is no path.
                let is_path = target.is_absolute() || !next.starts_with("/proc");
                if links > MAX_LINKS || !is_path {
                    found.path = next;
                    return found;
                }
                if !next.starts_with("/proc") {
                    found.by.push(next);
                }
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                left += parents(&target).unwrap_or_default();
                rest.extend(parts(&target));
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidInput && is_directory(&next) => {
                if !next.starts_with("/proc") {
                    plain.insert(next.clone());
                }
                at = next;
            }
            Err(_) => {
                found.path = next;
                return found;
            }
        }
    }
    found.path = rest.into_iter().rev().fold(at, |path, part| path.join(part));
    found
}

/// The names of a path, the last one first.
pub(super) fn parts(path: &Path) -> Vec<OsString> {
    let named = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    named.rev().map(|part| part.as_os_str().to_owned()).collect()
}

/// The number of `..` in a path, if there are any.
fn parents(path: &Path) -> Option<usize> {
    let number = path.components().filter(|part| *part == Component::ParentDir).count();
    (number > 0).then_some(number)
}

fn is_directory(path: &Path) -> bool {
    Fs::new().symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// The target of a link of `/proc` that is another one for each thread.
fn own_link(path: &Path, thread: i32) -> Option<PathBuf> {
    match path.to_str()? {
        "/proc/self" => Some(format!("/proc/{thread}").into()),
        "/proc/thread-self" => Some(format!("/proc/{thread}/task/{thread}").into()),
        _ => None,
    }
}

/// The process in a path of one of its links.
fn process_with_link(path: &Path) -> Option<i32> {
    let mut parts = path.strip_prefix("/proc").ok()?.components();
    let process: OsString = parts.next()?.as_os_str().to_owned();
    parts.next()?;
    process.to_str()?.parse().ok()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test makes directories and links")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn of(path: impl Into<PathBuf>) -> WithoutParents {
        without_parents(path.into(), std::process::id() as i32, &mut BTreeSet::new())
    }

    #[test]
    fn a_parent_is_that_of_the_real_directory() {
        let dir = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(dir.join("a/b/c")).unwrap();
        fs::write(dir.join("file"), "").unwrap();
        symlink("a/b/c", dir.join("link")).unwrap();
        symlink("a/../a/b", dir.join("up")).unwrap();
        for (path, expected) in [
            ("a/b/../in", "a/in"),
            ("a/b/../../in", "in"),
            ("link/../in", "a/b/in"),
            ("up/../in", "a/in"),
            ("a/../link", "link"),
            ("a/..", ""),
            ("missing/../in", "missing"),
            ("file/../in", "file"),
            ("link", "link"),
        ] {
            let found = of(dir.join(path));
            assert_eq!(found.path, dir.join(expected).components().collect::<PathBuf>(), "{path}");
        }
        assert_eq!(of(dir.join("link/../in")).by, [dir.join("link"), dir.join("a/b/c")]);
        assert_eq!(of(dir.join("a/b/../../in")).by, [dir.join("a/b")]);
        assert_eq!(of("/../../x").path, Path::new("/x"));
    }

    #[test]
    fn a_path_through_proc_is_that_of_the_thread() {
        let own = std::process::id();
        let cwd = std::env::current_dir().unwrap();
        for (path, expected) in [
            ("/proc/../in", PathBuf::from("/in")),
            ("/proc/self/../self/fd/..", format!("/proc/{own}").into()),
            ("/sys/../proc/self/cwd/../x", cwd.parent().unwrap().join("x")),
            ("/proc/self/fd/../stat", format!("/proc/{own}/stat").into()),
        ] {
            assert_eq!(of(path).path, expected, "{path}");
        }
    }
}

//! Temporary directories.
//!
//! ```text
//! <place>/<prefix><6 letters or digits>/     only this user can enter it
//!   .opkeep-temporary                        locked by its process; has the id of the boot of its host
//! ```
//!
//! It is removed when it is dropped, by [`remove_temporaries`](crate::remove_temporaries) when a signal ends the program, and after a
//! kill by the next process that creates one with the same prefix in the same place.
//!
//! Some file systems that hosts share have locks of each host alone. So a lock says that a process is dead only if the mark is of this
//! host, since it was booted. What is of another boot may be of another host, and is removed a week later.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::process::geteuid;

use crate::lock::FileLock;
use crate::process::{ProcessId, without_fork};
use crate::state::FileStat;
use crate::system::Fs;
use crate::temporaries::Listed;

/// The file in it that its process has locked. Without this file, only an empty directory is removed as a stale one.
const MARK: &str = ".opkeep-temporary";
/// The number of characters behind the prefix.
const RANDOM: usize = 6;
/// A younger directory may be created and not locked yet.
const SETTLED: Duration = Duration::from_secs(60);
/// The same for one of another boot, whose process may be alive on another host.
const ABANDONED: Duration = Duration::from_secs(7 * 24 * 3600);
/// The file with the id of the boot of this host, and its maximum size.
const BOOT: (&str, u64) = ("/proc/sys/kernel/random/boot_id", 64);

/// A new directory with a name that no other user can predict, which only this user can enter. Removed when dropped, but not
/// by a forked child. A file in it, [`MARK`], is not the caller's.
#[derive(Debug)]
pub struct TempDir {
    dir: tempfile::TempDir,
    process: ProcessId,
    /// Dropped after the directory.
    _listed: Listed,
    _lock: FileLock,
}

impl TempDir {
    /// Creates it in `place`; its name begins with `prefix`, which nothing else has.
    ///
    /// # Errors
    /// That of the system.
    pub fn create_in(place: &Path, prefix: &str) -> io::Result<Self> {
        prune_once(place, prefix);
        let private = Permissions::from_mode(0o700);
        let mut builder = tempfile::Builder::new();
        let dir = builder.prefix(prefix).rand_bytes(RANDOM).permissions(private).tempdir_in(place)?;
        let listed = Listed::dir(dir.path());
        let mark = dir.path().join(MARK);
        let lock = Fs::new().create_locked(&mark, 0o600)?;
        // Without it, as on a full disk, the directory counts as one of another host.
        let _ = Fs::new().write(&mark, &boot().unwrap_or_default());
        Ok(Self { dir, process: ProcessId::current(), _listed: listed, _lock: lock })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        self.dir.disable_cleanup(!self.process.is_current());
    }
}

/// Removes what killed processes left, the first time that this process creates such a directory there.
fn prune_once(place: &Path, prefix: &str) {
    static PRUNED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let pattern = place.join(prefix);
    let is_first = without_fork(|| {
        let mut pruned = PRUNED.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = !pruned.contains(&pattern);
        if is_first {
            pruned.push(pattern);
        }
        is_first
    });
    if is_first {
        prune(place, prefix, SystemTime::now());
    }
}

fn prune(place: &Path, prefix: &str, now: SystemTime) {
    let fs = Fs::new();
    let is_own_name = |name: &str| {
        let random = name.strip_prefix(prefix);
        random.is_some_and(|it| it.len() == RANDOM && it.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    };
    for (name, _) in fs.list(place).unwrap_or_default() {
        let path = place.join(&name);
        let Some(found) = fs.look(&path).ok().filter(|_| name.to_str().is_some_and(is_own_name)) else {
            continue;
        };
        if is_stale(&found, now) {
            let mark = path.join(MARK);
            let is_marked = fs.look(&mark).is_ok();
            if is_marked && !is_of_this_boot(&mark) && !found.state.written_before(now, ABANDONED) {
                continue;
            }
            match fs.try_lock_existing(&mark) {
                Some(_held) => drop(fs.remove_tree(&path)),
                // Its process was killed before it had a mark. Nothing else is removed without one.
                None if !is_marked => drop(std::fs::remove_dir(&path)),
                None => {}
            }
        }
    }
}

/// Returns the id of the boot of this host; `None` if the system has none.
fn boot() -> Option<Vec<u8>> {
    Fs::new().read(Path::new(BOOT.0), BOOT.1).ok().filter(|id| !id.is_empty())
}

/// Whether the mark of a directory was written on this host, since it was booted.
fn is_of_this_boot(mark: &Path) -> bool {
    boot().is_some_and(|id| Fs::new().read_own(mark, BOOT.1).is_ok_and(|of_mark| of_mark == id))
}

/// Whether it is a directory of this user that no other user can enter, and that was not changed for a while.
fn is_stale(found: &FileStat, now: SystemTime) -> bool {
    let is_own = found.user == geteuid().as_raw() && found.mode & 0o077 == 0;
    found.is_dir() && is_own && found.state.written_before(now, SETTLED)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PREFIX: &str = "opkeep-test-";

    fn names(place: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(place)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_killed_process_leaves_it_until_the_next_one() {
        let place = tempfile::tempdir().unwrap();
        let living = TempDir::create_in(place.path(), PREFIX).unwrap();
        let make = |name: &str, mode: u32, mark: bool| {
            let path = place.path().join(name);
            fs::create_dir(&path).unwrap();
            if mark {
                fs::write(path.join(MARK), boot().unwrap()).unwrap();
                fs::write(path.join("kernel.o"), "x").unwrap();
            }
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        };
        make("opkeep-test-killed", 0o700, true);
        make("opkeep-test-unmark", 0o700, false);
        // Its process may be alive on another host, whose locks this one does not see.
        make("opkeep-test-others", 0o700, true);
        fs::write(place.path().join("opkeep-test-others").join(MARK), "another boot\n").unwrap();
        // A user's: the name is longer, others can read it, or it has files and no mark.
        make("opkeep-test-results", 0o700, true);
        make("opkeep-test-shared", 0o755, true);
        make("opkeep-test-report", 0o700, false);
        fs::write(place.path().join("opkeep-test-report/page.html"), "").unwrap();
        fs::write(place.path().join("opkeep-test-afile1"), "").unwrap();
        std::os::unix::fs::symlink("/", place.path().join("opkeep-test-alink1")).unwrap();
        let own = living.path().file_name().unwrap().to_str().unwrap().to_owned();
        let mut all = names(place.path());
        prune(place.path(), PREFIX, SystemTime::now());
        assert_eq!(names(place.path()), all, "it is young");
        let later = |time| prune(place.path(), PREFIX, SystemTime::now() + time);
        later(SETTLED * 2);
        all.retain(|name| !["opkeep-test-killed", "opkeep-test-unmark"].contains(&name.as_str()));
        assert_eq!(names(place.path()), all);
        later(ABANDONED * 2);
        all.retain(|name| name != "opkeep-test-others");
        assert!(all.contains(&own) && living.path().join(MARK).exists());
        assert_eq!(names(place.path()), all);
        drop(living);
        all.retain(|name| *name != own);
        assert_eq!(names(place.path()), all);
    }
}

//! Builds with the mode `force` that run at the same time.
//!
//! The ranks of a training job do not start at the same instant. A kernel that one rank has compiled must not be compiled
//! again by a rank that started a little later. So builds that overlap in time form a group, and a kernel that was
//! compiled since the first of them began is new enough for all of them. A lock in this user's private directory
//! identifies the group, so no caller has to state which ranks belong together.
//!
//! ```text
//! <base>/opkeep-<uid>/groups/<store>          holds the time at which the first build began; each build of the group has a
//!                                             shared lock on it
//! <base>/opkeep-<uid>/groups/<store>.door     locked while a build joins
//! ```

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use opkeep_digest::Digest;
use opkeep_fs::{FileLock, FileStat, Fs, TryLock};

/// The time for which a group can be joined: a build that begins later was not started together with the first.
const OPEN_FOR: Duration = Duration::from_secs(600);
/// The maximum wait for another build that joins. Joining takes far less, so a slower build is stale.
const JOIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The membership in a group. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ForceGroup {
    began: SystemTime,
    /// The lock that all members share.
    _member: Option<FileLock>,
}

impl ForceGroup {
    /// Creates a group with one member, which began at `began`.
    pub(crate) fn alone(began: SystemTime) -> Self {
        Self { began, _member: None }
    }

    /// Joins the group of builds on the store at `root`, or begins one. If that fails, the build is alone: then kernels may
    /// be compiled more than once, without other harm.
    pub(crate) fn join(dir: Option<&Path>, root: &Path, began: SystemTime) -> Self {
        dir.and_then(|dir| Self::try_join(dir, root, began)).unwrap_or_else(|| Self::alone(began))
    }

    fn try_join(dir: &Path, root: &Path, began: SystemTime) -> Option<Self> {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        let root = Fs::new().real_path(&root).unwrap_or(root);
        let path = dir.join(Digest::of(root.as_os_str().as_encoded_bytes()).to_string());
        let _door = open_door(&path.with_extension("door"))?;
        let (member, began) = match Fs::new().try_lock(&path, 0o600).ok()? {
            // The group is empty.
            TryLock::Held(lock) => {
                write_time(lock.file().ok()?, began)?;
                // The exclusive lock becomes a shared one, so that other builds can join.
                lock.share().ok()?;
                (lock, began)
            }
            TryLock::Busy(file) => {
                let open = file.file().ok()?;
                let first = read_time(open)?;
                let is_open = began.duration_since(first).is_ok_and(|age| age <= OPEN_FOR);
                if !is_open {
                    write_time(open, began)?;
                }
                let TryLock::Held(lock) = FileLock::try_shared(file).ok()? else { return None };
                (lock, if is_open { first } else { began })
            }
            TryLock::Unsupported(_) => return None,
        };
        Some(Self { began, _member: Some(member) })
    }

    /// Returns the time at which the first build of the group began.
    pub(crate) fn began(&self) -> SystemTime {
        self.began
    }
}

/// Removes the old files of groups without members.
pub(crate) fn prune(dir: &Path, is_old: impl Fn(&FileStat) -> bool) {
    let fs = Fs::new();
    let old = fs.list_stats(dir).unwrap_or_default().into_iter().filter(|(_, found)| is_old(found));
    let groups: BTreeSet<PathBuf> = opkeep_order::set(old.map(|(path, _)| path.with_extension("")));
    for path in groups {
        let door = path.with_extension("door");
        // While the door is locked, no build can join.
        let Ok(TryLock::Held(held)) = fs.try_lock(&door, 0o600) else { continue };
        if held.is_at(&door) && (fs.look(&path).is_err() || fs.try_lock_existing(&path).is_some()) {
            let _ = fs.remove(&path);
            let _ = fs.remove(&door);
        }
    }
}

fn open_door(path: &Path) -> Option<FileLock> {
    let began = Instant::now();
    loop {
        match Fs::new().try_lock(path, 0o600) {
            // A lock on a file that was just removed excludes no other process.
            Ok(TryLock::Held(lock)) if lock.is_at(path) => return Some(lock),
            Ok(TryLock::Held(_) | TryLock::Busy(_)) if began.elapsed() < JOIN_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(1))
            }
            _ => return None,
        }
    }
}

/// Writes a time into an open file, in place of its content.
fn write_time(mut file: &File, time: SystemTime) -> Option<()> {
    let nanos = time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos();
    file.set_len(0).ok()?;
    file.seek(SeekFrom::Start(0)).ok()?;
    writeln!(file, "{nanos}").ok()
}

/// Reads the time that [`write_time`] wrote.
fn read_time(mut file: &File) -> Option<SystemTime> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(64).read_to_string(&mut text).ok()?;
    let nanos = text.strip_suffix('\n')?.parse().ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_that_overlap_share_a_beginning() {
        let temp = tempfile::tempdir().unwrap();
        let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds);
        let join = |root: &str, seconds| ForceGroup::join(Some(temp.path()), Path::new(root), at(seconds));
        let first = join("/a", 0);
        let second = join("/a", 5);
        assert_eq!((first.began(), second.began()), (at(0), at(0)));
        // Another store is another group.
        assert_eq!(join("/b", 6).began(), at(6));
        // The group exists as long as it has a member.
        drop(first);
        let third = join("/a", 7);
        assert_eq!(third.began(), at(0));
        drop((second, third));
        let late = join("/a", 8);
        assert_eq!(late.began(), at(8));
        // A group that began long ago is closed; a late build begins another, which can be joined.
        assert_eq!(join("/a", 8 + 601).began(), at(8 + 601));
        let again = join("/a", 8 + 602);
        assert_eq!(again.began(), at(8 + 601));
        // A time before the group's comes from a clock that was set back.
        assert_eq!(join("/a", 3).began(), at(3));
        assert_eq!(ForceGroup::join(None, Path::new("/a"), at(4)).began(), at(4));
    }

    #[test]
    fn old_groups_without_members_are_removed() {
        let temp = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let join = |root: &str| ForceGroup::join(Some(temp.path()), Path::new(root), now);
        let count = || Fs::new().list(temp.path()).unwrap().len();
        let (here, gone) = (join("/here"), join("/gone"));
        drop(gone);
        assert_eq!(count(), 4);
        // Young files stay: they may have been created and not locked yet.
        prune(temp.path(), |_| false);
        assert_eq!(count(), 4);
        prune(temp.path(), |_| true);
        assert_eq!(count(), 2);
        let second = join("/here");
        assert_eq!(second.began(), here.began());
        drop((here, second));
        prune(temp.path(), |_| true);
        assert_eq!(count(), 0);
        assert_eq!(join("/here").began(), now);
        // A held door belongs to a build that joins.
        let mut files = Fs::new().list_stats(temp.path()).unwrap().into_iter().map(|(path, _)| path);
        let door = files.find(|path| path.extension().is_some()).unwrap();
        let Ok(TryLock::Held(_held)) = Fs::new().try_lock(&door, 0o600) else {
            panic!("the door is not locked")
        };
        prune(temp.path(), |_| true);
        assert_eq!(count(), 2);
    }
}

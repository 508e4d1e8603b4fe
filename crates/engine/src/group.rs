//! Builds that replace what is in a store, and run at the same time.
//!
//! Ranks of one training job do not begin at the same instant. What one of them has compiled must not be compiled again
//! by the next, although that one began a little later: builds that overlap are a group, and what was made since the
//! first of them began is new enough for all of them.
//!
//! ```text
//! <base>/opbuild-<uid>/groups/<store>         locked by each build of the group, shared; says when the first began
//! <base>/opbuild-<uid>/groups/<store>.door    locked for the moment in which one joins
//! ```

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use opbuild_digest::Digest;

use crate::disk::{self, TryLock};

/// Who comes later than this is not one of those that were started together.
const OPEN_FOR: Duration = Duration::from_secs(600);
/// Joining takes a moment. Whoever holds the door for longer hangs.
const PATIENCE: Duration = Duration::from_secs(1);

/// A place in a group, until dropped.
#[derive(Debug)]
pub(crate) struct Group {
    began: SystemTime,
    /// Held, so that others join.
    _member: Option<File>,
}

impl Group {
    /// A group of one that began at `began`.
    pub(crate) fn alone(began: SystemTime) -> Self {
        Self { began, _member: None }
    }

    /// Joins the group that works on the store at `root`, or begins one. Where that cannot be, it is alone: then
    /// kernels may be compiled more than once, and nothing worse.
    pub(crate) fn join(dir: Option<&Path>, root: &Path, began: SystemTime) -> Self {
        dir.and_then(|dir| Self::try_join(dir, root, began)).unwrap_or_else(|| Self::alone(began))
    }

    fn try_join(dir: &Path, root: &Path, began: SystemTime) -> Option<Self> {
        let root = disk::resolve(root);
        let path = dir.join(Digest::of(root.as_os_str().as_encoded_bytes()).to_string());
        let _door = open_door(&path.with_extension("door"))?;
        let (member, began) = match disk::try_lock(&path) {
            // Nobody is in it.
            TryLock::Locked(file) => {
                disk::write_time(&file, began)?;
                (file, began)
            }
            TryLock::Busy => {
                let file = disk::open_shared(&path)?;
                let first = disk::read_time(&file)?;
                let is_open = began.duration_since(first).is_ok_and(|age| age <= OPEN_FOR);
                if !is_open {
                    disk::write_time(&file, began)?;
                }
                (file, if is_open { first } else { began })
            }
            TryLock::Full | TryLock::NoFolder | TryLock::Unsupported => return None,
        };
        disk::share(&member)?;
        Some(Self { began, _member: Some(member) })
    }

    /// When the first of the group began.
    pub(crate) fn began(&self) -> SystemTime {
        self.began
    }
}

fn open_door(path: &Path) -> Option<File> {
    let began = Instant::now();
    loop {
        match disk::try_lock(path) {
            TryLock::Locked(file) => return Some(file),
            TryLock::Busy if began.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(1)),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_overlaps_shares_a_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds);
        let join = |root: &str, seconds| Group::join(Some(folder.path()), Path::new(root), at(seconds));
        let first = join("/a", 0);
        let second = join("/a", 5);
        assert_eq!((first.began(), second.began()), (at(0), at(0)));
        // Another store is another group.
        assert_eq!(join("/b", 6).began(), at(6));
        // The group lives as long as one of it does.
        drop(first);
        let third = join("/a", 7);
        assert_eq!(third.began(), at(0));
        drop((second, third));
        let late = join("/a", 8);
        assert_eq!(late.began(), at(8));
        // Nobody joins one that began long ago; who comes then begins another, and that one can be joined.
        assert_eq!(join("/a", 8 + 601).began(), at(8 + 601));
        let again = join("/a", 8 + 602);
        assert_eq!(again.began(), at(8 + 601));
        // A clock that was set back says nothing.
        assert_eq!(join("/a", 3).began(), at(3));
        assert_eq!(Group::join(None, Path::new("/a"), at(4)).began(), at(4));
    }
}

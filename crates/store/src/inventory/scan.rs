//! The content of a target's directory: each file by its name, and each problem.
//!
//! Unlike a [walk](super::InventoryWalk), whose totals must be exact, a scan continues after an error, and reports it.

use std::path::{Path, PathBuf};

use opkeep_digest::Digest;

use super::{InventoryFile, Kind, TargetUsage, classify};
use crate::gc::prune::Pruner;
use crate::layout::{self, EVICT, LOCK, NEW, PUT, TARGET_DIRS, TARGET_FILES, UNSENT};
use crate::problem::{OtherFile, OtherFileKind, ProblemKind, StoreProblem};
use crate::{StoreError, TargetStore};
use opkeep_fs::{FileKind, FileStat};

/// A file with the name of an entry.
#[derive(Debug)]
pub(crate) struct EntryFile {
    pub(crate) key: Digest,
    /// The path of the file, if it is not the path of the entry for the key.
    pub(crate) misplaced: Option<PathBuf>,
}

/// The result of a scan.
#[derive(Debug, Default)]
pub(crate) struct DirectoryScan {
    pub(crate) entry_files: Vec<EntryFile>,
    /// Files of the store that are not entries. They are in `other_files`, too.
    pub(crate) others: Vec<InventoryFile>,
    pub(crate) other_files: Vec<OtherFile>,
    pub(crate) problems: Vec<StoreProblem>,
    /// Missing directories. A directory of entries is made by the first put in it, and may be missing.
    pub(crate) missing: Vec<PathBuf>,
}

const DIRECTORY: &str = "a directory";
const FILE: &str = "a file";

impl DirectoryScan {
    /// Looks at each file once.
    pub(crate) fn of(target: &TargetStore) -> Self {
        let mut scan = Self::default();
        scan.unnamed(target);
        if !scan.target(target) {
            return scan;
        }
        for (name, prefixes) in [("tmp", &[PUT, EVICT][..]), ("locks", &[LOCK]), ("quarantine", &[NEW])] {
            let dir = target.dir().join(name);
            scan.each(target, &dir, |scan, name, seen| scan.own(target, &dir, name, &seen, prefixes));
        }
        scan.unsent(target);
        scan.entries(target);
        scan
    }

    /// Adds directories without their final name, which are beside the final one. No other file there belongs to the
    /// target.
    fn unnamed(&mut self, target: &TargetStore) {
        for dir in [target.store().root().to_owned(), target.store().version_dir()] {
            self.each(target, &dir, |scan, name, seen| {
                if name.starts_with(NEW) {
                    scan.own(target, &dir, name, &seen, &[NEW]);
                }
            });
        }
    }

    /// Scans the target's directory. Returns false if it is missing.
    fn target(&mut self, target: &TargetStore) -> bool {
        let dir = target.dir();
        self.each(target, dir, |scan, name, seen| {
            let path = dir.join(name);
            match name {
                name if TARGET_DIRS.contains(&name) => {
                    scan.needs(DIRECTORY, path, None, seen.is_dir(), &seen)
                }
                name if TARGET_FILES.contains(&name) => {
                    scan.needs(FILE, path, None, seen.is_file(), &seen);
                    scan.record(target, name, &seen);
                }
                _ => scan.own(target, dir, name, &seen, &[NEW, LOCK]),
            }
        })
    }

    /// Scans the marks of entries that are to be sent. A store that was never used with a remote cache has none.
    fn unsent(&mut self, target: &TargetStore) {
        let dir = target.dir().join(UNSENT);
        if target.store().fs().look(&dir).is_ok() {
            self.each(target, &dir, |scan, name, seen| scan.own(target, &dir, name, &seen, &[]));
        }
    }

    /// Checks a counters file. An empty one is valid.
    fn record(&mut self, target: &TargetStore, name: &str, seen: &FileStat) {
        let (tracker, fs) = (target.tracker(), target.store().fs());
        let corrupt = match name {
            _ if !seen.is_file() => Ok(false),
            layout::SIZE => tracker.size.is_corrupt(fs),
            layout::STATS => tracker.counters.is_corrupt(fs),
            _ => Ok(false),
        };
        let path = target.dir().join(name);
        match corrupt {
            Ok(false) => {}
            Ok(true) => {
                self.problems.push(StoreProblem { path, key: None, kind: ProblemKind::CorruptCounters })
            }
            Err(error) => self.trouble("read", path, error),
        }
    }

    fn entries(&mut self, target: &TargetStore) {
        let dir = target.dir().join("entries");
        self.each(target, &dir, |scan, name, seen| {
            match u8::from_str_radix(name, 16).ok().filter(|_| layout::is_shard(name)) {
                Some(shard) => {
                    scan.needs(DIRECTORY, dir.join(name), None, seen.is_dir(), &seen);
                    if seen.is_dir() {
                        scan.shard(target, shard);
                    }
                }
                None => scan.entry_or_own(target, None, &dir, name, &seen),
            }
        });
    }

    fn shard(&mut self, target: &TargetStore, shard: u8) {
        let dir = target.shard_dir(shard);
        self.each(target, &dir, |scan, name, seen| {
            scan.entry_or_own(target, Some(shard), &dir, name, &seen);
        });
    }

    /// Adds a file in the directory of `shard`, or beside all those directories.
    fn entry_or_own(
        &mut self,
        target: &TargetStore,
        shard: Option<u8>,
        dir: &Path,
        name: &str,
        seen: &FileStat,
    ) {
        let key = layout::entry_key(name);
        let path = dir.join(name);
        match key {
            Some(key) if Some(key.as_bytes()[0]) == shard => {
                self.needs(FILE, path, Some(key), seen.is_file(), seen);
                if seen.is_file() {
                    self.entry_files.push(EntryFile { key, misplaced: None });
                }
            }
            Some(key) if seen.is_file() => self.entry_files.push(EntryFile { key, misplaced: Some(path) }),
            _ => self.own(target, dir, name, seen, if shard.is_none() { &[NEW] } else { &[] }),
        }
    }

    /// Classifies a file by its name. A file with a name that the store does not give is foreign.
    fn own(&mut self, target: &TargetStore, dir: &Path, name: &str, seen: &FileStat, prefixes: &[&str]) {
        let (store, now) = (target.store(), target.tracker().clock.now());
        let other = classify(dir, name, seen, prefixes, &mut TargetUsage::default());
        let is_stale = other.as_ref().is_some_and(|other| Pruner { store, now, dry: true }.is_stale(other));
        let kind = match other.as_ref().map(|other| other.kind) {
            Some(Kind::Temporary(_)) if is_stale => OtherFileKind::StaleTemporary,
            Some(Kind::Temporary(_)) => OtherFileKind::Temporary,
            Some(Kind::Lock) if is_stale => OtherFileKind::StaleLock,
            Some(Kind::Lock) => OtherFileKind::Lock,
            Some(Kind::Quarantined) => OtherFileKind::Quarantined,
            Some(Kind::Unsent) => OtherFileKind::Unsent,
            None if seen.is_file() => OtherFileKind::ForeignFile,
            None if seen.is_dir() => OtherFileKind::ForeignDirectory,
            None if seen.kind == FileKind::Link => OtherFileKind::Link,
            None => OtherFileKind::Special,
        };
        self.other_files.push(OtherFile { path: dir.join(name), bytes: seen.state.len, kind });
        self.others.extend(other);
    }

    /// Adds a problem if a path does not have the needed file type.
    fn needs(
        &mut self,
        needed: &'static str,
        path: PathBuf,
        key: Option<Digest>,
        has_type: bool,
        seen: &FileStat,
    ) {
        let found = match () {
            () if has_type => return,
            () if seen.kind == FileKind::Link => "a symbolic link",
            () if seen.is_dir() => DIRECTORY,
            () if seen.is_file() => FILE,
            () => "a special file",
        };
        self.problems.push(StoreProblem { path, key, kind: ProblemKind::WrongFileType { needed, found } });
    }

    /// Calls `visit` with each name in a directory and its state; follows no link. False if the directory cannot be listed.
    fn each(
        &mut self,
        target: &TargetStore,
        dir: &Path,
        mut visit: impl FnMut(&mut Self, &str, FileStat),
    ) -> bool {
        // A file of the wrong type is already reported.
        if self.problems.iter().any(|problem| problem.path == dir) {
            return false;
        }
        let directory = match target.store().directory(dir, false) {
            Ok(Some(directory)) => directory,
            Ok(None) => {
                self.missing.push(dir.to_owned());
                return false;
            }
            Err(error) => {
                self.problems.push(StoreProblem {
                    path: dir.to_owned(),
                    key: None,
                    kind: ProblemKind::of(error),
                });
                return false;
            }
        };
        let names = match directory.list() {
            Ok(names) => names,
            Err(error) => {
                self.trouble("list", dir.to_owned(), error);
                return false;
            }
        };
        for name in names.utf8() {
            match directory.look(name) {
                Ok(seen) => visit(self, name, seen),
                // A file that was removed meanwhile is skipped.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => self.trouble("look at", dir.join(name), error),
            }
        }
        true
    }

    fn trouble(&mut self, action: &'static str, path: PathBuf, source: std::io::Error) {
        let error = StoreError::Io { action, path: path.clone(), source };
        self.problems.push(StoreProblem { path, key: None, kind: ProblemKind::Io(error) });
    }
}

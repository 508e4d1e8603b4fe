//! What there is in a target's folder: everything by its name, whatever cannot be looked at included.
//!
//! Unlike a [walk](super::Inventory), which counts and must be right or nothing, this goes on where something is wrong, and
//! says what.

use std::path::{Path, PathBuf};

use opkeep_digest::Digest;

use super::{Kind, Other, TargetUsage, other};
use crate::gc::prune::Pruner;
use crate::layout::{self, EVICT, LOCK, NEW, PUT, TARGET_DIRS, TARGET_FILES};
use crate::problem::{OtherFile, OtherFileKind, ProblemKind, StoreProblem};
use crate::{StoreError, TargetStore};
use opkeep_fs::{FileKind, FileStat};

/// A file that is called an entry.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) key: Digest,
    /// Where it is, if not where the entry for that key belongs.
    pub(crate) misplaced: Option<PathBuf>,
}

/// What there is.
#[derive(Debug, Default)]
pub(crate) struct DirectoryScan {
    pub(crate) candidates: Vec<Candidate>,
    /// What the store made that is no entry; all of it is in `besides`, too.
    pub(crate) others: Vec<Other>,
    pub(crate) besides: Vec<OtherFile>,
    pub(crate) flaws: Vec<StoreProblem>,
    /// Folders that are not there.
    pub(crate) missing: Vec<PathBuf>,
}

const FOLDER: &str = "a folder";
const FILE: &str = "a file";

impl DirectoryScan {
    /// Looks at everything, once.
    pub(crate) fn of(shelf: &TargetStore) -> Self {
        let mut survey = Self::default();
        survey.unnamed(shelf);
        if !survey.target(shelf) {
            return survey;
        }
        for (name, prefixes) in [("tmp", &[PUT, EVICT][..]), ("locks", &[LOCK]), ("quarantine", &[NEW])] {
            let dir = shelf.dir().join(name);
            survey.each(shelf, &dir, |survey, name, seen| survey.own(shelf, &dir, name, &seen, prefixes));
        }
        survey.entries(shelf);
        survey
    }

    /// Where folders are made there may be some that never got their name. Nothing else there is the target's.
    fn unnamed(&mut self, shelf: &TargetStore) {
        for dir in [shelf.store().root().to_owned(), shelf.store().version_dir()] {
            self.each(shelf, &dir, |survey, name, seen| {
                if name.starts_with(NEW) {
                    survey.own(shelf, &dir, name, &seen, &[NEW]);
                }
            });
        }
    }

    /// False if the target's folder is not there.
    fn target(&mut self, shelf: &TargetStore) -> bool {
        let dir = shelf.dir();
        self.each(shelf, dir, |survey, name, seen| {
            let path = dir.join(name);
            match name {
                name if TARGET_DIRS.contains(&name) => survey.needs(FOLDER, path, None, seen.is_dir(), &seen),
                name if TARGET_FILES.contains(&name) => {
                    survey.needs(FILE, path, None, seen.is_file(), &seen);
                    survey.record(shelf, name, &seen);
                }
                _ => survey.own(shelf, dir, name, &seen, &[NEW, LOCK]),
            }
        })
    }

    /// A file of numbers must check. One that is empty has none yet.
    fn record(&mut self, shelf: &TargetStore, name: &str, seen: &FileStat) {
        let (tally, fs) = (shelf.tally(), shelf.store().fs());
        let torn = match name {
            _ if !seen.is_file() => Ok(false),
            layout::SIZE => tally.size.is_torn(fs),
            layout::STATS => tally.counters.is_torn(fs),
            _ => Ok(false),
        };
        let path = shelf.dir().join(name);
        match torn {
            Ok(false) => {}
            Ok(true) => self.flaws.push(StoreProblem { path, key: None, flaw: ProblemKind::CorruptCounters }),
            Err(error) => self.trouble("read", path, error),
        }
    }

    fn entries(&mut self, shelf: &TargetStore) {
        let dir = shelf.dir().join("entries");
        let mut there = [false; 256];
        let is_there = self.each(shelf, &dir, |survey, name, seen| {
            match u8::from_str_radix(name, 16).ok().filter(|_| layout::is_shard(name)) {
                Some(shard) => {
                    there[usize::from(shard)] = true;
                    survey.needs(FOLDER, dir.join(name), None, seen.is_dir(), &seen);
                    if seen.is_dir() {
                        survey.shard(shelf, shard);
                    }
                }
                None => survey.entry_or_own(shelf, None, &dir, name, &seen),
            }
        });
        if is_there || self.missing.contains(&dir) {
            let missing = (0..=u8::MAX).filter(|shard| !there[usize::from(*shard)]);
            self.missing.extend(missing.map(|shard| shelf.shard_dir(shard)));
        }
    }

    fn shard(&mut self, shelf: &TargetStore, shard: u8) {
        let dir = shelf.shard_dir(shard);
        self.each(shelf, &dir, |survey, name, seen| {
            survey.entry_or_own(shelf, Some(shard), &dir, name, &seen);
        });
    }

    /// Something in the folder of `shard`, or beside all those folders.
    fn entry_or_own(
        &mut self,
        shelf: &TargetStore,
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
                    self.candidates.push(Candidate { key, misplaced: None });
                }
            }
            Some(key) if seen.is_file() => self.candidates.push(Candidate { key, misplaced: Some(path) }),
            _ => self.own(shelf, dir, name, seen, if shard.is_none() { &[NEW] } else { &[] }),
        }
    }

    /// What the store made, by its name; anything else is foreign.
    fn own(&mut self, shelf: &TargetStore, dir: &Path, name: &str, seen: &FileStat, prefixes: &[&str]) {
        let (store, now) = (shelf.store(), shelf.tally().clock.now());
        let other = other(dir, name, seen, prefixes, &mut TargetUsage::default());
        let left = other.as_ref().is_some_and(|other| Pruner { store, now, dry: true }.is_nobodys(other));
        let kind = match other.as_ref().map(|other| other.kind) {
            Some(Kind::Temporary(_)) if left => OtherFileKind::StaleTemporary,
            Some(Kind::Temporary(_)) => OtherFileKind::Temporary,
            Some(Kind::Lock) if left => OtherFileKind::StaleLock,
            Some(Kind::Lock) => OtherFileKind::Lock,
            Some(Kind::Quarantined) => OtherFileKind::Quarantined,
            None if seen.is_file() => OtherFileKind::ForeignFile,
            None if seen.is_dir() => OtherFileKind::ForeignFolder,
            None if seen.kind == FileKind::Link => OtherFileKind::Link,
            None => OtherFileKind::Special,
        };
        self.besides.push(OtherFile { path: dir.join(name), bytes: seen.state.len, kind });
        self.others.extend(other);
    }

    fn needs(
        &mut self,
        needed: &'static str,
        path: PathBuf,
        key: Option<Digest>,
        is_so: bool,
        seen: &FileStat,
    ) {
        let found = match () {
            () if is_so => return,
            () if seen.kind == FileKind::Link => "a symbolic link",
            () if seen.is_dir() => FOLDER,
            () if seen.is_file() => FILE,
            () => "a special file",
        };
        self.flaws.push(StoreProblem { path, key, flaw: ProblemKind::WrongFileType { needed, found } });
    }

    /// Looks at everything in a folder, and follows nothing. False if that could not be done.
    fn each(
        &mut self,
        shelf: &TargetStore,
        dir: &Path,
        mut tell: impl FnMut(&mut Self, &str, FileStat),
    ) -> bool {
        // Where something else stands, that was told when its name was met.
        if self.flaws.iter().any(|flawed| flawed.path == dir) {
            return false;
        }
        let folder = match shelf.store().folder(dir, false) {
            Ok(Some(folder)) => folder,
            Ok(None) => {
                self.missing.push(dir.to_owned());
                return false;
            }
            Err(error) => {
                self.flaws.push(StoreProblem {
                    path: dir.to_owned(),
                    key: None,
                    flaw: ProblemKind::of(error),
                });
                return false;
            }
        };
        let names = match folder.list() {
            Ok(names) => names,
            Err(error) => {
                self.trouble("list", dir.to_owned(), error);
                return false;
            }
        };
        for name in names.utf8() {
            match folder.look(name) {
                Ok(seen) => tell(self, name, seen),
                // What is gone by now is not there.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => self.trouble("look at", dir.join(name), error),
            }
        }
        true
    }

    fn trouble(&mut self, action: &'static str, path: PathBuf, source: std::io::Error) {
        let error = StoreError::Io { action, path: path.clone(), source };
        self.flaws.push(StoreProblem { path, key: None, flaw: ProblemKind::Io(error) });
    }
}

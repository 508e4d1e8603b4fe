//! The quarantine of one run of repair: its directory and its journal.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::ops::Not;
use std::path::PathBuf;

use crate::quarantine::journal::{self, Created, Entry};
use crate::quarantine::locked_cache::LockedCache;
use crate::quarantine::{RepairError, files};
use opkeep_fs::Dir;
use opkeep_kernel_meta::{RunId, rename_new};

/// The directory of a run in the quarantine beside a cache.
#[derive(Debug)]
pub(crate) struct Quarantine {
    top: Dir,
    run: Dir,
    name: String,
    /// The subdirectories, which have the names of those in the cache.
    below: HashMap<String, Dir>,
}

impl Quarantine {
    /// Creates the directory and writes the journal, which is durable when this returns. After an error, neither
    /// remains.
    pub(crate) fn open(
        locked_cache: &LockedCache,
        run: &RunId,
        entries: &[Entry],
        created: Created,
    ) -> Result<Self, RepairError> {
        let path = locked_cache.quarantine_path();
        let failed = |source| RepairError::io("create the directory", &path, source);
        let top = files::make_dir(&locked_cache.parent, &locked_cache.quarantine).map_err(failed)?;
        let opened = Self::new_run(&top, run).map_err(failed);
        let opened = opened.and_then(|(run, name)| {
            let mut quarantine = Self { top, run, name, below: HashMap::new() };
            match quarantine.write_journal(entries, created) {
                Ok(()) => Ok(quarantine),
                Err(source) => {
                    let path = quarantine.run.path().join(journal::NAME);
                    quarantine.clear(locked_cache);
                    Err(RepairError::io("write", path, source))
                }
            }
        });
        if opened.is_ok() {
            let _ = locked_cache.parent.sync();
        } else {
            let _ = locked_cache.parent.remove_dir(&locked_cache.quarantine);
        }
        opened
    }

    fn new_run(top: &Dir, run: &RunId) -> io::Result<(Dir, String)> {
        let mut number = 1;
        loop {
            let name = match number {
                1 => run.name().to_owned(),
                number => format!("{}-{number}", run.name()),
            };
            match files::new_dir(top, OsStr::new(&name)) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 1000 => number += 1,
                created => return Ok((created?, name)),
            }
        }
    }

    fn write_journal(&mut self, entries: &[Entry], created: Created) -> io::Result<()> {
        for below in entries.iter().filter_map(|entry| entry.below.as_deref()) {
            if !self.below.contains_key(below) {
                self.below.insert(below.to_owned(), files::make_dir(&self.run, OsStr::new(below))?);
            }
        }
        files::write_new(&self.run, journal::UNFINISHED, &journal::text(entries, created))?;
        rename_new(&self.run, journal::UNFINISHED, &self.run, journal::NAME)?;
        let _ = self.run.sync();
        let _ = self.top.sync();
        Ok(())
    }

    /// Replaces the journal.
    pub(crate) fn rewrite_journal(&self, entries: &[Entry], created: Created) -> io::Result<()> {
        files::write_new(&self.run, journal::UNFINISHED, &journal::text(entries, created))?;
        self.run.rename(journal::UNFINISHED, &self.run, journal::NAME)?;
        let _ = self.run.sync();
        Ok(())
    }

    /// Makes the names durable, and returns the path of the directory; or removes the directory, if it has no
    /// quarantined file.
    pub(crate) fn close(self, locked_cache: &LockedCache) -> Option<PathBuf> {
        let dirs = || self.below.values().chain([&self.run]);
        let is_own =
            |name: &OsStr| name == journal::NAME || self.below.keys().any(|below| name == below.as_str());
        let has_file = |dir: &Dir| {
            let names = dir.entries();
            names.is_ok_and(|names| names.iter().all(|name| is_own(&name.name))).not()
        };
        let path = self.run.path().to_owned();
        if dirs().any(has_file) {
            dirs().for_each(|dir| drop(dir.sync()));
            let _ = locked_cache.dir.sync();
            return Some(path);
        }
        self.clear(locked_cache);
        let _ = locked_cache.parent.remove_dir(&locked_cache.quarantine);
        None
    }

    /// Removes the journal and the directories that are empty.
    pub(crate) fn clear(&self, locked_cache: &LockedCache) {
        for below in self.below.keys() {
            let _ = self.run.remove_dir(OsStr::new(below));
        }
        let _ = self.run.remove(journal::UNFINISHED);
        let _ = self.run.remove(journal::NAME);
        let _ = self.top.remove_dir(OsStr::new(&self.name));
        let _ = locked_cache.parent.sync();
    }

    pub(crate) fn dir(&self, below: Option<&str>) -> &Dir {
        below.and_then(|below| self.below.get(below)).unwrap_or(&self.run)
    }
}

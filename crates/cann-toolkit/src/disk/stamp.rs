//! The metadata of a directory, by which a change in it is noticed.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use opkeep_fs::{Fs, unix};
use serde::{Deserialize, Serialize};

/// Clocks of file systems tick slowly: what was changed so shortly before it was looked at may change again unseen.
const RECENT: i64 = 2;

/// The metadata of a directory: every entry that is added or removed changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    device: u64,
    inode: u64,
    modified: [i64; 2],
    changed: [i64; 2],
}

impl Stamp {
    /// That of a directory, links followed; None if there is none.
    pub fn of(directory: &Path) -> Option<Self> {
        let found = Fs::new().metadata(directory).ok().filter(|found| found.is_dir())?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
            modified: [found.mtime(), found.mtime_nsec()],
            changed: [found.ctime(), found.ctime_nsec()],
        })
    }

    /// Whether another change since would show.
    pub fn is_old(&self) -> bool {
        let now = i64::try_from(unix(SystemTime::now()).as_secs());
        now.is_ok_and(|now| self.modified[0].max(self.changed[0]) < now - RECENT)
    }
}

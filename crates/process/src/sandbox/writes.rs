//! The paths that observed programs write.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use opkeep_fs::{FileState, Fs, unix};

use super::{Found, Written};

/// The resolution of the clock that dates files.
const CLOCK_STEP: Duration = Duration::from_millis(20);

/// The paths outside the work directory that the programs were about to write. Each call may have failed: what has not
/// changed at the end was not written.
#[derive(Debug, Default)]
pub(super) struct Writes {
    written: BTreeMap<PathBuf, Write>,
    removed: BTreeSet<PathBuf>,
    /// Older directories whose mode, owner or dates were changed, in the state before.
    changed_dirs: BTreeMap<PathBuf, Found>,
}

#[derive(Debug)]
struct Write {
    /// The state before the first write.
    before: Found,
    is_whole: bool,
}

impl Writes {
    /// Adds a file that is opened with these flags, in the state `before`.
    pub(super) fn open(&mut self, path: &Path, flags: i32, before: &Found) {
        let creates = flags & libc::O_CREAT != 0 && before.is_nothing();
        let truncates = flags & libc::O_TRUNC != 0 && before.is_file();
        let fails = before.is_directory()
            || before.is_nothing() && !creates
            || flags & libc::O_EXCL != 0 && flags & libc::O_CREAT != 0 && !before.is_nothing();
        let is_unnamed = flags & libc::O_TMPFILE == libc::O_TMPFILE;
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || creates || truncates;
        if writes && !fails && !is_unnamed && flags & libc::O_PATH == 0 && !before.is_special() {
            self.add(path, before, creates || truncates || self.is_whole(path));
        }
    }

    /// Adds a path that the programs create, or that they give to a file whose content is their own if `is_whole`.
    pub(super) fn add(&mut self, path: &Path, before: &Found, is_whole: bool) {
        // The kernel's own files have no content that a later run could miss.
        if path.starts_with("/proc") || path.starts_with("/sys") {
            return;
        }
        match self.written.get_mut(path) {
            Some(write) => write.is_whole = is_whole,
            None => drop(self.written.insert(path.to_owned(), Write { before: before.clone(), is_whole })),
        }
    }

    /// Adds an older directory of which the mode, the owner or the dates are changed. The dates of directories do not count.
    pub(super) fn change_dir(&mut self, path: PathBuf, before: Found) {
        if !self.written.contains_key(&path) {
            self.changed_dirs.entry(path).or_insert(before);
        }
    }

    /// Adds a path that is removed, and that the programs did not create.
    pub(super) fn remove(&mut self, path: PathBuf) {
        self.removed.insert(path);
    }

    /// Whether all of a file is known to be the programs' own.
    pub(super) fn is_whole(&self, path: &Path) -> bool {
        self.written.get(path).is_some_and(|write| write.is_whole)
    }

    /// The paths that exist and were changed, of which the observation began at `since`, in nanoseconds since 1970; and the
    /// removed ones that are still missing.
    pub(super) fn take(&mut self, since: i64) -> (BTreeMap<PathBuf, Written>, BTreeSet<PathBuf>) {
        let (written, mut removed) = (std::mem::take(&mut self.written), std::mem::take(&mut self.removed));
        let kept = written.into_iter().filter_map(|(path, Write { before, is_whole })| {
            let Ok(found) = Fs::new().symlink_metadata(&path) else {
                removed.extend((!before.is_nothing()).then_some(path));
                return None;
            };
            // Two changes within the resolution of the clock can leave the same state.
            let is_unchanged = before.is_same(&path) && FileState::of(&found).ctime < since;
            let is_own_link = found.is_symlink() && before.link() != Found::at(&path).link();
            (!is_unchanged).then_some((path, Written { is_whole, is_own_link }))
        });
        let mut kept: BTreeMap<_, _> = opkeep_order::map(kept);
        for (path, before) in std::mem::take(&mut self.changed_dirs) {
            if Found::at(&path).is_directory() && !before.is_same(&path) {
                kept.entry(path).or_insert(Written { is_whole: false, is_own_link: false });
            }
        }
        let is_missing = |path: &PathBuf| Fs::new().symlink_metadata(path).is_err();
        (kept, removed.into_iter().filter(is_missing).collect())
    }
}

/// The least time that a file which is created from now on can have.
pub(super) fn just_now() -> i64 {
    let now = unix(SystemTime::now()).saturating_sub(CLOCK_STEP);
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

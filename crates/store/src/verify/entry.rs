//! The check of one file with the name of an entry.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::corruption::Corruption;
use crate::inventory::scan::EntryFile;
use crate::outcome::Found;
use crate::problem::ProblemKind;
use crate::{Entry, Miss, StoreError, TargetStore};
use opkeep_fs::{FileState, idle};

/// The maximum number of reads of a file that changes each time.
const MAX_READS: usize = 5;
/// The time since a file's last change up to which another process may still write to it.
const RECENT: Duration = Duration::from_secs(2);
/// The pause between two reads: long enough for the clock of file times to tick.
const PAUSE: Duration = Duration::from_millis(20);

/// A check of the content of an entry, whose error is the problem.
pub(crate) type EntryCheck<'a> = dyn Fn(&Entry) -> Result<(), String> + Sync + 'a;

/// The result of a check.
pub(crate) enum Checked {
    Valid {
        bytes: u64,
    },
    Problem {
        bytes: u64,
        kind: ProblemKind,
        /// The file, kept open so that no other file gets its inode number. None if it could not be read.
        file: Option<File>,
    },
    /// A misplaced file that does not begin like an entry.
    Foreign {
        bytes: u64,
    },
}

/// The result of one read.
enum ReadResult {
    Missing,
    Certain(Checked),
    /// A problem, and the state of the file afterwards; none if the file was truncated during the read.
    Doubtful(Checked, Option<FileState>),
}

impl TargetStore {
    /// Reads a file completely and checks it. Returns none if the file is missing.
    ///
    /// A problem counts only if two reads find it and the file did not change between them.
    pub(crate) fn check(&self, candidate: &EntryFile, check: &EntryCheck<'_>) -> Option<Checked> {
        let path = candidate.path(self);
        let (mut before, mut last) = (None, None);
        for _ in 0..MAX_READS {
            let (checked, state) = match self.read_once(candidate, &path, check) {
                ReadResult::Missing => return None,
                ReadResult::Certain(checked) => return Some(checked),
                ReadResult::Doubtful(checked, state) => (checked, state),
            };
            if state.is_some() && state == before {
                return Some(checked);
            }
            if state.is_none_or(|state| idle(state.changed(), self.tracker().clock.now()) < RECENT) {
                std::thread::sleep(PAUSE);
            }
            (before, last) = (state, Some(checked));
        }
        match (last, before) {
            (Some(Checked::Problem { bytes, .. }), Some(_)) => {
                Some(Checked::Problem { bytes, kind: ProblemKind::Changing, file: None })
            }
            (last, _) => last,
        }
    }

    fn read_once(&self, candidate: &EntryFile, path: &Path, check: &EntryCheck<'_>) -> ReadResult {
        let (kind, file) = match self.read_at(path.to_owned(), &candidate.key) {
            Ok(Found { entry, file, .. }) => match (problem_of(&entry, check), candidate.is_misplaced()) {
                (Some(kind), _) => (kind, file),
                (None, true) => (ProblemKind::Misplaced, file),
                (None, false) => {
                    return ReadResult::Certain(Checked::Valid { bytes: entry.file_bytes() });
                }
            },
            Err(Miss::Absent) => return ReadResult::Missing,
            Err(Miss::Damaged(entry)) => (ProblemKind::Damaged(entry.corruption), entry.file),
            Err(Miss::Untrusted(error)) => {
                return ReadResult::Certain(unreadable(ProblemKind::Untrusted(error)));
            }
            Err(Miss::Io(error)) if is_truncated(&error) => {
                return ReadResult::Doubtful(unreadable(ProblemKind::Io(error)), None);
            }
            Err(Miss::Io(error)) => return ReadResult::Certain(unreadable(ProblemKind::Io(error))),
        };
        let state = match self.store().fs().stat(&file, path) {
            Ok(stat) => stat.state,
            Err(source) => {
                let error = StoreError::Io { action: "look at", path: path.to_owned(), source };
                return ReadResult::Certain(unreadable(ProblemKind::Io(error)));
            }
        };
        let bytes = state.len;
        match kind {
            ProblemKind::Damaged(damage) if candidate.is_misplaced() && is_no_entry(&damage) => {
                ReadResult::Certain(Checked::Foreign { bytes })
            }
            kind => ReadResult::Doubtful(Checked::Problem { bytes, kind, file: Some(file) }, Some(state)),
        }
    }
}

impl EntryFile {
    /// Returns the path of the file.
    pub(crate) fn path(&self, target: &TargetStore) -> PathBuf {
        match &self.misplaced {
            Some(path) => path.clone(),
            None => target.path(&self.key),
        }
    }

    fn is_misplaced(&self) -> bool {
        self.misplaced.is_some()
    }
}

/// Returns the problem of an entry whose eager members and checksum are valid, if there is one.
fn problem_of(entry: &Entry, check: &EntryCheck<'_>) -> Option<ProblemKind> {
    let damage = entry.names().find_map(|name| entry.lazy_member(name).err());
    damage.map(ProblemKind::Damaged).or_else(|| check(entry).err().map(ProblemKind::InvalidContent))
}

fn unreadable(kind: ProblemKind) -> Checked {
    Checked::Problem { bytes: 0, kind, file: None }
}

/// Whether a file does not begin like an entry.
fn is_no_entry(damage: &Corruption) -> bool {
    matches!(damage, Corruption::Magic { .. } | Corruption::WrongLength { what: "magic", .. })
}

/// Whether a file was truncated during the read.
fn is_truncated(error: &StoreError) -> bool {
    matches!(error, StoreError::Io { source, .. } if source.kind() == io::ErrorKind::UnexpectedEof)
}

#[cfg(test)]
mod tests {
    // The tests that need a store are in `tests/suite/verify.rs`.
    use opkeep_digest::Digest;

    use super::*;

    #[test]
    fn a_file_without_the_magic_is_no_entry() {
        let damage = |bytes: &[u8], key: &Digest| Entry::decode(bytes.to_vec(), Some(key)).unwrap_err();
        let key = Digest::of(b"");
        for other in [&b""[..], b"OPKKER", b"notes of another program"] {
            assert!(is_no_entry(&damage(other, &key)), "{other:?}");
        }
        for corrupt in [&b"OPKKERN\0"[..], b"OPKKERN\0\x02\0\0\0"] {
            assert!(!is_no_entry(&damage(corrupt, &key)), "{corrupt:?}");
        }
    }
}

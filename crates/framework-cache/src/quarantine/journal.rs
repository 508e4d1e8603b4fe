//! The journal of a run: a list of the files that the run quarantines and writes. The journal is written before the
//! first file is moved, and read to restore the files.
//!
//! The first line is the header; each further line is the JSON of one file, in the order of the moves. In the run's
//! directory, a file has the path that it had in the cache.

use serde::{Deserialize, Serialize};

use crate::scan::cache_dir::SUBDIRS;
use opkeep_fs::{FileId, FileState};

/// The name of the journal, which no kernel's file can have.
pub(crate) const NAME: &str = ".opkeep-journal";
/// The name of the journal until it is complete.
pub(crate) const UNFINISHED: &str = ".opkeep-journal.new";
/// The maximum size of a journal that is read, in bytes. The line of a file has about 300 bytes.
pub(crate) const MAX_BYTES: u64 = 4 << 30;

/// The first line of a journal.
#[derive(Debug, Deserialize, Serialize)]
struct Head {
    opkeep_quarantine: u32,
    #[serde(default, skip_serializing_if = "Created::is_nothing")]
    made: Created,
}

/// The directories and the lock file that a run created, besides files of kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Created {
    /// The parent of the cache's directory.
    pub(crate) above: bool,
    /// The cache's directory.
    pub(crate) directory: bool,
    /// The lock file of our builds in the cache's directory.
    pub(crate) lock: bool,
}

impl Created {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The role of a file in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// A repair quarantines the file.
    #[default]
    Taken,
    /// A build quarantines the file and writes a kernel of ours, which an undo removes.
    Replaced {
        /// The kernel's line in the manifest before the build.
        listed: Option<String>,
    },
    /// A build that replaces other files of the kernel writes this file, whose name is free.
    Made,
    /// A build or a repair leaves this object or library, and quarantines other files of the kernel.
    Stays {
        /// The SHA-256 of the file; if unset, the line has the state of the file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
    },
    /// `--fill` writes the file. The line has the state of the complete file.
    Added {
        /// The SHA-256 of the written bytes.
        sha256: String,
    },
}

impl Role {
    fn is_taken(&self) -> bool {
        *self == Self::Taken
    }
}

/// A line of the journal: a file that is quarantined, left or written, with the state in which it was judged or
/// completed. A line with fields that are unknown to this version is not used.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// The number of the file's kernel. The lines of a kernel are adjacent.
    pub(crate) set: u64,
    /// The name of the file.
    pub(crate) file: String,
    /// The subdirectory of the cache with the file, if any.
    pub(crate) below: Option<String>,
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) size: u64,
    pub(crate) mtime: i64,
    pub(crate) ctime: i64,
    /// The problem of the file, for users.
    pub(crate) why: String,
    #[serde(default, skip_serializing_if = "Role::is_taken")]
    pub(crate) role: Role,
}

impl Entry {
    pub(crate) fn new(set: u64, file: &str, below: Option<&str>, seen: &FileState, why: &str) -> Self {
        let FileState { id: FileId { dev, ino }, len: size, mtime, ctime } = *seen;
        let (file, below, why) = (file.to_owned(), below.map(str::to_owned), why.to_owned());
        Self { set, file, below, dev, ino, size, mtime, ctime, why, role: Role::Taken }
    }

    /// Returns a line without a state of the file.
    pub(crate) fn unseen(set: u64, file: &str, role: Role, why: &str) -> Self {
        let nothing = FileState { id: FileId { dev: 0, ino: 0 }, len: 0, mtime: 0, ctime: 0 };
        Self { role, ..Self::new(set, file, None, &nothing, why) }
    }

    /// Returns the path of the file, relative to the cache or to the run's directory.
    pub(crate) fn path(&self) -> String {
        self.path_of(&self.file)
    }

    /// Returns the path of another file in the same directory.
    pub(crate) fn path_of(&self, file: &str) -> String {
        match &self.below {
            Some(below) => format!("{below}/{file}"),
            None => file.to_owned(),
        }
    }

    /// Returns whether `found` is the state in this line.
    pub(crate) fn is(&self, found: &FileState) -> bool {
        let Self { dev, ino, size, mtime, ctime, .. } = *self;
        found.is_as_long_and_old(&FileState { id: FileId { dev, ino }, len: size, mtime, ctime })
    }

    /// Returns whether the line names a file in the cache: an edited journal might name others.
    fn is_sound(&self) -> bool {
        let known = |below: &String| SUBDIRS.contains(&below.as_str());
        let is_name = !matches!(self.file.as_str(), "" | "." | "..") && !self.file.contains(['/', '\0']);
        is_name && self.below.as_ref().is_none_or(known)
    }
}

/// Returns the text of the journal of a run.
pub(crate) fn text(entries: &[Entry], created: Created) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * 300);
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(&mut bytes, &Head { opkeep_quarantine: 1, made: created });
    bytes.push(b'\n');
    for entry in entries {
        let _ = serde_json::to_writer(&mut bytes, entry);
        bytes.push(b'\n');
    }
    bytes
}

/// Returns the [`Created`] in the first line of a journal.
pub(crate) fn created(bytes: &[u8]) -> Created {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    serde_json::from_slice::<Head>(first).map(|head| head.made).unwrap_or_default()
}

/// Returns the files that a journal lists, and the numbers of lines that cannot be used, counted from 1.
pub(crate) fn parse(bytes: &[u8]) -> (Vec<Entry>, Vec<usize>) {
    let (mut entries, mut bad) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let is_head = || {
            number == 1 && serde_json::from_slice::<Head>(line).is_ok_and(|head| head.opkeep_quarantine == 1)
        };
        match serde_json::from_slice::<Entry>(line) {
            _ if line.is_empty() || is_head() => {}
            Ok(entry) if entry.is_sound() => entries.push(entry),
            _ => bad.push(number),
        }
    }
    (entries, bad)
}

#[cfg(test)]
mod tests {
    use opkeep_digest::Digest;

    use super::*;

    #[test]
    fn written_lines_are_read_and_nothing_else() {
        let seen = FileState { id: FileId { dev: u64::MAX, ino: 2 }, len: 3, mtime: -4, ctime: i64::MAX };
        let entry = |file: &str, below| Entry::new(7, file, below, &seen, "torn\nline");
        let sha256 = || Digest::of(b"").to_string();
        let unseen = |role| Entry::unseen(8, "c.o", role, "written");
        let replaced = |listed: Option<&str>| Role::Replaced { listed: listed.map(str::to_owned) };
        let good = [
            entry("a.o", Some("tbe_prebuild_res")),
            Entry { role: replaced(Some("b\t-\t...")), ..entry("b.o", None) },
            Entry { role: replaced(None), ..entry("b.json", None) },
            unseen(Role::Made),
            unseen(Role::Stays { sha256: Some(sha256()) }),
            Entry { role: Role::Stays { sha256: None }, ..entry("d.o", None) },
            Entry { role: Role::Added { sha256: sha256() }, ..entry("e.o", None) },
            entry("a b.json", None),
        ];
        let all = Created { above: true, directory: true, lock: true };
        for expected in [Created::default(), all] {
            let text = text(&good, expected);
            assert_eq!((parse(&text), created(&text)), ((good.to_vec(), vec![]), expected));
        }
        let text = |entries: &[Entry]| text(entries, Created::default());
        let bad = [entry("../a", None), entry("..", None), entry("a/b", None), entry("a", Some(".."))];
        assert_eq!(parse(&text(&bad)), (vec![], vec![2, 3, 4, 5]));
        let complete = text(&good);
        let (entries, bad) = parse(&complete[..complete.len() - 5]);
        assert_eq!((entries.len(), bad), (7, vec![9]));
        // A line with other fields than this version's is not used.
        let line = String::from_utf8(text(&[entry("a.o", None)])).unwrap();
        let other = line.replace("\"set\"", "\"added\":\"\",\"set\"");
        assert_eq!(parse(other.as_bytes()), (vec![], vec![2]));
    }
}

//! The journal of a run: the files that it quarantines and writes. It is written before the first move, and read to restore
//! them.
//!
//! The first line is the header; then each file has a line of JSON, in the order of the moves. A file is in the run's
//! directory under the path that it had in the cache.

use serde::{Deserialize, Serialize};

use crate::scan::cache_dir::FOLDERS;
use opkeep_fs::{FileId, FileState};

/// The journal's name, which no kernel can have.
pub(crate) const NAME: &str = ".opkeep-journal";
/// Its name until it is complete.
pub(crate) const UNFINISHED: &str = ".opkeep-journal.new";
/// The largest journal that is read; a file takes some 300 bytes.
pub(crate) const MAX_BYTES: u64 = 4 << 30;

/// The first line.
#[derive(Debug, Deserialize, Serialize)]
struct Head {
    opkeep_quarantine: u32,
    #[serde(default, skip_serializing_if = "Made::is_nothing")]
    made: Made,
}

/// The files and directories that a run created besides those of kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Made {
    /// The parent of the cache's directory.
    pub(crate) above: bool,
    /// The cache's directory.
    pub(crate) directory: bool,
    /// The lock file of our builds in it.
    pub(crate) lock: bool,
}

impl Made {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The role of a file in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// A repair quarantines it.
    #[default]
    Taken,
    /// A build quarantines it and writes a kernel of ours, which an undo removes.
    Replaced {
        /// The kernel's line in the manifest until then.
        listed: Option<String>,
    },
    /// A build that replaces other files of the kernel writes it under a free name.
    Made,
    /// An object or a library that a build or a repair leaves while it takes other files of the kernel.
    Stays {
        /// Its SHA-256; if unset, the line has its state.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
    },
    /// `--fill` writes it: the line has the state of the complete file.
    Added {
        /// The SHA-256 of what is written.
        sha256: String,
    },
}

impl Role {
    fn is_taken(&self) -> bool {
        *self == Self::Taken
    }
}

/// A file that is quarantined, in the state in which it was judged; or one that is written. A line with fields that this
/// version does not know is not used.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// Which kernel it is of: the files of one stand together.
    pub(crate) set: u64,
    /// Its name in the cache.
    pub(crate) file: String,
    /// The subdirectory of the cache that it is in, if any.
    pub(crate) below: Option<String>,
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) size: u64,
    pub(crate) mtime: i64,
    pub(crate) ctime: i64,
    /// Its problem, for people.
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

    /// A file without a judged state.
    pub(crate) fn unseen(set: u64, file: &str, role: Role, why: &str) -> Self {
        let nothing = FileState { id: FileId { dev: 0, ino: 0 }, len: 0, mtime: 0, ctime: 0 };
        Self { role, ..Self::new(set, file, None, &nothing, why) }
    }

    /// The path in the cache, and in the run's directory.
    pub(crate) fn path(&self) -> String {
        self.path_of(&self.file)
    }

    /// The path of another file of the same directory.
    pub(crate) fn path_of(&self, file: &str) -> String {
        match &self.below {
            Some(below) => format!("{below}/{file}"),
            None => file.to_owned(),
        }
    }

    /// Whether `found` is the state of this file.
    pub(crate) fn is(&self, found: &FileState) -> bool {
        let Self { dev, ino, size, mtime, ctime, .. } = *self;
        found.is_as_long_and_old(&FileState { id: FileId { dev, ino }, len: size, mtime, ctime })
    }

    /// Whether it names a file in the cache: the journal may have been edited.
    fn is_sound(&self) -> bool {
        let known = |below: &String| FOLDERS.contains(&below.as_str());
        let is_name = !matches!(self.file.as_str(), "" | "." | "..") && !self.file.contains(['/', '\0']);
        is_name && self.below.as_ref().is_none_or(known)
    }
}

/// The journal of a run.
pub(crate) fn text(entries: &[Entry], made: Made) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * 300);
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(&mut bytes, &Head { opkeep_quarantine: 1, made });
    bytes.push(b'\n');
    for entry in entries {
        let _ = serde_json::to_writer(&mut bytes, entry);
        bytes.push(b'\n');
    }
    bytes
}

/// The [`Made`] of the journal's first line.
pub(crate) fn made(bytes: &[u8]) -> Made {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    serde_json::from_slice::<Head>(first).map(|head| head.made).unwrap_or_default()
}

/// The files that a journal names, and the numbers of lines that cannot be used, from 1.
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
        let all = Made { above: true, directory: true, lock: true };
        for expected in [Made::default(), all] {
            let text = text(&good, expected);
            assert_eq!((parse(&text), made(&text)), ((good.to_vec(), vec![]), expected));
        }
        let text = |entries: &[Entry]| text(entries, Made::default());
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

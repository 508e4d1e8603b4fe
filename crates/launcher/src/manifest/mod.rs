//! The paths that a command looked at, without their content.

mod codec;
mod words;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use opkeep_digest::Digest;
use opkeep_fs::FileKind;
use opkeep_process::Learned;

pub(crate) use words::{WordFilter, Words, words};

use crate::roots::PathName;

/// The paths that a command looked at. Their state is taken again at each look-up: then it says which result is that of a run now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Whether results depend on where the roots lie.
    pub(crate) has_real_paths: bool,
    /// All paths, sorted.
    pub(crate) paths: Vec<PathName>,
    /// The listed directories, sorted.
    pub(crate) listed: Vec<Listed>,
    /// The outputs that the command did not make in a directory of its own, sorted.
    pub(crate) old: Vec<Old>,
    /// The words by which the command can look for a name in a directory.
    pub(crate) words: WordFilter,
}

/// A directory that was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) dir: PathName,
    /// Whether only those names count that the texts mention: Python lists the directories in which it looks for modules.
    pub(crate) by_mention: bool,
    /// Whether only Python listed it: compiled modules are not read there.
    pub(crate) by_python: bool,
    /// Names that do not count: the command's own outputs, sorted.
    pub(crate) ignored: Vec<Vec<u8>>,
}

/// An output that may exist before a run: then its kind and its mode count as far as the command learns them, never its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Old {
    pub(crate) path: PathName,
    pub(crate) learned: Learned,
}

impl Manifest {
    /// Whether results of a run with the lists of `other` and with `words` may be kept under this manifest.
    pub(crate) fn fits(&self, other: &Self, words: &Words) -> bool {
        let Self { has_real_paths, paths, listed, old, words: filter } = self;
        let is_same = (has_real_paths, paths, listed, old)
            == (&other.has_real_paths, &other.paths, &other.listed, &other.old);
        is_same && (listed.iter().all(|dir| !dir.by_mention) || words.are_in(filter))
    }

    /// Whether a path of it is below the home directory, where another root may lie as well.
    pub(crate) fn uses_home(&self) -> bool {
        let listed = self.listed.iter().map(|listed| &listed.dir);
        let old = self.old.iter().map(|old| &old.path);
        self.paths.iter().chain(listed).chain(old).any(PathName::uses_home)
    }

    /// The digest of its encoding.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of(&self.encode())
    }
}

impl Listed {
    /// Whether a name in the directory counts.
    pub(crate) fn counts(&self, name: &OsStr, kind: FileKind, words: &WordFilter) -> bool {
        let bytes = name.as_bytes();
        if self.by_python && is_byte_code(bytes, kind)
            || self.ignored.binary_search_by(|known| known.as_slice().cmp(bytes)).is_ok()
        {
            return false;
        }
        !self.by_mention || is_found_by_python(bytes) || words.mention(stem(bytes))
    }
}

/// A name up to its first dot: a module's name.
pub(crate) fn stem(name: &[u8]) -> &[u8] {
    let end = name.iter().skip(1).position(|byte| *byte == b'.').map_or(name.len(), |at| at + 1);
    &name[..end]
}

/// Whether Python, or one of its packages, finds a file of this name in each directory of modules, without a mention.
fn is_found_by_python(name: &[u8]) -> bool {
    const STEMS: [&[u8]; 2] = [b"sitecustomize", b"usercustomize"];
    const ENDS: [&[u8]; 4] = [b".pth", b".dist-info", b".egg-info", b".egg-link"];
    STEMS.contains(&stem(name)) || ENDS.iter().any(|end| name.ends_with(end))
}

/// Whether a name is that of compiled Python, which a run neither reads nor writes.
pub(crate) fn is_byte_code(name: &[u8], kind: FileKind) -> bool {
    name == b"__pycache__" && kind == FileKind::Dir
}

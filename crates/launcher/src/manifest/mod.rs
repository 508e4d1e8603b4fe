//! The paths that a command looked at, without their content.

mod codec;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use opkeep_digest::Digest;
use opkeep_fs::FileKind;
use opkeep_process::Learned;

use crate::roots::PathName;

/// The name of the directories in which Python keeps compiled modules. Programs that the launcher runs keep theirs elsewhere.
pub(crate) const BYTE_CODE: &str = "__pycache__";

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
}

/// A directory that was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) dir: PathName,
    /// Whether only Python listed it, in a tool that takes no notice of its directories of compiled modules.
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
    pub(crate) fn counts(&self, name: &OsStr, kind: FileKind) -> bool {
        let is_byte_code = self.by_python && kind == FileKind::Dir && name == BYTE_CODE;
        let is_own = || self.ignored.binary_search_by(|known| known.as_slice().cmp(name.as_bytes())).is_ok();
        !is_byte_code && !is_own()
    }
}

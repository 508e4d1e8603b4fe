//! A kernel's record in the manifest.

use std::borrow::Cow;

use opkeep_digest::Digest;
use opkeep_fs::FileState;

use crate::KernelFileKind;

/// One kernel that we wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub(super) files: [Known; 3],
    /// By part, the file that is replaced, until the write is done.
    pub(super) before: [Option<Before>; 3],
    /// By part, until the write is done.
    pub(super) writing: [Option<Writing>; 3],
    /// By part, whether the file was there before we wrote it.
    pub(super) adopted: [bool; 3],
    /// It was compiled for debugging.
    pub(crate) debug: bool,
    /// In order, each once.
    pub(super) slots: Vec<Cow<'a, str>>,
}

/// One file that we wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The digest of what was given, which for a `.json` need not be the digest of what is there.
    pub digest: Digest,
    /// The file that was read, found intact, and had rested.
    pub seen: Option<FileState>,
}

/// A file that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    Planned,
    /// It is complete and waits for its name. A directory may be mounted anew: then the device differs.
    Staged {
        ino: u64,
        size: u64,
        mtime: i64,
    },
}

/// A file of ours that is being replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Before {
    pub digest: Digest,
    /// It was there before we wrote it.
    pub(crate) adopted: bool,
    /// It is of a kernel that was compiled for debugging.
    pub(crate) debug: bool,
}

impl Record<'_> {
    /// The known state of one of the kernel's files.
    pub fn file(&self, part: KernelFileKind) -> &Known {
        &self.files[part as usize]
    }

    /// Whether a file with this digest is what we wrote, or were about to.
    pub fn wrote(&self, part: KernelFileKind, digest: &Digest) -> bool {
        let at = part as usize;
        self.files[at].digest == *digest || self.before[at].is_some_and(|before| before.digest == *digest)
    }

    /// Whether a file with this digest is one that only we wrote. Until [`Manifest::resolve`](super::Manifest::resolve), that is unknown of one that is
    /// equal to what is being written.
    pub fn is_ours(&self, part: KernelFileKind, digest: &Digest) -> bool {
        let is_unknown = self.writing[part as usize].is_some() && self.file(part).digest == *digest;
        self.wrote(part, digest) && !is_unknown && !self.is_adopted(part, digest)
    }

    /// Whether a file of ours with this digest was there before we wrote it. A description that MindSpore extended has
    /// another digest than the recorded ones; while a file is being replaced, it is taken for that file.
    pub fn is_adopted(&self, part: KernelFileKind, digest: &Digest) -> bool {
        self.replaced(part, digest).map_or(self.adopted[part as usize], |before| before.adopted)
    }

    /// Whether a file of ours with this digest is of a kernel that was compiled for debugging.
    pub(crate) fn is_debug(&self, part: KernelFileKind, digest: &Digest) -> bool {
        self.replaced(part, digest).map_or(self.debug, |before| before.debug)
    }

    /// The file that is being replaced, unless the one with this digest has replaced it.
    fn replaced(&self, part: KernelFileKind, digest: &Digest) -> Option<&Before> {
        self.before[part as usize].as_ref().filter(|_| self.file(part).digest != *digest)
    }

    /// The digests of an object that is, or is about to be, of this kernel.
    pub(crate) fn objects(&self) -> impl Iterator<Item = Digest> {
        let before = self.before[KernelFileKind::Object as usize].map(|before| before.digest);
        std::iter::once(self.file(KernelFileKind::Object).digest).chain(before)
    }

    /// Whether other kernels have taken all of its slots.
    pub(crate) fn is_superseded(&self) -> bool {
        self.slots.is_empty()
    }
}

//! A kernel's record in the manifest.

use std::borrow::Cow;

use opkeep_digest::Digest;
use opkeep_fs::FileState;

use crate::KernelFileKind;
use crate::compare::{describes, is_extended};

/// The record of a kernel that we wrote. Arrays are indexed by `KernelFileKind`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub(super) files: [Known; 3],
    /// The file that is being replaced, until the write is done.
    pub(super) before: [Option<Before>; 3],
    /// The progress of the write, until it is done.
    pub(super) writing: [Option<Writing>; 3],
    /// Whether the file existed before we wrote it.
    pub(super) adopted: [bool; 3],
    /// Whether the kernel was compiled for debugging.
    pub(crate) debug: bool,
    /// The escaped slots, sorted, each once.
    pub(super) slots: Vec<Cow<'a, str>>,
}

/// The recorded facts about a file that we wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The digest of the given content. MindSpore may have extended a `.json` since, so that its digest differs.
    pub digest: Digest,
    /// The state of the file when it was read at rest and found intact; `None` if it must be read again.
    pub seen: Option<FileState>,
}

/// The progress of writing a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    Planned,
    /// The file is complete and waits for its name. The device is omitted, since another mount of the directory changes
    /// it.
    Staged {
        ino: u64,
        size: u64,
        mtime: i64,
    },
}

/// The recorded facts about a file of ours that is being replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Before {
    pub digest: Digest,
    /// Whether the file existed before we wrote it.
    pub(crate) adopted: bool,
    /// Whether the file is of a kernel that was compiled for debugging.
    pub(crate) debug: bool,
}

impl Record<'_> {
    /// Returns the recorded facts about one of the kernel's files.
    pub fn file(&self, kind: KernelFileKind) -> &Known {
        &self.files[kind as usize]
    }

    /// Returns whether we wrote, or were about to write, a file with this digest.
    pub fn wrote(&self, kind: KernelFileKind, digest: &Digest) -> bool {
        let at = kind as usize;
        self.files[at].digest == *digest || self.before[at].is_some_and(|before| before.digest == *digest)
    }

    /// Returns whether only we wrote the file with this digest. Until [`Manifest::resolve`](super::Manifest::resolve),
    /// that is unknown for a file that equals the one being written, and the result is false.
    pub fn is_ours(&self, kind: KernelFileKind, digest: &Digest) -> bool {
        let is_unknown = self.writing[kind as usize].is_some() && self.file(kind).digest == *digest;
        self.wrote(kind, digest) && !is_unknown && !self.is_adopted(kind, digest)
    }

    /// Returns whether a file of ours with this digest existed before we wrote it. A description that MindSpore
    /// extended has none of the recorded digests; while a file is being replaced, such a description counts as the
    /// replaced one.
    pub fn is_adopted(&self, kind: KernelFileKind, digest: &Digest) -> bool {
        self.replaced(kind, digest).map_or(self.adopted[kind as usize], |before| before.adopted)
    }

    /// Returns whether a file of ours with this digest is of a kernel that was compiled for debugging.
    pub(crate) fn is_debug(&self, kind: KernelFileKind, digest: &Digest) -> bool {
        self.replaced(kind, digest).map_or(self.debug, |before| before.debug)
    }

    /// Returns the file that is being replaced, unless `digest` is that of the new file.
    fn replaced(&self, kind: KernelFileKind, digest: &Digest) -> Option<&Before> {
        self.before[kind as usize].as_ref().filter(|_| self.file(kind).digest != *digest)
    }

    /// Returns whether a file of ours is being replaced.
    pub(super) fn replaces(&self) -> bool {
        self.before.iter().any(Option::is_some)
    }

    /// Returns the digests of the kernel's object, current and being replaced.
    fn objects(&self) -> impl Iterator<Item = Digest> {
        let before = self.before[KernelFileKind::Object as usize].map(|before| before.digest);
        std::iter::once(self.file(KernelFileKind::Object).digest).chain(before)
    }

    /// Returns whether `json` is a description of this kernel that MindSpore extended.
    pub fn is_extended(&self, json: &[u8]) -> bool {
        is_extended(json) && self.objects().any(|object| describes(json, &object))
    }

    /// Returns whether other kernels have taken all slots of this one.
    pub(crate) fn is_superseded(&self) -> bool {
        self.slots.is_empty()
    }
}

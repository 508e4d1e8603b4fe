//! The kernels that a caller wants in the directory.

use std::borrow::Cow;
use std::{fmt, io};

use opkeep_artifact::is_safe_file_name;
use opkeep_digest::Digest;

use crate::error::ViewError;
use crate::file_kind::KernelFileKind;

/// A kernel for the directory.
#[derive(Clone, Copy, Debug)]
pub struct KernelFiles<'a> {
    /// The purpose of the kernel: the node's full name, or another text that stays the same when the kernel changes. A
    /// kernel all of whose slots went to other kernels is superseded. Empty: the stem, which is never superseded.
    pub slot: &'a str,
    /// The name of the files, without suffix.
    pub stem: &'a str,
    /// The `.o`.
    pub object: FileContent<'a>,
    /// The `.json`.
    pub json: FileContent<'a>,
    /// The `.info`.
    pub info: FileContent<'a>,
    /// Whether it was built for the chip that its descriptor names; so is one whose descriptor names none.
    pub for_chip: bool,
    /// Whether it was compiled for debugging.
    pub debug: bool,
}

/// A name under which no other kernel may be found than the one that belongs there.
#[derive(Clone, Copy, Debug)]
pub struct RetiredKernel<'a> {
    /// The name of the files, without suffix.
    pub stem: &'a str,
    /// The `binFileName` of the kernel that belongs there, if it is known.
    pub unless: Option<&'a str>,
}

impl<'a> KernelFiles<'a> {
    /// The content of one of the files.
    pub fn content(&self, part: KernelFileKind) -> FileContent<'a> {
        match part {
            KernelFileKind::Object => self.object,
            KernelFileKind::Json => self.json,
            KernelFileKind::Info => self.info,
        }
    }

    /// The bytes of one of the files, checked.
    pub fn load(&self, part: KernelFileKind) -> Result<Cow<'a, [u8]>, ViewError> {
        let stem = || self.stem.to_owned();
        let FileContent { digest: expected, len: expected_len, source } = self.content(part);
        let bytes = match source {
            Source::Memory(bytes) => Cow::Borrowed(bytes),
            Source::Function(load) => {
                Cow::Owned(load().map_err(|source| ViewError::Load { stem: stem(), part, source })?)
            }
        };
        let (found, found_len) = (Digest::of(&bytes), bytes.len() as u64);
        if (found, found_len) != (expected, expected_len) {
            return Err(ViewError::Content { stem: stem(), part, expected, expected_len, found, found_len });
        }
        Ok(bytes)
    }
}

/// The content of a file: its digest and length, and a way to load its bytes when they are needed.
#[derive(Clone, Copy)]
pub struct FileContent<'a> {
    digest: Digest,
    len: u64,
    source: Source<'a>,
}

#[derive(Clone, Copy)]
enum Source<'a> {
    Memory(&'a [u8]),
    Function(&'a dyn Fn() -> io::Result<Vec<u8>>),
}

impl<'a> FileContent<'a> {
    /// These bytes, hashed now.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self::known(Digest::of(bytes), bytes)
    }

    /// These bytes, whose digest is known. It is checked only when they are written.
    pub fn known(digest: Digest, bytes: &'a [u8]) -> Self {
        Self { digest, len: bytes.len() as u64, source: Source::Memory(bytes) }
    }

    /// The result of `load`, which is called only when the file must be written, or a `.json` compared.
    pub fn lazy(digest: Digest, len: u64, load: &'a dyn Fn() -> io::Result<Vec<u8>>) -> Self {
        Self { digest, len, source: Source::Function(load) }
    }

    /// The SHA-256 of the bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The number of bytes.
    pub fn byte_len(&self) -> u64 {
        self.len
    }
}

impl fmt::Debug for FileContent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { digest, len, source: _ } = self;
        f.debug_struct("Content").field("digest", digest).field("len", len).finish_non_exhaustive()
    }
}

/// Refuses an invalid stem of files in a view.
pub(crate) fn check_stem(stem: &str) -> Result<(), ViewError> {
    // The names of the view's own files begin so.
    if is_safe_file_name(stem) && !stem.starts_with(".opkeep") {
        return Ok(());
    }
    Err(ViewError::Stem { stem: stem.chars().take(80).collect() })
}

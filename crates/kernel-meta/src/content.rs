//! The kernels that a caller wants in the directory.

use std::borrow::Cow;
use std::{fmt, io};

use opkeep_artifact::is_safe_file_name;
use opkeep_digest::Digest;

use crate::error::ViewError;
use crate::file_kind::KernelFileKind;

/// The files of a kernel that is to be in the directory.
#[derive(Clone, Copy, Debug)]
pub struct KernelFiles<'a> {
    /// The purpose of the kernel: the node's full name, or another text that stays the same when the kernel changes. A
    /// kernel is superseded if all its slots were given to other kernels. If empty, the stem is the slot, so the kernel
    /// is never superseded.
    pub slot: &'a str,
    /// The name of the files, without suffix.
    pub stem: &'a str,
    /// The content of the `.o`.
    pub object: FileContent<'a>,
    /// The content of the `.json`.
    pub json: FileContent<'a>,
    /// The content of the `.info`.
    pub info: FileContent<'a>,
    /// Whether the kernel was built for the chip that its descriptor names; true if the descriptor names none.
    pub for_chip: bool,
    /// Whether the kernel was compiled for debugging.
    pub debug: bool,
}

/// The name of a kernel that could not be built: an older kernel must not be found under this name.
#[derive(Clone, Copy, Debug)]
pub struct RetiredKernel<'a> {
    /// The name of the files, without suffix.
    pub stem: &'a str,
    /// The `binFileName` of the kernel that belongs under this name, if known: that kernel stays.
    pub keep: Option<&'a str>,
}

impl<'a> KernelFiles<'a> {
    /// Returns the content of one of the files.
    pub fn content(&self, kind: KernelFileKind) -> FileContent<'a> {
        match kind {
            KernelFileKind::Object => self.object,
            KernelFileKind::Json => self.json,
            KernelFileKind::Info => self.info,
        }
    }

    /// Returns the bytes of one of the files, after a check of their length and digest.
    pub fn load(&self, kind: KernelFileKind) -> Result<Cow<'a, [u8]>, ViewError> {
        let stem = || self.stem.to_owned();
        let FileContent { digest: expected, len: expected_len, source } = self.content(kind);
        let bytes = match source {
            Source::Memory(bytes) => Cow::Borrowed(bytes),
            Source::Function(load) => {
                Cow::Owned(load().map_err(|source| ViewError::Load { stem: stem(), kind, source })?)
            }
        };
        let (found, found_len) = (Digest::of(&bytes), bytes.len() as u64);
        if (found, found_len) != (expected, expected_len) {
            return Err(ViewError::Content { stem: stem(), kind, expected, expected_len, found, found_len });
        }
        Ok(bytes)
    }
}

/// The content of a file: its digest and length, with its bytes or a function that loads them.
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
    /// Returns the content `bytes`, which is hashed now.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self::known(Digest::of(bytes), bytes)
    }

    /// Returns the content `bytes` with the known `digest`, which is checked only if the bytes are needed.
    pub fn known(digest: Digest, bytes: &'a [u8]) -> Self {
        Self { digest, len: bytes.len() as u64, source: Source::Memory(bytes) }
    }

    /// Returns the content that `load` returns. `load` is called only if the file must be written, or a `.json`
    /// compared.
    pub fn lazy(digest: Digest, len: u64, load: &'a dyn Fn() -> io::Result<Vec<u8>>) -> Self {
        Self { digest, len, source: Source::Function(load) }
    }

    /// Returns the SHA-256 of the bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the number of bytes.
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

/// Returns an error if `stem` cannot be the name of files in a view.
pub(crate) fn check_stem(stem: &str) -> Result<(), ViewError> {
    // The names of the view's own files begin with `.opkeep`.
    if is_safe_file_name(stem) && !stem.starts_with(".opkeep") {
        return Ok(());
    }
    Err(ViewError::Stem { stem: stem.chars().take(80).collect() })
}

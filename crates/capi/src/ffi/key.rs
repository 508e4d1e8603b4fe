//! Keys.

use std::ffi::c_char;

use opkeep_embed::{Digest, FileKey, Fingerprint, MAX_TOOLCHAIN_PARTS};

use crate::error::Error;
use crate::ffi::pointers::{self, Growing, ItemField};
use crate::ffi::types::OPKEEP_DIGEST_SIZE;

/// The key of a group of files. Set it to zero, then set `size` and the fields that you need. The key of the entry also has
/// the name of the framework and of the target.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// `sizeof(opkeep_key)`.
    pub size: usize,
    /// A digest of everything that the caller knows to change the files: `opkeep_digest` computes one.
    pub digest: [u8; OPKEEP_DIGEST_SIZE],
    /// The name of the group, if the caller keeps several groups under one digest; else null. At most 4096 bytes.
    pub name: *const c_char,
    /// The parts of the toolchain that `digest` does not cover, which reports name; else null.
    pub toolchain: *const Part,
    /// The number of parts, at most 256.
    pub toolchain_count: usize,
}

/// A part of a toolchain: a compiler, or a library that it reads.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its name, such as `ptxas`. At most 4096 bytes.
    pub name: *const c_char,
    /// The digest of its content: `opkeep_digest_file` computes one.
    pub digest: [u8; OPKEEP_DIGEST_SIZE],
    /// A note for people, such as its version, which is no part of the key; or null. At most 4096 bytes.
    pub note: *const c_char,
}

// SAFETY: the struct is `repr(C)`, `size` is first, and the fields are numbers and pointers.
unsafe impl Growing for Key {
    const FIRST_SIZE: usize = pointers::first_size!(Key: size, digest, name, toolchain, toolchain_count);
}

/// Reads a key.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
pub(super) unsafe fn read(key: *const Key) -> Result<FileKey, Error> {
    // SAFETY: the rules for pointers.
    let key = unsafe { pointers::growing(key, "key") }?;
    // SAFETY: the rules for pointers.
    let name = unsafe { pointers::report_text(key.name, "key->name") }?;
    // Checked before it is used: a count that was never set leads to no part.
    if key.toolchain_count > MAX_TOOLCHAIN_PARTS {
        return Err(Error::argument(format!(
            "`key->toolchain_count` is {}, expected at most {MAX_TOOLCHAIN_PARTS}",
            key.toolchain_count
        )));
    }
    // SAFETY: the rules for pointers.
    let parts = unsafe { pointers::array(key.toolchain, key.toolchain_count, "key->toolchain") }?;
    let mut toolchain = Fingerprint::new();
    for (index, part) in parts.iter().enumerate() {
        let field = |field| ItemField { array: "key->toolchain", index, field };
        // SAFETY: the rules for pointers.
        let name = unsafe { pointers::report_text(part.name, field("name")) }?;
        let name = name.ok_or_else(|| pointers::null(field("name")))?;
        // SAFETY: the rules for pointers.
        let note = unsafe { pointers::report_text(part.note, field("note")) }?;
        toolchain.add(name, Digest::from_bytes(part.digest), note.unwrap_or_default());
    }
    Ok(FileKey::new(key.digest).with_name(name.unwrap_or_default()).with_toolchain(toolchain))
}

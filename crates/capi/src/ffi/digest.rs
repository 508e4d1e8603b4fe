//! Digests, from which callers make their keys.

use std::ffi::{c_char, c_void};

use opkeep_embed::Digest;
use opkeep_fs::Fs;

use crate::code::Code;
use crate::error::Error;
use crate::ffi::pointers;
use crate::ffi::types::OPKEEP_DIGEST_SIZE;
use crate::guard;

/// The SHA-256 of bytes. `digest` points to 32 bytes.
///
/// A key has several parts: join them so that no two lists of parts give the same bytes, for instance with the length of
/// each before it.
///
/// Errors: `ARGUMENT`.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_digest(data: *const c_void, size: usize, digest: *mut u8) -> Code {
    guard::code("opkeep_digest", || {
        let place = digest.cast::<[u8; OPKEEP_DIGEST_SIZE]>();
        // SAFETY: the rules for pointers.
        let mut output = unsafe { pointers::output(place, [0; OPKEEP_DIGEST_SIZE], "digest") }?;
        // SAFETY: the rules for pointers.
        let bytes = unsafe { pointers::bytes(data, size, "data") }?;
        output.set(*Digest::of(bytes).as_bytes());
        Ok(())
    })
}

/// The SHA-256 of the content of a file, such as a compiler. `digest` points to 32 bytes.
///
/// Errors: `IO`, `ARGUMENT`.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_digest_file(path: *const c_char, digest: *mut u8) -> Code {
    guard::code("opkeep_digest_file", || {
        let place = digest.cast::<[u8; OPKEEP_DIGEST_SIZE]>();
        // SAFETY: the rules for pointers.
        let mut output = unsafe { pointers::output(place, [0; OPKEEP_DIGEST_SIZE], "digest") }?;
        // SAFETY: the rules for pointers.
        let path = unsafe { pointers::path(path, "path") }?;
        let read = Fs::default().open_file(path).and_then(|(file, _)| Digest::of_reader(file));
        let read =
            read.map_err(|error| Error::new(Code::Io, format!("cannot read {}: {error}", path.display())));
        output.set(*read?.as_bytes());
        Ok(())
    })
}

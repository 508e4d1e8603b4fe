//! The checks of the texts that are stored with a group.

use crate::error::EmbedError;
use crate::key::FileKey;
use crate::limits::{MAX_TEXT_BYTES, MAX_TOOLCHAIN_PARTS};

pub(crate) fn check_text(what: &'static str, text: &str) -> Result<(), EmbedError> {
    match text.len() {
        0..=MAX_TEXT_BYTES => Ok(()),
        found => Err(EmbedError::TextTooLong { what, found }),
    }
}

/// Checks the texts of a key, before any files are made under it.
pub(crate) fn check_key(key: &FileKey) -> Result<(), EmbedError> {
    check_text("the name of the group", &key.name)?;
    let parts = key.toolchain.parts();
    if parts.len() > MAX_TOOLCHAIN_PARTS {
        return Err(EmbedError::TooManyParts { found: parts.len() });
    }
    parts.iter().try_for_each(|part| {
        check_text("the name of a compiler", &part.name)?;
        check_text("the note of a compiler", &part.note)
    })
}

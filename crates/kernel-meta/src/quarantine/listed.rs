//! The list of what we wrote in a cache, as it is needed and kept right where a build is undone.

use std::ffi::OsStr;

use opbuild_digest::Digest;

use crate::disk::Folder;
use crate::manifest::{self, Manifest, Record};
use crate::quarantine::journal::Entry;
use crate::survey::judge::MAX_TEXT;
use crate::survey::look::{Dir, Read1};
use crate::{Part, ViewError};

/// What we wrote in the cache; nothing, if that is not known.
pub(super) fn read_manifest(folder: &Dir) -> Vec<u8> {
    let mut bytes = Vec::new();
    match folder.read(manifest::NAME, MAX_TEXT, &mut bytes) {
        Read1::Whole(_) => bytes,
        _ => Vec::new(),
    }
}

/// Takes the kernels that stood in the place of `entries` off the list of what we wrote, those that are gone. After they
/// are: until then, the list is how they are known.
pub(super) fn forget<'e>(
    folder: &Dir,
    text: &[u8],
    entries: impl Iterator<Item = &'e Entry>,
) -> Result<(), ViewError> {
    let mut manifest = Manifest::parse(text);
    let before = manifest.kernels.len();
    for stem in entries.filter_map(stem_of) {
        let object = folder.open_file(OsStr::new(&Part::Object.of(stem))).and_then(Digest::of_reader);
        let is_there =
            |record: &Record<'_>| object.as_ref().is_ok_and(|digest| record.wrote(Part::Object, digest));
        if manifest.kernels.get(stem).is_some_and(|record| !is_there(record)) {
            manifest.kernels.remove(stem);
        }
    }
    let Some(folder) = Folder::look(folder.path())?.filter(|_| manifest.kernels.len() < before) else {
        return Ok(());
    };
    if manifest.kernels.is_empty() {
        return folder.unlink(manifest::NAME);
    }
    let temp = folder.stage(manifest.to_text().as_bytes())?;
    temp.sync()?;
    temp.publish(manifest::NAME)
}

/// The stem of the kernel that a file belongs to.
pub(super) fn stem_of(entry: &Entry) -> Option<&str> {
    Part::ALL.into_iter().find_map(|part| part.stem_of(&entry.file))
}

//! Restoring the manifest's lines that a build replaced.

use std::ffi::OsStr;

use opkeep_digest::Digest;

use crate::quarantine::RepairError;
use crate::quarantine::journal::{Entry, Role};
use opkeep_fs::Dir;
use opkeep_kernel_meta::manifest::{self, Manifest, Record};
use opkeep_kernel_meta::view_dir::{MAX_READ, ViewDir};
use opkeep_kernel_meta::{KernelFileKind, ViewError};

/// The text of the cache's manifest; empty if there is none.
///
/// # Errors
/// The manifest cannot be read. It is not treated as empty, which would make the kernels that it lists foreign.
pub(super) fn read_manifest(dir: &Dir) -> Result<Vec<u8>, RepairError> {
    let mut bytes = Vec::new();
    match dir.read(manifest::NAME, MAX_READ, &mut bytes).complete() {
        Ok(found) => Ok(found.map(|_| bytes).unwrap_or_default()),
        Err(problem) => Err(RepairError::io("read", dir.path().join(manifest::NAME), problem)),
    }
}

/// Restores the manifest's lines of the kernels of `entries` whose files are restored. The files are restored first:
/// until then, the manifest shows which files opkeep wrote.
pub(super) fn restore_lines<'e>(
    dir: &Dir,
    current: &Manifest<'e>,
    entries: impl Iterator<Item = &'e Entry>,
) -> Result<(), ViewError> {
    let mut manifest = current.clone();
    for entry in entries {
        let Role::Replaced { listed, .. } = &entry.role else { continue };
        let Some((part, stem)) = kernel_of(entry) else { continue };
        // A later build may have listed the restored file already.
        let is_listed =
            |digest| current.kernels.get(stem).is_some_and(|it: &Record<'_>| it.file(part).digest == digest);
        let is_restored = dir.file_state(&entry.file).is_some_and(|found| entry.is(&found));
        let digest = dir.open_file(OsStr::new(&entry.file)).and_then(Digest::of_reader);
        if is_restored && digest.is_ok_and(|digest| !is_listed(digest)) {
            manifest.set_line(stem, listed.as_deref());
        }
    }
    let Some(view_dir) = ViewDir::look(dir.path())?.filter(|_| manifest != *current) else {
        return Ok(());
    };
    if manifest.kernels.is_empty() {
        return view_dir.unlink(manifest::NAME);
    }
    let mut temp = view_dir.stage(manifest.to_text().as_bytes())?;
    temp.sync()?;
    temp.publish(manifest::NAME)
}

/// The kernel that a file belongs to, and the kind of the file.
pub(super) fn kernel_of(entry: &Entry) -> Option<(KernelFileKind, &str)> {
    KernelFileKind::ALL.into_iter().find_map(|part| Some((part, part.stem_of(&entry.file)?)))
}

//! Outdated kernels of ours that cannot be quarantined. No reader may find them, and no file that another program wrote may
//! be lost: such a file stays displaced under a name that [`settle`](crate::displace::settle) does not restore.

use opkeep_fs::FileState;

use crate::displace::Displaced;
use crate::manifest::Manifest;
use crate::view_dir::ViewDir;
use crate::{KernelFileKind, LeftReason, ViewError};

/// Takes the names from the `files` of the outdated kernel `stem`, which are given in the state in which they were judged,
/// the description first. Removes files that only we wrote, by the manifest `found`. The others stay displaced, and their
/// new names are added to `displaced`. Stops at a file that another program changed, and returns the reason.
pub(crate) fn unname(
    dir: &ViewDir,
    found: &Manifest<'_>,
    stem: &str,
    files: &[(String, FileState)],
    displaced: &mut Vec<String>,
) -> Result<Option<LeftReason>, ViewError> {
    let record = found.kernels.get(stem);
    // MindSpore may extend the description after it was judged.
    let is_extended = |old: &str| {
        record.is_some_and(|record| dir.read(old).is_ok_and(|(bytes, _)| record.is_extended(&bytes)))
    };
    for (file, judged) in files {
        let is_json = KernelFileKind::Json.stem_of(file).is_some();
        let is_judged = |old: &str| {
            FileState::are_of([dir.file_state(old), dir.file_state(old)], judged)
                || is_json && is_extended(old)
        };
        match dir.displace_file(file, is_judged)? {
            Displaced::Gone => {}
            Displaced::As(old) if dir.digest(&old.name).is_ok_and(|(it, _)| found.is_ours(file, &it)) => {
                dir.remove_displaced(&old)?;
            }
            Displaced::As(old) => displaced.push(dir.keep_displaced(&old)?),
            Displaced::Other => return Ok(Some(LeftReason::Changed { file: file.clone() })),
        }
    }
    Ok(None)
}

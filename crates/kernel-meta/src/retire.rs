//! Removing kernels of ours: superseded ones, and those that must not be found any more.

use std::io::ErrorKind;
use std::time::{Duration, SystemTime};

use opkeep_digest::Digest;

use crate::compare::{describes, is_extended};
use crate::foreign_files::Replaced;
use crate::manifest::{Manifest, Record};
use crate::stored::{StoredKernels, is_stored};
use crate::view_dir::ViewDir;
use crate::{KernelFileKind, LeftReason, RetiredKernel, ViewError};

/// A superseded kernel stays this long, for processes that began before it was superseded.
pub(crate) const GRACE: Duration = Duration::from_secs(30 * 60);
/// The order in which a kernel's files are removed: no reader may find its description without its object.
const ORDER: [KernelFileKind; 3] = [KernelFileKind::Json, KernelFileKind::Object, KernelFileKind::Info];

/// The outcome of withdrawing kernels, by stem.
#[derive(Default)]
pub(crate) struct Retired<'a> {
    /// The number of kernels that were removed.
    pub(crate) removed: usize,
    /// Kernels that existed before we wrote them, or that MindSpore extended: to be quarantined.
    pub(crate) adopted: Vec<(&'a str, Replaced)>,
    /// Kernels that another program changed while they were removed.
    pub(crate) left: Vec<(&'a str, LeftReason)>,
}

/// Removes our files under these names. `found` is the manifest before any change; `stored` has kernels that it does not
/// list. A kernel of which a file is missing, cannot be read, or is of another program, is left to
/// [`outdated::retire`](crate::outdated::retire).
pub(crate) fn withdraw<'a>(
    dir: &ViewDir,
    manifest: &mut Manifest<'_>,
    found: &Manifest<'_>,
    stored: &dyn StoredKernels,
    withdrawn: &[RetiredKernel<'a>],
) -> Result<Retired<'a>, ViewError> {
    let mut retired = Retired::default();
    for kernel in withdrawn {
        let stem = kernel.stem;
        if dir.read(&KernelFileKind::Json.of(stem)).is_ok_and(|(json, _)| kernel.is_kept(&json)) {
            continue;
        }
        let listed = found.line(stem);
        let record = found.kernels.get(stem);
        let written = record.and_then(|record| as_written(dir, stem, record));
        let written = written.or_else(|| is_stored(dir, stem, stored).then_some(Written::Adopted));
        let Some(written) = written else { continue };
        manifest.kernels.remove(stem);
        if let Some(record) = record.filter(|_| written == Written::ByUs) {
            match remove(dir, stem, record)? {
                Some(changed) => retired.left.push((stem, LeftReason::Changed { file: changed.of(stem) })),
                None => retired.removed += 1,
            }
        } else {
            let file = |kind: KernelFileKind| {
                let file = kind.of(stem);
                dir.file_state(&file).map(|seen| (file, seen))
            };
            let files = [KernelFileKind::Json, KernelFileKind::Object].into_iter().filter_map(file).collect();
            let why = "the kernel that belongs there could not be made".to_owned();
            retired.adopted.push((stem, Replaced { files, made: Vec::new(), stays: None, listed, why }));
        }
    }
    Ok(retired)
}

/// Removes superseded kernels of ours that are old enough, and returns their number. A kernel that cannot be removed waits
/// for the next call.
pub(crate) fn superseded(dir: &ViewDir, manifest: &mut Manifest<'_>, now: SystemTime) -> usize {
    let mut removed = 0;
    manifest.kernels.retain(|stem, record| {
        if !record.is_superseded() {
            return true;
        }
        let [object, json] =
            [KernelFileKind::Object, KernelFileKind::Json].map(|kind| dir.file_state(&kind.of(stem)));
        let Some(newest) = json.or(object) else { return false };
        if !newest.written_before(now, GRACE) {
            return true;
        }
        // If another program wrote one of the files, the whole kernel is that program's.
        if as_written(dir, stem, record) != Some(Written::ByUs) {
            return false;
        }
        let gone = remove(dir, stem, record);
        removed += usize::from(matches!(gone, Ok(None)));
        gone.is_err()
    });
    removed
}

/// The writer of a kernel whose files are the recorded ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    ByUs,
    /// Its object or its description existed before we wrote it, or MindSpore extended the description.
    Adopted,
}

/// Returns the writer of the kernel if its object is the recorded one, and if its description is the recorded one, is
/// extended by MindSpore, or is missing.
fn as_written(dir: &ViewDir, stem: &str, record: &Record<'_>) -> Option<Written> {
    let is_adopted = |kind: KernelFileKind, digest: Digest| {
        record.wrote(kind, &digest).then(|| record.is_adopted(kind, &digest))
    };
    let (digest, _) = dir.digest(&KernelFileKind::Object.of(stem)).ok()?;
    let object = is_adopted(KernelFileKind::Object, digest)?;
    let json = match dir.read(&KernelFileKind::Json.of(stem)) {
        Ok((bytes, _)) if is_extended(&bytes) && describes(&bytes, &digest) => true,
        Ok((bytes, _)) => is_adopted(KernelFileKind::Json, Digest::of(&bytes))?,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(_) => return None,
    };
    Some(if object || json { Written::Adopted } else { Written::ByUs })
}

/// Removes the files of a kernel that are as we wrote them. Stops at a description or an object that another program
/// changed, and returns which.
fn remove(dir: &ViewDir, stem: &str, record: &Record<'_>) -> Result<Option<KernelFileKind>, ViewError> {
    for kind in ORDER {
        let is_gone = dir.remove_if(&kind.of(stem), |digest| record.is_ours(kind, digest))?;
        if !is_gone && kind != KernelFileKind::Info {
            return Ok(Some(kind));
        }
    }
    Ok(None)
}

//! Removing kernels of ours: superseded ones, and those that must not be found any more.

use std::io::ErrorKind;
use std::time::{Duration, SystemTime};

use opkeep_cann_meta::KernelMeta;
use opkeep_digest::Digest;

use crate::compare::{describes, is_extended};
use crate::foreign_files::Replaced;
use crate::manifest::{Manifest, Record};
use crate::view_dir::ViewDir;
use crate::{KernelFileKind, LeftReason, RetiredKernel, ViewError};

/// A superseded kernel stays this long, for those who began before it was.
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

/// Removes what we wrote under these names. `found` is the manifest before any change.
pub(crate) fn withdraw<'a>(
    dir: &ViewDir,
    manifest: &mut Manifest<'_>,
    found: &Manifest<'_>,
    withdrawn: &[RetiredKernel<'a>],
) -> Result<Retired<'a>, ViewError> {
    let mut retired = Retired::default();
    for RetiredKernel { stem, unless } in withdrawn {
        let json = dir.read(&KernelFileKind::Json.of(stem)).ok().map(|(bytes, _)| bytes);
        let there = json.and_then(|json| KernelMeta::parse(&json).ok()?.bin_file_name);
        if unless.is_some() && there.as_deref() == *unless {
            continue;
        }
        let listed = found.line(stem);
        let Some(record) = manifest.kernels.remove(*stem) else { continue };
        let Some(written) = as_written(dir, stem, &record) else { continue };
        if written == Written::Adopted {
            let file = |part: KernelFileKind| {
                let file = part.of(stem);
                dir.file_state(&file).map(|seen| (file, seen))
            };
            let files = [KernelFileKind::Json, KernelFileKind::Object].into_iter().filter_map(file).collect();
            let why = "the kernel that belongs there could not be made".to_owned();
            retired.adopted.push((*stem, Replaced { files, made: Vec::new(), stays: None, listed, why }));
        } else if let Some(changed) = remove(dir, stem, &record)? {
            retired.left.push((*stem, LeftReason::Changed { file: changed.of(stem) }));
        } else {
            retired.removed += 1;
        }
    }
    Ok(retired)
}

/// Removes superseded kernels of ours that are old enough: how many. What cannot be removed waits for the next call.
pub(crate) fn superseded(dir: &ViewDir, manifest: &mut Manifest<'_>, now: SystemTime) -> usize {
    let mut removed = 0;
    manifest.kernels.retain(|stem, record| {
        if !record.is_superseded() {
            return true;
        }
        let [object, json] =
            [KernelFileKind::Object, KernelFileKind::Json].map(|part| dir.file_state(&part.of(stem)));
        let Some(newest) = json.or(object) else { return false };
        if !newest.written_before(now, GRACE) {
            return true;
        }
        // Another program may have taken the name. Then the kernel is its own, as a whole.
        if as_written(dir, stem, record) != Some(Written::ByUs) {
            return false;
        }
        let gone = remove(dir, stem, record);
        removed += usize::from(matches!(gone, Ok(None)));
        gone.is_err()
    });
    removed
}

/// Whose a kernel is that is as the manifest has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    ByUs,
    /// Its object or its description was there before we wrote it, or was extended by MindSpore.
    Adopted,
}

/// Whose the kernel is, if the object is as the manifest has it, and so is the description, if it exists. One that
/// MindSpore extended is.
fn as_written(dir: &ViewDir, stem: &str, record: &Record<'_>) -> Option<Written> {
    let is_adopted = |part: KernelFileKind, digest: Digest| {
        record.wrote(part, &digest).then(|| record.is_adopted(part, &digest))
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
    for part in ORDER {
        let is_gone = dir.remove_if(&part.of(stem), |digest| record.is_ours(part, digest))?;
        if !is_gone && part != KernelFileKind::Info {
            return Ok(Some(part));
        }
    }
    Ok(None)
}

//! Outdated kernels of ours: no reader may find one under a name of a call, however the call ends.
//!
//! A kernel of ours is outdated if the call has another kernel for its name, or none. The usual ways replace or remove
//! it, but each of them may fail: a disk is full, a quarantine refuses, a file cannot be read, another program writes.
//! So after them, [`retire`] looks at each name that did not get its kernel, and takes the description from its name,
//! for whatever reason it is still there. Without its description, no framework finds a kernel. Renames and removals
//! need no space, and if they fail, too, the call returns [`ViewError::Outdated`], which names the file.
//!
//! No file that another program wrote or extended is removed: it stays in the directory under a name that
//! [`settle`](crate::displace::settle) does not restore. Later calls move these files to quarantine, once it takes them.
//! Of equal ones, one is kept. So there are at most as many as the different files that other programs wrote, and none
//! in a view whose quarantine works.

use std::io::ErrorKind;
use std::time::SystemTime;

use opkeep_cann_meta::KernelMeta;
use opkeep_digest::Digest;
use opkeep_fs::FileState;

use crate::compare::{describes, same_json};
use crate::displace::Displaced;
use crate::manifest::{Manifest, Record};
use crate::own_name::outdated_name;
use crate::retire::GRACE;
use crate::stored::{StoredKernels, is_description_stored};
use crate::view_dir::ViewDir;
use crate::{KernelFileKind, KernelFiles, LeftReason, RetiredKernel, ViewError};

/// The maximum number of attempts to take the name from a file that another program changes meanwhile.
const ATTEMPTS: usize = 3;

/// A name that did not get its kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unfinished<'a> {
    /// The kernel was to be written.
    Kernel {
        kernel: &'a KernelFiles<'a>,
        /// Whether an object of another program was to be replaced: it is damaged, or the user permits it.
        replaces_object: bool,
        /// Whether a kernel of ours that was not compiled for debugging may stay.
        spares_release: bool,
        /// Whether our files were displaced already, so that other programs wrote those with the name.
        is_displaced: bool,
    },
    /// The kernel under the name was to be removed.
    Retired(RetiredKernel<'a>),
}

impl Unfinished<'_> {
    pub(crate) fn stem(&self) -> &str {
        match self {
            Self::Kernel { kernel, .. } => kernel.stem,
            Self::Retired(retired) => retired.stem,
        }
    }

    /// Returns whether `json` is the description that belongs under the name.
    fn is_wanted(&self, json: &[u8]) -> bool {
        match self {
            Self::Kernel { kernel, .. } => match kernel.load(KernelFileKind::Json) {
                Ok(given) => same_json(json, &given),
                Err(_) => describes(json, &kernel.object.digest()),
            },
            Self::Retired(retired) => retired.is_kept(json),
        }
    }

    fn is_displaced(&self) -> bool {
        matches!(self, Self::Kernel { is_displaced: true, .. })
    }

    fn replaces_object(&self) -> bool {
        matches!(self, Self::Kernel { replaces_object: true, .. })
    }

    /// Returns whether the kernel of ours with this `record` may stay, since the call's kernel is for debugging.
    fn spares(&self, record: Option<&Record<'_>>, kind: KernelFileKind, digest: &Digest) -> bool {
        matches!(self, Self::Kernel { spares_release: true, .. })
            && !record.is_some_and(|record| record.is_debug(kind, digest))
    }
}

impl RetiredKernel<'_> {
    /// Returns whether `json` is the description of the kernel that stays.
    pub(crate) fn is_kept(&self, json: &[u8]) -> bool {
        self.keep.is_some()
            && KernelMeta::parse(json).is_ok_and(|it| it.bin_file_name.as_deref() == self.keep)
    }
}

/// Takes the name from an outdated kernel of ours, if there is one. `found` is the manifest in which our kernels are
/// listed, and `displaced` gets the new names of files that other programs wrote. Returns a reason if another program
/// changes the file each time, or if whether there is one cannot be known.
pub(crate) fn retire(
    dir: &ViewDir,
    found: &Manifest<'_>,
    stored: &dyn StoredKernels,
    name: &Unfinished<'_>,
    displaced: &mut Vec<String>,
) -> Result<Option<LeftReason>, ViewError> {
    let mut changed = None;
    for _ in 0..ATTEMPTS {
        changed = match outdated_files(dir, found, stored, name) {
            Outdated::None => return Ok(None),
            Outdated::Unknown(why) => Some(why),
            Outdated::Files(files) => {
                let may_remove =
                    |file: &str, digest: &Digest| !name.is_displaced() && found.is_ours(file, digest);
                take_names(dir, found, name.stem(), &files, displaced, may_remove)?
            }
        };
        if changed.is_none() {
            return Ok(None);
        }
    }
    Ok(changed)
}

/// The files without which no reader finds an outdated kernel of ours.
enum Outdated {
    None,
    Files(Vec<(String, FileState)>),
    Unknown(LeftReason),
}

impl Outdated {
    /// Returns the file, or the reason if it changed while it was read.
    fn file(file: String, seen: Option<FileState>) -> Self {
        match seen {
            Some(seen) => Self::Files(vec![(file, seen)]),
            None => Self::Unknown(LeftReason::Changed { file }),
        }
    }
}

fn outdated_files(
    dir: &ViewDir,
    found: &Manifest<'_>,
    stored: &dyn StoredKernels,
    name: &Unfinished<'_>,
) -> Outdated {
    let [object, json] = [KernelFileKind::Object, KernelFileKind::Json].map(|kind| kind.of(name.stem()));
    let record = found.kernels.get(name.stem());
    let wrote = |kind, digest: &Digest| record.is_some_and(|record| record.wrote(kind, digest));
    let (bytes, seen) = match dir.read(&json) {
        Ok(read) => read,
        Err(error) if error.kind() == ErrorKind::NotFound => return Outdated::None,
        // A link or an unreadable file may describe our object, and without the object it describes nothing.
        Err(error) => {
            return match dir.digest(&object) {
                Ok((digest, seen)) if wrote(KernelFileKind::Object, &digest) => match name {
                    Unfinished::Kernel { kernel, .. } if kernel.object.digest() == digest => Outdated::None,
                    _ if name.spares(record, KernelFileKind::Object, &digest) => Outdated::None,
                    _ => Outdated::file(object, seen),
                },
                Ok(_) => Outdated::None,
                Err(error) if error.kind() == ErrorKind::NotFound => Outdated::None,
                Err(_) if record.is_none() => Outdated::None,
                Err(_) => {
                    Outdated::Unknown(LeftReason::Unreadable { file: json, problem: error.to_string() })
                }
            };
        }
    };
    let digest = Digest::of(&bytes);
    let is_ours = wrote(KernelFileKind::Json, &digest)
        || record.is_some_and(|record| record.is_extended(&bytes))
        || is_description_stored(&bytes, stored);
    if !is_ours || name.spares(record, KernelFileKind::Json, &digest) {
        return Outdated::None;
    }
    // The right description stays, unless its object is damaged, and it can be written again.
    if name.is_wanted(&bytes) && !(name.replaces_object() && found.is_ours(&json, &digest)) {
        return Outdated::None;
    }
    let mut outdated = Outdated::file(json, seen);
    let beside = dir.digest(&object);
    // A description without an object is no kernel.
    if beside.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Outdated::None;
    }
    if let Ok((digest, seen)) = beside {
        let is_described = describes(&bytes, &digest);
        // Beside an object of another program, the kernel is that program's, and no framework takes the two for one kernel.
        if !is_described && !wrote(KernelFileKind::Object, &digest) && !name.replaces_object() {
            return Outdated::None;
        }
        // Nothing else shows that an object is ours that only the store knows.
        if let (Outdated::Files(files), Some(seen)) = (&mut outdated, seen)
            && is_described
            && record.is_none()
        {
            files.push((object, seen));
        }
    }
    outdated
}

/// Takes the names from the `files` of the outdated kernel `stem`, which are given in the state in which they were
/// judged, the description first. Removes files that only we wrote, by the manifest `found`. The others stay displaced,
/// and their new names are added to `displaced`. Stops at a file that another program changed, and returns the reason.
pub(crate) fn unname(
    dir: &ViewDir,
    found: &Manifest<'_>,
    stem: &str,
    files: &[(String, FileState)],
    displaced: &mut Vec<String>,
) -> Result<Option<LeftReason>, ViewError> {
    take_names(dir, found, stem, files, displaced, |file, digest| found.is_ours(file, digest))
}

/// Does the same, and removes the files that `may_remove` accepts by their names and digests.
fn take_names(
    dir: &ViewDir,
    found: &Manifest<'_>,
    stem: &str,
    files: &[(String, FileState)],
    displaced: &mut Vec<String>,
    may_remove: impl Fn(&str, &Digest) -> bool,
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
            // If it cannot be removed, the next call removes it.
            Displaced::As(old) if dir.digest(&old.name).is_ok_and(|(it, _)| may_remove(file, &it)) => {
                let _ = dir.remove_displaced(&old);
            }
            Displaced::As(old) => displaced.push(dir.keep_displaced(&old)?),
            Displaced::Other => return Ok(Some(LeftReason::Changed { file: file.clone() })),
        }
    }
    Ok(None)
}

/// Returns those files of outdated kernels among `names` that earlier calls displaced, with their states.
pub(crate) fn displaced_outdated(dir: &ViewDir, names: &[String]) -> Vec<(String, FileState)> {
    let outdated = names.iter().filter(|name| outdated_name(name).is_some());
    outdated.filter_map(|name| Some((name.clone(), dir.file_state(name)?))).collect()
}

/// Removes those of `files` that equal a later one with the same former name. A file that was written lately stays, and
/// so does its equal: a process that has it open may still write to it. Best effort.
pub(crate) fn remove_repeated(dir: &ViewDir, files: &[&(String, FileState)], now: SystemTime) {
    let read = |(name, _): &&(String, FileState)| {
        let (digest, state) = dir.digest(name).ok()?;
        let state = state.filter(|state| state.written_before(now, GRACE))?;
        Some(((outdated_name(name).map(str::to_owned), digest), state))
    };
    let found: Vec<_> = files.iter().map(read).collect();
    let is_unchanged =
        |at: usize| found[at].as_ref().is_some_and(|(_, state)| dir.file_state(&files[at].0) == Some(*state));
    for (at, file) in files.iter().enumerate() {
        let content = |at: usize| found[at].as_ref().map(|(content, _)| content);
        let is_equal = |other: &usize| content(at).is_some() && content(at) == content(*other);
        let equal = (at + 1..files.len()).find(is_equal);
        if equal.is_some_and(|equal| is_unchanged(equal) && is_unchanged(at)) {
            let _ = dir.unlink(&file.0);
        }
    }
}

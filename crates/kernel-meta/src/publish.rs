//! Writes a kernel's files: complete, in the one order in which no reader finds a `.json` before its `.o`, and never
//! over a file that another program writes meanwhile.
//!
//! A file gets its name only if the name is free. A file that is to be replaced is renamed (*displaced*), compared, and
//! only then removed. Before that, the manifest is written and synced, with the digests of the replaced and the new
//! file, and with the state of the complete file that waits for the name: so after a kill, an equal file of another
//! program does not count as ours. If another program writes one of the files meanwhile, the published files are
//! removed again, if they are still the same. A displaced description of the kernel that was to be written is restored;
//! the files of an outdated kernel are not. Foreign files that were replaced stay in quarantine.
//!
//! Another program may act between a check and the rename, so each check is repeated after the rename.

use opkeep_digest::Digest;

use crate::displace::{Displaced, OldFile};
use crate::occupant::{Act, Placement};
use crate::view_dir::{StagedFile, ViewDir};
use crate::{KernelFileKind, KernelFiles, LeftReason, ViewError};
use opkeep_fs::FileState;

/// The complete files of a kernel that wait for their names, indexed by `KernelFileKind`; `None` if a file stays.
#[derive(Debug)]
pub struct Staged<'a>([Option<StagedFile<'a>>; 3]);

impl<'a> Staged<'a> {
    /// Returns the files of a kernel of which all three are written.
    pub fn of(files: [StagedFile<'a>; 3]) -> Self {
        Self(files.map(Some))
    }

    /// Makes the bytes of all files durable.
    pub(crate) fn sync(&mut self) -> Result<(), ViewError> {
        self.0.iter_mut().flatten().try_for_each(StagedFile::sync)
    }

    /// Returns the kind and state of each file.
    pub fn identities(&self) -> Result<Vec<(KernelFileKind, FileState)>, ViewError> {
        let staged = KernelFileKind::ALL.into_iter().zip(&self.0);
        staged.filter_map(|(kind, temp)| Some(temp.as_ref()?.state().map(|it| (kind, it)))).collect()
    }
}

/// Writes those files of a kernel that are missing or must be replaced, under temporary names.
pub(crate) fn stage<'a>(
    dir: &'a ViewDir,
    kernel: &KernelFiles<'_>,
    placement: &Placement,
) -> Result<Staged<'a>, ViewError> {
    let mut staged = [None, None, None];
    for kind in KernelFileKind::ALL.into_iter().filter(|kind| placement.acts[*kind as usize].writes()) {
        // If only the object was lost, MindSpore's additions to the description are kept.
        let kept = placement.json.as_deref().filter(|_| kind == KernelFileKind::Json);
        staged[kind as usize] = Some(match kept {
            Some(kept) => dir.stage(kept)?,
            None => dir.stage(&kernel.load(kind)?)?,
        });
    }
    Ok(Staged(staged))
}

/// Gives the staged files of a kernel their names, and replaces our older ones. If another program wrote one of the
/// files meanwhile, its file stays, and the reason is returned. Foreign files that were replaced stay in quarantine.
pub(crate) fn publish(
    dir: &ViewDir,
    kernel: &KernelFiles<'_>,
    placement: &Placement,
    mut staged: Staged<'_>,
) -> Result<Option<LeftReason>, ViewError> {
    let (mut displaced, mut published) = (Vec::new(), Vec::new());
    let mut outcome = displace(dir, kernel, placement, &mut displaced);
    let (stem, mut digests) = (kernel.stem, KernelFileKind::ALL.map(|kind| kernel.content(kind).digest()));
    if let Some(kept) = &placement.json {
        digests[KernelFileKind::Json as usize] = Digest::of(kept);
    }
    if matches!(outcome, Ok(None)) {
        outcome = publish_staged(dir, stem, &digests, &mut staged, &mut published);
    }
    if matches!(outcome, Ok(None)) {
        displaced.iter().try_for_each(|(_, old)| dir.remove_displaced(old))?;
    } else {
        unpublish(dir, stem, &digests, &published);
        for (kind, old) in displaced.iter().rev() {
            let is_outdated = match kind {
                KernelFileKind::Object => true,
                KernelFileKind::Json => placement.json.is_none(),
                KernelFileKind::Info => false,
            };
            match is_outdated {
                true => drop(dir.remove_displaced(old)),
                false => dir.restore(&old.name, &kind.of(stem)),
            }
        }
    }
    outcome
}

/// Gives the files of a kernel with these `digests` their names, which must all be free. If another program writes one
/// of the files meanwhile, its file stays, ours are removed, and the reason is returned.
pub fn publish_new(
    dir: &ViewDir,
    stem: &str,
    digests: &[Digest; 3],
    mut staged: Staged<'_>,
) -> Result<Option<LeftReason>, ViewError> {
    if let Some(file) = KernelFileKind::ALL.iter().map(|kind| kind.of(stem)).find(|name| dir.exists(name)) {
        return Ok(Some(LeftReason::Changed { file }));
    }
    let mut published = Vec::new();
    let outcome = publish_staged(dir, stem, digests, &mut staged, &mut published);
    if !matches!(outcome, Ok(None)) {
        unpublish(dir, stem, digests, &published);
    }
    outcome
}

/// Displaces our files that are to be replaced, the description first. Stops at a changed file, and returns the reason.
fn displace(
    dir: &ViewDir,
    kernel: &KernelFiles<'_>,
    placement: &Placement,
    displaced: &mut Vec<(KernelFileKind, OldFile)>,
) -> Result<Option<LeftReason>, ViewError> {
    for kind in [KernelFileKind::Json, KernelFileKind::Object, KernelFileKind::Info] {
        let Act::Replace { digest: ours, .. } = placement.acts[kind as usize] else { continue };
        let file = kind.of(kernel.stem);
        match dir.displace(&file, |digest: &Digest| *digest == ours)? {
            Displaced::Gone => {}
            Displaced::As(old) => displaced.push((kind, old)),
            Displaced::Other => return Ok(Some(LeftReason::Changed { file })),
        }
    }
    Ok(None)
}

/// Gives complete files their names, the description last, and only beside its object. Stops if another program wrote
/// one of the files, and returns the reason.
fn publish_staged(
    dir: &ViewDir,
    stem: &str,
    digests: &[Digest; 3],
    Staged(staged): &mut Staged<'_>,
    published: &mut Vec<(KernelFileKind, FileState)>,
) -> Result<Option<LeftReason>, ViewError> {
    let [file, description] = [KernelFileKind::Object, KernelFileKind::Json].map(|kind| kind.of(stem));
    let has_json = staged[KernelFileKind::Json as usize].is_some();
    let expected = digests[KernelFileKind::Object as usize];
    let has_object = || dir.digest(&file).is_ok_and(|(digest, _)| digest == expected);
    // This is the order of frameworks: readers look for the description, so the described files must be complete before
    // it.
    for kind in [KernelFileKind::Info, KernelFileKind::Object, KernelFileKind::Json] {
        if has_json && dir.exists(&description) {
            return Ok(Some(LeftReason::Changed { file: description }));
        }
        let Some(temp) = staged[kind as usize].take() else { continue };
        let name = kind.of(stem);
        if kind == KernelFileKind::Json && !has_object() {
            return Ok(Some(LeftReason::Changed { file }));
        }
        let identity = temp.state()?;
        if !temp.publish_new(&name)? {
            return Ok(Some(LeftReason::Changed { file: name }));
        }
        published.push((kind, identity));
        // Between the check and the rename, another program may have written the object.
        if kind == KernelFileKind::Json && !has_object() {
            return Ok(Some(LeftReason::Changed { file }));
        }
    }
    Ok(None)
}

/// Removes the `published` files of a kernel that could not be written completely.
fn unpublish(dir: &ViewDir, stem: &str, digests: &[Digest; 3], published: &[(KernelFileKind, FileState)]) {
    // Best effort: the next build settles the remaining files.
    for (kind, identity) in published.iter().rev() {
        let _ = dir.remove_published(&kind.of(stem), identity, &digests[*kind as usize]);
    }
}

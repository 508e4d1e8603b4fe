//! Writing a kernel's files: complete, in the one order in which no reader meets a `.json` before its `.o`, and never
//! over what another program wrote meanwhile.
//!
//! A name is taken only where it is free. What is to be replaced is renamed (*displaced*), compared, and only then
//! removed. The manifest is written and synced first, with the digest of what is replaced beside the new one, and with
//! the identity of the complete file that waits for the name: so after a kill, an equal file of another program is not
//! taken for ours. If another program writes one of the files meanwhile, what was published is removed again, if it is
//! still the same file, and displaced files are restored. Foreign files that were replaced stay in quarantine.
//!
//! No check closes the moment between it and the rename; each check is repeated after the rename.

use opkeep_digest::Digest;

use crate::displace::{Displaced, OldFile};
use crate::occupant::{Act, Placement};
use crate::view_dir::{StagedFile, ViewDir};
use crate::{KernelFileKind, KernelFiles, LeftReason, ViewError};
use opkeep_fs::FileState;

/// Complete files that wait for their names, by part.
#[derive(Debug)]
pub struct Staged<'a>([Option<StagedFile<'a>>; 3]);

impl<'a> Staged<'a> {
    /// The files of a kernel that has all three.
    pub fn of(files: [StagedFile<'a>; 3]) -> Self {
        Self(files.map(Some))
    }

    /// Brings the bytes to the disk.
    pub(crate) fn sync(&mut self) -> Result<(), ViewError> {
        self.0.iter_mut().flatten().try_for_each(StagedFile::sync)
    }

    /// Which files they are.
    pub fn identities(&self) -> Result<Vec<(KernelFileKind, FileState)>, ViewError> {
        let staged = KernelFileKind::ALL.into_iter().zip(&self.0);
        staged.filter_map(|(part, temp)| Some(temp.as_ref()?.state().map(|it| (part, it)))).collect()
    }
}

/// Writes the files that a kernel lacks under temporary names.
pub(crate) fn stage<'a>(
    dir: &'a ViewDir,
    kernel: &KernelFiles<'_>,
    placement: &Placement,
) -> Result<Staged<'a>, ViewError> {
    let mut staged = [None, None, None];
    for part in KernelFileKind::ALL.into_iter().filter(|part| placement.acts[*part as usize].writes()) {
        // MindSpore's additions to a description survive the loss of the object.
        let kept = placement.json.as_deref().filter(|_| part == KernelFileKind::Json);
        staged[part as usize] = Some(match kept {
            Some(kept) => dir.stage(kept)?,
            None => dir.stage(&kernel.load(part)?)?,
        });
    }
    Ok(Staged(staged))
}

/// Gives the files of a kernel their names, in place of ours. If another program wrote there meanwhile, its files stay, ours
/// return where they fit, and this returns the reason. Foreign files that were replaced stay in quarantine.
pub(crate) fn publish(
    dir: &ViewDir,
    kernel: &KernelFiles<'_>,
    placement: &Placement,
    mut staged: Staged<'_>,
) -> Result<Option<LeftReason>, ViewError> {
    let (mut displaced, mut published) = (Vec::new(), Vec::new());
    let mut outcome = displace(dir, kernel, placement, &mut displaced);
    let (stem, mut digests) = (kernel.stem, KernelFileKind::ALL.map(|part| kernel.content(part).digest()));
    if let Some(kept) = &placement.json {
        digests[KernelFileKind::Json as usize] = Digest::of(kept);
    }
    if matches!(outcome, Ok(None)) {
        outcome = publish_staged(dir, stem, &digests, &mut staged, &mut published);
    }
    if matches!(outcome, Ok(None)) {
        displaced.iter().try_for_each(|(_, old)| dir.remove_displaced(old))?;
    } else {
        take_back(dir, stem, &digests, &published, &displaced);
    }
    outcome
}

/// Gives the files of a kernel with these `digests` their names, all of which must be free. If another program writes there
/// meanwhile, its files stay, ours are removed, and this returns the reason.
pub fn publish_new(
    dir: &ViewDir,
    stem: &str,
    digests: &[Digest; 3],
    mut staged: Staged<'_>,
) -> Result<Option<LeftReason>, ViewError> {
    if let Some(file) = KernelFileKind::ALL.iter().map(|part| part.of(stem)).find(|name| dir.exists(name)) {
        return Ok(Some(LeftReason::Changed { file }));
    }
    let mut published = Vec::new();
    let outcome = publish_staged(dir, stem, digests, &mut staged, &mut published);
    if !matches!(outcome, Ok(None)) {
        take_back(dir, stem, digests, &published, &[]);
    }
    outcome
}

/// Displaces the files of ours that are replaced, the description first. Stops at one that was changed, and returns the
/// reason.
fn displace(
    dir: &ViewDir,
    kernel: &KernelFiles<'_>,
    placement: &Placement,
    displaced: &mut Vec<(KernelFileKind, OldFile)>,
) -> Result<Option<LeftReason>, ViewError> {
    for part in [KernelFileKind::Json, KernelFileKind::Object, KernelFileKind::Info] {
        let Act::Replace { digest: ours, .. } = placement.acts[part as usize] else { continue };
        let file = part.of(kernel.stem);
        match dir.displace(&file, |digest: &Digest| *digest == ours)? {
            Displaced::Gone => {}
            Displaced::As(old) => displaced.push((part, old)),
            Displaced::Other => return Ok(Some(LeftReason::Changed { file })),
        }
    }
    Ok(None)
}

/// Gives complete files their names, the description last, and only beside its object. Stops where another program wrote
/// one of them, and returns the reason.
fn publish_staged(
    dir: &ViewDir,
    stem: &str,
    digests: &[Digest; 3],
    Staged(staged): &mut Staged<'_>,
    published: &mut Vec<(KernelFileKind, FileState)>,
) -> Result<Option<LeftReason>, ViewError> {
    let [file, description] = [KernelFileKind::Object, KernelFileKind::Json].map(|part| part.of(stem));
    let has_json = staged[KernelFileKind::Json as usize].is_some();
    let expected = digests[KernelFileKind::Object as usize];
    let has_object = || dir.digest(&file).is_ok_and(|(digest, _)| digest == expected);
    // As frameworks write them: readers look for the description, so what it describes must be complete before it.
    for part in [KernelFileKind::Info, KernelFileKind::Object, KernelFileKind::Json] {
        if has_json && dir.exists(&description) {
            return Ok(Some(LeftReason::Changed { file: description }));
        }
        let Some(temp) = staged[part as usize].take() else { continue };
        let name = part.of(stem);
        if part == KernelFileKind::Json && !has_object() {
            return Ok(Some(LeftReason::Changed { file }));
        }
        let identity = temp.state()?;
        if !temp.publish_new(&name)? {
            return Ok(Some(LeftReason::Changed { file: name }));
        }
        published.push((part, identity));
        // Between the look and the rename, another program may have written the object.
        if part == KernelFileKind::Json && !has_object() {
            return Ok(Some(LeftReason::Changed { file }));
        }
    }
    Ok(None)
}

/// Removes the `published` files of a kernel that is not written after all, and restores the `displaced` ones.
fn take_back(
    dir: &ViewDir,
    stem: &str,
    digests: &[Digest; 3],
    published: &[(KernelFileKind, FileState)],
    displaced: &[(KernelFileKind, OldFile)],
) {
    // Best effort: the next build settles the rest.
    for (part, identity) in published.iter().rev() {
        let _ = dir.take_back(&part.of(stem), identity, &digests[*part as usize]);
    }
    for (part, old) in displaced.iter().rev() {
        dir.restore(&old.name, &part.of(stem));
    }
}

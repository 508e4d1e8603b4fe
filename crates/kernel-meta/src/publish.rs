//! Writing a kernel's files: whole, in the one order in which no reader meets a `.json` before its `.o`, and never over
//! what another program wrote meanwhile.

use opbuild_digest::Digest;

use crate::disk::{Folder, Temp};
use crate::displace::Displaced;
use crate::occupant::{Act, Placement};
use crate::{KernelFiles, LeftReason, Part, ViewError};

/// Complete files that wait for their names, by part.
pub(crate) struct Staged<'a>([Option<Temp<'a>>; 3]);

impl Staged<'_> {
    /// Brings the bytes to the disk.
    pub(crate) fn sync(&self) -> Result<(), ViewError> {
        self.0.iter().flatten().try_for_each(Temp::sync)
    }
}

/// Writes the files that a kernel lacks under temporary names.
pub(crate) fn stage<'a>(
    folder: &'a Folder,
    kernel: &KernelFiles<'_>,
    placement: &Placement,
) -> Result<Staged<'a>, ViewError> {
    let mut staged = [None, None, None];
    for part in Part::ALL.into_iter().filter(|part| placement.acts[*part as usize].writes()) {
        // What MindSpore added to a description survives the loss of the object.
        let kept = placement.json.as_deref().filter(|_| part == Part::Json);
        staged[part as usize] = Some(match kept {
            Some(kept) => folder.stage(kept)?,
            None => folder.stage(&kernel.load(part)?)?,
        });
    }
    Ok(Staged(staged))
}

/// Gives the files of a kernel their names, in place of ours. If another program wrote there meanwhile, its files stay, and
/// so do those that were there before; this returns the reason.
pub(crate) fn publish(
    folder: &Folder,
    kernel: &KernelFiles<'_>,
    placement: &Placement,
    staged: Staged<'_>,
) -> Result<Option<LeftReason>, ViewError> {
    let mut displaced = Vec::new();
    for part in [Part::Json, Part::Object, Part::Info] {
        let Act::Replace { digest: ours, .. } = placement.acts[part as usize] else { continue };
        let name = part.of(kernel.stem);
        match folder.displace(&name, |digest: &Digest| *digest == ours)? {
            Displaced::Gone => {}
            Displaced::As(old) => displaced.push((part, old)),
            Displaced::Other => {
                take_back(folder, kernel, placement, &[], &displaced);
                return Ok(Some(LeftReason::Changed { file: name }));
            }
        }
    }
    let mut published = Vec::new();
    let outcome = publish_staged(kernel, staged, &mut published);
    if matches!(outcome, Ok(None)) {
        displaced.iter().try_for_each(|(_, old)| folder.unlink(old))?;
    } else {
        take_back(folder, kernel, placement, &published, &displaced);
    }
    outcome
}

/// Gives complete files their names, the description last. Stops at a name that was taken, and returns the reason.
fn publish_staged(
    kernel: &KernelFiles<'_>,
    Staged([object, json, info]): Staged<'_>,
    published: &mut Vec<Part>,
) -> Result<Option<LeftReason>, ViewError> {
    for (part, temp) in [(Part::Object, object), (Part::Info, info), (Part::Json, json)] {
        let Some(temp) = temp else { continue };
        let file = part.of(kernel.stem);
        if !temp.publish_new(&file)? {
            return Ok(Some(LeftReason::Changed { file }));
        }
        published.push(part);
    }
    Ok(None)
}

/// Removes the `published` files of a kernel that is not written after all, and restores the `displaced` ones. Our old
/// description is restored only with its object: it must not stand beside one that another program wrote.
fn take_back(
    folder: &Folder,
    kernel: &KernelFiles<'_>,
    placement: &Placement,
    published: &[Part],
    displaced: &[(Part, String)],
) {
    // Best effort: the next build settles the rest.
    for part in published.iter().rev() {
        let ours = kernel.content(*part).digest();
        let _ = folder.remove_if(&part.of(kernel.stem), |digest| *digest == ours);
    }
    let stays = matches!(placement.acts[Part::Object as usize], Act::Keep { .. } | Act::Vouched);
    let mut is_object_ours = stays || !folder.exists(&Part::Object.of(kernel.stem));
    for (part, old) in displaced.iter().rev() {
        if *part == Part::Json && !is_object_ours && !placement.adopted[Part::Json as usize] {
            let _ = folder.unlink(old);
            continue;
        }
        folder.restore(old, &part.of(kernel.stem));
        if *part == Part::Object {
            // It is still displaced if another program took its name.
            is_object_ours = !folder.exists(old);
        }
    }
}

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

/// Gives the files of a kernel their names, in place of what is ours. If another program wrote there meanwhile, its files
/// stay, and this says so.
pub(crate) fn publish(
    folder: &Folder,
    stem: &str,
    placement: &Placement,
    staged: Staged<'_>,
) -> Result<Option<LeftReason>, ViewError> {
    let mut displaced = Vec::new();
    for part in [Part::Json, Part::Object, Part::Info] {
        let Act::Replace { digest: ours, .. } = placement.acts[part as usize] else { continue };
        let name = part.of(stem);
        match folder.displace(&name, |digest: &Digest| *digest == ours)? {
            Displaced::Gone => {}
            Displaced::As(old) => displaced.push((part, old, name)),
            Displaced::Other => {
                displaced.iter().rev().for_each(|(_, old, name)| folder.restore(old, name));
                return Ok(Some(LeftReason::Changed { file: name }));
            }
        }
    }
    let Staged([object, json, info]) = staged;
    let mut left = None;
    for (part, temp) in [(Part::Object, object), (Part::Info, info), (Part::Json, json)] {
        let Some(temp) = temp else { continue };
        let name = part.of(stem);
        if !temp.publish_new(&name)? {
            left = Some(LeftReason::Changed { file: name });
            break;
        }
    }
    for (part, old, name) in displaced {
        match left.is_some() && placement.adopted[part as usize] {
            // Adopted: it was there before this build, which now leaves the kernel as it is.
            true => folder.restore(&old, &name),
            // We wrote it, or its replacement is published.
            false => folder.unlink(&old)?,
        }
    }
    Ok(left)
}

//! The comparison of a kernel's target with the chip that its descriptor or directory names.
//!
//! An object names its machine, and in `e_flags` its cores. The descriptor, or the directory, names the chip that is to
//! run the kernel. If both are known and differ, the framework would launch a kernel that cannot run: before MindSpore
//! r2.1, kernel names do not depend on the chip.
//!
//! If neither names the chip, a kernel is compared with the other kernels of the directory: with those whose
//! descriptors name a chip, or, if there are none, with the majority. A kernel with unknown flags is never refused.
//!
//! A kernel for another chip is an error of verification, is not imported, and is not copied to ranks. It runs on its
//! own chip, so it is not damaged, and no repair moves it. If a view wrote the kernel, by its manifest, the user
//! requested it; it only gets a note, and only if another program changed it since.

use std::collections::BTreeMap;

use crate::scan::behavior;
use crate::scan::cache_dir::{CacheDir, Kind};
use crate::scan::chip::{Built, Chip, Claim, Group, NamedBy, OtherChip};
use crate::scan::extract::own_objects;
use crate::scan::item::{Item, ItemState, Note};
use opkeep_cann_meta::Family;
use opkeep_fs::Dir;

/// A kernel that is compared with the others of its directory. A fat binary is one candidate for each group of its
/// objects.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// The index of the kernel among the items.
    at: usize,
    found: Built,
    group: Group,
    /// Whether the descriptor names the chip of the object.
    is_named: bool,
}

/// Compares the kernels of one directory with the chip that is named for them. A kernel for another chip is refused;
/// one that a view wrote only gets a note.
pub(crate) fn compare(dir: &Dir, cache: &CacheDir, items: &mut [Item]) {
    note_unknown(cache.soc.as_deref(), items);
    let for_other_chips = kernels_for_other_chips(cache.soc.as_deref(), items);
    let mut candidates = candidates(cache, items);
    let is_mixed = candidates.windows(2).any(|pair| pair[0].group != pair[1].group);
    if for_other_chips.is_empty() && !is_mixed {
        return;
    }
    let own_objects = own_objects(dir);
    let is_ours =
        |item: &Item| item.kernel.is_some_and(|kernel| own_objects.get(&item.name) == Some(&kernel.sha256));
    candidates.retain(|candidate| !is_ours(&items[candidate.at]));
    let differing_kernels = differing(&candidates);
    for (at, other) in for_other_chips {
        match is_ours(&items[at]) {
            true => items[at].notes.push(Note::OwnOtherChip(other)),
            false => set_other_chip(dir, cache.kind, &mut items[at], other),
        }
    }
    for (Candidate { at, found, is_named, .. }, among) in differing_kernels {
        let other = OtherChip { found, named_by: NamedBy::Others(among) };
        match is_named {
            true => items[at].notes.push(Note::OtherChip(other)),
            false => set_other_chip(dir, cache.kind, &mut items[at], other),
        }
    }
}

/// Adds a note to kernels whose descriptors, or whose directory with its chip `soc`, name an unknown chip. Such kernels
/// are still compared with the others of the directory.
fn note_unknown(soc: Option<&str>, items: &mut [Item]) {
    for item in items {
        let Some(Chip { objects, claim }) = &item.chip else { continue };
        let is_unjudged = |soc: &str| objects.iter().any(|built| built.is_unjudged_on(soc));
        let unknown = match (claim, soc) {
            (Claim::Unknown(chip), _) => Some(chip.clone()),
            (Claim::None, Some(soc)) if is_unjudged(soc) => Some(soc.to_owned()),
            _ => None,
        };
        item.notes.extend(unknown.map(|chip| Note::UnknownChip { chip }));
    }
}

/// Returns the kernels that are for another chip than their descriptors, or their directory with its chip `soc`, name.
fn kernels_for_other_chips(soc: Option<&str>, items: &[Item]) -> Vec<(usize, OtherChip)> {
    let other = |(at, item): (usize, &Item)| {
        let chip = item.chip.as_ref()?;
        let (found, named_by) = match (&chip.claim, soc) {
            (Claim::Other(named), _) => (chip.other_than(named)?, NamedBy::Descriptor(named.clone())),
            (_, Some(soc)) => (chip.other_than(soc)?, NamedBy::Directory(soc.to_owned())),
            _ => return None,
        };
        Some((at, OtherChip { found, named_by }))
    };
    items.iter().enumerate().filter_map(other).collect()
}

/// Returns the kernels that are compared with each other. In AKG's directory, which several backends share, these are
/// the kernels for Ascend.
fn candidates(cache: &CacheDir, items: &[Item]) -> Vec<Candidate> {
    if cache.soc.as_deref().is_some_and(|soc| Family::of_target(soc).is_some()) {
        return Vec::new();
    }
    let counts = |built: &Built| cache.kind != Kind::Akg || built.is_ascend();
    let mut candidates: Vec<Candidate> = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let Some(Chip { objects, claim }) = &item.chip else { continue };
        let objects = objects.iter().filter(|built| counts(built) && !matches!(claim, Claim::Other(_)));
        for (found, group) in objects.filter_map(|built| Some((*built, built.group()?))) {
            if !candidates.iter().rev().take_while(|it| it.at == at).any(|it| it.group == group) {
                candidates.push(Candidate { at, found, group, is_named: *claim == Claim::Fits });
            }
        }
    }
    candidates
}

/// Returns the kernels that differ from the others, each with the numbers of kernels by target. The reference is the
/// target that a descriptor confirms; if none does, the majority; without a majority, all kernels differ. A kernel
/// whose descriptor confirms its target is only compared with the majority.
fn differing(candidates: &[Candidate]) -> Vec<(Candidate, String)> {
    let mut counts: BTreeMap<Group, usize> = BTreeMap::new();
    candidates.iter().for_each(|candidate| *counts.entry(candidate.group).or_default() += 1);
    if counts.len() < 2 {
        return Vec::new();
    }
    let mut reference: Vec<Group> =
        candidates.iter().filter(|candidate| candidate.is_named).map(|candidate| candidate.group).collect();
    let most = counts.iter().find(|(_, count)| **count * 2 > candidates.len()).map(|(group, _)| *group);
    if reference.is_empty() {
        reference.extend(most);
    }
    let among: Vec<String> = counts.iter().map(|(group, count)| format!("{count} for {group}")).collect();
    let among = among.join(", ");
    let differs = |candidate: &&Candidate| match candidate.is_named {
        true => most.is_some_and(|most| most != candidate.group),
        false => !reference.contains(&candidate.group),
    };
    candidates.iter().filter(differs).map(|candidate| (*candidate, among.clone())).collect()
}

fn set_other_chip(dir: &Dir, kind: Kind, item: &mut Item, other: OtherChip) {
    item.state = ItemState::OtherChip(other);
    item.kernel = None;
    behavior::update(kind, item);
    item.record_states(dir);
}

#[cfg(test)]
mod tests {
    use opkeep_cann_meta::targets;
    use opkeep_validator::Machine;

    use super::*;

    const ASCEND: Machine = Machine(targets::ASCEND);
    const B: Built = Built { machine: ASCEND, family: Some(Family::Ascend910B), flags: 0x93_0000 };

    #[test]
    fn differing_kernels_are_those_that_no_descriptor_confirms() {
        use Group::{Chips, Hosts};
        let (a, b, x) = (Chips(Family::Ascend910), Chips(Family::Ascend910B), Hosts(62));
        let differing_kernels = |kernels: &[(Group, bool)]| {
            let of = |(at, &(group, is_named))| Candidate { at, found: B, group, is_named };
            let candidates: Vec<Candidate> = kernels.iter().enumerate().map(of).collect();
            differing(&candidates).into_iter().map(|(candidate, _)| candidate.at).collect::<Vec<_>>()
        };
        for (kernels, expected) in [
            (&[(a, false), (a, false)][..], &[][..]),
            (&[(a, false), (b, false), (a, false)], &[1]),
            (&[(a, false), (b, false)], &[0, 1]),
            (&[(a, true), (b, false)], &[1]),
            (&[(a, true), (b, false), (b, false)], &[0, 1, 2]),
            (&[(a, true), (b, true)], &[]),
            (&[(a, true), (b, true), (b, false)], &[0]),
            (&[(a, false), (b, false), (x, false), (x, false)], &[0, 1, 2, 3]),
        ] {
            assert_eq!(differing_kernels(kernels), expected, "{kernels:?}");
        }
    }
}

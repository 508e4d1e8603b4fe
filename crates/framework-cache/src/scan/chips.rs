//! For which chip kernels were compiled, against what stands beside them.
//!
//! An object names its machine, and in `e_flags` its cores. Its descriptor, or the directory, names the chip that is to
//! run it. Where both are known and differ, the framework would launch a kernel that cannot run there: names have no chip
//! in them before MindSpore r2.1. Such a kernel is not damaged, only in the wrong place, so no repair moves it.
//!
//! Where nothing names the chip, kernels are compared with the others of the directory: with those whose descriptor
//! names one, else with most of them. Flags that were never seen are no reason to refuse anything.

use std::collections::BTreeMap;
use std::fmt;

use opkeep_cann_meta::{Family, Magic, Word, targets};
use opkeep_descriptor::read_info;
use opkeep_validator::{ElfFacts, Machine, Report};

use crate::scan::outcome;
use crate::scan::place::{Kind, Place};
use crate::scan::take::ours;
use crate::scan::verdict::{Item, Note, Verdict};
use opkeep_fs::Dir;

/// For what an object was compiled, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Built {
    /// Its machine.
    pub machine: Machine,
    /// Its chips, if they are known.
    pub family: Option<Family>,
    /// Its `e_flags`.
    pub flags: u32,
}

/// A kernel that is for another chip than what stands beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherChip {
    /// For what it was compiled.
    pub found: Built,
    /// What names another chip.
    pub named_by: NamedBy,
}

/// What names the chip that a kernel is to run on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NamedBy {
    /// Its descriptor, and which chip.
    Descriptor(String),
    /// Its directory, and which chip.
    Directory(String),
    /// The other kernels of its directory: how many there are of each kind.
    Others(String),
}

/// What the descriptor beside a kernel says of its chip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Nothing, or nothing that is known.
    #[default]
    None,
    /// The chip that its object is for.
    Fits,
    /// Another one.
    Other(String),
    /// A chip of which no family is known.
    Unknown(String),
}

/// What is known of the chip of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chip {
    /// For what each of its objects was compiled, in the order of the file, each kind once: a fat binary has several.
    objects: Vec<Built>,
    claim: Claim,
}

/// Kernels that run on the same machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Chips(Family),
    Hosts(u16),
}

impl Built {
    /// For what the object with these facts was compiled.
    pub fn of(facts: &ElfFacts) -> Self {
        Self { machine: facts.machine, family: facts.family, flags: facts.flags }
    }

    /// Whether the target called `target` runs it: none if that is not known.
    pub fn runs_on(self, target: &str) -> Option<bool> {
        // As AKG names hosts.
        match target {
            "x86_64" => return Some(self.machine.0 == targets::X86_64),
            "aarch64" => return Some(self.machine.0 == targets::AARCH64),
            _ => {}
        }
        let expect = targets::named(target)?;
        if !expect.elf()?.machines.contains(&self.machine.0) {
            return Some(false);
        }
        Some(self.family? == Family::of_target(target)?)
    }

    /// Whether it is for Ascend chips, and nothing is known of the one called `target`.
    fn is_unjudged_on(self, target: &str) -> bool {
        self.is_ascend() && self.runs_on(target).is_none() && Family::of_target(target).is_none()
    }

    fn is_ascend(self) -> bool {
        self.machine.0 == targets::ASCEND
    }

    fn group(self) -> Option<Group> {
        match self.family {
            Some(family) => Some(Group::Chips(family)),
            None => (!self.is_ascend()).then_some(Group::Hosts(self.machine.0)),
        }
    }
}

impl fmt::Display for Built {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, family, flags } = self;
        match family {
            Some(family) => write!(f, "{family} (e_flags {flags:#x})"),
            None if self.is_ascend() => write!(f, "Ascend chips with e_flags {flags:#x}"),
            None => match machine.name() {
                Some(name) => f.write_str(name),
                None => write!(f, "{machine}"),
            },
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chips(family) => write!(f, "{family}"),
            Self::Hosts(machine) => {
                write!(f, "{}", Built { machine: Machine(*machine), family: None, flags: 0 })
            }
        }
    }
}

impl fmt::Display for OtherChip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { found, named_by } = self;
        write!(f, "the object is for {found}, ")?;
        match named_by {
            NamedBy::Descriptor(chip) => write!(f, "but its descriptor names {chip}"),
            NamedBy::Directory(chip) => write!(f, "but its directory is that of {chip}"),
            NamedBy::Others(others) => write!(f, "and the directory has {others}"),
        }
    }
}

impl Chip {
    /// What is known of a kernel of the framework, if it is one of which it matters: AI CPUs are beside all chips.
    pub(crate) fn of(report: &Report) -> Option<Self> {
        let magic = report.meta.as_ref().and_then(|meta| meta.magic.as_ref());
        let is_aicpu = matches!(magic.and_then(Word::known), Some(Magic::ElfAicpu | Magic::PlainAicpu));
        report.object.as_ref().filter(|_| !is_aicpu)?;
        let mut objects: Vec<Built> = Vec::new();
        for built in report.object.iter().chain(&report.others).map(Built::of) {
            if !objects.contains(&built) {
                objects.push(built);
            }
        }
        Some(Self { objects, claim: Claim::None })
    }

    /// Takes what the descriptor `info` says.
    pub(crate) fn described(&mut self, info: &[u8]) {
        self.claim = claim(&self.objects, info);
    }

    /// The first object that the target called `target` does not run.
    fn other_than(&self, target: &str) -> Option<Built> {
        self.objects.iter().copied().find(|built| built.runs_on(target) == Some(false))
    }
}

/// The chip that the descriptor `info` names, of any generation, if the kernel that was judged cannot run there, or if that
/// cannot be judged.
pub fn named_otherwise(report: &Report, info: &[u8]) -> Option<String> {
    match claim(&Chip::of(report)?.objects, info) {
        Claim::Other(target) | Claim::Unknown(target) => Some(target),
        Claim::None | Claim::Fits => None,
    }
}

/// What the descriptor `info`, of any generation, says of the chip of these objects.
fn claim(objects: &[Built], info: &[u8]) -> Claim {
    // To read all of a descriptor takes longer than all the rest. Where every chip that it may name fits, it does.
    let runs = |name: &str| objects.iter().map(|built| built.runs_on(name)).collect::<Vec<_>>();
    let is_unjudged = |name: &str| objects.iter().any(|built| built.is_unjudged_on(name));
    let names: Vec<&str> = quick_names(info).collect();
    let fits: Vec<Option<bool>> = names.iter().flat_map(|name| runs(name)).collect();
    let may_fit = fits.iter().all(|fits| *fits != Some(false)) && !names.iter().any(|name| is_unjudged(name));
    if !fits.is_empty() && may_fit {
        return if fits.contains(&Some(true)) { Claim::Fits } else { Claim::None };
    }
    let Ok(descriptor) = read_info(info) else { return Claim::None };
    let target = descriptor.spec.target;
    let fits = runs(&target);
    match () {
        () if fits.contains(&Some(false)) => Claim::Other(target),
        // A descriptor may name no chip at all.
        () if is_unjudged(&target) && (!target.is_empty() || names.contains(&"")) => Claim::Unknown(target),
        () if fits.contains(&Some(true)) => Claim::Fits,
        () => Claim::None,
    }
}

/// Every text in `info` behind a name by which descriptors name chips.
fn quick_names(info: &[u8]) -> impl Iterator<Item = &str> {
    const NAMES: [&[u8]; 2] = [b"\"socVersion\"", b"\"arch\""];
    let quotes = info.iter().enumerate().filter(|(_, byte)| **byte == b'"').map(|(at, _)| at);
    quotes.filter_map(|at| {
        let rest = NAMES.iter().find_map(|name| info[at..].strip_prefix(*name))?;
        let value = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
        let end = value.iter().position(|byte| *byte == b'"')?;
        std::str::from_utf8(&value[..end]).ok()
    })
}

/// A kernel whose directory may have kernels for other chips; of one with several objects, those of one group.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// Its place among the items.
    at: usize,
    found: Built,
    group: Group,
    /// Its descriptor names its chip.
    is_named: bool,
}

/// Compares the kernels of one directory with what names their chip. Those that are for another one are refused; what we
/// put there on purpose is only noted.
pub(crate) fn compare(dir: &Dir, place: &Place, items: &mut [Item]) {
    note_unknown(place.soc.as_deref(), items);
    let others = others_named(place.soc.as_deref(), items);
    let mut candidates = candidates(place, items);
    let is_mixed = candidates.windows(2).any(|pair| pair[0].group != pair[1].group);
    if others.is_empty() && !is_mixed {
        return;
    }
    let ours = ours(dir);
    let is_ours =
        |item: &Item| item.kernel.is_some_and(|kernel| ours.get(&item.name) == Some(&kernel.sha256));
    candidates.retain(|candidate| !is_ours(&items[candidate.at]));
    let odd = odd_ones(&candidates);
    for (at, other) in others {
        match is_ours(&items[at]) {
            true => items[at].notes.push(Note::OwnOtherChip(other)),
            false => refuse(dir, place.kind, &mut items[at], other),
        }
    }
    for (Candidate { at, found, is_named, .. }, among) in odd {
        let other = OtherChip { found, named_by: NamedBy::Others(among) };
        match is_named {
            true => items[at].notes.push(Note::OtherChip(other)),
            false => refuse(dir, place.kind, &mut items[at], other),
        }
    }
}

/// Notes which kernels cannot be compared with what names their chip: their descriptor, or their directory that is for
/// `soc`. They are compared with the other kernels there all the same.
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

/// The kernels that their descriptors, or their directory that is for `soc`, say to be for another chip.
fn others_named(soc: Option<&str>, items: &[Item]) -> Vec<(usize, OtherChip)> {
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

/// The kernels that are compared with each other: in AKG's directory, which several backends share, those for Ascend.
fn candidates(place: &Place, items: &[Item]) -> Vec<Candidate> {
    if place.soc.as_deref().is_some_and(|soc| Family::of_target(soc).is_some()) {
        return Vec::new();
    }
    let counts = |built: &Built| place.kind != Kind::Akg || built.is_ascend();
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

/// Those that are not as the others are, each with what there is in the directory. As the others are is what a descriptor
/// confirms; where none does, what most of them are; and where that is undecided, none is.
fn odd_ones(candidates: &[Candidate]) -> Vec<(Candidate, String)> {
    let mut counts: BTreeMap<Group, usize> = BTreeMap::new();
    candidates.iter().for_each(|candidate| *counts.entry(candidate.group).or_default() += 1);
    if counts.len() < 2 {
        return Vec::new();
    }
    let mut usual: Vec<Group> =
        candidates.iter().filter(|candidate| candidate.is_named).map(|candidate| candidate.group).collect();
    let most = counts.iter().find(|(_, count)| **count * 2 > candidates.len()).map(|(group, _)| *group);
    if usual.is_empty() {
        usual.extend(most);
    }
    let among: Vec<String> = counts.iter().map(|(group, count)| format!("{count} for {group}")).collect();
    let among = among.join(", ");
    let is_odd = |candidate: &&Candidate| match candidate.is_named {
        true => most.is_some_and(|most| most != candidate.group),
        false => !usual.contains(&candidate.group),
    };
    candidates.iter().filter(is_odd).map(|candidate| (*candidate, among.clone())).collect()
}

fn refuse(dir: &Dir, kind: Kind, item: &mut Item, other: OtherChip) {
    item.verdict = Verdict::OtherChip(other);
    item.kernel = None;
    item.outcome = outcome::of(kind, item.what, &item.name, &item.verdict, &item.notes, item.members);
    item.seen = item.files().into_iter().map(|file| (file.clone(), dir.file_state(&file))).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASCEND: Machine = Machine(targets::ASCEND);
    const B: Built = Built { machine: ASCEND, family: Some(Family::Ascend910B), flags: 0x93_0000 };

    #[test]
    fn a_descriptor_is_read_only_where_it_may_name_another_chip() {
        let of = |text: &str| claim(&[B], text.as_bytes());
        // Cut off behind the name, so that reading all of it would fail.
        assert_eq!(of(r#"{"SocInfo": {"socVersion" : "Ascend910B2", "#), Claim::Fits);
        assert_eq!(of(r#"{"target_info": {"arch":"Ascend910B2"}, "#), Claim::Fits);
        for unknown in [r#"{"socVersion": "Ascend999", "#, r#"{"socVersion": "Ascend910A", "#, "{}", ""] {
            assert_eq!(of(unknown), Claim::None, "{unknown}");
        }
        let info = include_str!("../../../../fixtures/mindspore/square_12484080525657478220_2.info");
        for chip in ["Ascend910B9", "Ascend910C", "AscendXYZ", "310P3", "", "Ascend310"] {
            assert_eq!(of(&info.replace("Ascend910A", chip)), Claim::Unknown(chip.to_owned()), "{chip}");
        }
    }

    #[test]
    fn only_what_is_known_of_both_is_compared() {
        let unknown = Built { family: None, flags: 0x9a_0000, ..B };
        let host = Built { machine: Machine(62), family: None, flags: 0 };
        for (built, target, runs) in [
            (B, "Ascend910B4", Some(true)),
            (B, "Ascend910A", Some(false)),
            (B, "Ascend610", None),
            (B, "somewhere", None),
            (unknown, "Ascend910A", None),
            (host, "Ascend910A", Some(false)),
            (host, "cpu-x86_64", None),
            (host, "x86_64", Some(true)),
            (B, "x86_64", Some(false)),
            (host, "aarch64", Some(false)),
        ] {
            assert_eq!(built.runs_on(target), runs, "{built} on {target}");
        }
    }

    #[test]
    fn the_odd_ones_are_those_that_nothing_confirms() {
        use Group::{Chips, Hosts};
        let (a, b, x) = (Chips(Family::Ascend910), Chips(Family::Ascend910B), Hosts(62));
        let odd = |kernels: &[(Group, bool)]| {
            let of = |(at, &(group, is_named))| Candidate { at, found: B, group, is_named };
            let candidates: Vec<Candidate> = kernels.iter().enumerate().map(of).collect();
            odd_ones(&candidates).into_iter().map(|(candidate, _)| candidate.at).collect::<Vec<_>>()
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
            assert_eq!(odd(kernels), expected, "{kernels:?}");
        }
    }
}

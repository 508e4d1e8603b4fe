//! The chip that a kernel was compiled for, and the chip that its descriptor names.

use std::fmt;

use opkeep_cann_meta::{Family, Magic, Word, targets};
use opkeep_descriptor::read_info;
use opkeep_validator::{ElfFacts, Machine, Report};

/// The target of an object, from its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Built {
    /// The machine of the object.
    pub machine: Machine,
    /// The chips that run the object, if known.
    pub family: Option<Family>,
    /// The `e_flags` of the object.
    pub flags: u32,
}

/// The mismatch of a kernel that is for another chip than the one named in its descriptor or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherChip {
    /// The target of the kernel's object.
    pub found: Built,
    /// The origin of the other chip's name, with the name.
    pub named_by: NamedBy,
}

/// The source that names the chip that is to run a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NamedBy {
    /// The kernel's descriptor names this chip.
    Descriptor(String),
    /// The kernel's directory names this chip.
    Directory(String),
    /// The other kernels of the directory are for other chips; with the number of kernels for each target.
    Others(String),
}

/// The comparison of the chip that a descriptor names with a kernel's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The descriptor names no chip, or one that cannot be compared.
    #[default]
    None,
    /// The descriptor names the chip of the object.
    Fits,
    /// The descriptor names this other chip.
    Other(String),
    /// The descriptor names this chip, whose family is unknown.
    Unknown(String),
}

/// The known facts about a kernel's chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chip {
    /// The different targets of the objects, in the order of the file: a fat binary has several.
    pub(crate) objects: Vec<Built>,
    pub(crate) claim: Claim,
}

/// A group of targets whose kernels run on the same machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    Chips(Family),
    Hosts(u16),
}

impl Built {
    /// Returns the target of the object with these facts.
    pub fn of(facts: &ElfFacts) -> Self {
        Self { machine: facts.machine, family: facts.family, flags: facts.flags }
    }

    /// Returns whether the target called `target` runs the object; `None` if that is unknown.
    pub fn runs_on(self, target: &str) -> Option<bool> {
        // AKG uses these names of hosts.
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

    /// Returns whether the object is for Ascend chips, and the target called `target` is unknown.
    pub(crate) fn is_unjudged_on(self, target: &str) -> bool {
        self.is_ascend() && self.runs_on(target).is_none() && Family::of_target(target).is_none()
    }

    pub(crate) fn is_ascend(self) -> bool {
        self.machine.0 == targets::ASCEND
    }

    pub(crate) fn group(self) -> Option<Group> {
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
    /// Returns the facts about a kernel's chip; `None` if the chip does not matter, since every chip has AI CPUs.
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

    /// Sets `claim` from the descriptor `info`.
    pub(crate) fn set_claim(&mut self, info: &[u8]) {
        self.claim = claim(&self.objects, info);
    }

    /// Returns the first object that the target called `target` does not run.
    pub(crate) fn other_than(&self, target: &str) -> Option<Built> {
        self.objects.iter().copied().find(|built| built.runs_on(target) == Some(false))
    }
}

/// Returns the chip that a descriptor of any generation names, if the kernel cannot run on it, or if that is unknown.
pub(crate) fn named_otherwise(report: &Report, info: &[u8]) -> Option<String> {
    match claim(&Chip::of(report)?.objects, info) {
        Claim::Other(target) | Claim::Unknown(target) => Some(target),
        Claim::None | Claim::Fits => None,
    }
}

/// Returns the statement of a descriptor of any generation about the chip of these objects.
fn claim(objects: &[Built], info: &[u8]) -> Claim {
    // Parsing a whole descriptor takes longest. It is not parsed if every chip that it may name fits.
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
        // A descriptor without a chip is valid.
        () if is_unjudged(&target) && (!target.is_empty() || names.contains(&"")) => Claim::Unknown(target),
        () if fits.contains(&Some(true)) => Claim::Fits,
        () => Claim::None,
    }
}

/// Returns the value of every field in `info` that may name a chip.
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

#[cfg(test)]
mod tests {
    use super::*;

    const ASCEND: Machine = Machine(targets::ASCEND);
    const B: Built = Built { machine: ASCEND, family: Some(Family::Ascend910B), flags: 0x93_0000 };

    #[test]
    fn a_descriptor_is_read_only_where_it_may_name_another_chip() {
        let of = |text: &str| claim(&[B], text.as_bytes());
        // The text is truncated after the name, so parsing it as a whole would fail.
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
    fn only_fields_known_for_both_are_compared() {
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
}

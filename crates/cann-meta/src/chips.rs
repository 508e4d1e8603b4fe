//! Chips by the header of an object and by name.

use std::fmt;

use opkeep_artifact::Expectations;

use crate::Magic;
use crate::targets::{self, ANY_ASCEND, ASCEND};

/// The cores that an Ascend object is compiled for, by bits 16 to 23 of its `e_flags`.
///
/// Only numbers from genuine objects have names. Objects of the first generation have 0, which names no cores. The
/// meaning of other numbers is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Architecture {
    /// 0x8a: Ascend 310P.
    M200,
    /// 0x93: the vector cores of Ascend 910B and 910_93.
    C220Vector,
    /// 0x94: the cube cores of Ascend 910B and 910_93; also kernels of both kinds of core.
    C220Cube,
    /// 0x95: Ascend 310B.
    M300,
    /// 0x99: the vector cores of Ascend 950.
    C310,
}

impl Architecture {
    /// The cores in the `e_flags` of an object for `machine`; `None` if unknown.
    pub const fn from_flags(machine: u16, flags: u32) -> Option<Self> {
        match (machine, flags >> 16) {
            (0x1029, 0x8a) => Some(Self::M200),
            (0x1029, 0x93) => Some(Self::C220Vector),
            (0x1029, 0x94) => Some(Self::C220Cube),
            (0x1029, 0x95) => Some(Self::M300),
            (0x1029, 0x99) => Some(Self::C310),
            _ => None,
        }
    }

    /// The compiler's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::M200 => "dav-m200",
            Self::C220Vector => "dav-c220-vec",
            Self::C220Cube => "dav-c220-cube",
            Self::M300 => "dav-m300",
            Self::C310 => "dav-c310",
        }
    }

    /// The magic of kernels for the other kind of core, where a chip has two kinds.
    pub const fn excluded_magic(self) -> Option<Magic> {
        match self {
            Self::C220Vector => Some(Magic::ElfAicube),
            Self::C220Cube => Some(Magic::ElfAivec),
            Self::M200 | Self::M300 | Self::C310 => None,
        }
    }

    /// The chips that have such cores.
    pub const fn family(self) -> Family {
        match self {
            Self::M200 => Family::Ascend310P,
            Self::C220Vector | Self::C220Cube => Family::Ascend910B,
            Self::M300 => Family::Ascend310B,
            Self::C310 => Family::Ascend950,
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Chips that run each other's kernels, and no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Family {
    /// The first generation: Ascend 910A, 910ProA, 910ProB, 910PremiumA, and 910B without a further digit.
    Ascend910,
    /// Ascend 310P1 to 310P7.
    Ascend310P,
    /// Ascend 310B1 to 310B4, AS31XM1X.
    Ascend310B,
    /// Ascend 910B1 to 910B4, and 910_93.
    Ascend910B,
    /// Ascend 950, which CANN 8 called 910_95.
    Ascend950,
}

/// The allowed suffixes of a chip's name.
#[derive(Clone, Copy, Debug)]
enum Rest {
    /// Nothing.
    Nothing,
    /// Nothing (in names of packages), or a digit up to this one that no digit follows: `1`, `3Vir04`, `4-1`.
    Upto(u8),
    /// A digit up to this one that no digit follows.
    Digit(u8),
    /// Nothing, or exactly this number of digits.
    Digits(usize),
    /// Nothing, or `PR` or `DT` and a number: `PR_9599`.
    Variant,
}

impl Rest {
    fn allows(self, rest: &str) -> bool {
        let is_word =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        let is_digit = |last: u8| {
            let mut bytes = rest.bytes();
            bytes.next().is_some_and(|digit| (b'1'..=b'0' + last).contains(&digit))
                && !bytes.next().is_some_and(|next| next.is_ascii_digit())
                && is_word(rest)
        };
        match self {
            Self::Nothing => rest.is_empty(),
            Self::Upto(last) => rest.is_empty() || is_digit(last),
            Self::Digit(last) => is_digit(last),
            Self::Digits(number) => {
                rest.is_empty() || rest.len() == number && rest.bytes().all(|byte| byte.is_ascii_digit())
            }
            Self::Variant => {
                let kind = rest.strip_prefix("pr").or_else(|| rest.strip_prefix("dt"));
                rest.is_empty()
                    || kind.is_some_and(|rest| rest.is_empty() || rest.starts_with('_') && is_word(rest))
            }
        }
    }
}

/// Lower-case chip names from CANN's `platform_config` and from directories of packages, with their families.
const NAMES: [(&str, Rest, Family); 12] = [
    ("ascend910a", Rest::Nothing, Family::Ascend910),
    ("ascend910proa", Rest::Nothing, Family::Ascend910),
    ("ascend910prob", Rest::Nothing, Family::Ascend910),
    ("ascend910premiuma", Rest::Nothing, Family::Ascend910),
    ("ascend910b", Rest::Digit(4), Family::Ascend910B),
    ("ascend910_93", Rest::Digits(2), Family::Ascend910B),
    ("ascend910_95", Rest::Digits(2), Family::Ascend950),
    ("ascend950", Rest::Variant, Family::Ascend950),
    ("ascend310p", Rest::Upto(7), Family::Ascend310P),
    ("ascend310b", Rest::Upto(4), Family::Ascend310B),
    ("as31xm1", Rest::Nothing, Family::Ascend310B),
    ("as31xm1x", Rest::Nothing, Family::Ascend310B),
];

/// Lower-case names of chips without a known family, since no object for them was available; with whether a suffix is
/// allowed.
const UNSEEN: [(&str, bool); 9] = [
    ("ascend310", false),
    ("ascend610", false),
    ("ascend610lite", false),
    ("ascend350", true),
    ("bs9sx2a", true),
    ("mc61am21a", true),
    ("mc62cm12a", true),
    ("kirinx90", false),
    ("kirin9030", false),
];

/// The expectations of the built-in target `target`. `None` also for the name of an Ascend chip that is not known.
pub fn known_target(target: &str) -> Option<Expectations> {
    targets::named(target).filter(|expect| !targets::is_ai_core(expect) || is_chip(target))
}

/// Whether `name` is a chip that CANN compiles for, or a directory of packages for one. An object can be compared with
/// the chip only if the chip's [family](Family::of_target) is known as well.
pub fn is_chip(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_unseen =
        |(start, more): &(&str, bool)| lower.strip_prefix(start).is_some_and(|rest| rest.is_empty() || *more);
    Family::of_target(name).is_some() || UNSEEN.iter().any(is_unseen)
}

/// Whether an object is for the chips of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChipMatch {
    /// It is, or the object does not state a family.
    Match,
    /// It is for chips of this family.
    Other(Family),
    /// The family of the target is unknown.
    Unknown,
}

/// Compares the family of an object, if known, with that of the target.
pub fn match_chip(target: &str, found: Option<Family>) -> ChipMatch {
    match (found, Family::of_target(target)) {
        (Some(found), Some(expected)) if found != expected => ChipMatch::Other(found),
        (_, None) if target != ANY_ASCEND => ChipMatch::Unknown,
        _ => ChipMatch::Match,
    }
}

/// The reason why a kernel cannot be compared with the chip `name`, whose family is unknown.
pub fn unjudged(name: &str) -> String {
    match is_chip(name) {
        true => format!("the kernel's chip cannot be judged: no object for `{name}` was available"),
        false => format!("the kernel's chip cannot be judged: unknown chip `{name}`"),
    }
}

impl Family {
    /// Every known family.
    pub const ALL: [Self; 5] =
        [Self::Ascend910, Self::Ascend310P, Self::Ascend310B, Self::Ascend910B, Self::Ascend950];

    /// The family of a chip, by CANN's name or by the name of a directory of packages; `None` if unknown. A prefix of a
    /// name must be followed by an allowed suffix.
    ///
    /// `Ascend910B` alone is a chip of the first generation; later chips have a digit after it, but their packages have
    /// a directory `ascend910b`.
    pub fn of_target(name: &str) -> Option<Self> {
        match name {
            "ascend910" => return Some(Self::Ascend910),
            "ascend910b" => return Some(Self::Ascend910B),
            "Ascend910B" => return Some(Self::Ascend910),
            _ => {}
        }
        let name = name.to_ascii_lowercase();
        let is_named =
            |(start, rest): (&str, Rest)| name.strip_prefix(start).is_some_and(|it| rest.allows(it));
        NAMES.iter().find(|(start, rest, _)| is_named((start, *rest))).map(|(_, _, family)| *family)
    }

    /// The family that an object is compiled for, by its header. Compilers for the first generation wrote relocatable
    /// objects without flags. The meaning of other flags is unknown.
    pub fn of_header(machine: u16, is_relocatable: bool, flags: u32) -> Option<Self> {
        match Architecture::from_flags(machine, flags) {
            Some(architecture) => Some(architecture.family()),
            None if machine == ASCEND && flags == 0 && is_relocatable => Some(Self::Ascend910),
            None => None,
        }
    }

    /// Its name for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ascend910 => "Ascend 910 (first generation)",
            Self::Ascend310P => "Ascend 310P",
            Self::Ascend310B => "Ascend 310B",
            Self::Ascend910B => "Ascend 910B or 910_93",
            Self::Ascend950 => "Ascend 950",
        }
    }

    /// Whether this is the first generation, whose compilers wrote no kinds of core and rarely a workspace.
    pub const fn is_first_generation(self) -> bool {
        matches!(self, Self::Ascend910)
    }

    /// Whether cube and vector cores are separate, so that a kernel must state which of them it runs on.
    pub const fn is_split(self) -> bool {
        matches!(self, Self::Ascend910B | Self::Ascend950)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_flags_have_a_name() {
        let name = |flags| Architecture::from_flags(ASCEND, flags).map(Architecture::name);
        assert_eq!(name(0x93_0000), Some("dav-c220-vec"));
        assert_eq!(name(0x94_0001), Some("dav-c220-cube"));
        assert_eq!(name(0x99_0000), Some("dav-c310"));
        assert_eq!([name(0), name(0x193_0000), name(0x9a_0000)], [None; 3]);
        assert_eq!(Architecture::from_flags(62, 0x93_0000), None);
    }

    #[test]
    fn chips_have_families_by_name() {
        use Family::{Ascend310B, Ascend310P, Ascend910, Ascend910B, Ascend950};
        for (names, family) in [
            (
                &["Ascend910A", "Ascend910B", "ASCEND910A", "Ascend910ProB", "Ascend910PremiumA"][..],
                Ascend910,
            ),
            (&["Ascend910B1", "ascend910b4-1", "Ascend910B2C", "Ascend910_9362", "ascend910_93"], Ascend910B),
            (&["Ascend310P1", "Ascend310P3", "Ascend310P7", "Ascend310P3Vir04", "ascend310p"], Ascend310P),
            (&["Ascend310B4", "AS31XM1X", "ascend310b"], Ascend310B),
            (&["Ascend950PR_9599", "Ascend950DT_9581", "Ascend910_95", "ascend950"], Ascend950),
            // Directories of packages.
            (&["ascend910"], Ascend910),
            (&["ascend910b"], Ascend910B),
        ] {
            for name in names {
                assert_eq!(Family::of_target(name), Some(family), "{name}");
            }
        }
        for unknown in
            ["Ascend910", "ASCEND910B", "Ascend", "Ascend310", "Ascend610", "Ascend910B5", "cpu", ""]
        {
            assert_eq!(Family::of_target(unknown), None, "{unknown}");
        }
        // Names that only share a prefix with a chip.
        for unknown in [
            "Ascend910B9",
            "Ascend910C",
            "AscendXYZ",
            "310P3",
            "Ascend910B12",
            "Ascend910B0",
            "Ascend910_9",
            "Ascend910_936",
            "Ascend910_93625",
            "Ascend910AB",
            "Ascend310P9",
            "Ascend310Px",
            "Ascend310P33",
            "Ascend310P3 ",
            "Ascend310B5",
            "Ascend950X",
            "Ascend950PRX",
            "Ascend910_951",
            "AS31XM1Y",
            "Ascend910B1/x",
        ] {
            assert_eq!((Family::of_target(unknown), is_chip(unknown)), (None, false), "{unknown}");
        }
        for unseen in [
            "Ascend310",
            "Ascend610",
            "Ascend610Lite",
            "BS9SX2AA",
            "MC61AM21AB",
            "Ascend350_354f",
            "kirinx90",
        ] {
            assert_eq!((Family::of_target(unseen), is_chip(unseen)), (None, true), "{unseen}");
        }
        assert!(is_chip("Ascend910B1") && is_chip("ascend910b") && !is_chip("cpu") && !is_chip("x86_64"));
    }

    #[test]
    fn only_another_known_family_is_a_mismatch() {
        let other = Family::Ascend310P;
        assert_eq!(match_chip("Ascend910B1", Some(Family::Ascend910B)), ChipMatch::Match);
        assert_eq!(match_chip("Ascend910B1", None), ChipMatch::Match);
        assert_eq!(match_chip("Ascend910B1", Some(other)), ChipMatch::Other(other));
        assert_eq!(match_chip("Ascend910B9", Some(other)), ChipMatch::Unknown);
        assert_eq!(match_chip(ANY_ASCEND, Some(other)), ChipMatch::Match);
    }

    #[test]
    fn objects_have_families_by_header() {
        let of = |is_relocatable, flags| Family::of_header(ASCEND, is_relocatable, flags);
        for (is_relocatable, flags, family) in [
            (true, 0, Some(Family::Ascend910)),
            (false, 0, None),
            (true, 1, None),
            (true, 0x93_0000, Some(Family::Ascend910B)),
            (false, 0x94_0000, Some(Family::Ascend910B)),
            (false, 0x95_0000, Some(Family::Ascend310B)),
            (false, 0x8a_0000, Some(Family::Ascend310P)),
            (false, 0x99_0000, Some(Family::Ascend950)),
            (false, 0x9a_0000, None),
        ] {
            assert_eq!(of(is_relocatable, flags), family, "{flags:#x}");
        }
        assert_eq!(Family::of_header(62, true, 0), None);
    }
}

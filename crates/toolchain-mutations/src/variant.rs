//! The selection of cases, and the ways to play them: which toolchain comes first, how old its files are, and whether
//! times show a change.

use opkeep_testkit::mutation_seeds;

/// One in this number of cases is played for a seed, so that a test run takes less than a minute. Any that many
/// neighbouring seeds play all.
pub(super) const SHARE: u32 = 6;

/// The same for changes that cannot matter, of which there are fewer.
pub(super) const HARMLESS_SHARE: u32 = 4;

/// Whether a case of this name is played: each seed selects one in six.
pub fn is_played(name: &str) -> bool {
    mutation_seeds().into_iter().any(|seed| Variant::new(name, seed, true, SHARE).is_some())
}

/// One way to play a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    /// Start with the changed toolchain and change it to the original, so that files disappear instead of appearing.
    pub(super) reversed: bool,
    /// The toolchain is created just before the first build, and changed within the same second.
    pub(super) young: bool,
    /// All modification times are restored after the change, also those of directories.
    pub(super) restores_times: bool,
}

impl Variant {
    /// The way to play the case called `name` for a seed, if the seed selects it as one of `share` cases.
    pub(super) fn new(name: &str, seed: u32, reversible: bool, share: u32) -> Option<Self> {
        let hash = name.bytes().fold(17_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        let way = (hash >> 8).wrapping_add(seed / share);
        let variant =
            Self { reversed: reversible && way & 1 == 1, young: way & 2 == 2, restores_times: way & 4 == 4 };
        (hash.wrapping_add(seed) % share == 0).then_some(variant)
    }

    /// In a trial's name.
    pub(super) fn name(self) -> String {
        let words = [
            if self.reversed { "back" } else { "forth" },
            if self.young { "young" } else { "old" },
            if self.restores_times { "same_times" } else { "own_times" },
        ];
        words.join(".")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use opkeep_testkit::MUTATION_SEEDS;

    use super::*;

    #[test]
    fn every_case_has_its_turn_in_every_way() {
        for (name, share) in [("nested_header", SHARE), ("wrapper", SHARE), ("rank", HARMLESS_SHARE)] {
            let played = |seed| Variant::new(name, seed, true, share);
            let ways: HashSet<String> = (0..MUTATION_SEEDS).filter_map(played).map(Variant::name).collect();
            assert_eq!(ways.len(), 8, "{name}");
            for seed in 0..MUTATION_SEEDS {
                let turns = (seed..seed + share).filter_map(played).count();
                assert_eq!(turns, 1, "{name} {seed}");
            }
        }
    }
}

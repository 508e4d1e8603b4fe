//! The selection of cases, and the ways to play them: which toolchain comes first, how old its files are, and whether
//! times show a change.

/// The number of seeds before everything repeats.
const SEEDS: u32 = 24;

/// One in this number of cases is played for a seed, so that a test run takes a minute and a half. Any that many
/// neighbouring seeds play all.
pub(super) const SHARE: u32 = 3;

/// The same for changes that cannot matter, of which there are fewer.
pub(super) const HARMLESS_SHARE: u32 = 2;

/// The seeds of this test run: the numbers in `OPKEEP_MUTATION_SEEDS`, separated by commas, or `all` of them; 0 if unset.
pub fn mutation_seeds() -> Vec<u32> {
    #[expect(clippy::disallowed_methods, reason = "how thorough a test run is comes from its environment")]
    let text = std::env::var("OPKEEP_MUTATION_SEEDS").unwrap_or_default();
    if text == "all" {
        return (0..SEEDS).collect();
    }
    let seeds: Vec<u32> = text.split(',').filter_map(|seed| seed.trim().parse().ok()).collect();
    if seeds.is_empty() { vec![0] } else { seeds }
}

/// Whether a case of this name is played: each seed selects one in three.
pub fn is_played(name: &str) -> bool {
    mutation_seeds().into_iter().any(|seed| Variant::new(name, seed, true, SHARE).is_some())
}

/// Whether the `nth` of `of` parts of a long test is played: each seed selects one.
pub fn is_turn(nth: usize, of: usize) -> bool {
    mutation_seeds().into_iter().any(|seed| seed as usize % of == nth % of)
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

    use super::*;

    #[test]
    fn every_case_has_its_turn_in_every_way() {
        for (name, share) in [("nested_header", SHARE), ("wrapper", SHARE), ("rank", HARMLESS_SHARE)] {
            let played = |seed| Variant::new(name, seed, true, share);
            let ways: HashSet<String> = (0..SEEDS).filter_map(played).map(Variant::name).collect();
            assert_eq!(ways.len(), 8, "{name}");
            for seed in 0..SEEDS {
                let turns = (seed..seed + share).filter_map(played).count();
                assert_eq!(turns, 1, "{name} {seed}");
            }
        }
    }
}

//! Seeds of a test run: of the longest tests, each seed selects a part.

/// The number of seeds before everything repeats.
pub const MUTATION_SEEDS: u32 = 48;

/// The seeds of this test run: the numbers in `OPKEEP_MUTATION_SEEDS`, separated by commas, or `all` of them; 0 if unset.
pub fn mutation_seeds() -> Vec<u32> {
    #[expect(clippy::disallowed_methods, reason = "how thorough a test run is comes from its environment")]
    let text = std::env::var("OPKEEP_MUTATION_SEEDS").unwrap_or_default();
    if text == "all" {
        return (0..MUTATION_SEEDS).collect();
    }
    let seeds: Vec<u32> = text.split(',').filter_map(|seed| seed.trim().parse().ok()).collect();
    if seeds.is_empty() { vec![0] } else { seeds }
}

/// Whether the `nth` of `of` parts of a long test is played: each seed selects one.
pub fn is_turn(nth: usize, of: usize) -> bool {
    mutation_seeds().into_iter().any(|seed| seed as usize % of == nth % of)
}

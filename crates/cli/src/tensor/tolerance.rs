//! How far an element of an output may be from its reference.
//!
//! The rule for floats, unless `--atol` is given, for an element with the reference r:
//!
//! > `rtol * |r| + max(min(1e-4 * M, |r| / 10), noise * M)`
//!
//! M is the median of the magnitudes in the reference that are up to 2^24 times as large as r: what cancels out was as large
//! as its neighbours, and its rounding errors are parts of theirs. Each magnitude counts once, so that a value which fills
//! most of a tensor, such as that of a mask, is no scale; those near the end of the type's range do not count, since no sum
//! of such is one. An element that should be 0 has the M of the smallest hundredth of the others.
//!
//! An element that is small beside M may therefore be wrong by a tenth of its own size, as long as that is more than the
//! noise of the type: 2^-20 of M for float32 (16 roundings: sums of thousands of products), 2^-9 for float16 and 2^-6 for
//! bfloat16 (4 roundings of what is mostly summed as float32), 2^-49 for float64. What is within the noise of its neighbours
//! may be a rounding error.
//!
//! The tolerance follows from the reference alone, so a worse value never passes where a better one fails.

use crate::tensor::values::Element;

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Tolerance {
    /// The relative tolerance [default: 1e-3]. Floats only: integers and bools must be equal. NaN only equals NaN, and an
    /// infinity only itself, whatever the tolerance
    #[arg(long, value_parser = tolerance, value_name = "R")]
    pub(crate) rtol: Option<f64>,
    /// The absolute tolerance, which is added; also of integers [default: 0 for integers; for floats 1e-4 of M, at most a
    /// tenth of the reference and at least the rounding noise of the type: 2^-20 of M for float32, 2^-9 for float16, 2^-6
    /// for bfloat16, 2^-49 for float64. M is the median of the output's references other than 0, each value once, up to
    /// 2^24 times as large as the element's own]
    #[arg(long, value_parser = tolerance, value_name = "A")]
    pub(crate) atol: Option<f64>,
}

fn tolerance(text: &str) -> Result<f64, String> {
    let value: Option<f64> = text.parse().ok();
    // An infinite one would let everything pass.
    let value = value.filter(|value| *value >= 0.0 && value.is_finite());
    value.ok_or_else(|| "expected a number of 0 or more".to_owned())
}

/// The relative tolerance of floats, if the user gives none.
const RTOL: f64 = 1e-3;
/// The absolute one, as a part of M.
const ATOL: f64 = 1e-4;
/// The most of its own size by which an element may be wrong beyond the noise.
const OWN: f64 = 0.1;
/// So many times smaller than M an element may be that M still counts: 24 bits, as a float32 has.
const REACH: f64 = 16_777_216.0;

/// What is to be known of a type of floats.
#[derive(Clone, Copy, Debug)]
struct Float {
    /// What rounding may leave, as a part of M.
    noise: f64,
    /// Magnitudes from here on fill or mask.
    end: f64,
}

impl Float {
    fn of(dtype: &str) -> Self {
        let power = |exponent: i32| 2f64.powi(exponent);
        match dtype {
            "float16" => Self { noise: power(-9), end: 65504.0 },
            "bfloat16" => Self { noise: power(-6), end: power(104) },
            "float64" => Self { noise: power(-49), end: power(971) },
            _ => Self { noise: power(-20), end: power(104) },
        }
    }
}

/// The tolerances of the elements of one output.
#[derive(Debug)]
pub(crate) struct Allowed {
    pub(crate) rtol: f64,
    /// Unless given, it follows from the scale.
    atol: Option<f64>,
    float: Float,
    /// The magnitudes in the reference that count, each once, in order.
    magnitudes: Vec<f64>,
}

impl Allowed {
    /// For an output of `dtype` with these references. Rounding changes floats only: truth values must be equal, and so
    /// must whole numbers unless `atol` is given.
    pub(crate) fn new(tolerance: Tolerance, dtype: &str, references: impl Iterator<Item = Element>) -> Self {
        let Tolerance { rtol, atol } = tolerance;
        let (rtol, atol) = match dtype {
            "bool" => (0.0, Some(0.0)),
            _ if dtype.contains("float") => (rtol.unwrap_or(RTOL), atol),
            _ => (0.0, Some(atol.unwrap_or(0.0))),
        };
        let float = Float::of(dtype);
        let magnitudes = references.map(|reference| reference.number().abs());
        let mut magnitudes: Vec<f64> = magnitudes.filter(|size| *size > 0.0 && *size < float.end).collect();
        magnitudes.sort_unstable_by(f64::total_cmp);
        magnitudes.dedup();
        Self { rtol, atol, float, magnitudes }
    }

    /// How far an element with the reference `expected` may be from it.
    pub(crate) fn error(&self, expected: f64) -> f64 {
        let size = if expected.is_finite() { expected.abs() } else { 0.0 };
        let beside = || {
            let scale = self.scale(size);
            (ATOL * scale).min(OWN * size).max(self.float.noise * scale)
        };
        self.rtol * size + self.atol.unwrap_or_else(beside)
    }

    /// M, for an element of this size; 0, if there is nothing to go by.
    pub(crate) fn scale(&self, size: f64) -> f64 {
        let size = if size > 0.0 { size } else { self.rank(self.magnitudes.len() / 100) };
        let near = self.magnitudes.partition_point(|magnitude| *magnitude <= size * REACH);
        self.rank(near.saturating_sub(1) / 2)
    }

    /// The median of all.
    pub(crate) fn typical(&self) -> f64 {
        self.rank(self.magnitudes.len().saturating_sub(1) / 2)
    }

    /// The absolute tolerance of an element of usual size.
    pub(crate) fn atol(&self) -> f64 {
        self.atol.unwrap_or_else(|| self.error(self.typical()) - self.rtol * self.typical())
    }

    fn rank(&self, at: usize) -> f64 {
        self.magnitudes.get(at).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers (xorshift64*), the same each time.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
        }

        /// Nearly normally distributed.
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.next()).sum::<f64>() - 6.0
        }

        fn below(&mut self, end: usize) -> usize {
            (self.next() * end as f64) as usize
        }
    }

    fn allowed(dtype: &str, references: &[f64]) -> Allowed {
        let tolerance = Tolerance { rtol: None, atol: None };
        Allowed::new(tolerance, dtype, references.iter().map(|value| Element::Float(*value)))
    }

    /// References as networks have them: of one size, of many, with zeros, masks and fills.
    fn references(random: &mut Random) -> Vec<f64> {
        let count = 2 + random.below(300);
        let size = 10f64.powi(random.below(20) as i32 - 10);
        let (fill, zeros) = ([3.4e38, -1e9, -1e4, 1.0][random.below(4)], random.next());
        let (filled, spread) = (random.next(), [0.0, 1.0, 8.0][random.below(3)]);
        let mut one = || match () {
            () if random.next() < filled => fill,
            () if random.next() < zeros => 0.0,
            () => f64::from((random.normal() * size * 10f64.powf(spread * random.next())) as f32),
        };
        (0..count).map(|_| one()).collect()
    }

    /// What the documentation states, found in another way.
    fn bound(dtype: &str, references: &[f64], expected: f64) -> f64 {
        let (noise, end) = match dtype {
            "float32" => (9.6e-7, 2.1e31),
            _ => (2.0e-3, 65504.0),
        };
        let mut sizes: Vec<f64> =
            references.iter().map(|it| it.abs()).filter(|it| *it > 0.0 && *it < end).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        let own = if expected == 0.0 {
            sizes.get(sizes.len() / 100).copied().unwrap_or(0.0)
        } else {
            expected.abs()
        };
        sizes.retain(|size| *size <= own * 2f64.powi(24));
        let median = if sizes.is_empty() { 0.0 } else { sizes[(sizes.len() - 1) / 2] };
        1e-3 * expected.abs() + (0.1 * expected.abs()).max(noise * median)
    }

    #[test]
    fn one_wrong_element_is_seen_unless_the_bound_allows_it() {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for _ in 0..3000 {
            let references = references(&mut random);
            for dtype in ["float32", "float16"] {
                let allowed = allowed(dtype, &references);
                let (at, other) = (random.below(references.len()), random.below(references.len()));
                let (expected, bound) = (references[at], bound(dtype, &references, references[at]));
                for wrong in [2.0 * expected, references[other], -expected, 0.0, expected / 2.0] {
                    let error = (wrong - expected).abs();
                    let passes = error <= allowed.error(expected);
                    assert!(!passes || error <= bound, "{wrong} for {expected} in {references:?}");
                }
            }
        }
    }

    /// The bound itself is tight: beside ordinary neighbours a doubled element passes only if it is noise.
    #[test]
    fn a_doubled_element_passes_only_below_the_noise() {
        let mut random = Random(3);
        for _ in 0..2000 {
            let references = references(&mut random);
            let allowed = allowed("float32", &references);
            let expected = references[random.below(references.len())].abs();
            if expected <= allowed.error(expected) {
                assert!(expected <= 1e-6 * allowed.scale(expected), "{expected} in {references:?}");
            }
        }
    }

    #[test]
    fn what_is_allowed_follows_the_scale_of_the_whole() {
        let mut random = Random(5);
        for _ in 0..500 {
            let references: Vec<f64> = (0..50).map(|_| random.normal()).collect();
            let scaled: Vec<f64> = references.iter().map(|value| value * 4096.0).collect();
            for expected in &references {
                let (one, other) = (
                    allowed("float32", &references).error(*expected),
                    allowed("float32", &scaled).error(expected * 4096.0),
                );
                assert!((one * 4096.0 - other).abs() <= 1e-9 * other, "{expected}");
            }
        }
    }

    /// Sums of products in two orders, and rounded as the type does: what comes of cancellation is within the noise.
    #[test]
    fn genuine_rounding_errors_pass() {
        let mut random = Random(7);
        for (dtype, terms, is_summed_as_float32) in [
            ("float32", 64, true),
            ("float32", 1024, true),
            ("float32", 4096, true),
            ("float16", 1024, true),
            ("float16", 8, false),
        ] {
            let round = |value: f64| match is_summed_as_float32 {
                true => f64::from(value as f32),
                false => half(value),
            };
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            for _ in 0..1000 {
                let products: Vec<f64> =
                    (0..terms).map(|_| half(random.normal()) * half(random.normal())).collect();
                // As kernels do: several lanes, each summed in turn.
                let lane = |lane: usize| {
                    products.iter().skip(lane).step_by(8).fold(0.0, |sum, it| round(sum + round(*it)))
                };
                let sum = (0..8).map(lane).fold(0.0, |sum, it| round(sum + it));
                found.push(if dtype == "float16" { half(sum) } else { sum });
                let exact: f64 = products.iter().sum();
                expected.push(if dtype == "float16" { half(exact) } else { f64::from(exact as f32) });
            }
            let allowed = allowed(dtype, &expected);
            let bad: Vec<_> = found
                .iter()
                .zip(&expected)
                .filter(|(it, at)| (*it - *at).abs() > allowed.error(**at))
                .collect();
            assert!(bad.is_empty(), "{dtype}, {terms} terms: {bad:?}");
        }
    }

    /// To the nearest float16, as far as normal numbers go.
    fn half(value: f64) -> f64 {
        if value == 0.0 {
            return 0.0;
        }
        let unit = 2f64.powi(value.abs().log2().floor() as i32 - 10);
        (value / unit).round_ties_even() * unit
    }

    #[test]
    fn most_references_of_any_size_allow_nothing_to_the_few() {
        for (wrong, expected, others) in [
            (1.0, 300.0, 1e8),
            (200.0, 300.0, 1e8),
            (1.0, 300.0, 1e9),
            (1e32, 0.0, 1e38),
            (1.0, 0.0, 1e38),
            (1e2, 0.0, 1e8),
            (1.2, 1.0, 1e6),
        ] {
            // All the same, and spread.
            for spread in [0.0, 0.3] {
                let mut random = Random(11);
                let mut references = vec![expected];
                references.extend((0..999).map(|_| others * (1.0 + spread * random.normal() / 6.0)));
                let is_noise = spread > 0.0 && 9.6e-7 * others >= (wrong - expected).abs() && others < 1e31;
                let passes = (wrong - expected).abs() <= allowed("float32", &references).error(expected);
                assert_eq!(passes, is_noise, "{wrong} for {expected} beside {others}");
            }
        }
    }
}

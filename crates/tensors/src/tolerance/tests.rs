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
    Allowed::new(tolerance, dtype, references.iter().map(|value| Element::Float64(*value)))
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

/// The documented bound, computed in another way.
fn bound(dtype: &str, references: &[f64], expected: f64) -> f64 {
    let (noise, end) = match dtype {
        "float32" => (9.6e-7, 2.1e31),
        _ => (2.0e-3, 65504.0),
    };
    let mut sizes: Vec<f64> =
        references.iter().map(|it| it.abs()).filter(|it| *it > 0.0 && *it < end).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let own =
        if expected == 0.0 { sizes.get(sizes.len() / 100).copied().unwrap_or(0.0) } else { expected.abs() };
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

/// The bound is tight: among ordinary neighbours a doubled element passes only if it is noise.
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
fn the_tolerance_follows_the_scale_of_all_references() {
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

/// Sums of products in two orders, rounded to the type: the error of cancellation is within the noise.
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
        let bad: Vec<_> =
            found.iter().zip(&expected).filter(|(it, at)| (*it - *at).abs() > allowed.error(**at)).collect();
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
fn most_references_do_not_raise_the_tolerance_of_a_few() {
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

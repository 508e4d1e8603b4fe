//! The tolerance: the maximum distance of an output's element from its reference.

use crate::element::Element;

/// The tolerances that a user gives. Bools must be equal whatever the tolerances are; NaN only equals NaN, and an infinity
/// only itself. A tolerance that is no finite number of 0 or more counts as 0.
///
/// The rule for floats, unless an absolute tolerance is given, for an element with the reference r:
///
/// > `rtol * |r| + max(min(1e-4 * M, |r| / 10), noise * M)`
///
/// M is the median of the magnitudes in the reference that are up to 2^24 times as large as r: terms that cancel out
/// are as large as the neighbours of their sum, and the sum has the terms' rounding errors. Each magnitude counts once,
/// so that a value which fills most of a tensor, such as that of a mask, is no scale. Magnitudes near the end of the
/// type's range do not count, since no sum of such magnitudes is in the range. An element that should be 0 has the M of
/// the smallest hundredth of the others.
///
/// An element that is small compared to M may therefore be wrong by a tenth of its own size, as long as that is more
/// than the noise of the type: 2^-20 of M for float32 (16 roundings: sums of thousands of products), 2^-9 for float16
/// and 2^-6 for bfloat16 (4 roundings, since most sums are computed as float32), 2^-49 for float64. An error within the
/// noise of the neighbours may be a rounding error.
/// The tolerance follows from the reference alone, so a worse value never passes where a better one fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tolerance {
    /// The relative tolerance of floats; if unset, 1e-3. Integers have none.
    pub rtol: Option<f64>,
    /// The absolute tolerance, which is added; if unset, 0 for integers, and for floats as the rule states.
    pub atol: Option<f64>,
}

/// The relative tolerance of floats, if the user gives none.
const RTOL: f64 = 1e-3;
/// The absolute tolerance relative to M, if the user gives none.
const ATOL: f64 = 1e-4;
/// The maximum error of an element beyond the noise, relative to its own size.
const OWN: f64 = 0.1;
/// The maximum ratio of a magnitude that counts for an element's M to the element's own: 2^24, since a float32 has 24
/// bits.
const REACH: f64 = 16_777_216.0;

/// The properties of a floating-point type.
#[derive(Clone, Copy, Debug)]
struct Float {
    /// The rounding error, relative to M.
    noise: f64,
    /// The magnitude from which values count as fillers or masks.
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
    /// The absolute tolerance; if unset, it depends on the scale.
    atol: Option<f64>,
    float: Float,
    /// The magnitudes of the references that count, each once, in ascending order.
    magnitudes: Vec<f64>,
}

impl Allowed {
    /// Computes the tolerances for an output of `dtype` with these references. Rounding changes floats only: truth
    /// values must be equal, and whole numbers must be equal unless `atol` is given.
    pub(crate) fn new(tolerance: Tolerance, dtype: &str, references: impl Iterator<Item = Element>) -> Self {
        let usable = |given: f64| if given.is_finite() && given >= 0.0 { given } else { 0.0 };
        let (rtol, atol) = (tolerance.rtol.map(usable), tolerance.atol.map(usable));
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

    /// Returns the maximum distance of an element from its reference `expected`.
    pub(crate) fn error(&self, expected: f64) -> f64 {
        let size = if expected.is_finite() { expected.abs() } else { 0.0 };
        let beside = || {
            let scale = self.scale(size);
            (ATOL * scale).min(OWN * size).max(self.float.noise * scale)
        };
        self.rtol * size + self.atol.unwrap_or_else(beside)
    }

    /// Returns M for an element of this size; 0, if no magnitude counts.
    pub(crate) fn scale(&self, size: f64) -> f64 {
        let size = if size > 0.0 { size } else { self.rank(self.magnitudes.len() / 100) };
        let near = self.magnitudes.partition_point(|magnitude| *magnitude <= size * REACH);
        self.rank(near.saturating_sub(1) / 2)
    }

    /// Returns the median of all magnitudes.
    pub(crate) fn typical(&self) -> f64 {
        self.rank(self.magnitudes.len().saturating_sub(1) / 2)
    }

    /// Returns the absolute tolerance of an element of usual size.
    pub(crate) fn atol(&self) -> f64 {
        self.atol.unwrap_or_else(|| self.error(self.typical()) - self.rtol * self.typical())
    }

    fn rank(&self, at: usize) -> f64 {
        self.magnitudes.get(at).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;

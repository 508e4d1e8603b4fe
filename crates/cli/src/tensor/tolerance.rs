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

/// The properties of a type of floats.
#[derive(Clone, Copy, Debug)]
struct Float {
    /// The error by rounding, as a part of M.
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
mod tests;

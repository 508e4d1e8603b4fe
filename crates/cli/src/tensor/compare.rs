//! Compares an output with its reference.

use std::path::Path;

use opkeep_onnx::{Tensor, ValueInfo};
use serde::Serialize;

use crate::tensor::tolerance::{Allowed, Tolerance};
use crate::tensor::values::{Element, elements};
use crate::ui::json::{self, Number};
use crate::ui::text::counted;

/// The result of a comparison.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) output: String,
    pub(crate) reference: String,
    pub(crate) passed: bool,
    verdict: Verdict,
}

#[derive(Debug)]
enum Verdict {
    /// The output and the reference cannot be compared element by element.
    Different {
        what: &'static str,
        expected: String,
        found: String,
    },
    Compared(Errors),
}

#[derive(Debug)]
struct Errors {
    elements: usize,
    /// The number of elements that are too far from their references.
    outside: usize,
    /// The element that is furthest beyond its tolerance, or nearest to it.
    worst: Option<Worst>,
    /// The greatest error of all elements.
    greatest: f64,
    /// The greatest error relative to its reference; infinite, if a reference is 0 or no number.
    relative: f64,
    /// The greatest error relative to its reference, of references that are numbers other than 0.
    relative_beside_zero: f64,
    /// The greatest error relative to its reference or to the scale of the element, whichever is larger.
    over_scale: f64,
    rms: f64,
    allowed: Allowed,
}

#[derive(Debug)]
struct Worst {
    index: Vec<usize>,
    expected: Element,
    found: Element,
    error: f64,
    allowed: f64,
}

/// Compares the elements of `output` with `reference`.
pub(crate) fn compare(
    output: &ValueInfo,
    found: &[u8],
    reference: &Tensor,
    file: &Path,
    tolerance: Tolerance,
) -> Comparison {
    let different = |what, expected: String, found: String| Verdict::Different { what, expected, found };
    let verdict = if output.dtype != reference.dtype {
        different("element type", reference.dtype.clone(), output.dtype.clone())
    } else if output.shape != reference.shape {
        different("shape", format!("{:?}", reference.shape), format!("{:?}", output.shape))
    } else if !found.is_empty() && elements(&output.dtype, found).next().is_none() {
        different("element type", "one that can be compared".to_owned(), output.dtype.clone())
    } else {
        Verdict::Compared(errors(output, found, reference, tolerance))
    };
    let passed = matches!(&verdict, Verdict::Compared(errors) if errors.outside == 0);
    let (output, reference) = (output.name.clone(), json::path(file));
    Comparison { output, reference, passed, verdict }
}

fn errors(output: &ValueInfo, found: &[u8], reference: &Tensor, tolerance: Tolerance) -> Errors {
    let references = || elements(&reference.dtype, &reference.bytes);
    let mut errors = Errors {
        elements: 0,
        outside: 0,
        worst: None,
        greatest: 0.0,
        relative: 0.0,
        relative_beside_zero: 0.0,
        over_scale: 0.0,
        rms: root_mean_square(references()),
        allowed: Allowed::new(tolerance, &output.dtype, references()),
    };
    let (mut worst, mut worst_excess) = (None, 0.0);
    for (at, (found, expected)) in elements(&output.dtype, found).zip(references()).enumerate() {
        let (number, error) = (expected.number(), found.distance(expected));
        let allowed = errors.allowed.error(number);
        let excess = over(error, allowed);
        let is_worse = worst.as_ref().is_none_or(|worst: &(usize, Worst)| {
            excess > worst_excess || (excess == worst_excess && error > worst.1.error)
        });
        if is_worse {
            (worst, worst_excess) =
                (Some((at, Worst { index: Vec::new(), expected, found, error, allowed })), excess);
        }
        errors.outside += usize::from(excess > 1.0);
        errors.greatest = errors.greatest.max(error);
        let size = number.abs();
        errors.over_scale = errors.over_scale.max(over(error, size.max(errors.allowed.scale(size))));
        let relative = over(error, if size.is_nan() { 0.0 } else { size });
        errors.relative = errors.relative.max(relative);
        if size > 0.0 && size.is_finite() {
            errors.relative_beside_zero = errors.relative_beside_zero.max(relative);
        }
        errors.elements += 1;
    }
    errors.worst = worst.map(|(at, worst)| Worst { index: index(at, &output.shape), ..worst });
    errors
}

/// Returns an error relative to a size. It is infinite if the size is 0, or if the error is infinite, as between a
/// number and none.
fn over(error: f64, size: f64) -> f64 {
    match error {
        0.0 => 0.0,
        _ if error.is_infinite() => f64::INFINITY,
        _ => error / size,
    }
}

fn root_mean_square(elements: impl Iterator<Item = Element>) -> f64 {
    let finite = elements.map(Element::number).filter(|number| number.is_finite());
    let (count, sum) = finite.fold((0u64, 0.0), |(count, sum), number| (count + 1, sum + number * number));
    if count == 0 { 0.0 } else { (sum / count as f64).sqrt() }
}

/// Returns the index of element number `at` in a tensor of `shape`.
fn index(mut at: usize, shape: &[i64]) -> Vec<usize> {
    let mut index: Vec<usize> = Vec::with_capacity(shape.len());
    for dim in shape.iter().rev() {
        let dim = usize::try_from(*dim).unwrap_or(1).max(1);
        index.push(at % dim);
        at /= dim;
    }
    index.reverse();
    index
}

impl Comparison {
    /// Returns the comparison as a line of text.
    pub(crate) fn text(&self, dtype: &str) -> String {
        let Self { output, reference, .. } = self;
        let what = match &self.verdict {
            Verdict::Different { what, expected, found } => {
                format!("{what}: expected {expected}, found {found}")
            }
            Verdict::Compared(errors) => errors.text(dtype),
        };
        let passed = if self.passed { "equal" } else { "DIFFERS" };
        format!("{passed:8} `{output}` and {reference}: {what}")
    }

    pub(crate) fn output(&self) -> ComparisonOutput {
        let (mut problem, mut errors) = (None, None);
        match &self.verdict {
            Verdict::Different { what, expected, found } => {
                problem = Some(format!("{what}: expected {expected}, found {found}"));
            }
            Verdict::Compared(found) => errors = Some(found.output()),
        }
        let (output, reference) = (self.output.clone(), self.reference.clone());
        ComparisonOutput { output, reference, passed: self.passed, problem, errors }
    }
}

/// A comparison as JSON.
#[derive(Serialize)]
pub(crate) struct ComparisonOutput {
    output: String,
    reference: String,
    passed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(flatten)]
    errors: Option<ErrorsOutput>,
}

#[derive(Serialize)]
struct ErrorsOutput {
    elements: usize,
    outside: usize,
    worst: Option<WorstOutput>,
    worst_relative: Number,
    worst_relative_beside_zero: Number,
    scale: Number,
    worst_over_scale: Number,
    rms: Number,
    worst_over_rms: Number,
    rtol: Number,
    atol: Number,
}

#[derive(Serialize)]
struct WorstOutput {
    index: Vec<usize>,
    expected: Number,
    found: Number,
    error: Number,
    allowed: Number,
}

impl Errors {
    fn output(&self) -> ErrorsOutput {
        let worst = self.worst.as_ref().map(|worst| WorstOutput {
            index: worst.index.clone(),
            expected: Number(worst.expected.number()),
            found: Number(worst.found.number()),
            error: Number(worst.error),
            allowed: Number(worst.allowed),
        });
        ErrorsOutput {
            elements: self.elements,
            outside: self.outside,
            worst,
            worst_relative: Number(self.relative),
            worst_relative_beside_zero: Number(self.relative_beside_zero),
            scale: Number(self.allowed.typical()),
            worst_over_scale: Number(self.over_scale),
            rms: Number(self.rms),
            worst_over_rms: Number(over(self.greatest, self.rms)),
            rtol: Number(self.allowed.rtol),
            atol: Number(self.allowed.atol()),
        }
    }

    fn text(&self, dtype: &str) -> String {
        let Some(worst) = &self.worst else { return "no elements".to_owned() };
        let elements = counted(self.elements, "element");
        let outside = match self.outside {
            0 => format!("all {elements} within what is allowed"),
            outside => format!("{outside} of {elements} not within what is allowed"),
        };
        format!(
            "{outside}; worst at {:?}: expected {}, found {}, error {:.2e} of {:.2e} allowed; worst relative error {}",
            worst.index,
            worst.expected.shown(dtype),
            worst.found.shown(dtype),
            worst.error,
            worst.allowed,
            self.relative_text()
        )
    }

    fn relative_text(&self) -> String {
        let text = |error: f64| if error == 0.0 { "0 (exact)".to_owned() } else { format!("{error:.1e}") };
        match self.relative.is_infinite() && self.relative_beside_zero.is_finite() {
            true => format!(
                "inf, and {} where a number other than 0 is expected",
                text(self.relative_beside_zero)
            ),
            false => text(self.relative),
        }
    }
}

#[cfg(test)]
mod tests;

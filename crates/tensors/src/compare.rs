//! Compares an output with its reference.

use std::fmt;

use opkeep_onnx::{Tensor, ValueInfo};
use opkeep_text::counted;

use crate::element::{Element, elements};
use crate::tolerance::{Allowed, Tolerance};

/// The result of a comparison. Its text is one line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Comparison {
    /// The output and the reference cannot be compared element by element.
    Incomparable {
        /// `element type` or `shape`.
        property: &'static str,
        /// The reference's.
        expected: String,
        /// The output's.
        found: String,
    },
    /// The errors of the elements.
    Compared(ElementErrors),
}

/// The errors of an output's elements: distances from the references.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ElementErrors {
    /// The number of elements.
    pub elements: usize,
    /// The number of elements whose error exceeds the tolerance.
    pub outside: usize,
    /// The element that is furthest beyond its tolerance, or nearest to it. None, if there are no elements.
    pub worst: Option<WorstElement>,
    /// The greatest error.
    pub greatest: f64,
    /// The greatest error relative to its reference; infinite, if a reference is 0 or no number.
    pub relative: f64,
    /// The greatest error relative to its reference, of references that are numbers other than 0.
    pub relative_beside_zero: f64,
    /// The greatest error relative to its reference or to the scale of the element, whichever is larger.
    pub over_scale: f64,
    /// The root mean square of the finite references.
    pub rms: f64,
    /// The median of the references other than 0, each value once.
    pub scale: f64,
    /// The relative tolerance.
    pub rtol: f64,
    /// The absolute tolerance of an element as large as `scale`.
    pub atol: f64,
}

/// An element with its reference.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorstElement {
    /// The index in the tensor, a number for each dimension.
    pub index: Vec<usize>,
    /// The reference.
    pub expected: Element,
    /// The element.
    pub found: Element,
    /// The distance of the element from the reference.
    pub error: f64,
    /// The greatest error that is allowed.
    pub allowed: f64,
}

/// Compares `found`, the elements of `output`, with `reference`. The result depends on the element types, the shapes and the
/// elements, not on names.
pub fn compare(output: &ValueInfo, found: &[u8], reference: &Tensor, tolerance: Tolerance) -> Comparison {
    let incomparable =
        |property, expected: String, found: String| Comparison::Incomparable { property, expected, found };
    if output.dtype != reference.dtype {
        incomparable("element type", reference.dtype.clone(), output.dtype.clone())
    } else if output.shape != reference.shape {
        incomparable("shape", format!("{:?}", reference.shape), format!("{:?}", output.shape))
    } else if !found.is_empty() && elements(&output.dtype, found).next().is_none() {
        incomparable("element type", "one that can be compared".to_owned(), output.dtype.clone())
    } else {
        Comparison::Compared(errors(output, found, reference, tolerance))
    }
}

impl Comparison {
    /// Whether every element is within its tolerance.
    pub fn passed(&self) -> bool {
        matches!(self, Self::Compared(errors) if errors.outside == 0)
    }
}

impl ElementErrors {
    /// Returns the greatest error relative to the root mean square of the references.
    pub fn over_rms(&self) -> f64 {
        over(self.greatest, self.rms)
    }
}

fn errors(output: &ValueInfo, found: &[u8], reference: &Tensor, tolerance: Tolerance) -> ElementErrors {
    let references = || elements(&reference.dtype, &reference.bytes);
    let tolerances = Allowed::new(tolerance, &output.dtype, references());
    let mut errors = ElementErrors {
        elements: 0,
        outside: 0,
        worst: None,
        greatest: 0.0,
        relative: 0.0,
        relative_beside_zero: 0.0,
        over_scale: 0.0,
        rms: root_mean_square(references()),
        scale: tolerances.typical(),
        rtol: tolerances.rtol,
        atol: tolerances.atol(),
    };
    let (mut worst, mut worst_excess) = (None, 0.0);
    for (at, (found, expected)) in elements(&output.dtype, found).zip(references()).enumerate() {
        let (number, error) = (expected.number(), found.distance(expected));
        let allowed = tolerances.error(number);
        let excess = over(error, allowed);
        let is_worse = worst.as_ref().is_none_or(|worst: &(usize, WorstElement)| {
            excess > worst_excess || (excess == worst_excess && error > worst.1.error)
        });
        if is_worse {
            (worst, worst_excess) =
                (Some((at, WorstElement { index: Vec::new(), expected, found, error, allowed })), excess);
        }
        errors.outside += usize::from(excess > 1.0);
        errors.greatest = errors.greatest.max(error);
        let size = number.abs();
        errors.over_scale = errors.over_scale.max(over(error, size.max(tolerances.scale(size))));
        let relative = over(error, if size.is_nan() { 0.0 } else { size });
        errors.relative = errors.relative.max(relative);
        if size > 0.0 && size.is_finite() {
            errors.relative_beside_zero = errors.relative_beside_zero.max(relative);
        }
        errors.elements += 1;
    }
    errors.worst = worst.map(|(at, worst)| WorstElement { index: index(at, &output.shape), ..worst });
    errors
}

/// Returns an error relative to a size. It is infinite if the size is 0, or if the error is infinite, as between a
/// number and NaN.
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

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incomparable { property, expected, found } => {
                write!(f, "{property}: expected {expected}, found {found}")
            }
            Self::Compared(errors) => write!(f, "{errors}"),
        }
    }
}

impl fmt::Display for ElementErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(WorstElement { index, expected, found, error, allowed }) = &self.worst else {
            return f.write_str("no elements");
        };
        let elements = match self.elements {
            1 => "1 element".to_owned(),
            count => counted(count, "element"),
        };
        match self.outside {
            0 => write!(f, "all {elements} within what is allowed")?,
            outside => write!(f, "{outside} of {elements} not within what is allowed")?,
        }
        write!(f, "; worst at {index:?}: expected {expected}, found {found}, ")?;
        write!(f, "error {error:.2e} of {allowed:.2e} allowed; worst relative error ")?;
        let text = |error: f64| if error == 0.0 { "0 (exact)".to_owned() } else { format!("{error:.1e}") };
        match self.relative.is_infinite() && self.relative_beside_zero.is_finite() {
            true => {
                let beside_zero = text(self.relative_beside_zero);
                write!(f, "inf, and {beside_zero} where a number other than 0 is expected")
            }
            false => f.write_str(&text(self.relative)),
        }
    }
}

#[cfg(test)]
mod tests;

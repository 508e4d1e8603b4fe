//! Comparing an output with its reference.

use std::path::Path;

use opbuild_onnx::{Tensor, ValueInfo};
use serde_json::{Value, json};

use crate::output::{counted, one_line};
use crate::values::{Element, elements};

/// How far an element may be from its reference: `atol + rtol * |reference|`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerance {
    pub(crate) rtol: Option<f64>,
    pub(crate) atol: Option<f64>,
}

impl Tolerance {
    /// Relative and absolute tolerance for elements of `dtype` whose references have this root mean square: what was
    /// given, else what rounding makes of floats. Whole numbers are not rounded.
    fn of(self, dtype: &str, rms: f64) -> (f64, f64) {
        let (rtol, atol) = if dtype.contains("float") { (1e-3, 1e-4 * rms) } else { (0.0, 0.0) };
        (self.rtol.unwrap_or(rtol), self.atol.unwrap_or(atol))
    }
}

/// What came of a comparison.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) output: String,
    pub(crate) reference: String,
    pub(crate) passed: bool,
    verdict: Verdict,
}

#[derive(Debug)]
enum Verdict {
    /// They cannot be compared element by element.
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
    /// How many are too far from their references.
    outside: usize,
    /// The element that is furthest beyond its tolerance, or nearest to it.
    worst: Option<Worst>,
    /// The greatest error of all.
    greatest: f64,
    rms: f64,
    atol: f64,
    rtol: f64,
}

#[derive(Debug)]
struct Worst {
    index: Vec<usize>,
    expected: Element,
    found: Element,
    error: f64,
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
    let (output, reference) = (output.name.clone(), file.to_string_lossy().into_owned());
    Comparison { output, reference, passed, verdict }
}

fn errors(output: &ValueInfo, found: &[u8], reference: &Tensor, tolerance: Tolerance) -> Errors {
    let rms = root_mean_square(elements(&reference.dtype, &reference.bytes));
    let (rtol, atol) = tolerance.of(&output.dtype, rms);
    let (mut outside, mut count, mut greatest) = (0, 0, 0.0_f64);
    let mut worst: Option<(usize, Element, Element, f64)> = None;
    let mut worst_excess = f64::NEG_INFINITY;
    let pairs = elements(&output.dtype, found).zip(elements(&reference.dtype, &reference.bytes));
    for (at, (found, expected)) in pairs.enumerate() {
        let error = found.distance(expected);
        let size = expected.number().abs();
        let allowed = atol + rtol * if size.is_finite() { size } else { 0.0 };
        // Both infinite: as wrong as can be, whatever is allowed.
        let excess = if error.is_infinite() { f64::INFINITY } else { error - allowed };
        // Beside a great tolerance, excesses are alike for rounding; then the error tells.
        let worse = excess > worst_excess
            || (excess == worst_excess && worst.is_none_or(|(.., greatest)| error > greatest));
        if worse {
            (worst, worst_excess) = (Some((at, found, expected, error)), excess);
        }
        outside += usize::from(excess > 0.0);
        greatest = greatest.max(error);
        count += 1;
    }
    let worst = worst.map(|(at, found, expected, error)| Worst {
        index: index(at, &output.shape),
        expected,
        found,
        error,
    });
    Errors { elements: count, outside, worst, greatest, rms, atol, rtol }
}

fn root_mean_square(elements: impl Iterator<Item = Element>) -> f64 {
    let finite = elements.map(Element::number).filter(|number| number.is_finite());
    let (count, sum) = finite.fold((0u64, 0.0), |(count, sum), number| (count + 1, sum + number * number));
    if count == 0 { 0.0 } else { (sum / count as f64).sqrt() }
}

/// Where the element of number `at` is in a tensor of `shape`.
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
    /// One line for people.
    pub(crate) fn text(&self, dtype: &str) -> String {
        let (output, reference) = (one_line(&self.output), one_line(&self.reference));
        let what = match &self.verdict {
            Verdict::Different { what, expected, found } => {
                format!("{what}: expected {expected}, found {found}")
            }
            Verdict::Compared(errors) => errors.text(dtype),
        };
        let passed = if self.passed { "equal" } else { "DIFFERS" };
        format!("{passed:8} `{output}` and {reference}: {what}")
    }

    pub(crate) fn json(&self) -> Value {
        let mut json = json!({ "output": self.output, "reference": self.reference, "passed": self.passed });
        match &self.verdict {
            Verdict::Different { what, expected, found } => {
                json["problem"] = format!("{what}: expected {expected}, found {found}").into();
            }
            Verdict::Compared(errors) => {
                let worst = errors.worst.as_ref().map(|worst| {
                    json!({
                        "index": worst.index,
                        "expected": number(worst.expected.number()),
                        "found": number(worst.found.number()),
                        "error": number(worst.error),
                    })
                });
                json["elements"] = errors.elements.into();
                json["outside"] = errors.outside.into();
                json["worst"] = worst.into();
                json["rms"] = number(errors.rms);
                json["worst_over_rms"] = number(errors.over_rms());
                json["rtol"] = number(errors.rtol);
                json["atol"] = number(errors.atol);
            }
        }
        json
    }
}

impl Errors {
    /// The greatest error as a part of the references' root mean square.
    fn over_rms(&self) -> f64 {
        if self.greatest == 0.0 { 0.0 } else { self.greatest / self.rms }
    }

    fn text(&self, dtype: &str) -> String {
        let Some(worst) = &self.worst else { return "no elements".to_owned() };
        let Self { elements, outside, rtol, atol, .. } = self;
        let allowed = format!("{atol:.1e} + {rtol:.1e} x |expected|");
        let outside = match outside {
            0 => format!("all {} within {allowed}", counted(*elements, "element")),
            outside => format!("{outside} of {} not within {allowed}", counted(*elements, "element")),
        };
        format!(
            "{outside}; worst at {:?}: expected {}, found {}, error {:.2e}; greatest error {:.1e} of rms",
            worst.index,
            worst.expected.shown(dtype),
            worst.found.shown(dtype),
            worst.error,
            self.over_rms()
        )
    }
}

/// A number as JSON; what JSON has no number for, as a text.
pub(crate) fn number(value: f64) -> Value {
    match value {
        value if value.is_nan() => "NaN".into(),
        f64::INFINITY => "inf".into(),
        f64::NEG_INFINITY => "-inf".into(),
        value => value.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(found: &[f32], expected: &[f32], rtol: f64, atol: Option<f64>) -> Comparison {
        let rtol = Some(rtol);
        let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>();
        let shape = vec![1, expected.len() as i64];
        let output = ValueInfo { name: "y".into(), dtype: "float32".into(), shape: shape.clone() };
        let reference = Tensor { name: "y".into(), dtype: "float32".into(), shape, bytes: bytes(expected) };
        compare(&output, &bytes(found), &reference, Path::new("y.pb"), Tolerance { rtol, atol })
    }

    #[test]
    fn the_worst_element_is_found_and_decides() {
        let close = compared(&[1.0, 2.0, 3.0005], &[1.0, 2.0, 3.0], 1e-3, Some(0.0));
        assert!(close.passed);
        let far = compared(&[1.0, 2.1, 3.0], &[1.0, 2.0, 3.0], 1e-3, Some(0.0));
        assert!(!far.passed);
        assert_eq!(far.json()["worst"]["index"], json!([0, 1]));
        assert_eq!(far.json()["outside"], 1);
        // Small elements are judged by the size of the whole, unless a tolerance is given.
        assert!(compared(&[100.0, 0.001], &[100.0, 0.0], 1e-3, None).passed);
        assert!(!compared(&[100.0, 0.001], &[100.0, 0.0], 1e-3, Some(1e-7)).passed);
        assert!(!compared(&[100.0, 0.1], &[100.0, 0.0], 1e-3, None).passed);
    }

    #[test]
    fn the_worst_element_is_shown_whatever_is_allowed() {
        let last = compared(&[1.0, 2.0, 3.0, 5.0], &[1.0, 2.0, 3.5, 4.0], 0.0, Some(1e30));
        assert!(last.passed);
        assert_eq!(last.json()["worst"]["index"], json!([0, 3]));
    }

    #[test]
    fn what_is_not_a_number_is_as_wrong_as_can_be() {
        assert!(!compared(&[f32::NAN], &[1.0], 1.0, Some(1e30)).passed);
        assert!(!compared(&[f32::INFINITY], &[1.0], 1.0, Some(1e30)).passed);
        assert!(!compared(&[1.0], &[f32::INFINITY], 1.0, Some(1e30)).passed);
        assert!(!compared(&[1.0, f32::NAN], &[f32::NAN, 1.0], 1.0, Some(1e30)).passed);
        assert!(compared(&[f32::NAN, f32::INFINITY], &[f32::NAN, f32::INFINITY], 0.0, Some(0.0)).passed);
    }

    #[test]
    fn whole_numbers_are_equal_or_not() {
        let output = ValueInfo { name: "y".into(), dtype: "int64".into(), shape: vec![2] };
        let bytes = |values: [i64; 2]| values.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>();
        let reference =
            Tensor { name: String::new(), dtype: "int64".into(), shape: vec![2], bytes: bytes([2, 100_050]) };
        let compared =
            |found, tolerance| compare(&output, &bytes(found), &reference, Path::new("y.npy"), tolerance);
        let default = Tolerance { rtol: None, atol: None };
        assert!(compared([2, 100_050], default).passed);
        let wrong = compared([2, 100_051], default);
        assert!(!wrong.passed);
        assert_eq!(wrong.json()["worst"]["index"], json!([1]));
        assert!(compared([2, 100_051], Tolerance { rtol: None, atol: Some(1.0) }).passed);
    }

    #[test]
    fn another_shape_is_a_difference() {
        let output = ValueInfo { name: "y".into(), dtype: "float32".into(), shape: vec![2] };
        let reference =
            Tensor { name: String::new(), dtype: "float32".into(), shape: vec![1, 2], bytes: vec![0; 8] };
        let tolerance = Tolerance { rtol: Some(1.0), atol: None };
        let comparison = compare(&output, &[0; 8], &reference, Path::new("y.pb"), tolerance);
        assert!(!comparison.passed);
        assert!(comparison.text("float32").contains("shape: expected [1, 2], found [2]"));
    }
}

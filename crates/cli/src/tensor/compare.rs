//! Comparing an output with its reference.

use std::path::Path;

use opkeep_onnx::{Tensor, ValueInfo};
use serde::Serialize;

use crate::tensor::tolerance::Allowed;
use crate::tensor::tolerance::Tolerance;
use crate::tensor::values::{Element, elements};
use crate::ui::json;
use crate::ui::json::Number;
use crate::ui::text::counted;

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
    /// The greatest error as a part of its reference; infinite, where that is 0 or no number.
    relative: f64,
    /// The greatest one of references that are numbers other than 0.
    relative_beside_zero: f64,
    /// The greatest error as a part of its reference or of the scale there, whichever is larger.
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

/// An error as a part of something. One beside nothing, or an infinite one, as of a number beside none, is beyond all.
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

/// A comparison for programs.
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
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn json_of(comparison: &Comparison) -> Value {
        serde_json::to_value(comparison.output()).unwrap()
    }

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
        assert_eq!(json_of(&far)["worst"]["index"], json!([0, 1]));
        assert_eq!(json_of(&far)["outside"], 1);
        // Small elements are judged by the size of the whole, unless a tolerance is given.
        assert!(compared(&[100.0, 0.00009], &[100.0, 0.0], 1e-3, None).passed);
        assert!(!compared(&[100.0, 0.001], &[100.0, 0.0], 1e-3, None).passed);
        assert!(!compared(&[100.0, 0.001], &[100.0, 0.0], 1e-3, Some(1e-7)).passed);
        assert!(!compared(&[100.0, 0.1], &[100.0, 0.0], 1e-3, None).passed);
    }

    #[test]
    fn the_worst_element_is_shown_whatever_is_allowed() {
        let last = compared(&[1.0, 2.0, 3.0, 5.0], &[1.0, 2.0, 3.5, 4.0], 0.0, Some(1e30));
        assert!(last.passed);
        assert_eq!(json_of(&last)["worst"]["index"], json!([0, 3]));
    }

    #[test]
    fn huge_references_allow_nothing_to_the_others() {
        let huge = f32::MAX;
        // A quarter, half, and all but one of them, as a mask leaves them.
        for references in [
            vec![300.0, 200.0, 100.0, huge],
            vec![300.0, huge],
            vec![300.0, huge, -huge, huge, -huge, huge],
            vec![300.0, 1e10, 1e18, 1e26, 1e34, huge],
            vec![300.0, -1e12, -1e12],
            vec![300.0, f32::INFINITY, f32::NAN, f32::NEG_INFINITY],
        ] {
            let with = |first: f32| [&[first], &references[1..]].concat();
            for wrong in [3.0, 299.0, -300.0, 0.0, f32::NAN, huge] {
                let found = compared(&with(wrong), &references, 1e-3, None);
                assert!(!found.passed, "{wrong} in {references:?}: {}", found.text("float32"));
                assert_eq!(json_of(&found)["worst"]["index"], json!([0, 0]), "{references:?}");
            }
            assert!(compared(&with(300.1), &references, 1e-3, None).passed, "{references:?}");
        }
        let zero = compared(&[5.0, 1.0, huge, huge], &[0.0, 1.0, huge, huge], 1e-3, None);
        assert!(!zero.passed, "{}", zero.text("float32"));
    }

    #[test]
    fn references_of_any_size_are_judged_by_their_own() {
        for size in [1e-38_f32, 1e-30, 1e-6, 1.0, 1e30] {
            let references = [size, -2.0 * size, 0.5 * size, 0.0];
            assert!(compared(&references, &references, 1e-3, None).passed);
            assert!(
                compared(&[size * 1.0005, references[1], references[2], 0.0], &references, 1e-3, None).passed
            );
            for (at, wrong) in [(0, size * 1.01), (0, 0.0), (3, size * 0.01), (2, -0.5 * size)] {
                let mut found = references;
                found[at] = wrong;
                assert!(
                    !compared(&found, &references, 1e-3, None).passed,
                    "{wrong} at {at} of {references:?}"
                );
            }
        }
        // Where all are 0 there is no size to go by.
        assert!(compared(&[0.0, -0.0], &[0.0, 0.0], 1e-3, None).passed);
        assert!(!compared(&[1e-30, 0.0], &[0.0, 0.0], 1e-3, None).passed);
        assert!(compared(&[1e-30, 0.0], &[0.0, 0.0], 1e-3, Some(1e-20)).passed);
        assert!(compared(&[], &[], 1e-3, None).passed);
    }

    #[test]
    fn the_worst_relative_error_is_printed() {
        let found = compared(&[1.0, 2.2, 0.0], &[1.0, 2.0, 0.0], 1.0, Some(1.0));
        let relative = json_of(&found)["worst_relative"].as_f64().unwrap();
        assert!((relative - 0.1).abs() < 1e-6, "{relative}");
        assert!(found.text("float32").ends_with("worst relative error 1.0e-1"), "{}", found.text("float32"));
        assert!(
            compared(&[1.0], &[1.0], 1.0, None).text("float32").ends_with("worst relative error 0 (exact)")
        );
        // Nothing is a part of 0, or of what is no number.
        for (wrong, expected) in
            [(0.001, 0.0), (-1e-45, 0.0), (1.0, f32::NAN), (f32::NAN, 1.0), (1.0, f32::INFINITY)]
        {
            let found = compared(&[1.0, 2.2, wrong], &[1.0, 2.0, expected], 1.0, Some(1.0));
            assert_eq!(json_of(&found)["worst_relative"], "inf", "{wrong} {expected}");
            assert!(found.text("float32").contains("worst relative error inf"), "{}", found.text("float32"));
        }
        let found = compared(&[1.0, 2.2, 0.001], &[1.0, 2.0, 0.0], 1.0, Some(1.0));
        assert!(found.text("float32").contains("inf, and 1.0e-1 where"), "{}", found.text("float32"));
        assert!(compared(&[f32::NAN], &[f32::NAN], 1.0, None).text("float32").contains("0 (exact)"));
    }

    #[test]
    fn what_is_not_a_number_is_as_wrong_as_can_be() {
        assert!(!compared(&[f32::NAN], &[1.0], 1.0, Some(1e30)).passed);
        assert!(!compared(&[f32::INFINITY], &[1.0], 1.0, Some(1e30)).passed);
        assert!(!compared(&[1.0], &[f32::INFINITY], 1.0, Some(1e30)).passed);
        assert!(!compared(&[1.0, f32::NAN], &[f32::NAN, 1.0], 1.0, Some(1e30)).passed);
        assert!(compared(&[f32::NAN, f32::INFINITY], &[f32::NAN, f32::INFINITY], 0.0, Some(0.0)).passed);
        // The same infinity only, and the largest number is none, whatever is allowed.
        for (found, expected) in
            [(f32::NEG_INFINITY, f32::INFINITY), (f32::MAX, f32::INFINITY), (f32::INFINITY, f32::MAX)]
        {
            assert!(!compared(&[found], &[expected], 1e308, Some(1e308)).passed, "{found} {expected}");
        }
        // Whatever bits a NaN has.
        assert!(compared(&[f32::from_bits(0xffc0_1234)], &[f32::NAN], 0.0, Some(0.0)).passed);
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
        assert_eq!(json_of(&wrong)["worst"]["index"], json!([1]));
        // A relative tolerance is for the floats of the same network; an absolute one was meant.
        assert!(!compared([2, 100_051], Tolerance { rtol: Some(0.1), atol: None }).passed);
        assert!(compared([2, 100_051], Tolerance { rtol: None, atol: Some(1.0) }).passed);
        // Two that are one as float64.
        let (near, far) = (bytes([i64::MAX, 0]), bytes([i64::MAX - 1, 0]));
        let reference = Tensor { bytes: near, ..reference };
        assert!(!compare(&output, &far, &reference, Path::new("y.npy"), default).passed);
    }

    #[test]
    fn truth_values_are_equal_or_not_whatever_is_allowed() {
        let output = ValueInfo { name: "y".into(), dtype: "bool".into(), shape: vec![2] };
        let reference =
            Tensor { name: String::new(), dtype: "bool".into(), shape: vec![2], bytes: vec![1, 0] };
        let tolerance = Tolerance { rtol: Some(1e9), atol: Some(1e9) };
        let passed = |found: &[u8]| compare(&output, found, &reference, Path::new("y"), tolerance).passed;
        assert!(passed(&[1, 0]) && passed(&[7, 0]) && !passed(&[1, 1]) && !passed(&[0, 0]));
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

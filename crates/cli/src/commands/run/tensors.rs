//! The outputs of a run and their comparisons, as text and as JSON.

use std::path::{Path, PathBuf};

use opkeep_backend::Buffer;
use opkeep_onnx::ValueInfo;
use opkeep_tensors::{Comparison, Element, ElementErrors, WorstElement, elements, summary};
use serde::Serialize;
use serde_json::Value;

use crate::ui::json::{self, Number};
use crate::ui::text::Text;

/// The maximum number of elements of an output whose values are in JSON.
const MAX_VALUES: usize = 1024;

/// Returns output number `at` as text: its values, or a summary of them.
pub(super) fn tensor_text(at: usize, info: &ValueInfo, buffer: &Buffer) -> Text {
    let ValueInfo { name, dtype, shape } = info;
    let name = if *name == format!("output {at}") { String::new() } else { format!(" `{name}`") };
    let mut text = Text::of(format_args!("output {at}{name}: {dtype} {shape:?}"));
    text.line(summary(dtype, buffer.bytes()));
    text
}

/// Returns the line about the comparison of an output with the reference in `file`.
pub(super) fn comparison_text(output: &ValueInfo, file: &Path, comparison: &Comparison) -> String {
    let word = if comparison.passed() { "equal" } else { "DIFFERS" };
    format!("{word:8} `{}` and {}: {comparison}", output.name, json::path(file))
}

/// An output as JSON, with its values unless there are many.
#[derive(Serialize)]
pub(super) struct TensorOutput {
    name: String,
    dtype: String,
    shape: Vec<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Vec<ElementOutput>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

/// An element, serialized as the shortest number that reads back as it; infinities and NaN are serialized as text.
#[derive(Serialize)]
#[serde(untagged)]
enum ElementOutput {
    Shortest(Value),
    Number(Number),
}

impl TensorOutput {
    /// Creates the output `info` with the values in `buffer`, which is written to `file`.
    pub(super) fn new(info: &ValueInfo, buffer: &Buffer, file: Option<&PathBuf>) -> Self {
        let ValueInfo { name, dtype, shape } = info.clone();
        let values = || elements(&info.dtype, buffer.bytes());
        let value = |value: Element| match serde_json::from_str(&value.to_string()) {
            Ok(shortest) => ElementOutput::Shortest(shortest),
            Err(_) => ElementOutput::Number(Number(value.number())),
        };
        let values = (values().count() <= MAX_VALUES).then(|| values().map(value).collect());
        Self { name, dtype, shape, values, file: file.map(|file| json::path(file)) }
    }
}

/// A comparison as JSON.
#[derive(Serialize)]
pub(super) struct ComparisonOutput {
    output: String,
    reference: String,
    pub(super) passed: bool,
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

impl ComparisonOutput {
    pub(super) fn new(output: &ValueInfo, file: &Path, comparison: &Comparison) -> Self {
        let (problem, errors) = match comparison {
            Comparison::Compared(errors) => (None, Some(errors.into())),
            incomparable => (Some(incomparable.to_string()), None),
        };
        let (output, reference) = (output.name.clone(), json::path(file));
        Self { output, reference, passed: comparison.passed(), problem, errors }
    }
}

impl From<&ElementErrors> for ErrorsOutput {
    fn from(errors: &ElementErrors) -> Self {
        let worst = |worst: &WorstElement| WorstOutput {
            index: worst.index.clone(),
            expected: Number(worst.expected.number()),
            found: Number(worst.found.number()),
            error: Number(worst.error),
            allowed: Number(worst.allowed),
        };
        Self {
            elements: errors.elements,
            outside: errors.outside,
            worst: errors.worst.as_ref().map(worst),
            worst_relative: Number(errors.relative),
            worst_relative_beside_zero: Number(errors.relative_beside_zero),
            scale: Number(errors.scale),
            worst_over_scale: Number(errors.over_scale),
            rms: Number(errors.rms),
            worst_over_rms: Number(errors.over_rms()),
            rtol: Number(errors.rtol),
            atol: Number(errors.atol),
        }
    }
}

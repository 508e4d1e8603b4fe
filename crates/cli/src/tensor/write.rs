//! Shows and writes the outputs of a run.

use std::path::Path;

use anyhow::Context;
use opkeep_backend::Buffer;
use opkeep_fs::Fs;
use opkeep_onnx::{Tensor, ValueInfo};
use serde::Serialize;
use serde_json::Value;

use crate::tensor::values::{Element, elements, rounded};
use crate::ui::json::{self, Number};
use crate::ui::text::Text;

/// The maximum number of elements of an output whose values are in JSON.
const MAX_VALUES: usize = 1024;
/// The maximum number of elements of an output whose values are in text; larger outputs have a summary.
const MAX_SHOWN: usize = 16;

/// Writes each output to `directory`, and returns the files.
pub(crate) fn write_outputs(
    directory: &Path,
    outputs: &[ValueInfo],
    buffers: &[Buffer],
) -> anyhow::Result<Vec<String>> {
    let cannot = || format!("cannot create the directory `{}`", directory.display());
    Fs::new().create_dirs(directory, 0o777).with_context(cannot)?;
    let write = |(at, (info, buffer)): (usize, (&ValueInfo, &Buffer))| {
        let path = directory.join(format!("output_{at}.npy"));
        let ValueInfo { name, dtype, shape } = info.clone();
        opkeep_onnx::write_npy(&path, &Tensor { name, dtype, shape, bytes: buffer.bytes().to_vec() })?;
        Ok(json::path(&path))
    };
    outputs.iter().zip(buffers).enumerate().map(write).collect()
}

/// Returns an output as text: its values, or a summary of them.
pub(crate) fn text(at: usize, info: &ValueInfo, buffer: &Buffer) -> Text {
    let name = match info.name == format!("output {at}") {
        true => String::new(),
        false => format!(" `{}`", info.name),
    };
    let mut text = Text::of(format_args!("output {at}{name}: {} {:?}", info.dtype, info.shape));
    let values = || elements(&info.dtype, buffer.bytes());
    if values().count() <= MAX_SHOWN {
        let values: Vec<String> = values().map(|value| value.shown(&info.dtype)).collect();
        text.line(format_args!("[{}]", values.join(", ")));
        return text;
    }
    let (mut least, mut most, mut sum, mut count) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0.0);
    let mut not_numbers = 0;
    for value in values().map(|value| value.number()) {
        not_numbers += usize::from(value.is_nan());
        (least, most) = (least.min(value), most.max(value));
        (sum, count) = (sum + value, count + 1.0);
    }
    let first: Vec<String> = values().take(4).map(|value| value.shown(&info.dtype)).collect();
    let nan = if not_numbers == 0 { String::new() } else { format!(", {not_numbers} not a number") };
    text.line(format_args!(
        "[{}, ...] from {} to {}, mean {}{nan}",
        first.join(", "),
        rounded(least),
        rounded(most),
        rounded(sum / count)
    ));
    text
}

/// An output as JSON, with its values unless there are many.
#[derive(Serialize)]
pub(crate) struct TensorOutput {
    name: String,
    dtype: String,
    shape: Vec<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Vec<ElementOutput>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

/// A float32, serialized as the shortest number that reads back as it; infinities and NaN are serialized as text.
#[derive(Serialize)]
#[serde(untagged)]
enum ElementOutput {
    Shortest(Value),
    Number(Number),
}

impl TensorOutput {
    /// Creates the output `info` with the values in `buffer`, which is written to `file`.
    pub(crate) fn new(info: &ValueInfo, buffer: &Buffer, file: Option<&String>) -> Self {
        let values = || elements(&info.dtype, buffer.bytes());
        let value = |value: Element| match serde_json::from_str(&value.shown(&info.dtype)) {
            Ok(shortest) => ElementOutput::Shortest(shortest),
            Err(_) => ElementOutput::Number(Number(value.number())),
        };
        Self {
            name: info.name.clone(),
            dtype: info.dtype.clone(),
            shape: info.shape.clone(),
            values: (values().count() <= MAX_VALUES).then(|| values().map(value).collect()),
            file: file.cloned(),
        }
    }
}

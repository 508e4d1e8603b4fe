//! Writes and summarizes the outputs of a run.

use std::path::{Path, PathBuf};

use opkeep_backend::Buffer;
use opkeep_fs::Fs;
use opkeep_onnx::{Tensor, ValueInfo, write_npy};

use crate::element::{elements, rounded};
use crate::error::TensorError;

/// The maximum number of elements that a summary lists.
const MAX_LISTED: usize = 16;

/// Writes each output to `dir` as `output_<index>.npy`, and returns the paths. The directory is created if it is missing;
/// each file replaces an existing one at once.
///
/// # Errors
/// The directory cannot be created, a file cannot be written, or a buffer does not have the bytes of its output.
pub fn write_outputs(
    dir: &Path,
    outputs: &[ValueInfo],
    buffers: &[Buffer],
) -> Result<Vec<PathBuf>, TensorError> {
    let failed = |source| TensorError::CreateDir { dir: dir.to_owned(), source };
    Fs::new().create_dirs(dir, 0o777).map_err(failed)?;
    let write = |(index, (info, buffer)): (usize, (&ValueInfo, &Buffer))| {
        let path = dir.join(format!("output_{index}.npy"));
        let ValueInfo { name, dtype, shape } = info.clone();
        write_npy(&path, &Tensor { name, dtype, shape, bytes: buffer.bytes().to_vec() })?;
        Ok(path)
    };
    outputs.iter().zip(buffers).enumerate().map(write).collect()
}

/// Returns a text of one line: all elements of a small tensor; of a larger one the first four, the smallest, the largest,
/// the mean, and the number of NaN.
pub fn summary(dtype: &str, bytes: &[u8]) -> String {
    let list = |limit: usize| {
        let listed: Vec<String> = elements(dtype, bytes).take(limit).map(|value| value.to_string()).collect();
        listed.join(", ")
    };
    if elements(dtype, bytes).count() <= MAX_LISTED {
        return format!("[{}]", list(MAX_LISTED));
    }
    let (mut min, mut max, mut sum, mut count) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0.0);
    let mut nan_count = 0;
    for value in elements(dtype, bytes).map(|value| value.number()) {
        nan_count += usize::from(value.is_nan());
        (min, max) = (min.min(value), max.max(value));
        (sum, count) = (sum + value, count + 1.0);
    }
    let nan = if nan_count == 0 { String::new() } else { format!(", {nan_count} not a number") };
    let (min, max, mean) = (rounded(min), rounded(max), rounded(sum / count));
    format!("[{}, ...] from {min} to {max}, mean {mean}{nan}", list(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_tensor_has_a_summary_with_nan_counted() {
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
        assert_eq!(summary("float32", &bytes(&[0.5, -1e-7])), "[0.5, -1e-7]");
        let mut values = [1.0; 20];
        (values[0], values[19]) = (-3.0, 5.0);
        assert_eq!(
            summary("float32", &bytes(&values)),
            "[-3, 1, 1, 1, ...] from -3.000000 to 5.000000, mean 1.000000"
        );
        values[7] = f32::NAN;
        assert_eq!(
            summary("float32", &bytes(&values)),
            "[-3, 1, 1, 1, ...] from -3.000000 to 5.000000, mean NaN, 1 not a number"
        );
    }

    #[test]
    fn outputs_are_written_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let outputs = ["a/b", ""].map(|name| ValueInfo {
            name: name.to_owned(),
            dtype: "int8".to_owned(),
            shape: vec![2],
        });
        let buffers = [Buffer::zeroed(2), Buffer::zeroed(2)];
        let into = dir.path().join("new/deep");
        let files = write_outputs(&into, &outputs, &buffers).unwrap();
        assert_eq!(files, ["output_0.npy", "output_1.npy"].map(|name| into.join(name)));
        for file in &files {
            let tensor = opkeep_onnx::read_tensor(file).unwrap();
            assert_eq!((tensor.dtype.as_str(), tensor.shape, tensor.bytes), ("int8", vec![2], vec![0, 0]));
        }
        let error = write_outputs(&files[0], &outputs, &buffers).unwrap_err();
        assert!(error.to_string().starts_with("cannot create the directory"), "{error}");
    }
}

//! The inputs of a network or an operator.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use opkeep_backend::Buffer;
use opkeep_onnx::ValueInfo;

use crate::input;
use crate::tensor::values::{bytes_of, size};
use crate::ui::text::counted;

#[derive(Debug, clap::Args)]
pub(crate) struct FeedArgs {
    /// The values of an input: a TensorProto (.pb) or a NumPy array (.npy). They are for the input that the file names;
    /// without such a name, for the next input in order
    #[arg(long = "input", value_name = "FILE")]
    pub(crate) inputs: Vec<PathBuf>,
    /// The values of an input, row by row, such as 1,4,9; given once per input, in order
    #[arg(long, value_name = "V,V,...", allow_hyphen_values = true, conflicts_with = "inputs")]
    pub(crate) input_values: Vec<String>,
    /// The values of inputs that are not given: ramp (element i of n is i/n; for integers 0 and 1 in turn) or random:SEED
    /// (normally distributed; for integers 0 or 1)
    #[arg(long, value_name = "FILL", value_parser = fill)]
    pub(crate) input_fill: Option<Fill>,
}

/// The values of inputs that are not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    Ramp,
    Random(u64),
}

fn fill(text: &str) -> Result<Fill, String> {
    match text.split_once(':') {
        None if text == "ramp" => Ok(Fill::Ramp),
        Some(("random", seed)) => {
            seed.parse().map(Fill::Random).map_err(|_| format!("the seed `{seed}` is not a whole number"))
        }
        _ => Err("expected `ramp` or `random:SEED`".to_owned()),
    }
}

/// Returns the elements of every input, from the command line.
pub(crate) fn inputs(expected: &[ValueInfo], args: &FeedArgs) -> anyhow::Result<Vec<Buffer>> {
    let mut inputs: Vec<Option<Buffer>> = expected.iter().map(|_| None).collect();
    for (file, at, tensor) in assigned(&args.inputs, expected, "input")? {
        let info = &expected[at];
        let problem = |what: &str, expected: &str, found: &str| {
            format!(
                "`{}` for input `{}`: {what}: expected {expected}, found {found}",
                file.display(),
                info.name
            )
        };
        ensure!(tensor.dtype == info.dtype, problem("element type", &info.dtype, &tensor.dtype));
        let (wanted, found) = (format!("{:?}", info.shape), format!("{:?}", tensor.shape));
        ensure!(tensor.shape == info.shape, problem("shape", &wanted, &found));
        inputs[at] = Some(buffer(&tensor.bytes)?);
    }
    if !args.input_values.is_empty() {
        ensure!(
            args.input_values.len() <= expected.len(),
            "there are {} ({}), and --input-values was given {} times; give it once for each",
            counted(expected.len(), "input"),
            described(expected.iter()),
            args.input_values.len()
        );
        for (at, text) in args.input_values.iter().enumerate() {
            inputs[at] = Some(written(at, &expected[at], text)?);
        }
    }
    if let Some(fill) = args.input_fill {
        for (at, info) in
            expected.iter().enumerate().filter(|(at, _)| inputs[*at].is_none()).collect::<Vec<_>>()
        {
            inputs[at] = Some(filled(info, fill, at)?);
        }
    }
    let missing: Vec<&ValueInfo> =
        expected.iter().zip(&inputs).filter(|(_, given)| given.is_none()).map(|(info, _)| info).collect();
    if !missing.is_empty() {
        bail!(
            "no values for {}; give them with --input FILE (.pb or .npy) or --input-values, or generate them with \
             --input-fill ramp or --input-fill random:SEED",
            described(missing.into_iter())
        );
    }
    Ok(inputs.into_iter().flatten().collect())
}

fn described<'a>(infos: impl Iterator<Item = &'a ValueInfo>) -> String {
    let one = |info: &ValueInfo| format!("`{}` ({} {:?})", info.name, info.dtype, info.shape);
    infos.map(one).collect::<Vec<_>>().join(", ")
}

/// Returns tensor files, each with the index of its input or output: by the name in the file. Files without a name take
/// the remaining ones in order.
pub(crate) fn assigned<'a>(
    files: &'a [PathBuf],
    expected: &[ValueInfo],
    what: &str,
) -> anyhow::Result<Vec<(&'a PathBuf, usize, opkeep_onnx::Tensor)>> {
    let mut taken: Vec<Option<&PathBuf>> = vec![None; expected.len()];
    let (mut found, mut nameless) = (Vec::new(), Vec::new());
    for file in files {
        let tensor = opkeep_onnx::read_tensor(file).map_err(|error| input::named(file, error))?;
        let named = expected.iter().position(|info| !tensor.name.is_empty() && info.name == tensor.name);
        let Some(at) = named else {
            nameless.push((file, tensor));
            continue;
        };
        if let Some(other) = taken[at].replace(file) {
            let name = &expected[at].name;
            bail!("`{}` and `{}` are both for {what} `{name}`", other.display(), file.display());
        }
        found.push((file, at, tensor));
    }
    for (file, tensor) in nameless {
        let Some(at) = taken.iter().position(Option::is_none) else {
            bail!(
                "`{}` is for no {what}: there are {}",
                file.display(),
                if expected.is_empty() { "none".to_owned() } else { described(expected.iter()) }
            );
        };
        taken[at] = Some(file);
        found.push((file, at, tensor));
    }
    Ok(found)
}

fn buffer(bytes: &[u8]) -> anyhow::Result<Buffer> {
    let mut buffer = room(bytes.len())?;
    buffer.bytes_mut().copy_from_slice(bytes);
    Ok(buffer)
}

fn room(bytes: usize) -> anyhow::Result<Buffer> {
    Buffer::try_zeroed(bytes).with_context(|| format!("no memory for an input of {bytes} bytes"))
}

/// Parses the values of an input from the command line.
fn written(at: usize, info: &ValueInfo, text: &str) -> anyhow::Result<Buffer> {
    let words: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    let expected = size(&info.dtype, &info.shape).map(|(count, _)| count);
    if expected != Some(words.len()) {
        let expected = expected.map_or("too many".to_owned(), |expected| expected.to_string());
        bail!("input {at} has shape {:?}: expected {expected} values, found {}", info.shape, words.len());
    }
    let mut bytes = Vec::new();
    for word in words {
        bytes.extend(parsed(&info.dtype, word).with_context(|| {
            format!("input {at}: `{word}` is not a number that a {} can hold", info.dtype)
        })?);
    }
    buffer(&bytes)
}

fn parsed(dtype: &str, word: &str) -> Option<Vec<u8>> {
    match dtype {
        "float32" => word.parse::<f32>().ok().map(|value| value.to_ne_bytes().to_vec()),
        "float64" => word.parse::<f64>().ok().map(|value| value.to_ne_bytes().to_vec()),
        "int8" => word.parse::<i8>().ok().map(|value| value.to_ne_bytes().to_vec()),
        "int32" => word.parse::<i32>().ok().map(|value| value.to_ne_bytes().to_vec()),
        "int64" => word.parse::<i64>().ok().map(|value| value.to_ne_bytes().to_vec()),
        "uint8" => word.parse::<u8>().ok().map(|value| value.to_ne_bytes().to_vec()),
        "bool" => match word {
            "true" | "1" => Some(vec![1]),
            "false" | "0" => Some(vec![0]),
            _ => None,
        },
        _ => None,
    }
}

/// Generates the values of an input. The input's number is part of the seed, so that two inputs differ.
fn filled(info: &ValueInfo, fill: Fill, at: usize) -> anyhow::Result<Buffer> {
    let (count, bytes) = size(&info.dtype, &info.shape)
        .with_context(|| format!("input `{}` has no size: {} {:?}", info.name, info.dtype, info.shape))?;
    let whole = !info.dtype.starts_with("float");
    let mut random = match fill {
        Fill::Ramp => None,
        Fill::Random(seed) => Some(Random::new(seed, at)),
    };
    let mut value = |index: usize| match (&mut random, whole) {
        (None, false) => index as f64 / count as f64,
        (None, true) => (index % 2) as f64,
        (Some(random), false) => random.normal(),
        (Some(random), true) => (random.next() >> 63) as f64,
    };
    let mut buffer = room(bytes)?;
    if count == 0 {
        return Ok(buffer);
    }
    for (index, slot) in buffer.bytes_mut().chunks_exact_mut(bytes / count).enumerate() {
        let element = bytes_of(&info.dtype, value(index))
            .with_context(|| format!("input `{}`: no values can be made up for {}", info.name, info.dtype))?;
        slot.copy_from_slice(&element);
    }
    Ok(buffer)
}

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
struct Random(u64);

impl Random {
    fn new(seed: u64, stream: usize) -> Self {
        let mut random = Self(seed);
        let start = random.next().wrapping_add((stream as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self(start)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number between 0 and 1, both excluded.
    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Returns a normally distributed number, by the method of Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests;

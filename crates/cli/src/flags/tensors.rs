//! Arguments about the inputs and outputs of a model that runs.

use std::path::PathBuf;

use opkeep_tensors::{Fill, InputSources, Tolerance};

#[derive(Debug, clap::Args)]
pub(crate) struct InputArgs {
    /// The values of an input: a TensorProto (.pb) or a NumPy array (.npy)
    ///
    /// They are for the input that the file names; without such a name, for the next input in order.
    #[arg(long = "input", value_name = "FILE")]
    inputs: Vec<PathBuf>,
    /// The values of an input, row by row, such as 1,4,9
    ///
    /// Given once per input, in order.
    #[arg(long, value_name = "V,V,...", allow_hyphen_values = true, conflicts_with = "inputs")]
    input_values: Vec<String>,
    /// How inputs that are not given are filled: ramp or random:SEED
    ///
    /// With ramp, element i of n is i/n, and integers are 0 and 1 in turn. With random:SEED, values are normally
    /// distributed, and integers are 0 or 1.
    #[arg(long, value_name = "FILL")]
    input_fill: Option<Fill>,
}

impl InputArgs {
    pub(crate) fn sources(&self) -> InputSources<'_> {
        InputSources { files: &self.inputs, values: &self.input_values, fill: self.input_fill }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ToleranceArgs {
    /// The relative tolerance [default: 1e-3]
    ///
    /// Floats only: integers and bools must be equal. NaN only equals NaN, and an infinity only itself, whatever the
    /// tolerance.
    #[arg(long, value_parser = tolerance, value_name = "R")]
    rtol: Option<f64>,
    /// The absolute tolerance, which is added to the relative one
    ///
    /// Also of integers. [default: 0 for integers; for floats 1e-4 of M, at most a tenth of the reference and at
    /// least the rounding noise of the type: 2^-20 of M for float32, 2^-9 for float16, 2^-6 for bfloat16, 2^-49 for
    /// float64]
    ///
    /// M is the median of the output's references other than 0, each value once, up to 2^24 times as large as the
    /// element's own.
    #[arg(long, value_parser = tolerance, value_name = "A")]
    atol: Option<f64>,
}

impl ToleranceArgs {
    pub(crate) fn tolerance(&self) -> Tolerance {
        Tolerance { rtol: self.rtol, atol: self.atol }
    }
}

fn tolerance(text: &str) -> Result<f64, String> {
    let value: Option<f64> = text.parse().ok();
    // With an infinite tolerance every element would pass.
    let value = value.filter(|value| *value >= 0.0 && value.is_finite());
    value.ok_or_else(|| "expected a number of 0 or more".to_owned())
}

//! `opbuild run`.

use std::num::NonZeroUsize;

use anyhow::{Context, bail};
use opbuild::Outcome;
use opbuild_artifact::Artifact;
use opbuild_backend::Buffer;
use opbuild_descriptor::{Arg, Job, Tensor};
use serde_json::{Value, json};

use crate::args::RunArgs;
use crate::build::{backend, builder, note_targets, request, summary, tell};
use crate::output::{Output, Verdict};
use crate::{input, interrupt};

/// Values that are printed of an output; JSON has them all.
const MAX_SHOWN: usize = 1024;

pub(crate) fn run(args: &RunArgs, output: &Output) -> anyhow::Result<Verdict> {
    let request = request(input::read_descriptor(&args.input)?, &args.common);
    let job = request.descriptor.job.clone();
    let inputs = inputs(&job, &args.input_values)?;
    note_targets(std::slice::from_ref(&request), &args.common, output);

    let cancel = interrupt::cancel();
    let report = builder(&args.common, &cancel, output)?.build(std::slice::from_ref(&request))?;
    tell(&report, output);
    let Some(kernel) = report.kernels.first() else { bail!("the build gave no kernel") };
    let problem = |error: anyhow::Error| {
        output.failure(&error);
        Ok(if cancel.is_cancelled() { Verdict::Interrupted } else { Verdict::Problems })
    };
    let Some(artifact) = &kernel.artifact else {
        let reason = kernel.reason.as_deref().unwrap_or("no reason was given");
        return problem(anyhow::anyhow!("`{}` could not be built: {reason}", kernel.name));
    };
    let outputs = match launch(args, artifact, &job, &inputs) {
        Ok(outputs) => outputs,
        Err(error) => return problem(error.context("the kernel was built, and cannot be run")),
    };

    let tensors = job.ops.iter().flat_map(|op| &op.outputs).flat_map(Arg::iter);
    let (mut text, mut json_outputs) = (String::new(), Vec::new());
    for (at, (tensor, buffer)) in tensors.zip(&outputs).enumerate() {
        let values = shown(tensor, buffer);
        let shown = values[..values.len().min(MAX_SHOWN)].join(", ");
        let more = match values.len() - values.len().min(MAX_SHOWN) {
            0 => String::new(),
            more => format!(", ... {more} more"),
        };
        text.push_str(&format!("output {at}: {} {:?}\n[{shown}{more}]\n", tensor.dtype, tensor.shape));
        let values: Vec<Value> = values.iter().map(|value| json_value(value)).collect();
        json_outputs.push(json!({ "dtype": tensor.dtype, "shape": tensor.shape, "values": values }));
    }
    text.push_str(&format!("{} {}\n{}", kernel.outcome, kernel.name, summary(&report)));
    let json = json!({
        "kernel": kernel.name,
        "key": kernel.key.map(|key| key.to_string()),
        "outcome": kernel.outcome.name(),
        "compiled": report.count(Outcome::Compiled),
        "reused": report.count(Outcome::Reused),
        "outputs": json_outputs,
    });
    output.result(&text, &json)?;
    Ok(Verdict::Good)
}

/// Loads the kernel and runs it once.
fn launch(args: &RunArgs, artifact: &Artifact, job: &Job, inputs: &[Buffer]) -> anyhow::Result<Vec<Buffer>> {
    let backend = backend(&args.common)?;
    let loader =
        backend.loader().with_context(|| format!("backend `{}` has no loader here", backend.name()))?;
    let loaded = loader.load(artifact, job)?;
    let room = |bytes: &usize| {
        Buffer::try_zeroed(*bytes).with_context(|| format!("no memory for an output of {bytes} bytes"))
    };
    let mut outputs = loaded.output_bytes().iter().map(room).collect::<Result<Vec<_>, _>>()?;
    let input_buffers: Vec<&[u8]> = inputs.iter().map(Buffer::bytes).collect();
    let mut output_buffers: Vec<&mut [u8]> = outputs.iter_mut().map(Buffer::bytes_mut).collect();
    let threads = args.common.jobs.or_else(|| std::thread::available_parallelism().ok());
    loaded.launch(&input_buffers, &mut output_buffers, threads.unwrap_or(NonZeroUsize::MIN))?;
    Ok(outputs)
}

/// The values of every input, as the command line gives them.
fn inputs(job: &Job, given: &[String]) -> anyhow::Result<Vec<Buffer>> {
    let tensors: Vec<&Tensor> = job.data.iter().flat_map(|data| &data.outputs).flat_map(Arg::iter).collect();
    if tensors.len() != given.len() {
        let shapes: Vec<String> =
            tensors.iter().map(|tensor| format!("{} {:?}", tensor.dtype, tensor.shape)).collect();
        bail!(
            "the operator has {} input(s) ({}), and --input-values was given {} time(s); give it once for each",
            tensors.len(),
            shapes.join(", "),
            given.len()
        );
    }
    tensors.iter().zip(given).enumerate().map(|(at, (tensor, text))| input(at, tensor, text)).collect()
}

fn input(at: usize, tensor: &Tensor, text: &str) -> anyhow::Result<Buffer> {
    if tensor.dtype != "float32" {
        bail!("input {at} is {}; --input-values takes float32 only", tensor.dtype);
    }
    let values: Vec<f32> = text
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(|word| word.parse().with_context(|| format!("input {at}: `{word}` is not a number")))
        .collect::<Result<_, _>>()?;
    let expected = tensor.shape.iter().try_fold(1i64, |product, dim| product.checked_mul(*dim));
    if expected != Some(values.len() as i64) {
        let expected = expected.map_or("too many".to_owned(), |expected| expected.to_string());
        bail!("input {at} has shape {:?}: expected {expected} values, found {}", tensor.shape, values.len());
    }
    Ok(Buffer::of_f32(&values))
}

/// The values of a tensor, as they are printed: the shortest text that reads back as the same number.
fn shown(tensor: &Tensor, buffer: &Buffer) -> Vec<String> {
    match tensor.dtype.as_str() {
        "bool" => buffer.bytes().iter().map(|byte| (*byte != 0).to_string()).collect(),
        _ => buffer.to_f32().iter().map(f32::to_string).collect(),
    }
}

/// A printed value as JSON: a number or a truth value where JSON has it, else (NaN, inf) a text.
fn json_value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

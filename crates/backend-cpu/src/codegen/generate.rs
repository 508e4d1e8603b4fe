//! From a job to C.
//!
//! Each rule of the operator table has a generator, which returns the statements of the kernel's function and the code
//! before the function. This module checks a job, calls its generator, and renders the file.

use std::fmt::Write as _;

use opkeep_backend::{BackendError, Unsupported};
use opkeep_descriptor::{Arg, Job, Op, Tensor};
use opkeep_ops::{Call, OpSpec, Rule};

use crate::LAUNCH_ABI;
use crate::codegen::code::{Args, Code, MAX_BLOCKS, invalid, mentions, refused};
use crate::codegen::concat;
use crate::codegen::conv;
use crate::codegen::elementwise;
use crate::codegen::gather;
use crate::codegen::layer_norm;
use crate::codegen::lrn;
use crate::codegen::matmul;
use crate::codegen::pad;
use crate::codegen::pool;
use crate::codegen::reduce;
use crate::codegen::slice;
use crate::codegen::softmax;
use crate::codegen::transpose;
use crate::codegen::types;

/// Generated C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// The text of the file.
    pub text: String,
    /// The number of blocks of a launch.
    pub blocks: u32,
}

/// The C for `job`, with `symbol` as the kernel's function; `overrides` may replace an elementwise operator's
/// expression.
///
/// # Errors
/// [`BackendError::Unsupported`], for a job that this backend has no code for.
pub fn generate(
    job: &Job,
    symbol: &str,
    overrides: impl Fn(&str) -> Option<String>,
) -> Result<Generated, BackendError> {
    let [op] = job.ops.as_slice() else {
        return Err(Unsupported::Fused { backend: "cpu", ops: job.ops.len() }.into());
    };
    let call = checked(op)?;
    let args = Args::of(job, op)?;
    let outputs: Vec<&Tensor> = op.outputs.iter().flat_map(Arg::iter).collect();
    let code = match outputs.iter().all(|output| output.shape.contains(&0)) {
        // A kernel without output elements is launched, too, and a launch has at least one block.
        true => Code { blocks: 1, ..Code::default() },
        false => dispatch(&call, &args, overrides(&op.op_type))?,
    };
    let blocks =
        u32::try_from(code.blocks).ok().filter(|blocks| (1..=MAX_BLOCKS).contains(&(*blocks).into()));
    let blocks = blocks.ok_or_else(|| refused(&call, format!("invalid launch: {} blocks", code.blocks)))?;
    Ok(Generated { text: render(symbol, &call, &outputs, &code), blocks })
}

/// Generates the code by the operator's rule.
fn dispatch(call: &Call<'_>, args: &Args, expression: Option<String>) -> Result<Code, BackendError> {
    match call.spec().rule {
        Rule::Elementwise | Rule::Predicate => elementwise::elementwise(call, args, expression),
        Rule::Select => elementwise::select(call, args),
        Rule::Clip => elementwise::clip(call, args),
        Rule::Cast => elementwise::cast(call, args),
        Rule::Accumulate => elementwise::accumulate(call, args),
        Rule::PerChannel => elementwise::per_channel(call, args),
        Rule::BroadcastTo | Rule::Fill => elementwise::broadcast_to(call, args),
        Rule::Same if call.spec().op_type == "LRN" => lrn::lrn(call, args),
        Rule::Same => softmax::softmax(call, args),
        Rule::LayerNorm => layer_norm::layer_norm(call, args),
        Rule::Reduce => reduce::reduce(call, args),
        Rule::Transpose => transpose::transpose(call, args),
        Rule::Concat => concat::concat(call, args),
        Rule::Split | Rule::SplitV => concat::split(call, args),
        Rule::Gather => gather::gather(call, args),
        Rule::Slice => slice::slice(call, args),
        Rule::Tile => slice::tile(call, args),
        Rule::Pad => pad::pad(call, args),
        Rule::Conv2d => conv::conv2d(call, args),
        Rule::MatMul => matmul::matmul(call, args),
        Rule::Pool => pool::pool(call, args),
        rule => Err(refused(call, format!("there is no code for the rule {rule:?}"))),
    }
}

/// The call of `op`, if there can be code for it. The error is the most specific one.
fn checked(op: &Op) -> Result<Call<'_>, BackendError> {
    let op_type = || op.op_type.clone();
    let spec = OpSpec::of(op).map_err(|_| Unsupported::Op { backend: "cpu", op_type: op_type() })?;
    let inputs = op.inputs.iter().flat_map(Arg::iter).map(|input| &input.tensor);
    let mut tensors = inputs.chain(op.outputs.iter().flat_map(Arg::iter));
    if let Some(tensor) = tensors.find(|tensor| tensor.shape.iter().any(|dim| *dim < 0)) {
        let shape = tensor.shape.clone();
        return Err(Unsupported::DynamicShape { backend: "cpu", op_type: op_type(), shape }.into());
    }
    spec.check(op).map_err(invalid)?;
    let call = Call::of(op).map_err(invalid)?;
    let output_dtype =
        op.outputs.iter().flat_map(Arg::iter).next().map_or("", |output| output.dtype.as_str());
    types::check(&call, output_dtype)?;
    Ok(call)
}

/// The file: a comment about the kernel, the code before its function, and the function.
fn render(symbol: &str, call: &Call<'_>, outputs: &[&Tensor], code: &Code) -> String {
    let Code { before, body, .. } = code;
    let mut c = header(call, outputs);
    c.push_str(before);
    // Writing to a String cannot fail.
    let _ = writeln!(
        c,
        "__attribute__((visibility(\"default\")))\n\
         void {symbol}(const void *const *inputs, void *const *outputs, void *workspace, unsigned long block)\n{{"
    );
    for parameter in ["inputs", "outputs", "workspace", "block"] {
        if !mentions(body, parameter) {
            let _ = writeln!(c, "    (void){parameter};");
        }
    }
    c.push_str(body);
    c.push_str("}\n");
    c
}

/// The comment at the top. Element types are among those that `types` knows.
fn header(call: &Call<'_>, outputs: &[&Tensor]) -> String {
    let inputs = listed(call.inputs().iter().flatten().map(|tensor| format!("{:?}", tensor.shape)));
    let output_shapes = listed(outputs.iter().map(|tensor| format!("{:?}", tensor.shape)));
    let (op_type, dtype) = (call.spec().op_type, outputs.first().map_or("", |output| output.dtype.as_str()));
    format!(
        "/* {op_type}: {inputs} -> {output_shapes}, {dtype}. Made by opkeep, launch ABI {LAUNCH_ABI}. */\n\n"
    )
}

/// The first items of a list, as text for a comment.
fn listed(items: impl Iterator<Item = String>) -> String {
    const SHOWN: usize = 8;
    let mut items = items.peekable();
    let mut shown: Vec<String> = items.by_ref().take(SHOWN).collect();
    if items.peek().is_some() {
        shown.push(format!("and {} more", items.count()));
    }
    shown.join(", ")
}

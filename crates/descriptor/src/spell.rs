//! A descriptor as another generation would write it, for the name that it would give.
//!
//! What a generation's files say beyond the descriptor has to be known to the letter, or there is no name: where it is
//! not documented how something is written, nothing is guessed.

use std::borrow::Cow;

use crate::info::{Descriptor, Form, Generation};
use crate::job::{Arg, Op, SliceFields, Tensor, ranges};
use crate::spec::{DtypeFields, OpLabels, TensorLabel};
use crate::vendor::NameError;
use crate::write;

/// Where MindSpore says that its built-in operators are.
const BUILT_IN: &str = "/usr/local/Ascend/opp/op_impl/built-in/ai_core/tbe";

/// The options that r1.2 writes.
const R1_2_OPTIONS: [&str; 9] = [
    "autoTilingMode",
    "coreNum",
    "coreType",
    "l1Fusion",
    "l2Fusion",
    "l2Mode",
    "op_debug_level",
    "op_impl_mode",
    "op_impl_mode_list",
];

/// The layout of a descriptor's file; `None` if a program made it.
fn form(descriptor: &Descriptor) -> Option<Form> {
    descriptor.envelope.generation.map(Generation::form)
}

/// In the words of r1.5 and later.
pub(crate) fn as_job_content(
    descriptor: &Descriptor,
    generation: Generation,
) -> Result<Cow<'_, Descriptor>, NameError> {
    if generation == Generation::R2_1 && !descriptor.spec.options.contains_key("te_version") {
        return Err(NameError::Unsaid { generation, what: "`te_version`, folders and device" });
    }
    if form(descriptor) == Some(Form::JobContent) {
        return Ok(Cow::Borrowed(descriptor));
    }
    if form(descriptor).is_some() {
        plain(&descriptor.job.ops, generation)?;
    }
    if descriptor.job.ops.iter().any(|op| op.op_type.is_empty()) {
        return Err(NameError::Unsaid { generation, what: "the operator's type" });
    }
    let mut spelled = descriptor.clone();
    let (data_labels, mut op_labels) = write::positional_labels(&spelled.job);
    op_labels.iter_mut().for_each(|labels| labels.output_data_desc = true);
    (spelled.envelope.data, spelled.envelope.ops) = (data_labels, op_labels);
    for tensor in spelled.job.data.iter_mut().flat_map(|data| &mut data.outputs).flat_map(Arg::iter_mut) {
        spell(tensor, true);
    }
    for op in &mut spelled.job.ops {
        op.module_path.get_or_insert_with(|| BUILT_IN.to_owned());
        let dynamic = op.flags.is_dynamic_impl.unwrap_or(false);
        op.flags.is_dynamic_impl = (generation != Generation::R1_5).then_some(dynamic);
        for_each_tensor(op, |tensor| spell(tensor, true));
    }
    Ok(Cow::Owned(spelled))
}

/// In the words of r1.2 and older.
pub(crate) fn as_op_info(
    descriptor: &Descriptor,
    generation: Generation,
) -> Result<Cow<'_, Descriptor>, NameError> {
    let Descriptor { job, spec, envelope } = descriptor;
    if job.ops.len() != 1 {
        return Err(NameError::Operators { generation, ops: job.ops.len() });
    }
    let known = |name: &&str| spec.options.contains_key(*name);
    if generation == Generation::R1_2 && !R1_2_OPTIONS.iter().all(known) {
        return Err(NameError::Unsaid { generation, what: "all options" });
    }
    match form(descriptor) {
        Some(Form::OpInfo) => return Ok(Cow::Borrowed(descriptor)),
        Some(Form::JobContent) if write::fit(job, envelope) => {}
        _ => return Err(NameError::Unsaid { generation, what: "the names of inputs and outputs" }),
    }
    plain(&job.ops, generation)?;
    let mut spelled = descriptor.clone();
    spelled.spec.options.retain(|name, _| R1_2_OPTIONS.contains(&name.as_str()));
    spelled.envelope.soc_info.retain(|name, _| R1_2_OPTIONS.contains(&name.as_str()));
    for (op, labels) in spelled.job.ops.iter_mut().zip(&mut spelled.envelope.ops) {
        let OpLabels { inputs, outputs, .. } = std::mem::take(labels);
        let single = |label| TensorLabel { dtype_fields: DtypeFields::Dtype, ..label };
        labels.inputs = inputs.into_iter().map(single).collect();
        labels.outputs = outputs.into_iter().map(single).collect();
        labels.null_attrs = true;
        op.attrs = None;
        op.module_path.get_or_insert_with(|| BUILT_IN.to_owned());
        for_each_tensor(op, |tensor| spell(tensor, false));
    }
    Ok(Cow::Owned(spelled))
}

/// Refuses operators of which it is not known how the files of before r1.5, or since then, write them.
fn plain(ops: &[Op], generation: Generation) -> Result<(), NameError> {
    let refuse = |what| Err(NameError::Spelling { generation, what });
    for op in ops {
        let Op { inputs, outputs, attrs, extra, .. } = op;
        if attrs.as_ref().is_some_and(|attrs| !attrs.is_empty()) {
            return refuse("attributes");
        }
        if inputs.iter().any(Arg::is_absent) || outputs.iter().any(Arg::is_absent) {
            return refuse("tensors that are not given");
        }
        let tensors = || {
            let inputs = inputs.iter().flat_map(Arg::iter).map(|input| &input.tensor);
            inputs.chain(outputs.iter().flat_map(Arg::iter))
        };
        if tensors().any(|tensor| tensor.const_value.is_some()) {
            return refuse("constants");
        }
        if !extra.is_empty() || tensors().any(|tensor| !tensor.extra.is_empty()) {
            return refuse("unknown fields");
        }
    }
    Ok(())
}

fn for_each_tensor(op: &mut Op, mut change: impl FnMut(&mut Tensor)) {
    op.inputs.iter_mut().flat_map(Arg::iter_mut).for_each(|input| change(&mut input.tensor));
    op.outputs.iter_mut().flat_map(Arg::iter_mut).for_each(change);
}

/// Fills in what frameworks always write; the fields of L1 fusion and slices only since r1.5.
fn spell(tensor: &mut Tensor, with_slice: bool) {
    tensor.ori_format.get_or_insert_with(|| tensor.format.clone());
    tensor.ori_shape.get_or_insert_with(|| tensor.shape.clone());
    tensor.range = Some(ranges(tensor.range.as_deref(), &tensor.shape).into_owned());
    tensor.valid.get_or_insert(true);
    if !with_slice {
        tensor.slice = SliceFields::default();
        return;
    }
    tensor.slice = tensor.slice.spelled();
}

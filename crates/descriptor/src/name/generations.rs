//! Conversion of a descriptor to the form of another generation, whose name for it hashes that form.
//!
//! The name requires the exact bytes of the other form: a field with an undocumented spelling is an error, not a guess.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::info::duplicates;
use crate::info::labels;
use crate::info::tensors::IS_REF;
use crate::model::descriptor::Descriptor;
use crate::model::generation::{Form, Generation};
use crate::model::job::{Arg, Op, SliceFields, Tensor, ranges};
use crate::model::metadata::{DtypeFields, OpLabels, TensorLabel};
use crate::name::error::NameError;

/// MindSpore's path of its built-in operators.
const BUILT_IN: &str = "/usr/local/Ascend/opp/op_impl/built-in/ai_core/tbe";

/// The options that r1.2 writes, with their defaults. Its spelling of other values differs from that of later versions.
fn r1_2_options() -> [(&'static str, Value); 9] {
    [
        ("autoTilingMode", "NO_TUNE".into()),
        ("coreNum", "".into()),
        ("coreType", "".into()),
        ("l1Fusion", "false".into()),
        ("l2Fusion", "false".into()),
        ("l2Mode", "2".into()),
        ("op_debug_level", "".into()),
        ("op_impl_mode", "".into()),
        ("op_impl_mode_list", json!([])),
    ]
}

/// The layout of a descriptor's file; `None` for a descriptor made by a program.
fn form(descriptor: &Descriptor) -> Option<Form> {
    descriptor.envelope.generation.map(Generation::form)
}

/// Converts to the form of r1.5 and later.
pub(crate) fn as_job_content(
    descriptor: &Descriptor,
    generation: Generation,
) -> Result<Cow<'_, Descriptor>, NameError> {
    let unstated = |what| NameError::Unstated { generation, what };
    let spec = &descriptor.spec;
    let own = descriptor.envelope.generation;
    let states_all = || {
        let device = descriptor.envelope.soc_info.contains_key("deviceId");
        own == Some(generation) && device && spec.options.contains_key("te_version")
    };
    if generation == Generation::R2_1 && !states_all() {
        return Err(unstated("`te_version`, directories and device"));
    }
    // Files of r1.5 and r1.6 have the same form and are read as r1.5.
    let alike = own == Some(Generation::R1_5) && generation == Generation::R1_6;
    if own == Some(generation) || alike {
        return Ok(Cow::Borrowed(descriptor));
    }
    plain(descriptor, generation)?;
    if form(descriptor) != Some(Form::JobContent) {
        return spelled_out(descriptor, generation);
    }
    let [op] = descriptor.job.ops.as_slice() else {
        return Err(NameError::Spelling { generation, what: "fused operators" });
    };
    match (op.flags.is_dynamic_impl, generation) {
        (None, Generation::R1_7) => Err(unstated("whether the implementation is dynamic")),
        (None, _) | (Some(_), Generation::R1_7) => Ok(Cow::Borrowed(descriptor)),
        (Some(true), _) => Err(NameError::Spelling { generation, what: "dynamic implementations" }),
        (Some(false), _) => {
            let mut spelled = descriptor.clone();
            spelled.job.ops.iter_mut().for_each(|op| op.flags.is_dynamic_impl = None);
            Ok(Cow::Owned(spelled))
        }
    }
}

/// A single operator with all fields that these files always have.
fn spelled_out(descriptor: &Descriptor, generation: Generation) -> Result<Cow<'_, Descriptor>, NameError> {
    let unstated = |what| Err(NameError::Unstated { generation, what });
    let mut spelled = descriptor.clone();
    let [op] = spelled.job.ops.as_mut_slice() else {
        return Err(NameError::Spelling { generation, what: "fused operators" });
    };
    if op.op_type.is_empty() {
        return unstated("the operator's type");
    }
    match (generation, form(descriptor)) {
        (Generation::R1_7, Some(_)) => return unstated("whether the implementation is dynamic"),
        (Generation::R1_7, None) => _ = op.flags.is_dynamic_impl.get_or_insert(false),
        (_, _) if op.flags.is_dynamic_impl == Some(true) => {
            return Err(NameError::Spelling { generation, what: "dynamic implementations" });
        }
        (_, _) => op.flags.is_dynamic_impl = None,
    }
    op.flags.fill_in();
    op.attrs = None;
    op.module_path.get_or_insert_with(|| BUILT_IN.to_owned());
    for_each_tensor(op, |tensor| spell(tensor, true));
    let data = spelled.job.data.iter_mut().flat_map(|data| &mut data.outputs);
    data.flat_map(Arg::iter_mut).for_each(|tensor| spell(tensor, true));
    let (data_labels, mut op_labels) = labels::positional_labels(&spelled.job);
    for labels in &mut op_labels {
        labels.output_data_desc = Some(duplicates::of_outputs(&labels.outputs));
    }
    (spelled.envelope.data, spelled.envelope.ops) = (data_labels, op_labels);
    Ok(Cow::Owned(spelled))
}

/// Converts to the form of r1.2 and older.
pub(crate) fn as_op_info(
    descriptor: &Descriptor,
    generation: Generation,
) -> Result<Cow<'_, Descriptor>, NameError> {
    let Descriptor { job, spec, envelope } = descriptor;
    let unstated = |what| Err(NameError::Unstated { generation, what });
    if job.ops.len() != 1 {
        return Err(NameError::Operators { generation, ops: job.ops.len() });
    }
    let options = r1_2_options();
    if generation == Generation::R1_2 && !options.iter().all(|(name, _)| spec.options.contains_key(*name)) {
        return unstated("all options");
    }
    if envelope.generation == Some(generation) {
        return Ok(Cow::Borrowed(descriptor));
    }
    match form(descriptor) {
        Some(Form::OpInfo) => return plain(descriptor, generation).map(|()| Cow::Borrowed(descriptor)),
        Some(Form::JobContent) if labels::fit(job, envelope) => {}
        _ => return unstated("the names of inputs and outputs"),
    }
    plain(descriptor, generation)?;
    let is_default = |(name, value): &(&str, Value)| spec.options.get(*name) == Some(value);
    if generation == Generation::R1_2 && !options.iter().all(is_default) {
        return Err(NameError::Spelling { generation, what: "these options" });
    }
    let mut spelled = descriptor.clone();
    spelled.spec.options.retain(|name, _| options.iter().any(|(known, _)| known == name));
    spelled.envelope.soc_info.clear();
    for (op, labels) in spelled.job.ops.iter_mut().zip(&mut spelled.envelope.ops) {
        let OpLabels { inputs, outputs, .. } = std::mem::take(labels);
        let single = |label| TensorLabel { dtype_fields: DtypeFields::Dtype, ..label };
        labels.inputs = inputs.into_iter().map(single).collect();
        labels.outputs = outputs.into_iter().map(single).collect();
        labels.null_attrs = true;
        op.attrs = None;
        op.flags.unknown_shape.get_or_insert(false);
        op.module_path.get_or_insert_with(|| BUILT_IN.to_owned());
        for_each_tensor(op, |tensor| spell(tensor, false));
    }
    Ok(Cow::Owned(spelled))
}

/// Rejects fields whose spelling in another generation is unknown.
fn plain(descriptor: &Descriptor, generation: Generation) -> Result<(), NameError> {
    // Files of one form differ less.
    let one_form = form(descriptor) == Some(generation.form());
    descriptor.job.ops.iter().try_for_each(|op| match unknown_spelling(op, one_form, generation) {
        Some(what) => Err(NameError::Spelling { generation, what }),
        None => Ok(()),
    })
}

fn unknown_spelling(op: &Op, one_form: bool, generation: Generation) -> Option<&'static str> {
    let Op { inputs, outputs, attrs, extra, flags, .. } = op;
    let attrs = attrs.as_deref().unwrap_or_default();
    let tensors = || {
        let inputs = inputs.iter().flat_map(Arg::iter).map(|input| &input.tensor);
        inputs.chain(outputs.iter().flat_map(Arg::iter))
    };
    if !extra.is_empty() || tensors().any(|tensor| !tensor.extra.is_empty()) {
        return Some("unknown fields");
    }
    if tensors().any(|tensor| tensor.const_value.is_some()) {
        return Some("constants");
    }
    let newer = one_form && generation.form() == Form::JobContent;
    if newer {
        return attrs.iter().any(|attr| attr.name == IS_REF).then_some("the attribute `isRef`");
    }
    let is_dynamic = |tensor: &Tensor| tensor.shape.iter().any(|dim| *dim < 0);
    if flags.unknown_shape == Some(true) || tensors().any(is_dynamic) {
        return Some("dynamic shapes");
    }
    if inputs.iter().any(Arg::is_absent) || outputs.iter().any(Arg::is_absent) {
        return Some("omitted tensors");
    }
    let is_variadic = inputs.iter().any(|arg| matches!(arg, Arg::Many(_)))
        || outputs.iter().any(|arg| matches!(arg, Arg::Many(_)));
    if is_variadic {
        return Some("variadic tensors");
    }
    (!attrs.is_empty()).then_some("attributes")
}

fn for_each_tensor(op: &mut Op, mut change: impl FnMut(&mut Tensor)) {
    op.inputs.iter_mut().flat_map(Arg::iter_mut).for_each(|input| change(&mut input.tensor));
    op.outputs.iter_mut().flat_map(Arg::iter_mut).for_each(change);
}

/// Sets the fields that frameworks always write; those of L1 fusion and slices only since r1.5.
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

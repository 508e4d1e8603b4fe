//! Fields that only repeat others. A field with additional information counts.
//!
//! The comparison ignores spelling, so that one job in two spellings has one digest.

use serde_json::Value;

use crate::info::describe;
use crate::info::fields::{Fields, Position};
use crate::info::tensors::{self, args};
use crate::info::tree::Tree;
use crate::model::job::{Arg, Attr, OmittedArg, Tensor};
use crate::model::metadata::{RepeatedAttrs, RepeatedOutputs, TensorLabel};

/// The field that repeats the outputs.
pub(crate) const OUTPUTS: &str = "output_data_desc";

/// The field that repeats the values of attributes.
pub(crate) const ATTRS: &str = "attr_desc";

/// Takes the repeated outputs out of `fields`, if they add nothing to the outputs.
pub(crate) fn take_outputs(fields: &mut Fields<'_>, outputs: &[Arg<Tensor>]) -> Option<RepeatedOutputs> {
    let value = fields.peek(OUTPUTS)?;
    let mut labels = Vec::new();
    let repeat = args(value, Position::Root, &mut labels, |arg| arg).ok()?;
    let found = [false, true].into_iter().find(|described_only| {
        let expected: Vec<_> = repeated(outputs, *described_only).collect();
        expected.len() == repeat.len()
            && expected.iter().zip(&repeat).all(|(one, other)| is_repeated(one, other))
    });
    let described_only = found?;
    fields.raw(OUTPUTS);
    Some(RepeatedOutputs { described_only, labels })
}

/// The outputs that are repeated: all, or those with the framework's own shape.
fn repeated(outputs: &[Arg<Tensor>], described_only: bool) -> impl Iterator<Item = &Arg<Tensor>> {
    let is_described = |arg: &Arg<Tensor>| matches!(arg, Arg::One(tensor) if tensor.ori_shape.is_some());
    outputs.iter().filter(move |arg| !described_only || is_described(arg))
}

/// Whether `repeat` describes `output`, names aside.
fn is_repeated(output: &Arg<Tensor>, repeat: &Arg<Tensor>) -> bool {
    match (output, repeat) {
        (Arg::Absent(output), Arg::Absent(repeat)) => nameless(output) == *repeat,
        (output, repeat) => output == repeat,
    }
}

fn nameless(absent: &OmittedArg) -> OmittedArg {
    let mut nameless = absent.clone();
    nameless.extra.remove("name");
    nameless
}

/// The repeated outputs in the form of the file.
pub(crate) fn write_outputs(outputs: &[Arg<Tensor>], repeat: &RepeatedOutputs) -> Tree<'static> {
    let repeated = repeated(outputs, repeat.described_only).map(|arg| match arg {
        Arg::Absent(absent) => Arg::Absent(nameless(absent)),
        other => other.clone(),
    });
    // The tree owns its values, so the copies can be dropped.
    Value::from(describe::described(&repeated.collect::<Vec<_>>(), &repeat.labels, |tensor| tensor)).into()
}

/// The outputs that frameworks repeat, by their `labels`.
pub(crate) fn of_outputs(labels: &[TensorLabel]) -> RepeatedOutputs {
    let nameless = labels.iter().map(|label| TensorLabel { name: None, ..*label });
    RepeatedOutputs { described_only: false, labels: nameless.collect() }
}

/// Takes the repeated values of attributes out of `fields`, if they add nothing to the attributes.
pub(crate) fn take_attrs(fields: &mut Fields<'_>, attrs: Option<&[Attr]>) -> Option<RepeatedAttrs> {
    let value = fields.peek(ATTRS)?;
    let attrs = attrs.unwrap_or_default();
    let value = Value::from(value);
    let found = [RepeatedAttrs::WithoutRef, RepeatedAttrs::All]
        .into_iter()
        .find(|repeat| value == Value::from(write_attrs(attrs, *repeat)))?;
    fields.raw(ATTRS);
    Some(found)
}

/// The values of the given attributes, in the form that the operator's function takes.
pub(crate) fn write_attrs(attrs: &[Attr], repeat: RepeatedAttrs) -> Tree<'_> {
    let is_given = |attr: &&Attr| {
        attr.valid != Some(false) && (repeat == RepeatedAttrs::All || attr.name != tensors::IS_REF)
    };
    attrs.iter().filter(is_given).map(|attr| describe::attr_value(&attr.value)).collect()
}

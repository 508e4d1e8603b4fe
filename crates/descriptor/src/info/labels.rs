//! Names of a job's operators and tensors: those of the envelope, or names by position.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;

use crate::info::link::{SHARED_NAMES, at_place};
use crate::model::job::{Arg, Job, Source};
use crate::model::metadata::{Envelope, OpLabels, RepeatedAttrs, TensorLabel};

/// Names of `Data` ops, and of operators.
pub(crate) type Names<'a> = (Cow<'a, [OpLabels]>, Cow<'a, [OpLabels]>);

/// The envelope's names if they match the job, otherwise names by position.
pub(crate) fn labels<'a>(job: &Job, envelope: &'a Envelope) -> Names<'a> {
    match fit(job, envelope) {
        true => (Cow::Borrowed(&*envelope.data), Cow::Borrowed(&*envelope.ops)),
        false => {
            let (data, ops) = positional_labels(job);
            (data.into(), ops.into())
        }
    }
}

/// Whether an envelope has one label for each tensor of the job.
pub(crate) fn fit(job: &Job, envelope: &Envelope) -> bool {
    fn count<T>(args: &[Arg<T>]) -> usize {
        args.iter().flat_map(Arg::iter).count()
    }
    envelope.data.len() == job.data.len()
        && envelope.ops.len() == job.ops.len()
        && job
            .data
            .iter()
            .zip(&envelope.data)
            .all(|(data, names)| count(&data.outputs) == names.outputs.len())
        && job.ops.iter().zip(&envelope.ops).all(|(op, names)| {
            count(&op.inputs) == names.inputs.len() && count(&op.outputs) == names.outputs.len()
        })
}

/// Names by position, for a job without names: `x_0`, `x_1`, ... and `y_0_0`, `y_1_0`, ...
pub(crate) fn positional_labels(job: &Job) -> (Vec<OpLabels>, Vec<OpLabels>) {
    let pairs = job.extra.get(SHARED_NAMES).and_then(Value::as_array).into_iter().flatten();
    let shared: HashMap<Source, Source> =
        pairs.filter_map(|pair| Some((at_place(pair.get(0)?)?, at_place(pair.get(1)?)?))).collect();
    let mut names: HashMap<Source, String> = HashMap::new();
    let mut name = |source: Source, name: String| {
        let name = shared.get(&source).and_then(|first| names.get(first)).cloned().unwrap_or(name);
        names.insert(source, name.clone());
        label(name)
    };

    let data_labels: Vec<OpLabels> = (job.data.iter().enumerate())
        .map(|(data, item)| {
            let count = item.outputs.iter().flat_map(Arg::iter).count();
            let outputs = (0..count).map(|tensor| {
                let single = if count == 1 { format!("x_{data}") } else { format!("x_{data}_{tensor}") };
                name(Source::Data { data, tensor }, single)
            });
            OpLabels { outputs: outputs.collect(), name: format!("x_{data}"), ..OpLabels::default() }
        })
        .collect();
    let mut op_labels: Vec<OpLabels> = (job.ops.iter().enumerate())
        .map(|(op, item)| {
            let count = item.outputs.iter().flat_map(Arg::iter).count();
            let outputs =
                (0..count).map(|output| name(Source::Op { op, output }, format!("y_{op}_{output}")));
            OpLabels {
                outputs: outputs.collect(),
                name: format!("op_{op}"),
                attr_desc: item.attrs.is_some().then_some(RepeatedAttrs::WithoutRef),
                ..OpLabels::default()
            }
        })
        .collect();
    for (op, labels) in job.ops.iter().zip(&mut op_labels) {
        let inputs = op.inputs.iter().flat_map(Arg::iter).map(|input| match input.source {
            Source::Free(number) => label(format!("free_{number}")),
            source => label(names.get(&source).cloned().unwrap_or_default()),
        });
        labels.inputs = inputs.collect();
    }
    (data_labels, op_labels)
}

fn label(name: String) -> TensorLabel {
    TensorLabel { name: Some(name), ..TensorLabel::default() }
}

//! The source of each input.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::Value;

use crate::model::job::{Arg, Op, Source};
use crate::model::metadata::OpLabels;

/// The name in [`Job::extra`](crate::Job::extra) of the list of tensors with shared names.
pub(crate) const SHARED_NAMES: &str = "(shared names)";

/// The first tensor of each name. Most jobs have few: for those a tree takes less time than a table of hashes.
pub(crate) type Sources<'a> = BTreeMap<&'a str, Source>;

/// Sets the source of each input by the tensors' names, which have no further meaning.
///
/// Fused jobs repeat names: MindSpore writes a `Data` op for each input, even if two inputs are one tensor. An input
/// refers to the first tensor of its name. Shared names are recorded and count, since a compiler may produce other code
/// for them.
pub(crate) fn link(ops: &mut [Op], op_labels: &[OpLabels], sources: &Sources<'_>) {
    let mut free: BTreeMap<&str, usize> = BTreeMap::new();
    let mut next_free = 0;
    for (op, labels) in ops.iter_mut().zip(op_labels) {
        let mut names = labels.inputs.iter();
        for input in op.inputs.iter_mut().flat_map(Arg::iter_mut) {
            let name = names.next().and_then(|label| label.name.as_deref());
            input.source = match name {
                None => Source::Free(fresh(&mut next_free)),
                Some(name) => match sources.get(name) {
                    Some(source) => *source,
                    None => Source::Free(*free.entry(name).or_insert_with(|| fresh(&mut next_free))),
                },
            };
        }
    }
}

/// The first tensor of each name, and pairs of a tensor and the earlier tensor of the same name.
pub(crate) fn sources<'a>(
    data_labels: &'a [OpLabels],
    op_labels: &'a [OpLabels],
) -> (Sources<'a>, Vec<Value>) {
    let of_data = data_labels.iter().enumerate().flat_map(|(data, labels)| {
        let outputs = labels.outputs.iter().enumerate();
        outputs.map(move |(tensor, label)| (Source::Data { data, tensor }, &label.name))
    });
    let of_ops = op_labels.iter().enumerate().flat_map(|(op, labels)| {
        let outputs = labels.outputs.iter().enumerate();
        outputs.map(move |(output, label)| (Source::Op { op, output }, &label.name))
    });
    let mut sources = Sources::new();
    let mut shared = Vec::new();
    for (source, name) in of_data.chain(of_ops) {
        let Some(name) = name else { continue };
        match sources.entry(name) {
            Entry::Vacant(entry) => _ = entry.insert(source),
            Entry::Occupied(entry) => {
                shared.push([source, *entry.get()].map(place).into_iter().collect());
            }
        }
    }
    (sources, shared)
}

fn fresh(next: &mut usize) -> usize {
    *next += 1;
    *next - 1
}

/// A tensor's position, as listed under [`SHARED_NAMES`].
pub(crate) fn place(source: Source) -> Value {
    match source {
        Source::Data { data, tensor } => vec![Value::from("data"), data.into(), tensor.into()].into(),
        Source::Op { op, output } => vec![Value::from("op"), op.into(), output.into()].into(),
        Source::Free(number) => vec![Value::from("free"), number.into()].into(),
    }
}

/// The tensor at a listed position.
pub(crate) fn at_place(place: &Value) -> Option<Source> {
    let index = |value: &Value| usize::try_from(value.as_u64()?).ok();
    match place.as_array()?.as_slice() {
        [kind, data, tensor] if kind == "data" => {
            Some(Source::Data { data: index(data)?, tensor: index(tensor)? })
        }
        [kind, op, output] if kind == "op" => Some(Source::Op { op: index(op)?, output: index(output)? }),
        [kind, number] if kind == "free" => Some(Source::Free(index(number)?)),
        _ => None,
    }
}

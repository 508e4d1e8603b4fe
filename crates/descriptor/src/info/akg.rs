//! Descriptors of AKG, MindSpore's graph kernel compiler: composites of several operators.
//!
//! They have neither functions nor modules, and describe tensors by shape and type, and constants by value too.
//! Everything else is an unknown field, which counts under a name with [`PREFIX`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::info::describe;
use crate::info::fields::{FieldError, Fields, Position, each, ints, list, reserve, string, wrong};
use crate::info::labels;
use crate::info::link::{SHARED_NAMES, Sources, link, place, sources};
use crate::info::node::{Node, map};
use crate::info::tensors::{AttrWords, listed_args, operator_type, read_attrs, unlinked};
use crate::info::{ignored, write};
use crate::model::descriptor::Descriptor;
use crate::model::flags::OpFlags;
use crate::model::generation::Generation;
use crate::model::job::{Arg, ConstValue, Data, Extra, Input, Job, Op, SliceFields, Tensor};
use crate::model::metadata::{DtypeFields, Envelope, OpLabels, TensorLabel};
use crate::model::spec::BuildSpec;

/// The prefix that separates unknown fields from those of MindSpore's files.
const PREFIX: &str = "akg.";

/// The names of an attribute's fields in AKG's files.
const WORDS: AttrWords = AttrWords { attrs: "attr", dtype: "data_type", prefix: PREFIX };

/// The member of a composite's output that holds the tensor's position instead of its name.
const PLACE: &str = "(tensor)";

/// The name of the composite's outputs in [`Job::extra`].
const OUTPUTS: &str = "akg.output_desc";

pub(crate) fn read(document: Node<'_>) -> Result<Descriptor, FieldError> {
    let mut top = Fields::of(document, Position::Root)?;
    let (mut data_labels, mut op_labels) = (Vec::new(), Vec::new());
    let data = top.req("input_desc", |value, at| {
        reserve(&mut data_labels, value);
        list(value, at, |item, at| read_data(item, at, &mut data_labels))
    })?;
    let mut ops = top.req("op_desc", |value, at| {
        reserve(&mut op_labels, value);
        list(value, at, |item, at| read_op(item, at, &mut op_labels))
    })?;
    let (names, shared) = sources(&data_labels, &op_labels);
    link(&mut ops, &op_labels, &names);
    let outputs =
        top.req("output_desc", |value, at| list(value, at, |item, at| anonymous(item, at, &names)))?;

    let spec = read_spec(&mut top)?;
    let mut left_out = BTreeSet::new();
    let envelope = Envelope {
        generation: Some(Generation::Akg),
        fusion_op_name: top.text("op", &mut left_out)?,
        ignored: ignored::take(&mut top, Generation::Akg, ""),
        data: data_labels,
        ops: op_labels,
        left_out,
        ..Envelope::default()
    };
    let mut extra: Extra = top.rest(PREFIX);
    extra.insert(OUTPUTS.to_owned(), outputs.into());
    if !shared.is_empty() {
        extra.insert(SHARED_NAMES.to_owned(), shared.into());
    }
    Ok(Descriptor { job: Job { data, ops, l1_size: -1, extra }, spec, envelope })
}

/// The target: the chip if stated, otherwise the kind of processor.
fn read_spec(top: &mut Fields<'_>) -> Result<BuildSpec, FieldError> {
    let mut options = BTreeMap::new();
    let mut target = top.req("process", string)?;
    if let Some(target_info) = top.raw("target_info") {
        let target_info = match (target_info, target_info.get("arch")) {
            (Node::Object(members), Some(Node::Text(arch))) => {
                let process = std::mem::replace(&mut target, arch.to_owned());
                options.insert("process".to_owned(), process.into());
                map(members.filter(|(name, _)| *name != "arch")).into()
            }
            _ => target_info.into(),
        };
        options.insert("target_info".to_owned(), target_info);
    }
    options.extend(top.raw("platform").map(|platform| ("platform".to_owned(), platform.into())));
    Ok(BuildSpec { target, options })
}

fn read_data(value: Node<'_>, at: Position<'_>, data_labels: &mut Vec<OpLabels>) -> Result<Data, FieldError> {
    let mut labels = OpLabels::default();
    let outputs = tensors_of(value, at, &mut labels.outputs)?;
    data_labels.push(labels);
    Ok(Data { outputs, extra: Extra::new() })
}

fn read_op(value: Node<'_>, at: Position<'_>, op_labels: &mut Vec<OpLabels>) -> Result<Op, FieldError> {
    let mut fields = Fields::of(value, at)?;
    let mut labels =
        OpLabels { ignored: ignored::take(&mut fields, Generation::Akg, "op_desc[]"), ..OpLabels::default() };
    let inputs = fields.req("input_desc", |value, at| {
        reserve(&mut labels.inputs, value);
        listed_args(value, at, |item, at| read_tensor(item, at, &mut labels.inputs).map(Arg::One), unlinked)
    })?;
    let outputs = fields.req("output_desc", |value, at| tensors_of(value, at, &mut labels.outputs))?;
    let op_type = fields.req("name", operator_type)?;
    let op = Op {
        func_name: op_type.clone(),
        op_type,
        module_name: String::new(),
        module_path: fields.opt("impl_path", string)?,
        flags: OpFlags::default(),
        inputs,
        outputs,
        attrs: read_attrs(&mut fields, &WORDS, &mut labels)?,
        extra: fields.rest(PREFIX),
    };
    op_labels.push(labels);
    Ok(op)
}

fn tensors_of(
    value: Node<'_>,
    at: Position<'_>,
    labels: &mut Vec<TensorLabel>,
) -> Result<Vec<Arg<Tensor>>, FieldError> {
    match value {
        Node::List(items) => {
            reserve(labels, value);
            each(items, at, |item, at| read_tensor(item, at, labels).map(Arg::One))
        }
        other => Err(wrong(at, "a list of tensors", other)),
    }
}

fn read_tensor(
    value: Node<'_>,
    at: Position<'_>,
    labels: &mut Vec<TensorLabel>,
) -> Result<Tensor, FieldError> {
    let mut fields = Fields::of(value, at)?;
    let name = fields.opt("tensor_name", string)?;
    labels.push(TensorLabel { name, dtype_fields: DtypeFields::DataType, no_param_type: true });
    Ok(Tensor {
        dtype: fields.req("data_type", string)?,
        format: fields.stated("format")?,
        shape: fields.req("shape", ints)?,
        ori_format: None,
        ori_shape: None,
        range: None,
        param_type: "required".into(),
        valid: None,
        const_value: fields.raw("value").map(|value| ConstValue { value: value.into(), dtype: None }),
        slice: SliceFields::default(),
        extra: fields.rest(PREFIX),
    })
}

/// An output of the composite, its name replaced by a position: names do not count, but the tensor's identity does.
fn anonymous(value: Node<'_>, at: Position<'_>, names: &Sources<'_>) -> Result<Value, FieldError> {
    let mut fields = Fields::of(value, at)?;
    if let Some(value) = fields.peek(PLACE) {
        return Err(wrong(Position::Field(&at, PLACE), "a field of another name", value));
    }
    let mut source = None;
    fields.raw_if("tensor_name", |name| {
        source = if let Node::Text(name) = name { names.get(name) } else { None };
        source.is_some()
    });
    let mut map = fields.object();
    map.extend(source.map(|source| (PLACE.to_owned(), place(*source))));
    Ok(map.into())
}

/// The document.
pub(crate) fn write(job: &Job, spec: &BuildSpec, envelope: &Envelope) -> Value {
    let (data_labels, op_labels) = labels::labels(job, envelope);
    let mut map = Map::new();
    for (name, value) in job.extra.iter().filter(|(name, _)| *name != SHARED_NAMES && *name != OUTPUTS) {
        map.insert(without_prefix(name), value.clone());
    }
    map.extend(envelope.ignored.clone());
    write_spec(&mut map, spec);
    if write::is_written("op", &envelope.fusion_op_name, &envelope.left_out) {
        map.insert("op".into(), envelope.fusion_op_name.as_str().into());
    }

    let data = job.data.iter().zip(data_labels.iter());
    let data = data.map(|(data, labels)| tensors(data.outputs.iter().flat_map(Arg::iter), &labels.outputs));
    map.insert("input_desc".into(), data.collect());
    let ops = job.ops.iter().zip(op_labels.iter()).map(|(op, labels)| write_op(op, labels));
    map.insert("op_desc".into(), ops.collect());
    let name = |place: &Value| {
        let [kind, item, tensor] = place.as_array()?.as_slice() else { return None };
        let labels = if kind == "data" { &data_labels } else { &op_labels };
        let tensors = &labels.get(usize::try_from(item.as_u64()?).ok()?)?.outputs;
        tensors.get(usize::try_from(tensor.as_u64()?).ok()?)?.name.clone()
    };
    let outputs = job.extra.get(OUTPUTS).and_then(Value::as_array).into_iter().flatten();
    map.insert("output_desc".into(), outputs.map(|output| named(output, name)).collect());
    Value::Object(map)
}

fn without_prefix(name: &str) -> String {
    name.strip_prefix(PREFIX).unwrap_or(name).to_owned()
}

fn named(output: &Value, name: impl Fn(&Value) -> Option<String>) -> Value {
    let mut output = output.clone();
    if let Value::Object(map) = &mut output
        && let Some(place) = map.remove(PLACE)
    {
        map.extend(name(&place).map(|name| ("tensor_name".to_owned(), name.into())));
    }
    output
}

fn write_spec(map: &mut Map<String, Value>, spec: &BuildSpec) {
    for name in ["platform", "process", "target_info"] {
        map.extend(spec.options.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    let target = spec.target.as_str().into();
    if !map.contains_key("process") {
        map.insert("process".to_owned(), target);
    } else if let Some(info) = map.entry("target_info").or_insert_with(|| Map::new().into()).as_object_mut() {
        info.insert("arch".to_owned(), target);
    }
}

fn write_op(op: &Op, labels: &OpLabels) -> Value {
    // AKG's files cannot hold these fields of an operator.
    let Op { op_type, module_path, inputs, outputs, attrs, extra, func_name: _, module_name: _, flags: _ } =
        op;
    let mut map: Map<String, Value> =
        opkeep_order::collected(extra.iter().map(|(name, value)| (without_prefix(name), value.clone())));
    map.extend(labels.ignored.clone());
    map.insert("name".into(), op_type.as_str().into());
    if let Some(path) = module_path {
        map.insert("impl_path".into(), path.as_str().into());
    }
    map.extend(
        describe::attr_list(attrs.as_deref(), labels, &WORDS).map(|attrs| ("attr".to_owned(), attrs.into())),
    );
    let mut names = labels.inputs.iter();
    let groups = inputs.iter().map(|group| {
        let group = group.iter().map(|Input { tensor, source: _ }| write_tensor(tensor, names.next()));
        group.collect::<Value>()
    });
    map.insert("input_desc".into(), groups.collect());
    map.insert("output_desc".into(), tensors(outputs.iter().flat_map(Arg::iter), &labels.outputs));
    Value::Object(map)
}

fn tensors<'a>(tensors: impl Iterator<Item = &'a Tensor>, labels: &[TensorLabel]) -> Value {
    let mut labels = labels.iter();
    tensors.map(|tensor| write_tensor(tensor, labels.next())).collect()
}

fn write_tensor(tensor: &Tensor, label: Option<&TensorLabel>) -> Value {
    // AKG's files cannot hold these fields of a tensor.
    let Tensor { dtype, format, shape, const_value, extra, .. } = tensor;
    let mut map: Map<String, Value> =
        opkeep_order::collected(extra.iter().map(|(name, value)| (without_prefix(name), value.clone())));
    map.insert("data_type".into(), dtype.as_str().into());
    if !format.is_empty() {
        map.insert("format".into(), format.as_str().into());
    }
    map.insert("shape".into(), shape.clone().into());
    if let Some(name) = label.and_then(|label| label.name.as_deref()) {
        map.insert("tensor_name".into(), name.into());
    }
    map.extend(const_value.as_ref().map(|constant| ("value".to_owned(), constant.value.clone())));
    Value::Object(map)
}

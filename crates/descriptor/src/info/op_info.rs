//! Descriptors of MindSpore r1.0 to r1.2: one operator, with its fields in `op_info` or in the document.
//!
//! They have no `Data` ops. Reading adds one for each input, as later versions write it, so that an operator is the
//! same job in every generation.

use serde_json::{Map, Value};

use crate::info::describe;
use crate::info::fields::{FieldError, Fields, Position, boolean, string};
use crate::info::labels;
use crate::info::node::Node;
use crate::info::tensors::{AttrWords, listed_args, operator_type, read_attrs, tensor, unlinked};
use crate::info::tree::Tree;
use crate::info::{duplicates, ignored, read, write};
use crate::model::descriptor::Descriptor;
use crate::model::flags::OpFlags;
use crate::model::generation::Generation;
use crate::model::job::{Arg, Data, Extra, Input, Job, OmittedArg, Op, Source, Tensor};
use crate::model::metadata::{DtypeFields, Envelope, OpLabels, TensorLabel};
use crate::model::spec::BuildSpec;

/// The prefixes of unknown fields of the document and of `op_info`, which separate them from those of later versions.
const PREFIX: &str = "op_info.";

/// The compiler that all these files name.
const PLATFORM: &str = "TBE";

pub(crate) fn read(document: Node<'_>, generation: Generation) -> Result<Descriptor, FieldError> {
    let mut top = Fields::of(document, Position::Root)?;
    let mut envelope = Envelope { generation: Some(generation), ..Envelope::default() };
    if generation == Generation::R1_0 {
        let spec = BuildSpec::new(top.req("socVersion", string)?);
        let (op, labels) = read_op(top, generation)?;
        return Ok(finish(op, labels, spec, envelope, Extra::new()));
    }
    let (spec, soc_info) = top.req("SocInfo", |value, at| read::soc_info(value, at, generation))?;
    envelope.soc_info = soc_info;
    let (op, labels) = top.req("op_info", |value, at| {
        let mut fields = Fields::of(value, at)?;
        envelope.full_name = fields.text("full_name", &mut envelope.left_out)?;
        envelope.fusion_op_name = fields.text("kernel_name", &mut envelope.left_out)?;
        // A field that only repeats the target is ignored.
        match fields.peek("socVersion") {
            Some(soc) if soc.is_text(&spec.target) => _ = fields.raw("socVersion"),
            Some(_) => {}
            None => _ = envelope.left_out.insert("socVersion"),
        }
        read_op(fields, generation)
    })?;
    match top.peek("platform") {
        Some(platform) if platform.is_text(PLATFORM) => _ = top.raw("platform"),
        Some(_) => {}
        None => _ = envelope.left_out.insert("platform"),
    }
    envelope.ignored = ignored::take(&mut top, generation, "");
    Ok(finish(op, labels, spec, envelope, top.rest(PREFIX)))
}

fn read_op(mut fields: Fields<'_>, generation: Generation) -> Result<(Op, OpLabels), FieldError> {
    let mut labels =
        OpLabels { ignored: ignored::take(&mut fields, generation, "op_info"), ..OpLabels::default() };
    let inputs = fields.req("inputs", |value, at| groups(value, at, &mut labels.inputs, unlinked))?;
    let outputs = fields.req("outputs", |value, at| groups(value, at, &mut labels.outputs, |arg| arg))?;
    let attrs = read_attrs(&mut fields, &AttrWords::MINDSPORE, &mut labels)?;
    labels.attr_desc = duplicates::take_attrs(&mut fields, attrs.as_deref());
    let func_name = fields.req("name", string)?;
    let flags = OpFlags { unknown_shape: fields.opt("is_dynamic_shape", boolean)?, ..OpFlags::default() };
    // r1.0 and r1.1 write neither type nor module. The module follows from the function; the type is unknown.
    let (op_type, module_name, module_path) = match generation {
        Generation::R1_0 => (String::new(), module_of(&func_name), None),
        _ => (
            fields.req("Type", operator_type)?,
            fields.req("module_name", string)?,
            fields.opt("py_module_path", string)?,
        ),
    };
    let op = Op {
        op_type,
        func_name,
        module_name,
        module_path,
        flags,
        inputs,
        outputs,
        attrs,
        extra: fields.rest(PREFIX),
    };
    Ok((op, labels))
}

/// The module of a built-in operator's function.
fn module_of(func_name: &str) -> String {
    format!("impl.{func_name}")
}

/// A `Data` op for each input.
fn finish(mut op: Op, labels: OpLabels, spec: BuildSpec, mut envelope: Envelope, extra: Extra) -> Descriptor {
    let mut names = labels.inputs.iter();
    let mut data = Vec::with_capacity(op.inputs.len());
    for (at, arg) in op.inputs.iter_mut().enumerate() {
        let mut outputs = Vec::new();
        match arg {
            Arg::Absent(absent) => outputs.push(Arg::Absent(absent.clone())),
            Arg::One(input) => feed(std::slice::from_mut(input), at, &mut outputs),
            Arg::Many(inputs) => feed(inputs, at, &mut outputs),
        }
        let tensors = outputs.iter().flat_map(Arg::iter).count();
        let labels = names.by_ref().take(tensors).cloned().collect();
        data.push(Data { outputs, extra: Extra::new() });
        envelope.data.push(OpLabels { outputs: labels, ..OpLabels::default() });
    }
    envelope.ops = vec![labels];
    Descriptor { job: Job { data, ops: vec![op], l1_size: -1, extra }, spec, envelope }
}

/// Each tensor is one input `data` of the kernel.
fn feed(inputs: &mut [Input], data: usize, outputs: &mut Vec<Arg<Tensor>>) {
    for (tensor, input) in inputs.iter_mut().enumerate() {
        input.source = Source::Data { data, tensor };
        outputs.push(Arg::One(input.tensor.clone()));
    }
}

fn groups<T>(
    value: Node<'_>,
    at: Position<'_>,
    labels: &mut Vec<TensorLabel>,
    of: impl Fn(Arg<Tensor>) -> T,
) -> Result<Vec<T>, FieldError> {
    listed_args(value, at, |item, at| argument(item, at, labels), of)
}

/// A tensor. Later versions mark an omitted tensor by `NULL`; in these files it has no shape.
fn argument(
    value: Node<'_>,
    at: Position<'_>,
    labels: &mut Vec<TensorLabel>,
) -> Result<Arg<Tensor>, FieldError> {
    if value.get("shape").is_none() && matches!(value.get("valid"), Some(Node::Bool(false))) {
        let mut fields = Fields::of(value, at)?;
        let param_type = fields.opt("param_type", string)?;
        return Ok(Arg::Absent(OmittedArg { param_type, extra: fields.extra() }));
    }
    tensor(value, at, labels)
}

/// The document. The job has one operator.
pub(crate) fn write(job: &Job, spec: &BuildSpec, envelope: &Envelope) -> Value {
    let (_, labels) = labels::labels(job, envelope);
    let Some((op, labels)) = job.ops.first().zip(labels.first()) else { return Value::Null };
    let mut op_info = op_info(op, labels, spec, envelope);
    if envelope.generation == Some(Generation::R1_0) {
        return Value::Object(op_info);
    }
    put_r1_2(&mut op_info, op);
    for (name, text) in [("full_name", &envelope.full_name), ("kernel_name", &envelope.fusion_op_name)] {
        if write::is_written(name, text, &envelope.left_out) {
            op_info.insert(name.to_owned(), text.as_str().into());
        }
    }

    let mut top = known(&job.extra);
    top.extend(envelope.ignored.clone());
    if !envelope.left_out.contains("platform") {
        top.entry("platform").or_insert_with(|| PLATFORM.into());
    }
    top.insert("SocInfo".into(), Tree::from(write::soc_info(spec, envelope)).into());
    top.insert("op_info".into(), op_info.into());
    Value::Object(top)
}

/// The fields of an operator that r1.0 and r1.1 write and hash.
pub(crate) fn op_info(
    op: &Op,
    labels: &OpLabels,
    spec: &BuildSpec,
    envelope: &Envelope,
) -> Map<String, Value> {
    // These files cannot hold later flags and sources.
    let Op { func_name, flags, inputs, outputs, attrs, extra, op_type: _, module_name: _, module_path: _ } =
        op;
    let mut map = known(extra);
    map.extend(labels.ignored.clone());
    let mut put = |name: &str, value: Value| {
        map.entry(name).or_insert(value);
    };
    put("name", func_name.as_str().into());
    if let Some(dynamic) = flags.unknown_shape {
        put("is_dynamic_shape", dynamic.into());
    }
    if !envelope.left_out.contains("socVersion") {
        put("socVersion", spec.target.as_str().into());
    }
    put("inputs", grouped(inputs, &labels.inputs, |input: &Input| &input.tensor));
    put("outputs", grouped(outputs, &labels.outputs, |tensor| tensor));
    if let Some(attrs) = describe::attr_list(attrs.as_deref(), labels, &AttrWords::MINDSPORE) {
        put("attrs", attrs.into());
    }
    if let Some(repeat) = labels.attr_desc {
        put(duplicates::ATTRS, duplicates::write_attrs(attrs.as_deref().unwrap_or_default(), repeat).into());
    }
    map
}

/// Unknown fields under their own names.
fn known(extra: &Extra) -> Map<String, Value> {
    let own = |name: &str| name.strip_prefix(PREFIX).unwrap_or(name).to_owned();
    opkeep_order::collected(extra.iter().map(|(name, value)| (own(name), value.clone())))
}

/// The further fields that r1.2 writes and hashes.
pub(crate) fn put_r1_2(map: &mut Map<String, Value>, op: &Op) {
    let mut put = |name: &str, value: &str| {
        map.entry(name).or_insert_with(|| value.into());
    };
    put("Type", &op.op_type);
    put("module_name", &op.module_name);
    if let Some(path) = &op.module_path {
        put("py_module_path", path);
    }
}

/// An omitted tensor, in the form that is read as one.
fn absent_tensor(absent: &OmittedArg) -> Map<String, Value> {
    let mut map = Map::from(describe::absent(absent));
    if !map.contains_key("shape") {
        map.entry("valid").or_insert(false.into());
    }
    map
}

fn grouped<T>(args: &[Arg<T>], labels: &[TensorLabel], of: impl Fn(&T) -> &Tensor) -> Value {
    let mut labels = labels.iter();
    let nameless = TensorLabel { dtype_fields: DtypeFields::Dtype, ..TensorLabel::default() };
    let mut one = |item: &T| Value::from(describe::tensor(of(item), labels.next().unwrap_or(&nameless)));
    let groups = args.iter().map(|arg| match arg {
        Arg::Absent(absent) => Value::from(vec![Value::Object(absent_tensor(absent))]),
        arg => arg.iter().map(&mut one).collect(),
    });
    groups.collect()
}

//! The reader of `job_content` descriptors (MindSpore r1.5 and later).

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::fields::{At, Fields, boolean, int, ints, is_whole, list, string, strings, whole, wrong};
use crate::info::{Descriptor, Generation, InfoError};
use crate::job::{
    Absent, Arg, Attr, AttrValue, ConstValue, Data, Extra, Float, Input, Job, Op, OpFlags, SliceFields,
    Source, Tensor,
};
use crate::spec::{BuildSpec, DtypeFields, Envelope, OpLabels, TensorLabel};
use crate::write::{self, SHARED_NAMES};

/// `SocInfo` fields that say who asks, not what is built.
const WHO_ASKS: [&str; 3] = ["deviceId", "op_debug_dir", "kernel_meta_temp_dir"];

pub(crate) fn job_content(document: Value) -> Result<Descriptor, InfoError> {
    let mut top = Fields::of(document, At::Root)?;
    let at = At::Field(&At::Root, "job_content");
    let mut content = Fields::of(top.raw("job_content").unwrap_or(Value::Null), at)?;

    let soc_info = content.req("SocInfo", |value, at| Ok(Fields::of(value, at)?.extra()))?;
    let (spec, soc_info) = split_soc_info(soc_info, At::Field(&at, "SocInfo"))?;
    let op_list = content.req("op_list", |value, at| list(value, at, read_item))?;
    let Linked { data, ops, data_labels, op_labels, shared } = link(op_list);

    let envelope = Envelope {
        generation: Some(Generation::JobContent),
        job_type: top.opt("job_type", string)?.unwrap_or_default(),
        job_id: top.opt("job_id", int)?,
        source_id: top.opt("source_id", int)?,
        full_name: content.opt("full_name", string)?.unwrap_or_default(),
        fusion_op_name: content.opt("fusion_op_name", string)?.unwrap_or_default(),
        graph_name: content.opt("graph_name", string)?.unwrap_or_default(),
        scope_id: content.opt("scope_id", int)?,
        soc_info,
        data: data_labels,
        ops: op_labels,
    };
    let l1_size = content.opt("l1_size", int)?.unwrap_or(-1);
    let mut extra: Extra = top.rest("").collect();
    // One namespace holds the unknown fields of both objects, and what sharing of names left.
    if let Some((name, value)) =
        extra.iter().find(|(name, _)| name.starts_with("job_content.") || *name == SHARED_NAMES)
    {
        return Err(wrong(At::Field(&At::Root, name), "a field of another name", value));
    }
    extra.extend(content.rest("job_content."));
    if !shared.is_empty() {
        extra.insert(SHARED_NAMES.into(), shared.into());
    }
    Ok(Descriptor { job: Job { data, ops, l1_size, extra }, spec, envelope })
}

/// Parts `SocInfo` into what is built and who asks.
///
/// MindSpore sends the levels 3 and 4 to the compiler as 0 (they only steer its own cache), so that is what is built;
/// the level as written stays in the envelope.
fn split_soc_info(
    mut soc_info: Extra,
    at: At<'_>,
) -> Result<(BuildSpec, BTreeMap<String, Value>), InfoError> {
    let target = soc_info.remove("socVersion").ok_or_else(|| InfoError::Missing {
        field: At::Field(&at, "socVersion").to_string(),
        object: at.to_string(),
    })?;
    let target = string(target, At::Field(&at, "socVersion"))?;
    let mut asked = BTreeMap::new();
    for name in WHO_ASKS {
        asked.extend(soc_info.remove_entry(name));
    }
    if let Some(level) = soc_info.get_mut("op_debug_level")
        && matches!(level.as_str(), Some("3" | "4"))
    {
        asked.insert("op_debug_level".into(), std::mem::replace(level, "0".into()));
    }
    Ok((BuildSpec { target, options: soc_info }, asked))
}

/// An item of `op_list`, its inputs not yet linked.
enum Item {
    Data(Data, OpLabels),
    Op(Box<Op>, OpLabels),
}

fn read_item(value: Value, at: At<'_>) -> Result<Item, InfoError> {
    let mut fields = Fields::of(value, at)?;
    let labels = OpLabels {
        name: fields.opt("name", string)?.unwrap_or_default(),
        ori_name: fields.opt("ori_name", strings)?,
        op_name: fields.opt("op_name", string)?,
        ..OpLabels::default()
    };
    match fields.req("type", string)? {
        op_type if op_type == "Data" => read_data(fields, labels),
        op_type => read_op(op_type, fields, labels),
    }
}

/// A `Data` op has tensors; anything else that stands in it is unknown, and counts.
fn read_data(mut fields: Fields<'_>, mut labels: OpLabels) -> Result<Item, InfoError> {
    let outputs = fields.req("output_desc", |value, at| args(value, at, &mut labels.outputs))?;
    Ok(Item::Data(Data { outputs, extra: fields.extra() }, labels))
}

fn read_op(op_type: String, mut fields: Fields<'_>, mut labels: OpLabels) -> Result<Item, InfoError> {
    let inputs = fields.opt("input_desc", |value, at| args(value, at, &mut labels.inputs))?;
    let outputs = fields.req("output_desc", |value, at| args(value, at, &mut labels.outputs))?;
    let attrs = fields.opt("attrs", |value, at| list(value, at, read_attr))?;
    labels.output_data_desc =
        take_twin(&mut fields, "output_data_desc", || write::nameless(&outputs, &labels.outputs));
    labels.attr_desc =
        take_twin(&mut fields, "attr_desc", || write::attr_desc(attrs.as_deref().unwrap_or_default()));

    let defaults = OpFlags::default();
    let flags = OpFlags {
        build_type: fields.opt("build_type", string)?.unwrap_or(defaults.build_type),
        dynamic_compile_static: fields.opt("dynamic_compile_static", boolean)?.unwrap_or(false),
        is_dynamic_impl: fields.opt("is_dynamic_impl", boolean)?,
        int64_mode: fields.opt("int64mode", boolean)?.unwrap_or(false),
        max_kernel_id: fields.opt("max_kernel_id", int)?.unwrap_or(defaults.max_kernel_id),
        miss_support_info: fields.opt("miss_support_info", string)?.unwrap_or_default(),
        pattern: fields.opt("pattern", string)?.unwrap_or(defaults.pattern),
        unknown_shape: fields.opt("unknown_shape", boolean)?.unwrap_or(false),
    };
    let op = Op {
        op_type,
        func_name: fields.req("func_name", string)?,
        module_name: fields.req("module_name", string)?,
        module_path: fields.opt("py_module_path", string)?,
        flags,
        inputs: inputs.unwrap_or_default().into_iter().map(unlinked).collect(),
        outputs,
        attrs,
        extra: fields.extra(),
    };
    Ok(Item::Op(Box::new(op), labels))
}

/// Removes a field that only repeats others. One that says something of its own stays, and counts.
fn take_twin(fields: &mut Fields<'_>, name: &str, derived: impl FnOnce() -> Value) -> bool {
    let twin = fields.peek(name).is_some_and(|value| *value == derived());
    if twin {
        fields.raw(name);
    }
    twin
}

fn unlinked(arg: Arg<Tensor>) -> Arg<Input> {
    let input = |tensor| Input { tensor, source: Source::Free(0) };
    match arg {
        Arg::One(tensor) => Arg::One(input(tensor)),
        Arg::Many(tensors) => Arg::Many(tensors.into_iter().map(input).collect()),
        Arg::Absent(absent) => Arg::Absent(absent),
    }
}

/// The items of `op_list`, linked.
struct Linked {
    data: Vec<Data>,
    ops: Vec<Op>,
    data_labels: Vec<OpLabels>,
    op_labels: Vec<OpLabels>,
    /// Pairs of a tensor and the earlier one that has the same name.
    shared: Vec<Value>,
}

/// Finds what feeds each input, by the tensors' names; afterwards names no longer matter.
///
/// Fused jobs repeat a name: MindSpore writes a `Data` op for each input, also if two inputs are one tensor. An input
/// means the first tensor of its name. That names were shared stays known, and counts: with other names, a compiler
/// may make something else of it.
fn link(items: Vec<Item>) -> Linked {
    let (mut data, mut ops) = (Vec::new(), Vec::new());
    let (mut data_labels, mut op_labels) = (Vec::new(), Vec::new());
    for item in items {
        match item {
            Item::Data(item, labels) => {
                data.push(item);
                data_labels.push(labels);
            }
            Item::Op(item, labels) => {
                ops.push(*item);
                op_labels.push(labels);
            }
        }
    }

    let of_data = data_labels.iter().enumerate().flat_map(|(data, labels)| {
        let outputs = labels.outputs.iter().enumerate();
        outputs.map(move |(tensor, label)| (Source::Data { data, tensor }, &label.name))
    });
    let of_ops = op_labels.iter().enumerate().flat_map(|(op, labels)| {
        let outputs = labels.outputs.iter().enumerate();
        outputs.map(move |(output, label)| (Source::Op { op, output }, &label.name))
    });
    let mut sources: HashMap<&str, Source> = HashMap::new();
    let mut shared = Vec::new();
    for (source, name) in of_data.chain(of_ops) {
        let Some(name) = name else { continue };
        match sources.entry(name) {
            Entry::Vacant(entry) => _ = entry.insert(source),
            Entry::Occupied(entry) => {
                shared.push([source, *entry.get()].map(write::place).into_iter().collect());
            }
        }
    }

    let mut free: HashMap<&str, usize> = HashMap::new();
    let mut next_free = 0;
    for (op, labels) in ops.iter_mut().zip(&op_labels) {
        let mut names = labels.inputs.iter();
        for input in op.inputs.iter_mut().flat_map(inputs_mut) {
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
    Linked { data, ops, data_labels, op_labels, shared }
}

fn fresh(next: &mut usize) -> usize {
    *next += 1;
    *next - 1
}

fn inputs_mut(arg: &mut Arg<Input>) -> std::slice::IterMut<'_, Input> {
    match arg {
        Arg::One(input) => std::slice::from_mut(input).iter_mut(),
        Arg::Many(inputs) => inputs.iter_mut(),
        Arg::Absent(_) => [].iter_mut(),
    }
}

fn args(value: Value, at: At<'_>, labels: &mut Vec<TensorLabel>) -> Result<Vec<Arg<Tensor>>, InfoError> {
    let Value::Array(items) = value else { return Err(wrong(at, "a list", &value)) };
    let mut args = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let at = At::Item(&at, index);
        args.push(match item {
            Value::Array(group) => {
                let mut tensors = Vec::with_capacity(group.len());
                for (index, item) in group.into_iter().enumerate() {
                    let at = At::Item(&at, index);
                    match tensor(item, at, labels)? {
                        Arg::One(tensor) => tensors.push(tensor),
                        _ => return Err(wrong(at, "a tensor that is there", &Value::from("an absent one"))),
                    }
                }
                Arg::Many(tensors)
            }
            item => tensor(item, at, labels)?,
        });
    }
    Ok(args)
}

fn tensor(value: Value, at: At<'_>, labels: &mut Vec<TensorLabel>) -> Result<Arg<Tensor>, InfoError> {
    let mut fields = Fields::of(value, at)?;
    if fields.peek("shape").and_then(Value::as_str) == Some("NULL") {
        return Ok(Arg::Absent(Absent {
            param_type: fields.opt("param_type", string)?.unwrap_or_default(),
            extra: fields.extra(),
        }));
    }
    let name = fields.opt("name", string)?;
    let dtype_fields = match (fields.peek("dtype"), fields.peek("data_type")) {
        (Some(dtype), Some(data_type)) if dtype == data_type => DtypeFields::Both,
        (None, Some(_)) => DtypeFields::DataType,
        _ => DtypeFields::Dtype,
    };
    let dtype = match dtype_fields {
        DtypeFields::Both => {
            fields.raw("data_type");
            fields.req("dtype", string)?
        }
        DtypeFields::Dtype => fields.req("dtype", string)?,
        DtypeFields::DataType => fields.req("data_type", string)?,
    };
    let param_type = fields.opt("param_type", string)?;
    labels.push(TensorLabel { name, dtype_fields, no_param_type: param_type.is_none() });
    let const_value = match fields.raw("const_value") {
        None => None,
        Some(value) => Some(ConstValue { value, dtype: fields.opt("const_value_dtype", string)? }),
    };
    Ok(Arg::One(Tensor {
        dtype,
        format: stated(&mut fields, "format")?,
        shape: fields.req("shape", ints)?,
        ori_format: fields.opt("ori_format", string)?,
        ori_shape: fields.opt("ori_shape", ints)?,
        range: fields.opt("range", |value, at| list(value, at, range))?,
        param_type: param_type.unwrap_or_else(|| "required".into()),
        valid: fields.opt("valid", boolean)?,
        const_value,
        slice: SliceFields {
            l1_addr_offset: fields.opt("L1_addr_offset", int)?,
            l1_fusion_type: fields.opt("L1_fusion_type", int)?,
            l1_workspace_size: fields.opt("L1_workspace_size", int)?,
            addr_type: fields.opt("addr_type", int)?,
            split_index: fields.opt("split_index", int)?,
            slice_offset: fields.opt("slice_offset", ints)?,
            total_shape: fields.opt("total_shape", ints)?,
            valid_shape: fields.opt("valid_shape", ints)?,
        },
        extra: fields.extra(),
    }))
}

/// A text that is empty if the field is absent. A field that is there and empty stays among the unknown ones.
fn stated(fields: &mut Fields<'_>, name: &str) -> Result<String, InfoError> {
    match fields.peek(name) {
        Some(text) if text == "" => Ok(String::new()),
        _ => Ok(fields.opt(name, string)?.unwrap_or_default()),
    }
}

fn range(value: Value, at: At<'_>) -> Result<[i64; 2], InfoError> {
    let pair = ints(value, at)?;
    <[i64; 2]>::try_from(pair).map_err(|pair| wrong(at, "two whole numbers", &pair.into()))
}

fn read_attr(value: Value, at: At<'_>) -> Result<Attr, InfoError> {
    let mut fields = Fields::of(value, at)?;
    let name = fields.req("name", string)?;
    let dtype = stated(&mut fields, "dtype")?;
    let value_at = At::Field(&at, "value");
    let value = match fields.peek("value") {
        // A null that is written stays among the unknown fields: it is not the same as nothing.
        None | Some(Value::Null) => AttrValue::Null,
        Some(_) => attr_value(fields.raw("value").unwrap_or_default(), dtype.contains("float"), value_at)?,
    };
    Ok(Attr { name, dtype, value, valid: fields.opt("valid", boolean)?, extra: fields.extra() })
}

/// Reads a value by its JSON type; whole numbers of a float attribute are floats, and so are "inf" and "-inf".
fn attr_value(value: Value, float: bool, at: At<'_>) -> Result<AttrValue, InfoError> {
    Ok(match value {
        Value::Null => AttrValue::Null,
        Value::Bool(value) => AttrValue::Bool(value),
        Value::String(text) => match text.as_str() {
            "inf" if float => AttrValue::Float(Float::new(f64::INFINITY)),
            "-inf" if float => AttrValue::Float(Float::new(f64::NEG_INFINITY)),
            _ => AttrValue::Str(text),
        },
        Value::Number(number) => match whole(&number) {
            Some(Ok(value)) if !float => AttrValue::Int(value),
            Some(Err(value)) if !float => AttrValue::UInt(value),
            None if !float && is_whole(&number) => {
                return Err(wrong(at, "a whole number of 64 bits", &Value::Number(number)));
            }
            _ => match number.as_f64() {
                Some(value) => AttrValue::Float(Float::read(value, &number.to_string())),
                None => return Err(wrong(at, "a number that fits a float", &Value::Number(number))),
            },
        },
        Value::Array(items) => AttrValue::List(
            items
                .into_iter()
                .enumerate()
                .map(|(index, item)| attr_value(item, float, At::Item(&at, index)))
                .collect::<Result<_, _>>()?,
        ),
        object @ Value::Object(_) => return Err(wrong(at, "a value or a list of values", &object)),
    })
}

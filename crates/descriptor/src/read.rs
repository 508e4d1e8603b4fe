//! The reader of `job_content` descriptors (MindSpore r1.5 and later).

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::fields::{At, Fields, boolean, int, ints, list, string, strings, whole, wrong};
use crate::info::{Descriptor, Generation, InfoError};
use crate::job::{
    Absent, Arg, Attr, AttrValue, ConstValue, Data, Extra, Float, Input, Job, Op, OpFlags, SliceFields,
    Source, Tensor,
};
use crate::spec::{BuildSpec, DtypeFields, Envelope, OpLabels, TensorLabel};
use crate::write;

/// `SocInfo` fields that say who asks, not what is built.
const WHO_ASKS: [&str; 3] = ["deviceId", "op_debug_dir", "kernel_meta_temp_dir"];

pub(crate) fn job_content(document: Value) -> Result<Descriptor, InfoError> {
    let mut top = Fields::of(document, At::Root)?;
    let at = At::Field(&At::Root, "job_content");
    let mut content = Fields::of(top.raw("job_content").unwrap_or(Value::Null), at)?;

    let soc_info = content.req("SocInfo", |value, at| Ok(Fields::of(value, at)?.extra()))?;
    let (spec, soc_info) = split_soc_info(soc_info, At::Field(&at, "SocInfo"))?;
    let op_list = content.req("op_list", |value, at| list(value, at, read_op))?;
    let (data, ops, data_labels, op_labels) = link(op_list);

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
    let extra = top.rest("").chain(content.rest("job_content.")).collect();
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
struct ReadOp {
    op: Op,
    labels: OpLabels,
}

fn read_op(value: Value, at: At<'_>) -> Result<ReadOp, InfoError> {
    let mut fields = Fields::of(value, at)?;
    let mut labels = OpLabels {
        name: fields.opt("name", string)?.unwrap_or_default(),
        ori_name: fields.opt("ori_name", strings)?,
        op_name: fields.opt("op_name", string)?,
        ..OpLabels::default()
    };
    let op_type = fields.req("type", string)?;
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
    let compute = op_type != "Data";
    let text = |fields: &mut Fields<'_>, name| match compute {
        true => fields.req(name, string),
        false => Ok(String::new()),
    };
    let op = Op {
        func_name: text(&mut fields, "func_name")?,
        module_name: text(&mut fields, "module_name")?,
        module_path: fields.opt("py_module_path", string)?,
        op_type,
        flags,
        inputs: inputs.unwrap_or_default().into_iter().map(unlinked).collect(),
        outputs,
        attrs,
        extra: fields.extra(),
    };
    Ok(ReadOp { op, labels })
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

/// Finds what feeds each input, by the tensors' names; afterwards names no longer matter.
fn link(items: Vec<ReadOp>) -> (Vec<Data>, Vec<Op>, Vec<OpLabels>, Vec<OpLabels>) {
    let (data, ops): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| item.op.op_type == "Data");
    let mut sources = HashMap::new();
    for (data, item) in data.iter().enumerate() {
        for (tensor, label) in item.labels.outputs.iter().enumerate() {
            if let Some(name) = &label.name {
                sources.entry(name.clone()).or_insert(Source::Data { data, tensor });
            }
        }
    }
    for (op, item) in ops.iter().enumerate() {
        for (output, label) in item.labels.outputs.iter().enumerate() {
            if let Some(name) = &label.name {
                sources.entry(name.clone()).or_insert(Source::Op { op, output });
            }
        }
    }

    let mut free: HashMap<Option<String>, usize> = HashMap::new();
    let mut next_free = 0;
    let (mut linked, mut op_labels) = (Vec::new(), Vec::new());
    for (index, ReadOp { mut op, labels }) in ops.into_iter().enumerate() {
        let mut names = labels.inputs.iter();
        for input in op.inputs.iter_mut().flat_map(inputs_mut) {
            let name = names.next().and_then(|label| label.name.clone());
            let known = name.as_ref().and_then(|name| sources.get(name));
            input.source = match known {
                Some(Source::Op { op, .. }) if *op == index => Source::Free(fresh(&mut next_free)),
                Some(source) => *source,
                None if name.is_none() => Source::Free(fresh(&mut next_free)),
                None => Source::Free(*free.entry(name).or_insert_with(|| fresh(&mut next_free))),
            };
        }
        linked.push(op);
        op_labels.push(labels);
    }
    let (data, data_labels) = data.into_iter().map(data_of).unzip();
    (data, linked, data_labels, op_labels)
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

/// A `Data` op keeps its tensors; anything else that stands in it is unknown, and counts.
fn data_of(ReadOp { op, labels }: ReadOp) -> (Data, OpLabels) {
    let Op {
        op_type: _,
        func_name: _,
        module_name: _,
        module_path,
        flags,
        inputs,
        outputs,
        attrs,
        mut extra,
    } = op;
    if let Some(path) = module_path {
        extra.insert("py_module_path".into(), path.into());
    }
    if flags != OpFlags::default() || !inputs.is_empty() || attrs.is_some() {
        extra.insert("(compute fields)".into(), format!("{flags:?} {inputs:?} {attrs:?}").into());
    }
    (Data { outputs, extra }, labels)
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
                    match tensor(item, At::Item(&at, index), labels)? {
                        Arg::One(tensor) => tensors.push(tensor),
                        _ => return Err(wrong(at, "tensors", &Value::from("an absent one"))),
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
            param_type: fields.opt("param_type", string)?.unwrap_or_else(|| "optional".into()),
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
    labels.push(TensorLabel { name, dtype_fields });
    let const_value = match fields.raw("const_value") {
        None => None,
        Some(value) => Some(ConstValue { value, dtype: fields.opt("const_value_dtype", string)? }),
    };
    Ok(Arg::One(Tensor {
        dtype,
        format: fields.req("format", string)?,
        shape: fields.req("shape", ints)?,
        ori_format: fields.opt("ori_format", string)?,
        ori_shape: fields.opt("ori_shape", ints)?,
        range: fields.opt("range", |value, at| list(value, at, range))?,
        param_type: fields.opt("param_type", string)?.unwrap_or_else(|| "required".into()),
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

fn range(value: Value, at: At<'_>) -> Result<[i64; 2], InfoError> {
    let pair = ints(value, at)?;
    <[i64; 2]>::try_from(pair).map_err(|pair| wrong(at, "two whole numbers", &pair.into()))
}

fn read_attr(value: Value, at: At<'_>) -> Result<Attr, InfoError> {
    let mut fields = Fields::of(value, at)?;
    let name = fields.req("name", string)?;
    let dtype = fields.opt("dtype", string)?.unwrap_or_default();
    let value_at = At::Field(&at, "value");
    let value = match fields.raw("value") {
        None => AttrValue::Null,
        Some(value) => attr_value(value, dtype.contains("float"), value_at)?,
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

//! The writer of `job_content` descriptors (MindSpore r1.5 and later).

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::str::FromStr;

use serde::Serialize;
use serde_json::{Map, Number, Value};

use crate::desc::{AttrWords, DATA};
use crate::flags::OpFlags;
use crate::grisu;
use crate::job::{Absent, Arg, Attr, AttrValue, Extra, Float, Input, Job, Op, Source, Tensor};
use crate::link::{SHARED_NAMES, place};
use crate::spec::{AttrTwin, BuildSpec, DtypeFields, Envelope, OpLabels, TensorLabel};
use crate::twin;

pub(crate) fn job_content(job: &Job, spec: &BuildSpec, envelope: &Envelope) -> Value {
    let mut top = Map::new();
    let mut content = Map::new();
    for (path, value) in job.extra.iter().filter(|(path, _)| *path != SHARED_NAMES) {
        match path.strip_prefix("job_content.") {
            Some(name) => content.insert(name.to_owned(), value.clone()),
            None => top.insert(path.clone(), value.clone()),
        };
    }
    content.insert("SocInfo".into(), soc_info(spec, envelope));
    let left_out = &envelope.left_out;
    put_text(&mut content, "full_name", &envelope.full_name, left_out);
    put_text(&mut content, "fusion_op_name", &envelope.fusion_op_name, left_out);
    put_text(&mut content, "graph_name", &envelope.graph_name, left_out);
    if job.l1_size != -1 || !left_out.contains("l1_size") {
        content.insert("l1_size".into(), job.l1_size.into());
    }
    let id = |map: &mut Map<String, Value>, name: &str, id: Option<i64>, default: i64| {
        // What a file did not have, it does not get.
        let default = envelope.generation.is_none().then_some(default);
        map.extend(id.or(default).map(|id| (name.to_owned(), id.into())));
    };
    id(&mut content, "scope_id", envelope.scope_id, -1);
    id(&mut top, "job_id", envelope.job_id, 0);
    id(&mut top, "source_id", envelope.source_id, 0);
    content.insert("op_list".into(), op_list(job, envelope));

    top.insert("job_content".into(), Value::Object(content));
    let made_here = envelope.generation.is_none() && envelope.job_type.is_empty();
    let job_type = if made_here { "Compile" } else { &envelope.job_type };
    put_text(&mut top, "job_type", job_type, left_out);
    Value::Object(top)
}

/// A text that frameworks always write: a file that did not have it does not get an empty one.
pub(crate) fn put_text(
    map: &mut Map<String, Value>,
    name: &'static str,
    text: &str,
    left_out: &BTreeSet<&'static str>,
) {
    if !text.is_empty() || !left_out.contains(name) {
        map.insert(name.to_owned(), text.into());
    }
}

/// JSON as MindSpore formats it from r1.5 on: sorted keys, four spaces, a newline at the end.
pub(crate) fn indented(value: &Value) -> String {
    let mut bytes = Vec::with_capacity(8192);
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let written = value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, formatter));
    debug_assert!(written.is_ok(), "writing JSON to memory");
    bytes.push(b'\n');
    String::from_utf8(bytes).unwrap_or_default()
}

/// JSON as MindSpore formatted it before, and AKG does: sorted keys, one line, a newline at the end.
pub(crate) fn one_line(value: &Value) -> String {
    format!("{value}\n")
}

pub(crate) fn soc_info(spec: &BuildSpec, envelope: &Envelope) -> Value {
    let mut map: Map<String, Value> = spec.options.clone().into_iter().collect();
    for (name, value) in &envelope.soc_info {
        // The level as written only stands in for the 0 that it means.
        if name != "op_debug_level" || map.get(name).is_none_or(|level| level == "0" || level == 0) {
            map.insert(name.clone(), value.clone());
        }
    }
    map.insert("socVersion".into(), spec.target.as_str().into());
    Value::Object(map)
}

/// Names of `Data` ops, or of operators.
type Names<'a> = Cow<'a, [OpLabels]>;

/// The envelope's names if they fit the job, else names by position.
pub(crate) fn labels<'a>(job: &Job, envelope: &'a Envelope) -> (Names<'a>, Names<'a>) {
    match fit(job, envelope) {
        true => (Cow::Borrowed(&*envelope.data), Cow::Borrowed(&*envelope.ops)),
        false => {
            let (data, ops) = positional_labels(job);
            (data.into(), ops.into())
        }
    }
}

pub(crate) fn op_list(job: &Job, envelope: &Envelope) -> Value {
    let (data_labels, op_labels) = labels(job, envelope);
    let data = job.data.iter().zip(data_labels.iter()).map(|(data, labels)| {
        let mut map = object(&data.extra);
        put_names(&mut map, labels);
        map.insert("type".into(), DATA.into());
        map.insert("output_desc".into(), described(&data.outputs, &labels.outputs, |tensor| tensor));
        Value::Object(map)
    });
    let ops = job.ops.iter().zip(op_labels.iter()).map(|(op, labels)| compute_op(op, labels));
    let mut ops = ops.fuse();
    let mut list = Vec::with_capacity(job.data.len() + job.ops.len());
    // Without places of their own they are the first.
    let places = envelope.data_places.iter().copied().chain(std::iter::repeat(0));
    for (place, data) in places.zip(data) {
        list.extend(ops.by_ref().take(place.saturating_sub(list.len())));
        list.push(data);
    }
    list.extend(ops);
    list.into()
}

fn compute_op(op: &Op, labels: &OpLabels) -> Value {
    let Op { op_type, func_name, module_name, module_path, flags, inputs, outputs, attrs, extra } = op;
    let mut map = object(extra);
    // What stands among the unknown fields stands there because it differs.
    let mut put = |name: &str, value: Value| {
        map.entry(name).or_insert(value);
    };
    put("type", op_type.as_str().into());
    put("func_name", func_name.as_str().into());
    put("module_name", module_name.as_str().into());
    if let Some(path) = module_path {
        put("py_module_path", path.as_str().into());
    }
    put_flags(flags, &mut put);
    if !(inputs.is_empty() && labels.left_out.contains("input_desc")) {
        put("input_desc", described(inputs, &labels.inputs, |input: &Input| &input.tensor));
    }
    put("output_desc", described(outputs, &labels.outputs, |tensor| tensor));
    if let Some(twin) = &labels.output_data_desc {
        put(twin::OUTPUTS, twin::write_outputs(outputs, twin));
    }
    if let Some(attrs) = attr_list(attrs.as_deref(), labels, &AttrWords::MINDSPORE) {
        put("attrs", attrs);
    }
    if let Some(twin) = labels.attr_desc {
        put(twin::ATTRS, twin::write_attrs(attrs.as_deref().unwrap_or_default(), twin));
    }
    put_names(&mut map, labels);
    Value::Object(map)
}

/// What is not said of how an operator is compiled is not written: names hash it.
fn put_flags(flags: &OpFlags, put: &mut impl FnMut(&str, Value)) {
    let OpFlags {
        build_type,
        dynamic_compile_static,
        is_dynamic_impl,
        int64_mode,
        max_kernel_id,
        miss_support_info,
        pattern,
        unknown_shape,
    } = flags;
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    for (name, value) in [
        ("build_type", text(build_type)),
        ("dynamic_compile_static", dynamic_compile_static.map(Value::from)),
        ("is_dynamic_impl", is_dynamic_impl.map(Value::from)),
        ("int64mode", int64_mode.map(Value::from)),
        ("max_kernel_id", max_kernel_id.map(Value::from)),
        ("miss_support_info", text(miss_support_info)),
        ("pattern", text(pattern)),
        ("unknown_shape", unknown_shape.map(Value::from)),
    ] {
        if let Some(value) = value {
            put(name, value);
        }
    }
}

fn put_names(map: &mut Map<String, Value>, labels: &OpLabels) {
    put_text(map, "name", &labels.name, &labels.left_out);
    map.extend(labels.ori_name.clone().map(|names| ("ori_name".to_owned(), names.into())));
    map.extend(labels.op_name.clone().map(|name| ("op_name".to_owned(), name.into())));
}

pub(crate) fn object(extra: &Extra) -> Map<String, Value> {
    extra.clone().into_iter().collect()
}

/// Descriptions of `args`, each with its label.
pub(crate) fn described<T>(args: &[Arg<T>], labels: &[TensorLabel], of: impl Fn(&T) -> &Tensor) -> Value {
    let mut labels = labels.iter();
    let mut one = |item: &T| tensor(of(item), labels.next().unwrap_or(&TensorLabel::default()));
    let args = args.iter().map(|arg| match arg {
        Arg::One(item) => one(item),
        Arg::Many(items) => items.iter().map(&mut one).collect(),
        Arg::Absent(item) => {
            let mut map = absent(item);
            map.entry("shape").or_insert_with(|| "NULL".into());
            Value::Object(map)
        }
    });
    args.collect()
}

/// What a file says of a tensor that is not given.
pub(crate) fn absent(absent: &Absent) -> Map<String, Value> {
    let mut map = object(&absent.extra);
    if let Some(param_type) = &absent.param_type {
        map.insert("param_type".into(), param_type.as_str().into());
    }
    map
}

pub(crate) fn tensor(tensor: &Tensor, label: &TensorLabel) -> Value {
    let Tensor {
        dtype,
        format,
        shape,
        ori_format,
        ori_shape,
        range,
        param_type,
        valid,
        const_value,
        slice,
        extra,
    } = tensor;
    let mut map = object(extra);
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            map.entry(name).or_insert(value);
        }
    };
    put("name", label.name.as_deref().map(Value::from));
    let dtype = || Some(Value::from(dtype.as_str()));
    if label.dtype_fields != DtypeFields::DataType {
        put("dtype", dtype());
    }
    if label.dtype_fields != DtypeFields::Dtype {
        put("data_type", dtype());
    }
    put("format", (!format.is_empty()).then(|| format.as_str().into()));
    put("shape", Some(shape.clone().into()));
    put("ori_format", ori_format.as_deref().map(Value::from));
    put("ori_shape", ori_shape.clone().map(Value::from));
    put("range", range.as_ref().map(|range| range.iter().map(|pair| Value::from(pair.to_vec())).collect()));
    let implied = label.no_param_type && param_type == "required";
    put("param_type", (!implied).then(|| param_type.as_str().into()));
    put("valid", valid.map(Value::from));
    if let Some(constant) = const_value {
        put("const_value", Some(constant.value.clone()));
        put("const_value_dtype", constant.dtype.as_deref().map(Value::from));
    }
    put("L1_addr_offset", slice.l1_addr_offset.map(Value::from));
    put("L1_fusion_type", slice.l1_fusion_type.map(Value::from));
    put("L1_workspace_size", slice.l1_workspace_size.map(Value::from));
    put("addr_type", slice.addr_type.map(Value::from));
    put("split_index", slice.split_index.map(Value::from));
    put("slice_offset", slice.slice_offset.clone().map(Value::from));
    put("total_shape", slice.total_shape.clone().map(Value::from));
    put("valid_shape", slice.valid_shape.clone().map(Value::from));
    Value::Object(map)
}

/// The attributes as they stand in a file, if they do.
pub(crate) fn attr_list(attrs: Option<&[Attr]>, labels: &OpLabels, words: &AttrWords) -> Option<Value> {
    match attrs {
        None => labels.null_attrs.then_some(Value::Null),
        Some(attrs) => Some(attrs.iter().map(|item| attr(item, words)).collect()),
    }
}

fn attr(attr: &Attr, words: &AttrWords) -> Value {
    let Attr { name, dtype, value, valid, extra } = attr;
    let own = |name: &str| name.strip_prefix(words.prefix).unwrap_or(name).to_owned();
    let mut map: Map<String, Value> = extra.iter().map(|(name, value)| (own(name), value.clone())).collect();
    map.insert("name".into(), name.as_str().into());
    if !dtype.is_empty() {
        map.insert(words.dtype.into(), dtype.as_str().into());
    }
    if *value != AttrValue::Null {
        map.insert("value".into(), attr_value(value));
    }
    if let Some(valid) = valid {
        map.insert("valid".into(), (*valid).into());
    }
    Value::Object(map)
}

pub(crate) fn attr_value(value: &AttrValue) -> Value {
    match value {
        AttrValue::Null => Value::Null,
        AttrValue::Bool(value) => (*value).into(),
        AttrValue::Int(value) => (*value).into(),
        AttrValue::UInt(value) => (*value).into(),
        AttrValue::Float(value) => float(value),
        AttrValue::Str(text) => text.as_str().into(),
        AttrValue::List(items) => items.iter().map(attr_value).collect(),
    }
}

fn float(float: &Float) -> Value {
    if let Some(number) = float.token().and_then(|token| Number::from_str(token).ok()) {
        return Value::Number(number);
    }
    match float.value() {
        f64::INFINITY => "inf".into(),
        f64::NEG_INFINITY => "-inf".into(),
        // What is no number is printed as null.
        value => grisu::print(value).parse().map_or(Value::Null, Value::Number),
    }
}

/// Whether an envelope's labels are as many as the job has tensors.
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

/// Names by position, for a job that no framework has named: `x_0`, `x_1`, ... and `y_0_0`, `y_1_0`, ...
pub(crate) fn positional_labels(job: &Job) -> (Vec<OpLabels>, Vec<OpLabels>) {
    let mut shared = HashMap::new();
    for pair in job.extra.get(SHARED_NAMES).and_then(Value::as_array).into_iter().flatten() {
        shared.insert(pair[0].to_string(), pair[1].to_string());
    }
    let mut names = HashMap::new();
    let mut name = |source: Source, name: String| {
        let place = place(source).to_string();
        let name = shared.get(&place).and_then(|first| names.get(first)).cloned().unwrap_or(name);
        names.insert(place, name.clone());
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
                attr_desc: item.attrs.is_some().then_some(AttrTwin::WithoutRef),
                ..OpLabels::default()
            }
        })
        .collect();
    for (op, labels) in job.ops.iter().zip(&mut op_labels) {
        let inputs = op.inputs.iter().flat_map(Arg::iter).map(|input| match input.source {
            Source::Free(number) => label(format!("free_{number}")),
            source => label(names.get(&place(source).to_string()).cloned().unwrap_or_default()),
        });
        labels.inputs = inputs.collect();
    }
    (data_labels, op_labels)
}

fn label(name: String) -> TensorLabel {
    TensorLabel { name: Some(name), ..TensorLabel::default() }
}

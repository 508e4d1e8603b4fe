//! The writer of `job_content` descriptors (MindSpore r1.5 and later).

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::str::FromStr;

use serde::Serialize;
use serde_json::{Number, Value};

use crate::desc::{AttrWords, DATA};
use crate::flags::OpFlags;
use crate::grisu;
use crate::job::{Arg, Attr, AttrValue, Float, Input, Job, OmittedArg, Op, Source, Tensor};
use crate::link::{SHARED_NAMES, at_place};
use crate::spec::{BuildSpec, DtypeFields, Envelope, OpLabels, RepeatedAttrs, TensorLabel};
use crate::tree::{Object, Tree};
use crate::twin;

/// The document, as MindSpore formats it from r1.5 on.
pub(crate) fn job_content(job: &Job, spec: &BuildSpec, envelope: &Envelope) -> String {
    let (mut top, mut content) = (Object::default(), Object::default());
    for (path, value) in job.extra.iter().filter(|(path, _)| *path != SHARED_NAMES) {
        match path.strip_prefix("job_content.") {
            Some(name) => content.insert(name, value),
            None => top.insert(path.as_str(), value),
        }
    }
    content.insert("SocInfo", soc_info(spec, envelope));
    let left_out = &envelope.left_out;
    put_text(&mut content, "full_name", &envelope.full_name, left_out);
    put_text(&mut content, "fusion_op_name", &envelope.fusion_op_name, left_out);
    put_text(&mut content, "graph_name", &envelope.graph_name, left_out);
    if job.l1_size != -1 || !left_out.contains("l1_size") {
        content.insert("l1_size", job.l1_size);
    }
    let id = |object: &mut Object<'_>, name: &'static str, id: Option<i64>, default: i64| {
        // What a file did not have, it does not get.
        let default = envelope.generation.is_none().then_some(default);
        if let Some(id) = id.or(default) {
            object.insert(name, id);
        }
    };
    id(&mut content, "scope_id", envelope.scope_id, -1);
    id(&mut top, "job_id", envelope.job_id, 0);
    id(&mut top, "source_id", envelope.source_id, 0);
    let labels = labels(job, envelope);
    content.insert("op_list", op_list(job, envelope, &labels));
    top.insert("job_content", content);
    let made_here = envelope.generation.is_none() && envelope.job_type.is_empty();
    let job_type = if made_here { "Compile" } else { &envelope.job_type };
    put_text(&mut top, "job_type", job_type, left_out);
    indented(&top.into())
}

/// Sets a text that frameworks always write, unless it is empty and the file did not have it.
fn put_text<'a>(
    object: &mut Object<'a>,
    name: &'static str,
    text: &'a str,
    left_out: &BTreeSet<&'static str>,
) {
    if is_written(name, text, left_out) {
        object.insert(name, text);
    }
}

/// Whether a text that frameworks always write stands in a file that leaves these fields out.
pub(crate) fn is_written(name: &str, text: &str, left_out: &BTreeSet<&'static str>) -> bool {
    !text.is_empty() || !left_out.contains(name)
}

/// JSON with four spaces and a newline at the end.
fn indented(value: &Tree<'_>) -> String {
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

pub(crate) fn soc_info<'a>(spec: &'a BuildSpec, envelope: &'a Envelope) -> Object<'a> {
    let mut object = Object::of(&spec.options);
    for (name, value) in &envelope.soc_info {
        // The level as written only stands in for the 0 that it means.
        if name != "op_debug_level" || spec.options.get(name).is_none_or(|level| level == "0" || level == 0) {
            object.insert(name.as_str(), value);
        }
    }
    object.insert("socVersion", spec.target.as_str());
    object
}

/// Names of `Data` ops, and of operators.
type Names<'a> = (Cow<'a, [OpLabels]>, Cow<'a, [OpLabels]>);

/// The envelope's names if they fit the job, else names by position.
pub(crate) fn labels<'a>(job: &Job, envelope: &'a Envelope) -> Names<'a> {
    match fit(job, envelope) {
        true => (Cow::Borrowed(&*envelope.data), Cow::Borrowed(&*envelope.ops)),
        false => {
            let (data, ops) = positional_labels(job);
            (data.into(), ops.into())
        }
    }
}

pub(crate) fn op_list<'a>(
    job: &'a Job,
    envelope: &'a Envelope,
    (data_labels, op_labels): &'a Names<'_>,
) -> Tree<'a> {
    let data = job.data.iter().zip(data_labels.iter()).map(|(data, labels)| {
        let mut object = Object::of(&data.extra);
        put_names(&mut object, labels);
        object.insert("type", DATA);
        object.insert("output_desc", described(&data.outputs, &labels.outputs, |tensor| tensor));
        Tree::Object(object)
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
    Tree::List(list)
}

fn compute_op<'a>(op: &'a Op, labels: &'a OpLabels) -> Tree<'a> {
    let Op { op_type, func_name, module_name, module_path, flags, inputs, outputs, attrs, extra } = op;
    // What stands among the unknown fields stands there because it differs.
    let mut object = Object::of(extra);
    object.or_insert("type", op_type.as_str());
    object.or_insert("func_name", func_name.as_str());
    object.or_insert("module_name", module_name.as_str());
    if let Some(path) = module_path {
        object.or_insert("py_module_path", path.as_str());
    }
    put_flags(flags, &mut object);
    if !(inputs.is_empty() && labels.left_out.contains("input_desc")) {
        object.or_insert("input_desc", described(inputs, &labels.inputs, |input: &Input| &input.tensor));
    }
    object.or_insert("output_desc", described(outputs, &labels.outputs, |tensor| tensor));
    if let Some(twin) = &labels.output_data_desc {
        object.or_insert(twin::OUTPUTS, twin::write_outputs(outputs, twin));
    }
    if let Some(attrs) = attr_list(attrs.as_deref(), labels, &AttrWords::MINDSPORE) {
        object.or_insert("attrs", attrs);
    }
    if let Some(twin) = labels.attr_desc {
        object.or_insert(twin::ATTRS, twin::write_attrs(attrs.as_deref().unwrap_or_default(), twin));
    }
    put_names(&mut object, labels);
    Tree::Object(object)
}

/// What is not said of how an operator is compiled is not written: names hash it.
fn put_flags<'a>(flags: &'a OpFlags, object: &mut Object<'a>) {
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
    let text = |text: &'a Option<String>| text.as_deref().map(Tree::from);
    for (name, value) in [
        ("build_type", text(build_type)),
        ("dynamic_compile_static", dynamic_compile_static.map(Tree::from)),
        ("is_dynamic_impl", is_dynamic_impl.map(Tree::from)),
        ("int64mode", int64_mode.map(Tree::from)),
        ("max_kernel_id", max_kernel_id.map(Tree::from)),
        ("miss_support_info", text(miss_support_info)),
        ("pattern", text(pattern)),
        ("unknown_shape", unknown_shape.map(Tree::from)),
    ] {
        if let Some(value) = value {
            object.or_insert(name, value);
        }
    }
}

fn put_names<'a>(object: &mut Object<'a>, labels: &'a OpLabels) {
    put_text(object, "name", &labels.name, &labels.left_out);
    if let Some(names) = &labels.ori_name {
        object.insert("ori_name", names.as_slice());
    }
    if let Some(name) = &labels.op_name {
        object.insert("op_name", name.as_str());
    }
}

/// Descriptions of `args`, each with its label.
pub(crate) fn described<'a, T: 'a>(
    args: &'a [Arg<T>],
    labels: &'a [TensorLabel],
    of: impl Fn(&'a T) -> &'a Tensor,
) -> Tree<'a> {
    static NAMELESS: TensorLabel =
        TensorLabel { name: None, dtype_fields: DtypeFields::Both, no_param_type: false };
    let mut labels = labels.iter();
    let mut one = |item: &'a T| tensor(of(item), labels.next().unwrap_or(&NAMELESS));
    let args = args.iter().map(|arg| match arg {
        Arg::One(item) => one(item),
        Arg::Many(items) => items.iter().map(&mut one).collect(),
        Arg::Absent(item) => {
            let mut object = absent(item);
            object.or_insert("shape", "NULL");
            Tree::Object(object)
        }
    });
    args.collect()
}

/// What a file says of a tensor that is not given.
pub(crate) fn absent(absent: &OmittedArg) -> Object<'_> {
    let mut object = Object::of(&absent.extra);
    if let Some(param_type) = &absent.param_type {
        object.insert("param_type", param_type.as_str());
    }
    object
}

pub(crate) fn tensor<'a>(tensor: &'a Tensor, label: &'a TensorLabel) -> Tree<'a> {
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
    let mut object = Object::of(extra);
    let mut put = |name: &'static str, value: Option<Tree<'a>>| {
        if let Some(value) = value {
            object.or_insert(name, value);
        }
    };
    let text = |text: Option<&'a String>| text.map(|text| Tree::Text(text));
    let ints = |ints: Option<&'a Vec<i64>>| ints.map(|ints| Tree::Ints(ints));
    put("name", text(label.name.as_ref()));
    if label.dtype_fields != DtypeFields::DataType {
        put("dtype", text(Some(dtype)));
    }
    if label.dtype_fields != DtypeFields::Dtype {
        put("data_type", text(Some(dtype)));
    }
    put("format", text(Some(format).filter(|format| !format.is_empty())));
    put("shape", ints(Some(shape)));
    put("ori_format", text(ori_format.as_ref()));
    put("ori_shape", ints(ori_shape.as_ref()));
    put("range", range.as_ref().map(|range| range.iter().map(|pair| Tree::Ints(pair)).collect()));
    let implied = label.no_param_type && param_type == "required";
    put("param_type", text(Some(param_type).filter(|_| !implied)));
    put("valid", valid.map(Tree::from));
    if let Some(constant) = const_value {
        put("const_value", Some(Tree::from(&constant.value)));
        put("const_value_dtype", text(constant.dtype.as_ref()));
    }
    put("L1_addr_offset", slice.l1_addr_offset.map(Tree::from));
    put("L1_fusion_type", slice.l1_fusion_type.map(Tree::from));
    put("L1_workspace_size", slice.l1_workspace_size.map(Tree::from));
    put("addr_type", slice.addr_type.map(Tree::from));
    put("split_index", slice.split_index.map(Tree::from));
    put("slice_offset", ints(slice.slice_offset.as_ref()));
    put("total_shape", ints(slice.total_shape.as_ref()));
    put("valid_shape", ints(slice.valid_shape.as_ref()));
    Tree::Object(object)
}

/// The attributes as they stand in a file, if they do.
pub(crate) fn attr_list<'a>(
    attrs: Option<&'a [Attr]>,
    labels: &OpLabels,
    words: &AttrWords,
) -> Option<Tree<'a>> {
    match attrs {
        None => labels.null_attrs.then_some(Value::Null.into()),
        Some(attrs) => Some(attrs.iter().map(|item| attr(item, words)).collect()),
    }
}

fn attr<'a>(attr: &'a Attr, words: &AttrWords) -> Tree<'a> {
    let Attr { name, dtype, value, valid, extra } = attr;
    let mut object = Object::default();
    for (name, value) in extra {
        object.insert(name.strip_prefix(words.prefix).unwrap_or(name), value);
    }
    object.insert("name", name.as_str());
    if !dtype.is_empty() {
        object.insert(words.dtype, dtype.as_str());
    }
    if *value != AttrValue::Null {
        object.insert("value", attr_value(value));
    }
    if let Some(valid) = valid {
        object.insert("valid", *valid);
    }
    Tree::Object(object)
}

pub(crate) fn attr_value(value: &AttrValue) -> Tree<'_> {
    match value {
        AttrValue::Null => Value::Null.into(),
        AttrValue::Bool(value) => (*value).into(),
        AttrValue::Int(value) => (*value).into(),
        AttrValue::UInt(value) => Value::from(*value).into(),
        AttrValue::Float(value) => float(value),
        AttrValue::Str(text) => text.as_str().into(),
        AttrValue::List(items) => items.iter().map(attr_value).collect(),
    }
}

fn float(float: &Float) -> Tree<'static> {
    if let Some(number) = float.token().and_then(|token| Number::from_str(token).ok()) {
        return Value::Number(number).into();
    }
    match float.value() {
        f64::INFINITY => "inf".into(),
        f64::NEG_INFINITY => "-inf".into(),
        // What is no number is printed as null.
        value => Value::from(grisu::print(value).parse::<Number>().ok()).into(),
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

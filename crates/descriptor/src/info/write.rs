//! The writer of `job_content` descriptors (MindSpore r1.5 and later).

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use crate::info::describe::{attr_list, described};
use crate::info::duplicates;
use crate::info::labels::{Names, labels};
use crate::info::link::SHARED_NAMES;
use crate::info::tensors::{AttrWords, DATA};
use crate::info::tree::{Object, Tree};
use crate::model::flags::OpFlags;
use crate::model::job::{Input, Job, Op};
use crate::model::metadata::{Envelope, OpLabels};
use crate::model::spec::BuildSpec;

/// The document in MindSpore's format since r1.5.
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
        // Fields that were missing from a file stay missing.
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

/// Sets a string that frameworks always write, unless it is empty and was missing from the file.
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

/// Whether to write a string that frameworks always write, given the fields that the file left out.
pub(crate) fn is_written(name: &str, text: &str, left_out: &BTreeSet<&'static str>) -> bool {
    !text.is_empty() || !left_out.contains(name)
}

/// JSON indented by four spaces, with a final newline.
fn indented(value: &Tree<'_>) -> String {
    let mut bytes = Vec::with_capacity(8192);
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let written = value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, formatter));
    debug_assert!(written.is_ok(), "writing JSON to memory");
    bytes.push(b'\n');
    String::from_utf8(bytes).unwrap_or_default()
}

/// JSON in the format of MindSpore before r1.5 and of AKG: sorted keys, one line, a final newline.
pub(crate) fn one_line(value: &Value) -> String {
    format!("{value}\n")
}

pub(crate) fn soc_info<'a>(spec: &'a BuildSpec, envelope: &'a Envelope) -> Object<'a> {
    let mut object = Object::of(&spec.options);
    for (name, value) in &envelope.soc_info {
        // The level as written replaces the 0 that it means.
        if name != "op_debug_level" || spec.options.get(name).is_none_or(|level| level == "0" || level == 0) {
            object.insert(name.as_str(), value);
        }
    }
    object.insert("socVersion", spec.target.as_str());
    object
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
    // Without recorded positions they come first.
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
    // An unknown field of this name differs from the repetition.
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
    if let Some(repeat) = &labels.output_data_desc {
        object.or_insert(duplicates::OUTPUTS, duplicates::write_outputs(outputs, repeat));
    }
    if let Some(attrs) = attr_list(attrs.as_deref(), labels, &AttrWords::MINDSPORE) {
        object.or_insert("attrs", attrs);
    }
    if let Some(repeat) = labels.attr_desc {
        object.or_insert(
            duplicates::ATTRS,
            duplicates::write_attrs(attrs.as_deref().unwrap_or_default(), repeat),
        );
    }
    put_names(&mut object, labels);
    Tree::Object(object)
}

/// Absent flags are not written, since names hash them.
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

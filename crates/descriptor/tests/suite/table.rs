//! Every field of the documents, and the effect of a change; `counting` tests them.

use serde_json::{Value, json};

use crate::tree::{COMPOSITE, EXAMPLE, FUSED, OLDER, OLDEST, RICH, parse, pattern, with};

/// Where a field counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// In the job's digest.
    Job,
    /// In the spec.
    Spec,
    /// Nowhere: another value is the same kernel.
    Not,
    /// In the job's digest if the job has several operators, else nowhere.
    Fused,
    /// A tensor's name: in the job's digest if it breaks a link, else nowhere.
    Link,
    /// Repeats other fields: counts once it no longer does, and its absence does not.
    Repeat,
}

/// The meaning of an absent field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Absent {
    /// Nothing: removing it is a change like any other.
    Counts,
    /// The file cannot be read without it.
    Refused,
    /// This value, as JSON.
    Means(&'static str),
    /// As its sibling.
    Like(&'static str),
    /// From each dimension itself.
    Range,
    /// The same as the present value.
    Nothing,
}

use Absent::{Like, Means, Nothing, Range, Refused};
use Counts::{Fused, Job, Link, Not, Repeat, Spec};

/// A field by pattern, what a change of it changes, and what its absence means. `*` at the end is everything below. The
/// first that fits is meant.
pub(crate) type Row = (&'static str, Counts, Absent);

/// The rules of one form of file.
pub(crate) struct Table {
    /// Fields of everything but tensors.
    pub(crate) fields: &'static [Row],
    /// Fields of a tensor, behind one of `lists`.
    pub(crate) tensor: &'static [Row],
    /// Fields of a tensor that is not given.
    pub(crate) no_tensor: &'static [Row],
    /// The beginnings of lists of tensors.
    lists: [&'static str; 2],
    /// The name of the field with a tensor's name.
    pub(crate) name: &'static str,
    pub(crate) documents: Vec<(&'static str, Value)>,
    /// Rules whose every change makes the file unreadable.
    pub(crate) unread: &'static [&'static str],
}

pub(crate) fn tables() -> [Table; 4] {
    let job_content = Table {
        fields: FIELDS,
        tensor: TENSOR,
        no_tensor: NO_TENSOR,
        lists: ["input_desc[]", "output_desc[]"],
        name: "name",
        documents: job_content_documents(),
        unread: &["absent.shape", "job_content.op_list[data].type"],
    };
    let r1_2 = Table {
        fields: R1_2_FIELDS,
        tensor: OP_INFO_TENSOR,
        no_tensor: OP_INFO_NO_TENSOR,
        lists: ["inputs[]", "outputs[]"],
        name: "name",
        documents: r1_2_documents(),
        unread: &["absent.valid"],
    };
    let plain = with(&with(&parse(OLDEST), "/attrs", json!([])), "/is_dynamic_shape", json!(false));
    let r1_0 = Table {
        fields: R1_0_FIELDS,
        documents: vec![
            ("oldest", without_repeats(parse(OLDEST))),
            ("oldest, plain", without_repeats(plain)),
        ],
        ..r1_2_like(&r1_2)
    };
    let plain = with(&parse(COMPOSITE), "/op_desc/0/attr", json!([]));
    let akg = Table {
        fields: AKG_FIELDS,
        tensor: AKG_TENSOR,
        no_tensor: &[],
        lists: ["input_desc[]", "output_desc[]"],
        name: "tensor_name",
        documents: vec![("composite", plain)],
        unread: &[],
    };
    [job_content, r1_2, r1_0, akg]
}

/// The rules of r1.2's operators are those of r1.0.
fn r1_2_like(r1_2: &Table) -> Table {
    Table { documents: Vec::new(), ..*r1_2 }
}

/// r1.5 and later.
const FIELDS: &[Row] = &[
    ("job_type", Not, Nothing),
    ("job_id", Not, Nothing),
    ("source_id", Not, Nothing),
    ("future_top*", Job, Absent::Counts),
    ("job_content", Job, Refused),
    ("job_content.full_name", Not, Nothing),
    ("job_content.fusion_op_name", Not, Nothing),
    ("job_content.graph_name", Not, Nothing),
    ("job_content.scope_id", Not, Nothing),
    ("job_content.l1_size", Job, Means("-1")),
    ("job_content.future_content", Job, Absent::Counts),
    ("job_content.SocInfo", Spec, Refused),
    ("job_content.SocInfo.deviceId", Not, Nothing),
    ("job_content.SocInfo.op_debug_dir", Not, Nothing),
    ("job_content.SocInfo.kernel_meta_temp_dir", Not, Nothing),
    ("job_content.SocInfo.socVersion", Spec, Refused),
    // The backend decides their meaning, whether they are absent or not.
    ("job_content.SocInfo.*", Spec, Absent::Counts),
    ("job_content.op_list", Job, Refused),
    ("job_content.op_list[data]", Job, Absent::Counts),
    ("job_content.op_list[op]", Job, Absent::Counts),
    ("job_content.op_list[data].name", Not, Nothing),
    ("job_content.op_list[data].type", Job, Refused),
    ("job_content.op_list[data].output_desc", Job, Refused),
    ("job_content.op_list[data].future_data", Job, Absent::Counts),
    ("job_content.op_list[op].name", Not, Nothing),
    ("job_content.op_list[op].op_name", Not, Nothing),
    ("job_content.op_list[op].ori_name*", Not, Nothing),
    ("job_content.op_list[op].py_module_path", Not, Nothing),
    ("job_content.op_list[op].type", Job, Refused),
    ("job_content.op_list[op].func_name", Job, Refused),
    ("job_content.op_list[op].module_name", Job, Refused),
    ("job_content.op_list[op].build_type", Job, Means(r#""accurately_build""#)),
    ("job_content.op_list[op].dynamic_compile_static", Job, Means("false")),
    ("job_content.op_list[op].is_dynamic_impl", Job, Means("false")),
    ("job_content.op_list[op].int64mode", Job, Means("false")),
    ("job_content.op_list[op].max_kernel_id", Job, Means("10")),
    ("job_content.op_list[op].miss_support_info", Job, Means(r#""""#)),
    ("job_content.op_list[op].pattern", Fused, Means(r#""Opaque""#)),
    ("job_content.op_list[op].unknown_shape", Job, Means("false")),
    ("job_content.op_list[op].future_op*", Job, Absent::Counts),
    ("job_content.op_list[op].input_desc", Job, Absent::Counts),
    ("job_content.op_list[op].output_desc", Job, Refused),
    ("job_content.op_list[op].output_data_desc[].dtype", Repeat, Like("data_type")),
    ("job_content.op_list[op].output_data_desc[].data_type", Repeat, Like("dtype")),
    ("job_content.op_list[op].output_data_desc[].param_type", Repeat, Means(r#""required""#)),
    ("job_content.op_list[op].output_data_desc*", Repeat, Absent::Counts),
    ("job_content.op_list[op].attr_desc*", Repeat, Absent::Counts),
    ("job_content.op_list[op].attrs", Job, Means("[]")),
    ("job_content.op_list[op].attrs[]", Job, Absent::Counts),
    ("job_content.op_list[op].attrs[].name", Job, Refused),
    ("job_content.op_list[op].attrs[].dtype", Job, Absent::Counts),
    ("job_content.op_list[op].attrs[].value*", Job, Absent::Counts),
    ("job_content.op_list[op].attrs[].valid", Job, Means("true")),
    ("job_content.op_list[op].attrs[].future_attr*", Job, Absent::Counts),
];

const TENSOR: &[Row] = &[
    ("name", Link, Absent::Counts),
    ("dtype", Job, Like("data_type")),
    ("data_type", Job, Like("dtype")),
    ("format", Job, Absent::Counts),
    ("ori_format", Job, Like("format")),
    ("shape*", Job, Refused),
    ("ori_shape*", Job, Like("shape")),
    ("range*", Job, Range),
    ("param_type", Job, Means(r#""required""#)),
    ("valid", Job, Means("true")),
    ("const_value*", Job, Absent::Counts),
    ("L1_addr_offset", Job, Means("0")),
    ("L1_fusion_type", Job, Means("-1")),
    ("L1_workspace_size", Job, Means("-1")),
    ("addr_type", Job, Means("0")),
    ("split_index", Job, Means("0")),
    ("slice_offset*", Job, Means("[]")),
    ("total_shape*", Job, Means("[]")),
    ("valid_shape*", Job, Means("[]")),
    ("output_index", Job, Absent::Counts),
    ("future_tensor*", Job, Absent::Counts),
    ("future_data_tensor*", Job, Absent::Counts),
];

const NO_TENSOR: &[Row] = &[
    ("name", Not, Nothing),
    ("shape", Job, Refused),
    ("data_type", Job, Means("0")),
    ("valid", Job, Means("false")),
    ("param_type", Job, Means(r#""optional""#)),
    ("future_absent", Job, Absent::Counts),
];

/// r1.2.
const R1_2_FIELDS: &[Row] = &[
    ("platform", Job, Means(r#""TBE""#)),
    ("impl_path", Not, Nothing),
    ("future_top*", Job, Absent::Counts),
    ("SocInfo", Spec, Refused),
    ("SocInfo.deviceId", Not, Nothing),
    ("SocInfo.op_debug_dir", Not, Nothing),
    ("SocInfo.kernel_meta_temp_dir", Not, Nothing),
    ("SocInfo.socVersion", Spec, Refused),
    ("SocInfo.*", Spec, Absent::Counts),
    ("op_info", Job, Refused),
    ("op_info.Type", Job, Refused),
    ("op_info.name", Job, Refused),
    ("op_info.module_name", Job, Refused),
    ("op_info.py_module_path", Not, Nothing),
    ("op_info.full_name", Not, Nothing),
    ("op_info.kernel_name", Not, Nothing),
    ("op_info.graph_id", Not, Nothing),
    ("op_info.gen_model", Not, Nothing),
    ("op_info.dynamic_index", Not, Nothing),
    ("op_info.is_dynamic_shape", Job, Means("false")),
    ("op_info.future_op*", Job, Absent::Counts),
    ("op_info.inputs", Job, Refused),
    ("op_info.outputs", Job, Refused),
    ("op_info.attrs", Job, Means("[]")),
    ("op_info.attrs[]", Job, Absent::Counts),
    ("op_info.attrs[].name", Job, Refused),
    ("op_info.attrs[].value", Job, Absent::Counts),
    ("op_info.attrs[].valid", Job, Means("true")),
    ("op_info.attrs[].future_attr*", Job, Absent::Counts),
];

/// r1.0 and r1.1.
const R1_0_FIELDS: &[Row] = &[
    ("socVersion", Spec, Refused),
    ("name", Job, Refused),
    ("is_dynamic_shape", Job, Means("false")),
    ("future_op*", Job, Absent::Counts),
    ("inputs", Job, Refused),
    ("outputs", Job, Refused),
    ("attrs", Job, Means("[]")),
    ("attrs[]", Job, Absent::Counts),
    ("attrs[].name", Job, Refused),
    ("attrs[].value", Job, Absent::Counts),
    ("attrs[].valid", Job, Means("true")),
    ("attrs[].future_attr*", Job, Absent::Counts),
];

const OP_INFO_TENSOR: &[Row] = &[
    // One of the operator's own: inputs are fed in order.
    ("name", Not, Nothing),
    ("dtype", Job, Refused),
    ("format", Job, Absent::Counts),
    ("ori_format", Job, Like("format")),
    ("shape*", Job, Refused),
    ("ori_shape*", Job, Like("shape")),
    ("range*", Job, Range),
    ("param_type", Job, Means(r#""required""#)),
    ("valid", Job, Means("true")),
    ("future_tensor", Job, Absent::Counts),
];

const OP_INFO_NO_TENSOR: &[Row] = &[
    ("name", Not, Nothing),
    ("valid", Job, Refused),
    ("param_type", Job, Means(r#""optional""#)),
    ("future_absent", Job, Absent::Counts),
];

/// AKG.
const AKG_FIELDS: &[Row] = &[
    ("platform", Spec, Absent::Counts),
    ("process", Spec, Refused),
    ("target_info*", Spec, Absent::Counts),
    ("id", Not, Nothing),
    ("composite_graph", Not, Nothing),
    ("node_name", Not, Nothing),
    ("op_full_name", Not, Nothing),
    ("op", Not, Nothing),
    ("version", Job, Absent::Counts),
    ("composite", Job, Absent::Counts),
    ("parallel_fusion*", Job, Absent::Counts),
    ("buffer_stitch*", Job, Absent::Counts),
    ("dynamic_input_index", Job, Absent::Counts),
    ("future_top*", Job, Absent::Counts),
    ("input_desc", Job, Refused),
    ("output_desc", Job, Refused),
    // The composite's outputs.
    ("output_desc[]*", Job, Absent::Counts),
    ("op_desc", Job, Refused),
    ("op_desc[]", Job, Absent::Counts),
    ("op_desc[].name", Job, Refused),
    ("op_desc[].impl_path", Not, Nothing),
    ("op_desc[].ptr_address", Not, Nothing),
    ("op_desc[].future_op", Job, Absent::Counts),
    ("op_desc[].input_desc", Job, Refused),
    ("op_desc[].output_desc", Job, Refused),
    ("op_desc[].attr", Job, Means("[]")),
    ("op_desc[].attr[]", Job, Absent::Counts),
    ("op_desc[].attr[].name", Job, Refused),
    ("op_desc[].attr[].data_type", Job, Absent::Counts),
    ("op_desc[].attr[].value", Job, Absent::Counts),
    ("op_desc[].attr[].future_attr", Job, Absent::Counts),
];

const AKG_TENSOR: &[Row] = &[
    ("tensor_name", Link, Absent::Counts),
    ("data_type", Job, Refused),
    ("format", Job, Absent::Counts),
    ("shape*", Job, Refused),
    ("value*", Job, Absent::Counts),
    ("name", Job, Absent::Counts),
    ("future_tensor*", Job, Absent::Counts),
];

impl Table {
    /// The rule for the value at `at`, and its name; a value without one fails the test.
    pub(crate) fn rule(&self, document: &Value, at: &str) -> (String, Counts, Absent) {
        let fits = |rule: &str, pattern: &str| match rule.strip_suffix('*') {
            Some(start) => pattern.starts_with(start),
            None => pattern == rule,
        };
        let pattern = pattern(document, at);
        if let Some((name, counts, absent)) = self.fields.iter().find(|(rule, ..)| fits(rule, &pattern)) {
            return ((*name).to_owned(), *counts, *absent);
        }
        for list in self.lists {
            let Some((_, field)) = pattern.split_once(list) else { continue };
            let Some(field) = field.strip_prefix('.') else { return (pattern, Job, Absent::Counts) };
            let name = field.split(['.', '[']).next().unwrap();
            let tensor = document.pointer(&at[..at.rfind(&format!("/{name}")).unwrap()]).unwrap();
            let absent = tensor.get("shape").is_none_or(|shape| shape == "NULL");
            let (kind, rules) = if absent { ("absent", self.no_tensor) } else { ("tensor", self.tensor) };
            let found = rules.iter().find(|(rule, ..)| fits(rule, field));
            let (name, counts, missing) =
                found.unwrap_or_else(|| panic!("state in {kind} what a change of `{field}` changes ({at})"));
            return (format!("{kind}.{name}"), *counts, *missing);
        }
        panic!("state in a table what a change of `{pattern}` changes ({at})")
    }

    /// All rules, as [`rule`](Self::rule) names them.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (String, Absent)> {
        let named = |kind: &'static str, rows: &'static [Row]| {
            rows.iter().map(move |(rule, _, absent)| (format!("{kind}{rule}"), *absent))
        };
        named("", self.fields).chain(named("tensor.", self.tensor)).chain(named("absent.", self.no_tensor))
    }
}

/// Without the fields that repeat others: these tests are not about repetitions that no longer fit.
fn without_repeats(mut document: Value) -> Value {
    if let Some(ops) = document.pointer_mut("/job_content/op_list").and_then(Value::as_array_mut) {
        for op in ops {
            op.as_object_mut().unwrap().remove("output_data_desc");
            op.as_object_mut().unwrap().remove("attr_desc");
        }
    } else if let Some(op_info) = document.get_mut("op_info") {
        op_info.as_object_mut().unwrap().remove("attr_desc");
        op_info.as_object_mut().unwrap().remove("socVersion");
    } else {
        document.as_object_mut().unwrap().remove("attr_desc");
    }
    document
}

fn job_content_documents() -> Vec<(&'static str, Value)> {
    vec![
        ("example", parse(EXAMPLE)),
        ("rich", parse(RICH)),
        ("fused", parse(FUSED)),
        ("example without repeats", without_repeats(parse(EXAMPLE))),
        ("rich without repeats", without_repeats(parse(RICH))),
        ("fused without repeats", without_repeats(parse(FUSED))),
    ]
}

fn r1_2_documents() -> Vec<(&'static str, Value)> {
    let older = without_repeats(parse(OLDER));
    let plain = with(&with(&older, "/op_info/attrs", json!([])), "/op_info/is_dynamic_shape", json!(false));
    vec![("older without repeats", older), ("older, plain, without repeats", plain)]
}

//! The reader of `job_content` descriptors (MindSpore r1.5 and later).

use std::collections::{BTreeMap, BTreeSet};
use std::convert::identity;

use serde_json::Value;

use crate::info::fields::{FieldError, Fields, Position, boolean, int, list, string, strings, wrong};
use crate::info::link::{SHARED_NAMES, link, sources};
use crate::info::node::Node;
use crate::info::tensors::{AttrWords, DATA, args, read_attrs, unlinked};
use crate::info::{duplicates, ignored};
use crate::model::descriptor::Descriptor;
use crate::model::flags::OpFlags;
use crate::model::generation::Generation;
use crate::model::job::{Data, Extra, Job, Op};
use crate::model::metadata::{Envelope, OpLabels};
use crate::model::spec::BuildSpec;

pub(crate) fn job_content(document: Node<'_>) -> Result<Descriptor, FieldError> {
    let mut top = Fields::of(document, Position::Root)?;
    let at = Position::Field(&Position::Root, "job_content");
    let mut content = Fields::of(top.raw("job_content").unwrap_or(Node::Null), at)?;

    let (spec, soc_info) = content.req("SocInfo", |value, at| soc_info(value, at, Generation::R2_1))?;
    let mut items = Items::default();
    content.req("op_list", |value, at| list(value, at, |item, at| items.read(item, at)))?;
    let Items { data, data_labels, mut data_places, mut ops, op_labels } = items;
    let (sources, shared) = sources(&data_labels, &op_labels);
    link(&mut ops, &op_labels, &sources);
    if data_places.last().is_none_or(|last| *last < data.len()) {
        data_places.clear();
    }

    let mut left_out = BTreeSet::new();
    let mut envelope = Envelope {
        generation: Some(generation(&spec, &soc_info, &ops)),
        job_type: top.text("job_type", &mut left_out)?,
        job_id: top.opt("job_id", int)?,
        source_id: top.opt("source_id", int)?,
        full_name: content.text("full_name", &mut left_out)?,
        fusion_op_name: content.text("fusion_op_name", &mut left_out)?,
        graph_name: content.text("graph_name", &mut left_out)?,
        scope_id: content.opt("scope_id", int)?,
        soc_info,
        data: data_labels,
        data_places,
        ops: op_labels,
        ignored: BTreeMap::new(),
        left_out: BTreeSet::new(),
    };
    let l1_size = content.opt("l1_size", int)?;
    if l1_size.is_none() {
        left_out.insert("l1_size");
    }
    envelope.left_out = left_out;
    let mut extra = unknown(top)?;
    extra.extend(content.rest("job_content."));
    if !shared.is_empty() {
        extra.insert(SHARED_NAMES.into(), shared.into());
    }
    Ok(Descriptor { job: Job { data, ops, l1_size: l1_size.unwrap_or(-1), extra }, spec, envelope })
}

/// The unknown fields next to `job_content`.
///
/// They share a namespace with those in `job_content` and with the list of shared names, so their names must not
/// collide.
fn unknown(top: Fields<'_>) -> Result<Extra, FieldError> {
    let extra = top.extra();
    match extra.iter().find(|(name, _)| name.starts_with("job_content.") || *name == SHARED_NAMES) {
        Some((name, value)) => {
            Err(wrong(Position::Field(&Position::Root, name), "a field of another name", value.clone()))
        }
        None => Ok(extra),
    }
}

/// The oldest generation that writes these fields. Files of r1.5 and r1.6 look alike.
fn generation(spec: &BuildSpec, soc_info: &BTreeMap<String, Value>, ops: &[Op]) -> Generation {
    let newest = ["te_version", "deterministic", "op_debug_config"];
    if newest.iter().any(|name| spec.options.contains_key(*name)) {
        Generation::R2_1
    } else if soc_info.contains_key("kernel_meta_temp_dir")
        || ops.iter().any(|op| op.flags.is_dynamic_impl.is_some())
    {
        Generation::R1_7
    } else {
        Generation::R1_5
    }
}

/// Splits `SocInfo` into the build spec and the envelope.
///
/// MindSpore passes the levels 3 and 4 to the compiler as 0 (they only control its own cache), so the spec has 0; the
/// envelope keeps the level as written.
pub(crate) fn soc_info(
    value: Node<'_>,
    at: Position<'_>,
    generation: Generation,
) -> Result<(BuildSpec, BTreeMap<String, Value>), FieldError> {
    let mut fields = Fields::of(value, at)?;
    let target = fields.req("socVersion", string)?;
    let mut asked = ignored::take(&mut fields, generation, "SocInfo");
    let mut options = fields.extra();
    if let Some(level) = options.get_mut("op_debug_level") {
        let built = match level {
            Value::String(level) if ["3", "4"].contains(&level.as_str()) => Some("0".into()),
            Value::Number(level) if matches!(level.as_u64(), Some(3 | 4)) => Some(0.into()),
            _ => None,
        };
        asked.extend(built.map(|built| ("op_debug_level".to_owned(), std::mem::replace(level, built))));
    }
    Ok((BuildSpec { target, options }, asked))
}

/// The items of `op_list`, the inputs of operators not yet linked.
#[derive(Default)]
struct Items {
    data: Vec<Data>,
    data_labels: Vec<OpLabels>,
    /// The places of the `Data` ops.
    data_places: Vec<usize>,
    ops: Vec<Op>,
    op_labels: Vec<OpLabels>,
}

impl Items {
    fn read(&mut self, value: Node<'_>, at: Position<'_>) -> Result<(), FieldError> {
        let mut fields = Fields::of(value, at)?;
        let mut left_out = BTreeSet::new();
        let mut labels = OpLabels {
            name: fields.text("name", &mut left_out)?,
            ori_name: fields.opt("ori_name", strings)?,
            op_name: fields.opt("op_name", string)?,
            left_out,
            ..OpLabels::default()
        };
        let op_type = fields.req("type", string)?;
        if op_type != DATA {
            self.ops.push(read_op(op_type, fields, &mut labels)?);
            self.op_labels.push(labels);
            return Ok(());
        }
        // A `Data` op has tensors; all its other fields are unknown, and count.
        let outputs =
            fields.req("output_desc", |value, at| args(value, at, &mut labels.outputs, identity))?;
        self.data_places.push(self.data.len() + self.ops.len());
        self.data.push(Data { outputs, extra: fields.extra() });
        self.data_labels.push(labels);
        Ok(())
    }
}

fn read_op(op_type: String, mut fields: Fields<'_>, labels: &mut OpLabels) -> Result<Op, FieldError> {
    let inputs = fields.opt("input_desc", |value, at| args(value, at, &mut labels.inputs, unlinked))?;
    let outputs = fields.req("output_desc", |value, at| args(value, at, &mut labels.outputs, identity))?;
    let attrs = read_attrs(&mut fields, &AttrWords::MINDSPORE, labels)?;
    labels.output_data_desc = duplicates::take_outputs(&mut fields, &outputs);
    labels.attr_desc = duplicates::take_attrs(&mut fields, attrs.as_deref());
    if inputs.is_none() {
        labels.left_out.insert("input_desc");
    }

    let flags = OpFlags {
        build_type: fields.opt("build_type", string)?,
        dynamic_compile_static: fields.opt("dynamic_compile_static", boolean)?,
        is_dynamic_impl: fields.opt("is_dynamic_impl", boolean)?,
        int64_mode: fields.opt("int64mode", boolean)?,
        max_kernel_id: fields.opt("max_kernel_id", int)?,
        miss_support_info: fields.opt("miss_support_info", string)?,
        pattern: fields.opt("pattern", string)?,
        unknown_shape: fields.opt("unknown_shape", boolean)?,
    };
    Ok(Op {
        op_type,
        func_name: fields.req("func_name", string)?,
        module_name: fields.req("module_name", string)?,
        module_path: fields.opt("py_module_path", string)?,
        flags,
        inputs: inputs.unwrap_or_default(),
        outputs,
        attrs,
        extra: fields.extra(),
    })
}

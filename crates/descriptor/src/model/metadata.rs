//! The envelope: the metadata of a request.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::model::generation::Generation;

/// The metadata of a request and its spelling. It never counts in a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Envelope {
    /// The generation of the file; `None` for a job made by a program.
    pub generation: Option<Generation>,
    /// `job_type`, such as `Compile`.
    pub job_type: String,
    /// `job_id`.
    pub job_id: Option<i64>,
    /// `source_id`: the device's id.
    pub source_id: Option<i64>,
    /// The node's name in its graph.
    pub full_name: String,
    /// The framework's name for the kernel: the stem of its files.
    pub fusion_op_name: String,
    /// `graph_name`.
    pub graph_name: String,
    /// `scope_id`.
    pub scope_id: Option<i64>,
    /// `SocInfo.deviceId`, `SocInfo.op_debug_dir`, `SocInfo.kernel_meta_temp_dir` and the like, as written.
    pub soc_info: BTreeMap<String, Value>,
    /// Names of the `Data` ops and of their tensors, in the order of [`crate::Job::data`].
    pub data: Vec<OpLabels>,
    /// The positions of the `Data` ops among all ops of the file; empty if they come first.
    pub data_places: Vec<usize>,
    /// Names of the operators and of their tensors, in the order of [`crate::Job::ops`].
    pub ops: Vec<OpLabels>,
    /// [`IGNORED_FIELDS`](crate::IGNORED_FIELDS) of the document, as written.
    pub ignored: BTreeMap<String, Value>,
    /// Fields that frameworks always write and the file lacks.
    pub left_out: BTreeSet<&'static str>,
}

impl Envelope {
    /// Sets the kernel's name to `name` wherever the document states it.
    pub fn rename(&mut self, name: &str) {
        let old = std::mem::replace(&mut self.fusion_op_name, name.to_owned());
        for op_name in self.ops.iter_mut().filter_map(|op| op.op_name.as_mut()) {
            if *op_name == old {
                name.clone_into(op_name);
            }
        }
    }
}

/// Names of one operator and its tensors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpLabels {
    /// `name`.
    pub name: String,
    /// `ori_name`.
    pub ori_name: Option<Vec<String>>,
    /// `op_name`.
    pub op_name: Option<String>,
    /// Input tensors, including those of variadic groups.
    pub inputs: Vec<TensorLabel>,
    /// Output tensors, including those of variadic groups.
    pub outputs: Vec<TensorLabel>,
    /// How the file repeats the outputs as `output_data_desc`, if it does.
    pub output_data_desc: Option<RepeatedOutputs>,
    /// How the file repeats the attributes' values as `attr_desc`, if it does.
    pub attr_desc: Option<RepeatedAttrs>,
    /// The file has `null` in place of the attributes.
    pub null_attrs: bool,
    /// [`IGNORED_FIELDS`](crate::IGNORED_FIELDS) of the operator, as written.
    pub ignored: BTreeMap<String, Value>,
    /// Fields that frameworks always write and the file lacks.
    pub left_out: BTreeSet<&'static str>,
}

/// How a file repeats an operator's outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepeatedOutputs {
    /// Only single tensors with an `ori_shape` are repeated.
    pub described_only: bool,
    /// The spelling of the repeated outputs, which rarely have names.
    pub labels: Vec<TensorLabel>,
}

/// How a file repeats the values of an operator's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatedAttrs {
    /// The given attributes except `isRef`, as before r2.1.
    WithoutRef,
    /// All given attributes, as since r2.1.
    All,
}

/// Name and spelling of one tensor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorLabel {
    /// `name`.
    pub name: Option<String>,
    /// The field names of the element type.
    pub dtype_fields: DtypeFields,
    /// The file does not state `param_type`, as in fused jobs.
    pub no_param_type: bool,
}

/// The field names of a tensor's element type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DtypeFields {
    /// `dtype` and `data_type`.
    #[default]
    Both,
    /// `dtype` only.
    Dtype,
    /// `data_type` only.
    DataType,
}

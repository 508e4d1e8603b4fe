//! The envelope: who asked.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::model::generation::Generation;

/// Who asked, and how they spelled it. Never counts in a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Envelope {
    /// The generation of the file that was read; `None` for a job made by a program.
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
    /// Where among all ops of the file the `Data` ops stand; empty if they are the first.
    pub data_places: Vec<usize>,
    /// Names of the operators and of their tensors, in the order of [`crate::Job::ops`].
    pub ops: Vec<OpLabels>,
    /// [`IGNORED_FIELDS`](crate::IGNORED_FIELDS) of the document, as written.
    pub ignored: BTreeMap<String, Value>,
    /// Fields that frameworks always write, but the file does not have.
    pub left_out: BTreeSet<&'static str>,
}

impl Envelope {
    /// Calls the kernel `name`, wherever the document says its name.
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
    /// Input tensors, variadic groups opened.
    pub inputs: Vec<TensorLabel>,
    /// Output tensors, variadic groups opened.
    pub outputs: Vec<TensorLabel>,
    /// How the file repeats the outputs as `output_data_desc`, if it does.
    pub output_data_desc: Option<RepeatedOutputs>,
    /// How the file repeats the attributes' values as `attr_desc`, if it does.
    pub attr_desc: Option<RepeatedAttrs>,
    /// The file says `null` where the attributes would stand.
    pub null_attrs: bool,
    /// [`IGNORED_FIELDS`](crate::IGNORED_FIELDS) of the operator, as written.
    pub ignored: BTreeMap<String, Value>,
    /// Fields that frameworks always write, but the file does not have.
    pub left_out: BTreeSet<&'static str>,
}

/// How a file repeats an operator's outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepeatedOutputs {
    /// Only single tensors that say their `ori_shape` are repeated.
    pub described_only: bool,
    /// How those that are repeated are spelled; they rarely have names.
    pub labels: Vec<TensorLabel>,
}

/// How a file repeats the values of an operator's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatedAttrs {
    /// Those that are given, without that of `isRef`, as before r2.1.
    WithoutRef,
    /// All that are given, as since r2.1.
    All,
}

/// Name and spelling of one tensor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorLabel {
    /// `name`.
    pub name: Option<String>,
    /// Under which field names the element type stands.
    pub dtype_fields: DtypeFields,
    /// The file does not state `param_type`, as in fused jobs.
    pub no_param_type: bool,
}

/// Under which field names a tensor's element type stands.
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

//! Operator build jobs: what is computed, for what it is built, and who asked.
//!
//! Frameworks describe an operator in an `.info` file. Reading one gives a [`Descriptor`] of three parts:
//!
//! * [`Job`]: what is computed. Operators, their wiring, tensors, attributes. It counts in the cache key.
//! * [`BuildSpec`]: for what it is built. SoC and options; a backend resolves it to an [`EffectiveSpec`], which counts.
//! * [`Envelope`]: who asked. Node names, ids, device, folders, spelling. It never counts, so that every rank, card
//!   and folder shares one kernel.
//!
//! A [`Key`] is made of [`KeyParts`]: job, spec, toolchain, and the operator's own sources. Each part has its digest,
//! so that a miss can say which one moved. [`KernelName`] follows from the key.
//!
//! # What counts
//!
//! | field of the `.info` (r1.5 and later) | part | why |
//! |---|---|---|
//! | `op_list`: `type`, `func_name`, `module_name`, flags, `pattern`, `attrs` | job | the compiler reads them |
//! | tensors: types, formats, shapes, `range`, `param_type`, constants, L1 and slice fields | job | the compiler reads them |
//! | which input is fed by which output | job | topology of a fused kernel |
//! | `l1_size` | job | bounds L1 fusion |
//! | `SocInfo`: `socVersion`, `coreNum`, modes, `op_debug_level`, ... | spec | as the backend resolves them |
//! | unknown fields, at every level | job, or spec inside `SocInfo` | a wrong hit is worse than a lost one |
//! | `py_module_path` | none | an install folder; the source found there counts as *op sources* |
//! | `name`, `ori_name`, `op_name`, `full_name`, `fusion_op_name`, `graph_name`, `scope_id` | envelope | names do not change code |
//! | `job_id`, `source_id`, `job_type`, `SocInfo.deviceId`, `op_debug_dir`, `kernel_meta_temp_dir` | envelope | who asked, from where |
//!
//! This version reads and writes the `job_content` form (MindSpore r1.5 and later).
//!
//! ```
//! let text = include_bytes!("../../../fixtures/mindspore/square_12484080525657478220_2.info");
//! let descriptor = opbuild_descriptor::read_info(text)?;
//! assert_eq!(descriptor.job.ops[0].op_type, "Square");
//! assert_eq!(descriptor.spec.target, "Ascend910A");
//! assert_eq!(descriptor.envelope.fusion_op_name, "square_12484080525657478220_2");
//! # Ok::<(), opbuild_descriptor::InfoError>(())
//! ```

mod fields;
mod hash;
mod info;
mod job;
mod key;
mod name;
mod read;
mod spec;
mod write;

pub use info::{Descriptor, Generation, InfoError, MAX_INFO_BYTES, read_info, write_info};
pub use job::{
    Absent, Arg, Attr, AttrValue, ConstValue, Data, Extra, Float, Input, Job, Op, OpFlags, SliceFields,
    Source, Tensor,
};
pub use key::{KEY_SCHEMA, Key, KeyParts};
pub use name::KernelName;
pub use spec::{BuildSpec, DtypeFields, EffectiveSpec, Envelope, OpLabels, TensorLabel};

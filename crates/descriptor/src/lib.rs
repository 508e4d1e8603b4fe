//! Operator build jobs: the computation, the target with its options, and the metadata of the request.
//!
//! Frameworks describe an operator in an `.info` file. Reading it gives a [`Descriptor`] with three parts:
//!
//! * [`Job`]: the computation, with operators, connections, tensors and attributes. It counts in the cache key.
//! * [`BuildSpec`]: the target and options. A backend resolves it to a [`ResolvedSpec`], which counts.
//! * [`Envelope`]: the metadata of the request, with node names, ids, device, directories and spelling. It never
//!   counts, so that all ranks, devices and directories share one kernel.
//!
//! A [`Key`] has four [`KeyParts`]: job, spec, toolchain, and the operator's own sources. Each part has its digest, so
//! that a miss can name the part that changed. The key determines the [`KernelName`].
//!
//! [`read_info`] reads the `.info` files of every [`Generation`] of MindSpore and AKG; [`write_info`] writes them
//! unchanged, number tokens included. [`KernelName::mindspore`] computes the names by which these frameworks look for
//! kernels, [`ForeignName`] parses such names, [`name_matches`] checks in one pass over the bytes whether a name
//! belongs to its file, and [`Diff`] lists the differences between two jobs.
//!
//! ```
//! let text = std::fs::read("../../fixtures/mindspore/square_12484080525657478220_2.info")?;
//! let descriptor = opkeep_descriptor::read_info(&text)?;
//! assert_eq!(descriptor.job.ops[0].op_type, "Square");
//! assert_eq!(descriptor.spec.target, "Ascend910A");
//! assert_eq!(descriptor.envelope.fusion_op_name, "square_12484080525657478220_2");
//! assert_eq!(descriptor.kernel_meta_stem()?.as_str(), "square_12484080525657478220_2");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
#![doc = include_str!("what_counts.md")]

mod diff;
mod fuzz;
mod info;
mod key;
mod model;
mod name;
mod nlohmann;

pub use diff::{Change, Diff};
#[doc(hidden)]
pub use fuzz::fuzz;
pub use info::error::InfoError;
pub use info::ignored::{IGNORED_FIELDS, IgnoredField};
pub use info::limits::MAX_INFO_BYTES;
pub use info::{read_info, write_info, write_info_named};
pub use key::import::{IMPORT_SCHEMA, import_key};
pub use key::job_cache::JobCache;
pub use key::parts::{KEY_SCHEMA, Key, KeyParts};
pub use model::descriptor::Descriptor;
pub use model::flags::OpFlags;
pub use model::generation::Generation;
pub use model::job::{
    Arg, Attr, AttrValue, ConstValue, Data, Extra, Float, Input, Job, OmittedArg, Op, SliceFields, Source,
    Stated, Tensor,
};
pub use model::metadata::{DtypeFields, Envelope, OpLabels, RepeatedAttrs, RepeatedOutputs, TensorLabel};
pub use model::options::{self, OPTION_NAMES, debug_enabled};
pub use model::spec::{BuildSpec, ResolvedSpec};
pub use name::error::NameError;
pub use name::foreign::ForeignName;
pub use name::kernel::KernelName;
pub use name::matches::name_matches;

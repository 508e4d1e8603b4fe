//! Operator build jobs: what is computed, for what it is built, and who asked.
//!
//! Frameworks describe an operator in an `.info` file. Reading one gives a [`Descriptor`] of three parts:
//!
//! * [`Job`]: what is computed. Operators, their wiring, tensors, attributes. It counts in the cache key.
//! * [`BuildSpec`]: for what it is built. SoC and options; a backend resolves it to an [`ResolvedSpec`], which counts.
//! * [`Envelope`]: who asked. Node names, ids, device, folders, spelling. It never counts, so that every rank, card
//!   and folder shares one kernel.
//!
//! A [`Key`] is made of [`KeyParts`]: job, spec, toolchain, and the operator's own sources. Each part has its digest,
//! so that a miss can say which one moved. [`KernelName`] follows from the key.
//!
//! [`read_info`] knows the `.info` files of every [`Generation`] of MindSpore and AKG; [`write_info`] gives back what was
//! read, number tokens included. [`KernelName::mindspore`] makes the names by which these frameworks look for kernels,
//! [`ForeignName`] takes them apart, [`name_matches`] sees in one pass over the bytes whether one follows from its file, and [`Diff`] says what is different between two jobs.
//!
//! ```
//! let text = include_bytes!("../../../fixtures/mindspore/square_12484080525657478220_2.info");
//! let descriptor = opkeep_descriptor::read_info(text)?;
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

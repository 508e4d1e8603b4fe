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

mod akg;
mod borne;
mod confirm;
mod desc;
mod diff;
mod dump;
mod fields;
mod flags;
mod fuzz;
mod grisu;
mod guard;
mod hash;
mod ignored;
mod imported;
mod info;
mod job;
mod job_cache;
mod key;
mod link;
mod locate;
mod murmur;
mod name;
mod node;
mod op_info;
pub mod options;
mod powers;
mod read;
mod scan;
mod shown;
mod spec;
mod spell;
mod tree;
mod twin;
mod vendor;
mod write;

pub use borne::ForeignName;
pub use confirm::name_matches;
pub use diff::{Change, Diff};
pub use flags::OpFlags;
#[doc(hidden)]
pub use fuzz::fuzz;
pub use ignored::{IGNORED_FIELDS, IgnoredField};
pub use imported::{IMPORT_SCHEMA, import_key};
pub use info::{Descriptor, Generation, InfoError, MAX_INFO_BYTES, read_info, write_info, write_info_named};
pub use job::{
    Arg, Attr, AttrValue, ConstValue, Data, Extra, Float, Input, Job, OmittedArg, Op, SliceFields, Source,
    Stated, Tensor,
};
pub use job_cache::JobCache;
pub use key::{KEY_SCHEMA, Key, KeyParts};
pub use name::KernelName;
pub use options::OPTION_NAMES;
pub use spec::{
    BuildSpec, DtypeFields, Envelope, OpLabels, RepeatedAttrs, RepeatedOutputs, ResolvedSpec, TensorLabel,
};
pub use vendor::NameError;

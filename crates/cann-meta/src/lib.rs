//! The `.json` that describes a CANN kernel: plain data, without I/O and without validation (`opkeep-validator`
//! validates).
//!
//! CANN's compilers write this file next to every `.o`; MindSpore, FE and the runtime read it. An artifact keeps its
//! bytes unchanged (`Artifact::metadata`), and [`KernelMeta`] is their typed form. The reader accepts what real
//! producers write, names the field that it rejects, and keeps unknown fields as spelled.
//!
//! | field | of another type than expected |
//! |---|---|
//! | `binFileName`, `binFileSuffix`, `kernelName`, `magic`, `sha256`, and in `kernelList` each `kernelName` and `tilingKey` | refused |
//! | `blockDim`, `coreType`, `core_type`, `intercoreSync`, `jsonList`, `kernelList`, `objSha256`, `parameters`, `taskRation`, `workspace` | refused, except null |
//! | `opParaSize` | refused, except null and numbers that are no size, which are kept as spelled |
//! | all others | kept in [`extra`](KernelMeta::extra) as spelled |
//!
//! The fields of the first three rows decide which code runs, with which arguments and memory. The other fields are
//! kept without a check, since not every form that twenty releases of CANN wrote is known.
//!
//! ```
//! use opkeep_cann_meta::{KernelMeta, Magic};
//!
//! let meta = KernelMeta::parse(br#"{"binFileName": "square_1", "binFileSuffix": ".o", "blockDim": 1,
//!     "kernelName": "square_1__kernel0", "magic": "RT_DEV_BINARY_MAGIC_ELF", "sha256": "00"}"#)?;
//! assert_eq!(meta.magic, Some(Magic::Elf.into()));
//! assert_eq!(meta.entry_names(), ["square_1__kernel0"]);
//! # Ok::<(), opkeep_cann_meta::MetaError>(())
//! ```
//!
//! A valid `.json` is not necessarily loadable by every framework: MindSpore 2.0 does not load every kernel of CANN 9.
//! [`fe_lints`] and [`mindspore_lints`] predict the behaviour of the vendors' parsers.
//!
//! ```
//! use opkeep_cann_meta::fe_lints;
//!
//! let lints = fe_lints(br#"{"binFileName": "square_1", "binFileSuffix": ".o", "KBHit": 1,
//!     "magic": "RT_DEV_BINARY_MAGIC_ELF"}"#);
//! assert_eq!(lints[0].to_string(), "CANN's FE would refuse: field `KBHit`: expected true or false, found 1");
//! ```

mod chips;
pub mod file_names;
mod fuzz;
mod json;
mod lint;
mod magic;
mod meta;
pub mod targets;
mod words;

pub use chips::{Architecture, ChipMatch, Family, is_chip, known_target, match_chip, unjudged};
pub use fuzz::fuzz;
pub use json::{Extra, Json};
pub use lint::{Effect, Lint, Vendor, fe_lints, mindspore_lints};
pub use magic::Magic;
pub use meta::{
    BlockDim, Clear, Flag, GlobalWorkspace, KernelEntry, KernelMeta, MAX_BYTES, MetaError, Parameter,
    RunInfo, SubJson, TaskRation, Workspace,
};
pub use words::{CoreType, Deterministic, Placeholder, Vocabulary, Word};

//! The `.json` that describes a kernel: plain data, no I/O, no judgement. `opkeep-validator` judges.
//!
//! It is the one that CANN's compilers write beside every `.o` and that MindSpore, FE and the runtime read.
//! Its bytes are kept as they came (`Artifact::json`); [`KernelMeta`] is the typed view of them. It takes what real
//! producers write, says what it refuses, and loses nothing: what it does not know, it keeps as spelled.
//!
//! | field | of another type than expected |
//! |---|---|
//! | `binFileName`, `binFileSuffix`, `kernelName`, `magic`, `sha256`, and in `kernelList` each `kernelName` and `tilingKey` | refused |
//! | `blockDim`, `coreType`, `core_type`, `intercoreSync`, `jsonList`, `kernelList`, `objSha256`, `parameters`, `taskRation`, `workspace` | refused, but for null |
//! | `opParaSize` | refused, but for null and numbers that are no size, which are kept as they stand |
//! | all others | kept in [`extra`](KernelMeta::extra) as it stands |
//!
//! The first three rows decide which code runs, with which arguments and memory. The others are only carried along: not
//! all that twenty releases of CANN wrote was seen, and whoever reads such a field judges it himself.
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
//! What the vendors' own parsers would do with a `.json` is another matter than whether it is right: MindSpore 2.0 does
//! not load every kernel that CANN 9 makes. [`fe_lints`] and [`mindspore_lints`] foretell it.
//!
//! ```
//! use opkeep_cann_meta::fe_lints;
//!
//! let lints = fe_lints(br#"{"binFileName": "square_1", "binFileSuffix": ".o", "KBHit": 1,
//!     "magic": "RT_DEV_BINARY_MAGIC_ELF"}"#);
//! assert_eq!(lints[0].to_string(), "CANN's FE would refuse: field `KBHit`: expected true or false, found 1");
//! ```

mod chips;
mod fuzz;
mod json;
mod lint;
mod magic;
mod meta;
pub mod targets;
mod words;

pub use chips::{Architecture, ChipMatch, Family, is_chip, match_chip, unjudged};
pub use fuzz::fuzz;
pub use json::{Extra, Json};
pub use lint::{Effect, Lint, Vendor, fe_lints, mindspore_lints};
pub use magic::Magic;
pub use meta::{
    BlockDim, Clear, Flag, GlobalWorkspace, KernelEntry, KernelMeta, MAX_BYTES, MetaError, Parameter,
    RunInfo, SubJson, TaskRation, Workspace,
};
pub use words::{CoreType, Deterministic, Placeholder, Vocabulary, Word};

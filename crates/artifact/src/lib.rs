//! What an operator compiler returns: the kernel object, the `.json` that describes it, and what a target expects
//! of both. Plain data, no I/O, no judgement: [`opkeep-validator`](../opkeep_validator/index.html) judges.
//!
//! The `.json` is the one that CANN's compilers write beside every `.o` and that MindSpore, FE and the runtime read.
//! Its bytes are kept as they came ([`Artifact::json`]); [`KernelMeta`] is the typed view of them. It takes what real
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
//! use opkeep_artifact::{KernelMeta, Magic};
//!
//! let meta = KernelMeta::parse(br#"{"binFileName": "square_1", "binFileSuffix": ".o", "blockDim": 1,
//!     "kernelName": "square_1__kernel0", "magic": "RT_DEV_BINARY_MAGIC_ELF", "sha256": "00"}"#)?;
//! assert_eq!(meta.magic, Some(Magic::Elf.into()));
//! assert_eq!(meta.entry_names(), ["square_1__kernel0"]);
//! # Ok::<(), opkeep_artifact::MetaError>(())
//! ```
//!
//! What the vendors' own parsers would do with a `.json` is another matter than whether it is right: MindSpore 2.0 does
//! not load every kernel that CANN 9 makes. [`fe_lints`] and [`mindspore_lints`] foretell it.
//!
//! ```
//! use opkeep_artifact::fe_lints;
//!
//! let lints = fe_lints(br#"{"binFileName": "square_1", "binFileSuffix": ".o", "KBHit": 1,
//!     "magic": "RT_DEV_BINARY_MAGIC_ELF"}"#);
//! assert_eq!(lints[0].to_string(), "CANN's FE would refuse: field `KBHit`: expected true or false, found 1");
//! ```

mod expect;
mod fuzz;
mod json;
mod lint;
mod magic;
mod meta;
mod raw;
mod words;

pub use expect::{Expectations, Loader};
pub use fuzz::fuzz;
pub use json::{Extra, Json};
pub use lint::{Effect, Lint, Vendor, fe_lints, mindspore_lints};
pub use magic::Magic;
pub use meta::{
    BlockDim, Clear, Flag, GlobalWorkspace, KernelEntry, KernelMeta, MAX_BYTES, MetaError, Parameter,
    RunInfo, SubJson, TaskRation, Workspace,
};
pub use words::{CoreType, Deterministic, Placeholder, Vocabulary, Word};

/// A compiled kernel: the object, its description, and any further files that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// The `.json`, byte for byte as the compiler wrote it.
    pub json: Vec<u8>,
    /// The `.o`, byte for byte.
    pub object: Vec<u8>,
    /// Further files: a deterministic twin, the sub-objects of a `jsonList` master, a header.
    pub extra: Vec<Member>,
}

/// A further file of an [`Artifact`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its file name, without a folder.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Whether `name` may be used as the name of a file: as [`is_plain_file_name`] says, and at most 200 bytes, which leaves
/// room for what is put before and behind it.
///
/// Names that were read from a file or the environment pass here before they meet a path.
pub fn is_safe_file_name(name: &str) -> bool {
    name.len() <= 200 && is_plain_file_name(name)
}

/// Whether `name`, however long, stays in its folder and needs no quotes: `[A-Za-z0-9_.-]+`, neither `.` nor `..`.
pub fn is_plain_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_file_names() {
        for good in ["square_1", "te_fusion_a_b_12", "a.b-c", "..a", "A"] {
            assert!(is_safe_file_name(good), "{good}");
        }
        let long = "a".repeat(201);
        assert!(is_plain_file_name(&long) && !is_plain_file_name(".."));
        for bad in ["", ".", "..", "a/b", "../x", "a b", "a\0", "a\n", "é", "a\\b", "a:b", &long] {
            assert!(!is_safe_file_name(bad), "{bad}");
        }
    }
}

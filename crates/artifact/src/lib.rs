//! What an operator compiler returns: the kernel object, the `.json` that describes it, and what a target expects
//! of both. Plain data, no I/O, no judgement: [`opbuild-validator`](../opbuild_validator/index.html) judges.
//!
//! The `.json` is the one that CANN's compilers write beside every `.o` and that MindSpore, FE and the runtime read.
//! Its bytes are kept as they came ([`Artifact::json`]); [`KernelMeta`] is the typed view of them.
//!
//! ```
//! use opbuild_artifact::{KernelMeta, Magic};
//!
//! let meta = KernelMeta::parse(br#"{"binFileName": "square_1", "binFileSuffix": ".o", "blockDim": 1,
//!     "kernelName": "square_1__kernel0", "magic": "RT_DEV_BINARY_MAGIC_ELF", "sha256": "00"}"#)?;
//! assert_eq!(meta.magic, Some(Magic::Elf));
//! assert_eq!(meta.entry_names(), ["square_1__kernel0"]);
//! # Ok::<(), opbuild_artifact::MetaError>(())
//! ```

mod magic;
mod meta;

pub use magic::Magic;
pub use meta::{BlockDim, KernelEntry, KernelMeta, MetaError, Workspace};

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

/// What a target expects of every kernel built for it. A backend states it, the validator checks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectations {
    /// The target, for messages: `cpu-x86_64`, `Ascend910B1`.
    pub target: String,
    /// The ELF `e_machine` values that the target loads.
    pub machines: Vec<u16>,
    /// The `magic` values that the target's loader takes.
    pub magics: Vec<Magic>,
}

/// Whether `name` may be used as the name of a file: `[A-Za-z0-9_.-]+`, neither `.` nor `..`, at most 200 bytes.
///
/// Names that were read from a file or the environment pass here before they meet a path.
pub fn is_safe_file_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 200
        && name != "."
        && name != ".."
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
        for bad in ["", ".", "..", "a/b", "../x", "a b", "a\0", "a\n", "é", "a\\b", "a:b", &long] {
            assert!(!is_safe_file_name(bad), "{bad}");
        }
    }
}

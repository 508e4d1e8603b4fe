//! Decides from the bytes whether a kernel is what its `.json` says.
//!
//! [`validate`] takes a `.json`, the object that stands beside it, and what the target expects of both. It answers
//! with a [`Report`]: the facts that it saw, and all findings, each with a stable code. Nothing enters the store unless
//! [`Report::is_valid`]. [`validate_full`] asks a second ELF parser too, and the vendors' own readers of the `.json`; it is
//! for people who look at a kernel, not for the path of a build.
//!
//! It knows ELF, the `.json`, and how the Ascend runtime loads an object. It knows nothing of operators, files and
//! caches: [`Expectations`](opkeep_artifact::Expectations) tells which machines, which magic names and which loader are
//! right. It does no I/O.
//!
//! # Errors, warnings, notes
//!
//! An error is certain: the two files do not belong together, the object is damaged, or the loader is known to refuse
//! it. A warning is what no genuine kernel that was seen has, but nothing says that none may. A note is good to know,
//! and genuine kernels have such. A kernel is valid if there is no error.
//!
//! A *kernel* of an object is a function symbol that is global, visible, named, and defined in an executable section.
//! `.symtab` and `.dynsym` both count: a stripped shared object has only the latter. This follows the Ascend runtime,
//! which looks for the same symbols when it is asked for a kernel. Dynamic loaders find weak functions too, and linkers
//! take them, so elsewhere than in what the Ascend runtime loads, they count where no other has their name. The `.json` names it without the suffixes `_mix_aic`
//! and `_mix_aiv` of the two sides of a mixed kernel.
//!
//! A file may hold kernels in other ways. A fat binary is several objects behind a table of keys, and its `kernelList`
//! has a `configKey` in each item: every object is judged, and a name may be in any, rather that with its key. A
//! library for the host with a function `GetKernelBin` gives its kernel to whoever calls that, so it is only noted.
//!
//! How sections lie is judged only where it matters: in objects that the Ascend runtime loads as they are. It copies
//! them as one piece, and neither relocates nor links. A relocatable object that is still to be linked is a
//! [part](Linkage::Part), and so exempt; those of the first chips are relocatable too, but nothing is left to be done.
//!
//! `e_flags` tell for which chips an object was compiled: numbers that are known refuse the chips of other families, and
//! any other number is taken.
//!
//! Not rules, because genuine kernels break them: program headers may be absent or overlap, data symbols may be larger than their section, the file may be called otherwise than the kernel.
//!
#![doc = include_str!("../FINDINGS.md")]
//!
//! # Hostile bytes
//!
//! Every offset is bounds-checked, nothing panics, and both time and memory are linear in the sizes of the two files:
//! names and metadata that overlap so often that together they exceed the file are refused, and of each code only the
//! first few findings are kept.
//!
//! # Example
//!
//! ```
//! use opkeep_artifact::Expectations;
//! use opkeep_digest::Digest;
//! use opkeep_validator::{Code, validate};
//!
//! let expect = opkeep_cann_meta::targets::host("cpu-x86_64", 62);
//!
//! // A `.json` whose writer was killed.
//! let torn = validate(br#"{"kernelName": "add_1", "sha2"#, b"", &expect);
//! assert!(!torn.is_valid() && torn.find(Code::JSON).is_some());
//!
//! // A text file that somebody called `.o`.
//! let object = b"placeholder\n";
//! let json = format!(
//!     r#"{{"kernelName": "add_1", "magic": "RT_DEV_BINARY_MAGIC_ELF", "sha256": "{}"}}"#,
//!     Digest::of(object)
//! );
//! let report = validate(json.as_bytes(), object, &expect);
//! let finding = report.errors().next().unwrap();
//! assert_eq!(finding.code(), Code::NOT_ELF);
//! assert!(finding.to_string().starts_with("OPV020: ") && finding.to_string().contains("70 6c 61 63"));
//! ```

mod cann;
mod code;
mod cross_check;
mod display;
mod elf;
mod expected;
mod findings;
mod fuzz;
mod judge;
mod problem;
mod report;
mod validator;

pub use cann::claims::sub_kernel_files;
pub use cann::device::{Argument, DeviceMeta, FunctionEntry, KernelType, MAX_OTHERS, TaskRatio, Tlv};
pub use code::{Code, RULES, Rule, Severity};
pub use cross_check::CrossCheck;
pub use elf::facts::{ElfFacts, ElfType, Flags, KernelFacts, Linkage, Machine};
pub use findings::Finding;
pub use fuzz::fuzz;
pub use judge::{
    RULES_VERSION, expectations_of, validate, validate_full, validate_json, validate_object, validate_parsed,
};
pub use problem::{DescriptionProblem, KernelProblem, ObjectProblem, Problem};
pub use report::{CheckStatus, Report};
pub use validator::Validator;

//! Decides from the bytes whether a kernel is what its `.json` states.
//!
//! [`validate`] takes a `.json`, the object beside it, and what the target expects of both. It returns a [`Report`]:
//! the facts, and all findings, each with a stable code. Nothing enters the store unless [`Report::is_valid`].
//!
//! The crate knows ELF, the `.json`, and how the Ascend runtime loads an object. It knows no operator, file, cache or
//! backend, and does no I/O. What a target expects is plain data ([`Expectations`](opkeep_artifact::Expectations)):
//! rules for ELF objects of any machine, or for opaque bytes with a check of the backend's own, which has an id and a
//! version. A [`Validator`] holds such checks.
//!
//! [`validate`] is what a build pays for: about the time of the object's SHA-256. [`validate_full`] also asks goblin, a
//! second ELF parser, and the vendors' own readers of the `.json`; it is for people who inspect a kernel and for the
//! verification of single files.
//!
//! # Errors, warnings, notes
//!
//! Only errors refuse a kernel, and only what is certain is an error: the digest or the machine differs, so that the
//! two files do not belong together, the kernel is missing, the object is truncated or damaged, or the loader is known
//! to refuse it. A warning is what no genuine kernel that was seen has; it refuses nothing, so that a compiler that was
//! never seen is not locked out. A note is good to know, and genuine kernels have such. A kernel is valid if there is
//! no error.
//!
//! All codes are in one table, in `code.rs`. `FINDINGS.md`, included below, is tested against it.
//!
//! # Kernels of an object
//!
//! A *kernel* of an object is a function symbol that is global, visible, named, and defined in an executable section.
//! `.symtab` and `.dynsym` both count: a stripped shared object has only the latter. This follows the Ascend runtime,
//! which looks up the same symbols. Dynamic loaders find weak functions too, and linkers take them, so in objects that
//! the Ascend runtime does not load, they count where no other symbol has their name. The `.json` names the kernel
//! without the suffixes `_mix_aic` and `_mix_aiv` of the two sides of a mixed kernel.
//!
//! A file may hold kernels in other ways. A fat binary is several objects behind a table of keys, and its `kernelList`
//! has a `configKey` in each item: every object is judged, and a name may be in any of them, preferably in the one with
//! its key. A library for the host with a function `GetKernelBin` returns its kernel to the caller of that function, so
//! it is only noted.
//!
//! # Layout
//!
//! The layout that an object must have depends on its loader, which a backend states
//! ([`ElfRules::layout`](opkeep_artifact::ElfRules)). Where sections lie is judged only in objects that the Ascend
//! runtime loads as they are: it copies them as one piece, and neither relocates nor links. A relocatable object that
//! is still to be linked is a [part](Linkage::Part), and so exempt; objects of the first chips are relocatable too, but
//! need no linking.
//!
//! # Chips
//!
//! The machine and `e_flags` state for which chips an object was compiled. Families that are known refuse each other's
//! chips; a number that was never seen refuses nothing. Names of chips are known in full only: a target whose name is
//! not known is reported, and no kernel is called valid for it, imported for it, or filled into a cache for it.
//!
//! # What is no rule
//!
//! Genuine kernels break these, so they are no rules: program headers may be absent or overlap, data symbols may be
//! larger than their section, and the file may have another name than the kernel.
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

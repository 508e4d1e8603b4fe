//! Validation of a kernel: whether its bytes match its `.json` and its target.
//!
//! [`validate`] takes a `.json`, its object, and the target's expectations. It returns a [`Report`]: the facts, and all
//! findings, each with a stable code. Nothing enters the store unless [`Report::is_valid`].
//!
//! The crate knows ELF, the `.json`, and how the Ascend runtime loads an object. It knows no operator, file, cache or
//! backend, and does no I/O. A target's expectations are plain data ([`Expectations`](opkeep_artifact::Expectations)):
//! rules for ELF objects of any machine, or for opaque bytes with a check of the backend's own, which has an id and a
//! version. A [`Validator`] holds such checks.
//!
//! A build calls [`validate`], which takes about the time of the object's SHA-256. [`validate_full`] adds a cross check
//! with goblin, a second ELF parser, and the lints of the vendors' readers of the `.json`; it is for the inspection of
//! single kernels.
//!
//! # Errors, warnings, notes
//!
//! Only errors make a kernel invalid, and an error is certain: the digest or the machine differs, so that the two files
//! do not belong together, the kernel is missing, the object is truncated or damaged, or the loader is known to refuse
//! it. A warning is unusual: no known genuine kernel has it, but a new compiler may write it, so the kernel stays
//! valid. A note is information; genuine kernels have notes. A kernel is valid if there is no error.
//!
//! All codes are in one table, in `code.rs`. `cargo xtask findings --update` writes it to `FINDINGS.md`, which is
//! included below.
//!
//! # Kernels of an object
//!
//! A *kernel* of an object is a function symbol that is global, visible, named, and defined in an executable section.
//! `.symtab` and `.dynsym` both count: a stripped shared object has only the latter. This is the Ascend runtime's
//! definition of a kernel. Dynamic loaders and linkers also accept weak functions, so in objects for other loaders a
//! weak function counts if no other function has its name. The `.json` names the kernel without the suffixes `_mix_aic`
//! and `_mix_aiv` of the two sides of a mixed kernel.
//!
//! A file may hold kernels in other forms. A fat binary is a table of keys followed by several objects, and its
//! `kernelList` has a `configKey` in each item: every object is validated, and a name may be in any of them, with
//! precedence for the one with its key. A host library with a function `GetKernelBin` returns its kernel only at run
//! time, so it is only noted.
//!
//! # Layout
//!
//! The layout that an object must have depends on its loader, which a backend states
//! ([`ElfRules::layout`](opkeep_artifact::ElfRules)). The positions of sections are validated only in objects that the
//! Ascend runtime loads directly: it copies the sections as one block, and neither relocates nor links. A relocatable
//! object that must still be linked is a [part](Linkage::Part) and exempt; objects of the first chips are relocatable
//! too, but need no link step.
//!
//! # Kernels without a CANN description
//!
//! Expectations of objects of other vendors are data. Those with the built-in check `kernel-symbols` state the field of
//! the JSON metadata that names the kernel, and the symbols, sections and `e_flags` that the object must have for it;
//! [`device_formats`] states them for cubins and hsacos.
//!
//! # Chips
//!
//! The machine and `e_flags` state the chips that an object was compiled for. A known number rejects chips of other
//! families; an unknown number is accepted. Only complete names of chips are known: a target with an unknown name is
//! reported, and no kernel is reported as valid, imported, or filled into a cache for it.
//!
//! # Unchecked properties
//!
//! Some properties are not checked, because genuine kernels lack them: program headers may be missing or overlap, data
//! symbols may be larger than their section, and the names of file and kernel may differ.
//!
#![doc = include_str!("../FINDINGS.md")]
//!
//! # Hostile bytes
//!
//! Every offset is bounds-checked, nothing panics, and time and memory are linear in the sizes of the two files: names
//! and metadata whose total length exceeds the file (because they overlap) are an error, and only the first few
//! findings of each code are kept.
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
//! // A `.json` whose writer was interrupted.
//! let truncated = validate(br#"{"kernelName": "add_1", "sha2"#, b"", &expect);
//! assert!(!truncated.is_valid() && truncated.find(Code::JSON).is_some());
//!
//! // A text file named `.o`.
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
pub mod device_formats;
mod display;
mod elf;
mod expected;
mod findings;
mod fuzz;
mod judge;
mod kernel_symbols;
mod problem;
mod report;
mod validator;

pub use cann::claims::sub_kernel_files;
pub use cann::device::{Argument, DeviceMeta, FunctionEntry, KernelType, MAX_OTHERS, TaskRatio, Tlv};
pub use code::{Code, RULES, Rule, Severity};
pub use cross_check::CrossCheck;
pub use device_formats::{DeviceKernel, device_kernels};
pub use elf::facts::{ElfFacts, ElfType, Flags, KernelFacts, Linkage, Machine};
pub use elf::outline::{ObjectOutline, SectionOutline, SymbolOutline};
pub use findings::Finding;
pub use fuzz::fuzz;
pub use judge::{
    RULES_VERSION, expectations_of, validate, validate_full, validate_json, validate_object, validate_parsed,
};
pub use problem::{DescriptionProblem, KernelProblem, ObjectProblem, Problem};
pub use report::{CheckStatus, Report};
pub use validator::Validator;

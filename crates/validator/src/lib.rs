//! Decides from the bytes whether a kernel is what its `.json` says.
//!
//! [`validate`] takes a `.json`, the object that stands beside it, and what the target expects of both. It answers
//! with a [`Report`]: the facts that it saw, and all findings, each with a stable code. Nothing enters the store unless
//! [`Report::is_valid`]. [`examine`] asks a second ELF parser too, and the vendors' own readers of the `.json`; it is
//! for people who look at a kernel, not for the path of a build.
//!
//! It knows ELF, the `.json`, and how the Ascend runtime loads an object. It knows nothing of operators, files and
//! caches: which machines, which magic names and which loader are right is told by [`Expectations`]. It does no I/O.
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
//! let expect = Expectations::host("cpu-x86_64", 62);
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

mod chip;
mod claims;
mod code;
mod description;
mod device;
mod elf;
mod facts;
mod fat;
mod layout;
mod lints;
mod objects;
mod pair;
mod problem;
mod report;
mod second;
mod sections;
mod shown;
mod unsaid;

pub use chip::{Architecture, Family, is_chip, unjudged};
pub use claims::parts;
pub use code::{Code, RULES, Rule, Severity};
pub use device::{Argument, DeviceMeta, FunctionEntry, KernelType, MAX_OTHERS, TaskRatio, Tlv};
pub use facts::{ElfFacts, ElfType, KernelFacts, Linkage, Machine};
pub use problem::Problem;
pub use report::{Finding, Report};
pub use second::Agreement;

use opkeep_artifact::{Expectations, KernelMeta, Loader};
use opkeep_digest::Digest;

use crate::elf::Elf;
use crate::fat::Fat;
use crate::objects::Objects;
use crate::report::Findings;

/// The version of the rules. The store records it with each entry, and validates again what older rules let in.
///
/// Raise it with every change that refuses what was accepted before.
pub const RULES_VERSION: u32 = 3;

/// Judges the kernel `object` and its description `json`, both as they stand in their files.
pub fn validate(json: &[u8], object: &[u8], expect: &Expectations) -> Report {
    let mut findings = Findings::new();
    let meta = read_json(json, &mut findings);
    judge_kernel(meta, object, expect, findings)
}

/// Judges as [`validate`] does, of a description that was read already. Without expectations, by those
/// [of the object itself](expectations_of).
pub fn validate_read(meta: KernelMeta, object: &[u8], expect: Option<&Expectations>) -> Report {
    match expect {
        Some(expect) => judge_kernel(Some(meta), object, expect, Findings::new()),
        None => {
            let expect = expectations_for(Some(&meta), object);
            judge_kernel(Some(meta), object, &expect, Findings::new())
        }
    }
}

fn judge_kernel(
    meta: Option<KernelMeta>,
    object: &[u8],
    expect: &Expectations,
    mut findings: Findings,
) -> Report {
    // What is found on reading the object comes behind what is found in the `.json`.
    let mut on_reading = Findings::new();
    let objects = Objects::read(object, meta.as_ref(), expect, &mut on_reading);
    // That there is nothing at all says more than that its digest is another.
    if object.is_empty() {
        findings.absorb(std::mem::replace(&mut on_reading, Findings::new()));
    }
    let sha256 = Digest::of(object);
    if let Some(meta) = &meta {
        let is_container = objects.is_container(meta, expect.loader);
        description::judge(meta, Some(expect), is_container, &mut findings);
        let e_type = objects.list.first().map(|elf| elf.e_type);
        description::check_sha256(meta, sha256, e_type, expect.loader, &mut findings);
    }
    findings.absorb(on_reading);
    let facts = judge_objects(&objects, meta.as_ref(), expect, &mut findings);
    Report { meta, sha256: Some(sha256), ..report(facts, findings) }
}

/// Judges as [`validate`] does, and asks a second ELF parser and the vendors' readers too.
pub fn examine(json: &[u8], object: &[u8], expect: &Expectations) -> Report {
    let mut report = validate(json, object, expect);
    add_lints(&mut report, json, expect.loader);
    let objects = match &report.meta {
        Some(meta) if fat::is_fat(meta, object) => {
            Fat::read(object).map(|fat| fat.objects).unwrap_or_default()
        }
        _ => vec![object],
    };
    second::ask(&mut report, &objects);
    report
}

/// Judges a `.json` whose object is not there. Without expectations its magic may be any.
pub fn examine_json(json: &[u8], expect: Option<&Expectations>) -> Report {
    let mut findings = Findings::new();
    let meta = read_json(json, &mut findings);
    if let Some(meta) = &meta {
        description::judge(meta, expect, false, &mut findings);
    }
    let mut report = Report { meta, ..report(Vec::new(), findings) };
    let short = report.meta.as_ref().is_some_and(claims::is_short_form);
    let guessed = if short { Loader::Host } else { Loader::Ascend };
    add_lints(&mut report, json, expect.map_or(guessed, |expect| expect.loader));
    report
}

/// Judges an object of which nothing is known: by the rules of the machine it is for.
pub fn examine_object(object: &[u8]) -> Report {
    examine_object_for(object, &expectations_of(None, object))
}

/// Judges an object without its `.json`.
pub fn examine_object_for(object: &[u8], expect: &Expectations) -> Report {
    let mut findings = Findings::new();
    let objects = Objects::read(object, None, expect, &mut findings);
    let facts = judge_objects(&objects, None, expect, &mut findings);
    let mut report = Report { sha256: Some(Digest::of(object)), ..report(facts, findings) };
    second::ask(&mut report, &[object]);
    report
}

/// What may be expected of a kernel of unknown origin: it is for the machine that its object says, and where that may
/// be two things, for the one that its `.json` says. Of a fat binary, the first object tells.
pub fn expectations_of(json: Option<&[u8]>, object: &[u8]) -> Expectations {
    let meta = json.and_then(|json| KernelMeta::parse(json).ok());
    expectations_for(meta.as_ref(), object)
}

fn expectations_for(meta: Option<&KernelMeta>, object: &[u8]) -> Expectations {
    let first = match meta {
        Some(meta) if fat::is_fat(meta, object) => {
            Fat::read(object).ok().and_then(|fat| fat.objects.first().copied()).unwrap_or(object)
        }
        _ => object,
    };
    let machine = Elf::read_header(first, &mut Findings::new()).map(|elf| elf.machine.0);
    let magic = meta.and_then(claims::magic);
    let known = machine.and_then(|machine| Expectations::for_machine(machine, magic));
    known.unwrap_or_else(Expectations::any)
}

/// Any bytes as an object, and as a `.json` with an object behind it: the body of a fuzz target.
///
/// # Panics
/// What must hold for any bytes does not: this is a mistake in this crate.
pub fn fuzz(bytes: &[u8]) {
    let alone = examine_object(bytes);
    let (json, object) = match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[][..]),
    };
    let expect = [
        Expectations::host("cpu", Expectations::X86_64),
        Expectations::ascend("Ascend910B1"),
        Expectations::aicpu("AI CPU"),
    ];
    for report in expect.iter().map(|expect| examine(json, object, expect)).chain([alone]) {
        assert!(report.findings.is_sorted_by(|a, b| a.severity() >= b.severity()));
        assert_eq!(report.is_valid(), report.errors().next().is_none());
        for finding in &report.findings {
            let text = finding.to_string();
            assert!(text.starts_with("OPV") && !text.contains(|letter: char| letter.is_control()));
        }
    }
}

fn read_json(json: &[u8], findings: &mut Findings) -> Option<KernelMeta> {
    match KernelMeta::parse(json) {
        Ok(meta) => Some(meta),
        Err(error) => {
            let problem = Problem::from(error);
            findings.add(problem.code(), || problem);
            None
        }
    }
}

/// Judges what was read of a file, each object alone and all with the `.json`.
fn judge_objects(
    objects: &Objects<'_>,
    meta: Option<&KernelMeta>,
    expect: &Expectations,
    findings: &mut Findings,
) -> Vec<ElfFacts> {
    let facts = objects.judge(expect, findings);
    let named = match meta {
        Some(meta) => pair::judge(meta, objects, &facts, expect, findings),
        None => pair::none_named(&facts),
    };
    for ((elf, facts), named) in objects.list.iter().zip(&facts).zip(&named) {
        layout::check_ranges(elf, facts, named, findings);
    }
    facts
}

/// A report of what objects say and what was found, and nothing else yet.
fn report(facts: Vec<ElfFacts>, findings: Findings) -> Report {
    let mut facts = facts.into_iter();
    Report {
        meta: None,
        sha256: None,
        object: facts.next(),
        others: facts.collect(),
        agreement: None,
        findings: findings.finish(),
    }
}

/// What the vendors' own readers would make of the `.json`. If it is torn, that is all there is to say; and masters are
/// read by nobody any more.
fn add_lints(report: &mut Report, json: &[u8], loader: Loader) {
    let is_master = report.meta.as_ref().is_some_and(|meta| parts(meta).is_some());
    if is_master || report.find(Code::JSON).is_some() {
        return;
    }
    for problem in lints::of(json, loader) {
        report.add(problem);
    }
}

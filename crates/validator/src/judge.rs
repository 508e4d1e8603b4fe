//! Validation of kernels with a CANN description, and of objects without one.

use opkeep_artifact::{ElfLayout, Expectations};
use opkeep_cann_meta::{KernelMeta, targets};
use opkeep_digest::Digest;

use crate::cann::claims;
use crate::cann::claims::sub_kernel_files;
use crate::cann::description;
use crate::cann::fat;
use crate::cann::fat::Fat;
use crate::cann::lints;
use crate::cann::objects::Objects;
use crate::cann::pair;
use crate::code::Code;
use crate::cross_check;
use crate::elf::Elf;
use crate::elf::facts::ElfFacts;
use crate::elf::layout;
use crate::expected::Expected;
use crate::findings::Findings;
use crate::problem::Problem;
use crate::report::{CheckStatus, Report};

/// The version of the rules. The store records it with each entry; entries validated by older rules are validated
/// again.
///
/// Increase it with every change that rejects kernels which were accepted before.
pub const RULES_VERSION: u32 = 3;

/// Validates the kernel `object` and its CANN description `json`, both the unchanged bytes of their files.
/// [`Validator`](crate::Validator) validates other descriptions.
pub fn validate(json: &[u8], object: &[u8], expect: &Expectations) -> Report {
    let mut findings = Findings::new();
    let meta = read_json(json, &mut findings);
    judge_kernel(meta, object, &expected(expect), findings)
}

/// Validates as [`validate`] does, with a parsed description. Default expectations are those [of the
/// object](expectations_of).
pub fn validate_parsed(meta: KernelMeta, object: &[u8], expect: Option<&Expectations>) -> Report {
    match expect {
        Some(expect) => judge_kernel(Some(meta), object, &expected(expect), Findings::new()),
        None => {
            let expect = expectations_for(Some(&meta), object);
            judge_kernel(Some(meta), object, &expected(&expect), Findings::new())
        }
    }
}

/// The rules for kernels with a CANN description. If another kind of kernel is expected, its object rules apply and no
/// magic is accepted.
fn expected(expect: &Expectations) -> Expected<'_> {
    Expected::of(expect).unwrap_or_else(|| Expected::without_magics(expect))
}

fn judge_kernel(
    meta: Option<KernelMeta>,
    object: &[u8],
    expect: &Expected<'_>,
    mut findings: Findings,
) -> Report {
    // Findings of the `.json` precede those of reading the object.
    let mut on_reading = Findings::new();
    let objects = Objects::read(object, meta.as_ref(), expect, &mut on_reading);
    // An empty object has no digest finding, since its emptiness explains it.
    if object.is_empty() {
        findings.extend(std::mem::replace(&mut on_reading, Findings::new()));
    }
    let sha256 = Digest::of(object);
    if let Some(meta) = &meta {
        let is_container = objects.is_container(meta, expect.layout());
        description::judge(meta, Some(expect), is_container, &mut findings);
        let e_type = objects.list.first().map(|elf| elf.e_type);
        description::check_sha256(meta, sha256, e_type, expect.layout(), &mut findings);
    }
    findings.extend(on_reading);
    let facts = judge_objects(&objects, meta.as_ref(), expect, &mut findings);
    Report { meta, sha256: Some(sha256), ..report(facts, findings) }
}

/// Validates as [`validate`] does, and adds the cross check with a second ELF parser and the vendors' lints.
pub fn validate_full(json: &[u8], object: &[u8], expect: &Expectations) -> Report {
    let mut report = validate(json, object, expect);
    add_lints(&mut report, json, expected(expect).layout());
    let objects = match &report.meta {
        Some(meta) if fat::is_fat(meta, object) => {
            Fat::read(object).map(|fat| fat.objects).unwrap_or_default()
        }
        _ => vec![object],
    };
    add_cross_check(&mut report, &objects);
    report
}

/// Validates a `.json` without its object. Without expectations, any magic is accepted.
pub fn validate_json(json: &[u8], expect: Option<&Expectations>) -> Report {
    let mut findings = Findings::new();
    let meta = read_json(json, &mut findings);
    let expect = expect.map(expected);
    if let Some(meta) = &meta {
        description::judge(meta, expect.as_ref(), false, &mut findings);
    }
    let mut report = Report { meta, ..report(Vec::new(), findings) };
    let short = report.meta.as_ref().is_some_and(claims::is_short_form);
    let guessed = if short { ElfLayout::SharedObject } else { ElfLayout::Contiguous };
    add_lints(&mut report, json, expect.map_or(guessed, |expect| expect.layout()));
    report
}

/// Validates an object without its `.json`. Default expectations are those of its machine.
pub fn validate_object(object: &[u8], expect: Option<&Expectations>) -> Report {
    let guessed;
    let expect = match expect {
        Some(expect) => expect,
        None => {
            guessed = expectations_of(None, object);
            &guessed
        }
    };
    let (mut findings, expect) = (Findings::new(), expected(expect));
    let objects = Objects::read(object, None, &expect, &mut findings);
    let facts = judge_objects(&objects, None, &expect, &mut findings);
    let mut report = Report { sha256: Some(Digest::of(object)), ..report(facts, findings) };
    add_cross_check(&mut report, &[object]);
    report
}

/// The expectations of a kernel of unknown origin: those of its object's machine and, if that is ambiguous, of the
/// magic in its `.json`. The first object of a fat binary determines the machine.
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
    let known = machine.and_then(|machine| targets::for_machine(machine, magic));
    known.unwrap_or_else(targets::any)
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

/// Validates the parsed file: each object alone, and all with the `.json`.
pub(crate) fn judge_objects(
    objects: &Objects<'_>,
    meta: Option<&KernelMeta>,
    expect: &Expected<'_>,
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

/// A report with the objects' facts and the findings.
pub(crate) fn report(facts: Vec<ElfFacts>, findings: Findings) -> Report {
    let mut facts = facts.into_iter();
    Report {
        meta: None,
        sha256: None,
        object: facts.next(),
        others: facts.collect(),
        cross_check: None,
        findings: findings.finish(),
        status: CheckStatus::Complete,
    }
}

/// Adds the cross check with a second ELF parser.
fn add_cross_check(report: &mut Report, objects: &[&[u8]]) {
    match cross_check::of(objects) {
        Ok(agreed) => report.cross_check = agreed,
        Err(problem) => report.add(problem),
    }
}

/// Adds the lints of the vendors' readers of the `.json`. A truncated `.json` has its own finding, and current readers
/// do not read masters.
fn add_lints(report: &mut Report, json: &[u8], layout: ElfLayout) {
    let is_master = report.meta.as_ref().is_some_and(|meta| sub_kernel_files(meta).is_some());
    if is_master || report.find(Code::JSON).is_some() {
        return;
    }
    for problem in lints::of(json, layout) {
        report.add(problem);
    }
}

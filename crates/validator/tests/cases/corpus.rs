//! Genuine kernels, which may not be redistributed: `OPKEEP_CORPUS` names the directory that holds them.
//!
//! Without it, every test here shows as ignored, never as passed.

use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};
use opkeep_artifact::{Expectations, Format};
use opkeep_cann_meta::{Architecture, Family, KernelMeta, targets};
use opkeep_testkit::corpus;
use opkeep_validator::{
    Code, KernelType, Linkage, Report, Severity, expectations_of, validate, validate_full,
};
use serde_json::Value;

use crate::hostile::beside_others;

/// Directories of the corpus, the kind of their files, and the least number of pairs.
const SETS: [(&str, Set, usize); 3] = [
    ("cann", Set::Ascend, 6),
    ("mindspore/wheel270-ascend", Set::Ascend, 7),
    ("mindspore/akg-cpu", Set::AkgCpu, 8),
];

#[derive(Clone, Copy, PartialEq)]
enum Set {
    /// Device kernels: `.json` and `.o`.
    Ascend,
    /// Host kernels of AKG: the `.json` describes a `.so` and the `.o` that it was linked from, and has no `magic`.
    AkgCpu,
}

/// A `.json` and the object that it describes.
struct Pair {
    set: Set,
    path: PathBuf,
    json: Vec<u8>,
    object: Vec<u8>,
}

pub(crate) fn trials() -> Vec<Trial> {
    match corpus::directory() {
        Some(root) => SETS.into_iter().flat_map(|set| trials_of(&root, set)).collect(),
        None => SETS.into_iter().map(|(directory, ..)| corpus::absent(directory)).collect(),
    }
}

fn trials_of(root: &Path, (directory, set, fewest): (&'static str, Set, usize)) -> Vec<Trial> {
    let pairs = find_pairs(&root.join(directory));
    let count = pairs.len();
    let mut trials = vec![Trial::test(format!("{directory}: is complete"), move || {
        ensure(count >= fewest, || format!("expected at least {fewest} pairs, found {count}"))
    })];
    for (json, object) in pairs {
        let name = object.strip_prefix(root).unwrap_or(&object).display().to_string();
        let mut add = |test: &str, run: fn(&Pair) -> Result<(), Failed>| {
            let (json, path) = (json.clone(), object.clone());
            trials.push(Trial::test(format!("{name}: {test}"), move || {
                let _others = beside_others();
                let (json, object) = (std::fs::read(json)?, std::fs::read(&path)?);
                run(&Pair { set, path, json, object })
            }));
        };
        add("verdict", verdict);
        add("facts", facts);
        add("elsewhere", elsewhere);
        add("flips", flips);
        add("cuts", cuts);
    }
    trials
}

/// Every object under `directory` with the `.json` beside it; none if the directory cannot be listed.
fn find_pairs(directory: &Path) -> Vec<(PathBuf, PathBuf)> {
    let objects = corpus::files_ending(directory, &["o", "so"]).unwrap_or_default();
    let pairs = objects.into_iter().map(|object| (object.with_extension("json"), object));
    pairs.filter(|(json, _)| json.is_file()).collect()
}

/// The same, for other machines.
fn for_machines(mut expected: Expectations, machines: Vec<u16>) -> Expectations {
    if let Format::Elf(rules) = &mut expected.format {
        rules.machines = machines;
    }
    expected
}

fn expect(set: Set) -> Expectations {
    match set {
        Set::Ascend => targets::ascend("Ascend"),
        Set::AkgCpu => targets::host("cpu-x86_64", 62),
    }
}

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(message().into()) }
}

/// All findings.
fn message(report: &Report) -> String {
    report.findings.iter().map(|finding| format!("\n{} {finding}", finding.severity())).collect()
}

/// No error, no warning, and the notes that are known.
fn verdict(Pair { set, json, object, .. }: &Pair) -> Result<(), Failed> {
    let report = validate(json, object, &expect(*set));
    ensure(report.is_valid(), || message(&report))?;
    let codes: Vec<Code> = report.findings.iter().map(|finding| finding.code()).collect();
    let known: &[Code] = if *set == Set::AkgCpu { &[Code::NO_MAGIC] } else { &[] };
    ensure(codes == known, || message(&report))?;

    let report = validate_full(json, object, &expect(*set));
    ensure(report.cross_check.is_some_and(|cross_check| cross_check.kernels > 0), || message(&report))?;
    ensure(report.worst() <= Some(Severity::Note), || message(&report))?;
    // The same expectations follow without knowledge of the pair.
    let guessed = expectations_of(Some(json), object);
    ensure(guessed == expect(*set), || format!("{guessed:?}"))
}

/// The object's statements equal those of the `.json`, which is read here in another way.
fn facts(Pair { set, path, json, object }: &Pair) -> Result<(), Failed> {
    let report = validate(json, object, &expect(*set));
    let found = report.object.as_ref().ok_or("no facts")?;
    let said: Value = serde_json::from_slice(json)?;
    let text = |key: &str| said[key].as_str().unwrap_or_default();
    let names: Vec<&str> = match said["kernelList"].as_array() {
        Some(list) => list.iter().filter_map(|entry| entry["kernelName"].as_str()).collect(),
        None => vec![text("kernelName")],
    };
    for name in &names {
        let defined = found.kernels.iter().any(|kernel| kernel.name.starts_with(name));
        ensure(defined, || format!("{name} is not among {:?}", found.kernels))?;
    }
    if *set == Set::AkgCpu {
        return ensure(found.architecture.is_none() && found.stack_bytes.is_none(), || format!("{found:?}"));
    }
    ensure(found.compilers.iter().any(|line| line.contains("clang version 15.0.5")), || {
        format!("{:?}", found.compilers)
    })?;
    let (core, ratio) = (text("coreType"), text("taskRation"));
    for kernel in &found.kernels {
        let Some(meta) = &kernel.meta else { continue };
        let ratio_of = |entry: &Value| entry["taskRation"].as_str().map(str::to_owned);
        let entry = said["kernelList"].as_array().into_iter().flatten();
        let mut own =
            entry.filter(|entry| kernel.name.starts_with(entry["kernelName"].as_str().unwrap_or("?")));
        let said_ratio = own.next_back().and_then(ratio_of).unwrap_or_else(|| ratio.to_owned());
        let wanted: &[KernelType] = match (core, text("core_type"), said_ratio.as_str()) {
            ("VectorCore", ..) => &[KernelType::Aiv],
            ("AiCore", "AIC", _) => &[KernelType::Aic],
            ("AiCore", ..) => &[KernelType::AiCore],
            ("MIX", _, "0:1") => &[KernelType::MixAivMain],
            ("MIX", ..) => &[KernelType::MixAicMain],
            _ => &[],
        };
        ensure(meta.kernel_type.is_some_and(|found| wanted.contains(&found)), || {
            format!("{core}: {meta:?}")
        })?;
        let found_ratio = meta.task_ratio.map(|ratio| ratio.to_string()).unwrap_or_default();
        ensure(found_ratio == said_ratio, || format!("{said_ratio}: {meta:?}"))?;
        // Workspace and tiling data come last, after a pointer for each parameter.
        let last: Vec<&str> = meta.arguments.iter().rev().take(2).map(|argument| argument.name()).collect();
        ensure(last == ["tiling", "workspace"], || format!("{:?}", meta.arguments))?;
        if let Some(bytes) = kernel.argument_bytes {
            ensure(bytes as usize == 8 * meta.arguments.len(), || format!("{bytes}: {:?}", meta.arguments))?;
        }
    }
    let path = path.to_string_lossy();
    let relocatable = path.contains("_relocatable");
    let linkage = if relocatable { Linkage::Part } else { Linkage::Final };
    ensure(found.linkage == linkage, || format!("{:?}", found.linkage))?;
    let expected = match (core, path.contains("310p")) {
        (_, true) => Architecture::M200,
        ("VectorCore", _) => Architecture::C220Vector,
        ("AiCore", _) => Architecture::C220Cube,
        _ if found.kernels.iter().any(|kernel| kernel.name.ends_with("_mix_aic")) => Architecture::C220Cube,
        _ => Architecture::C220Vector,
    };
    ensure(found.architecture == Some(expected), || format!("{:?}", found.architecture))?;
    ensure(path.contains("310p") || found.stack_bytes == Some(32768), || format!("{:?}", found.stack_bytes))
}

/// The same kernel for another machine or chip, and with one name that the object does not have.
fn elsewhere(Pair { set, json, object, .. }: &Pair) -> Result<(), Failed> {
    let refused = |code: Code, report: Report| {
        ensure(report.errors().map(|finding| finding.code()).eq([code]), || message(&report))
    };
    let elsewhere = for_machines(expect(*set), vec![183]);
    refused(Code::MACHINE, validate(json, object, &elsewhere))?;
    let meta =
        KernelMeta { kernel_name: Some("absent".into()), kernel_list: None, ..KernelMeta::parse(json)? };
    refused(Code::KERNEL, validate(meta.to_json().as_bytes(), object, &expect(*set)))?;
    if *set == Set::Ascend {
        let own = validate(json, object, &expect(*set)).object.and_then(|facts| facts.family);
        for chip in ["Ascend910A", "Ascend310P3", "Ascend310B4", "Ascend910B1", "Ascend950PR_9599"] {
            let report = validate(json, object, &targets::ascend(chip));
            match own.is_some() && own == Family::of_target(chip) {
                true => ensure(report.is_valid(), || message(&report))?,
                false => refused(Code::CHIP, report)?,
            }
        }
    }
    Ok(())
}

fn flips(Pair { set, json, object, .. }: &Pair) -> Result<(), Failed> {
    for at in [0, 18, object.len() / 2, object.len() - 1] {
        let mut object = object.clone();
        object[at] ^= 1;
        let report = validate(json, &object, &expect(*set));
        ensure(report.find(Code::SHA256).is_some(), || format!("byte {at}: {}", message(&report)))?;
    }
    Ok(())
}

/// Truncated at any byte, and with a matching digest, an object is still recognised as truncated.
fn cuts(Pair { set, json, object, .. }: &Pair) -> Result<(), Failed> {
    let meta = KernelMeta::parse(json)?;
    for end in (0..object.len()).step_by(object.len() / 50) {
        let cut = &object[..end];
        let sha256 = Some(opkeep_digest::Digest::of(cut).to_string());
        let meta = KernelMeta { sha256, ..meta.clone() };
        let report = validate(meta.to_json().as_bytes(), cut, &expect(*set));
        let code = if end < 4 { Code::NOT_ELF } else { Code::MALFORMED };
        ensure(report.find(code).is_some(), || format!("{end}: {}", message(&report)))?;
    }
    Ok(())
}

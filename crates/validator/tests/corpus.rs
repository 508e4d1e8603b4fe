//! Genuine kernels, which are not ours to redistribute: `OPBUILD_CORPUS` names the folder that holds them.
//!
//! Without it every test here is ignored, and none passes.

#![expect(clippy::disallowed_methods, reason = "a test may read its corpus, and where it is")]

use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Failed, Trial};
use opbuild_artifact::{Expectations, KernelMeta, Magic};
use opbuild_validator::{CrossCheck, Refusal, cross_check, validate};

/// Folders of the corpus, what they hold, and the fewest pairs that must be there.
const SETS: [(&str, Set, usize); 3] = [
    ("cann", Set::Ascend, 6),
    ("mindspore/wheel270-ascend", Set::Ascend, 7),
    ("mindspore/akg-cpu", Set::AkgCpu, 4),
];

#[derive(Clone, Copy)]
enum Set {
    /// Device kernels: `.json` and `.o`.
    Ascend,
    /// Host kernels of AKG: the `.json` describes the `.so`, and has no `magic`.
    AkgCpu,
}

/// A `.json` and the object that it describes.
struct Pair {
    set: Set,
    json: Vec<u8>,
    object: Vec<u8>,
}

fn main() {
    let arguments = Arguments::from_args();
    let trials = match std::env::var_os("OPBUILD_CORPUS") {
        Some(root) => SETS.into_iter().flat_map(|set| trials(Path::new(&root), set)).collect(),
        None => SETS.into_iter().map(|(folder, ..)| absent(folder)).collect(),
    };
    libtest_mimic::run(&arguments, trials).exit();
}

fn absent(folder: &str) -> Trial {
    Trial::test(folder, || Err("OPBUILD_CORPUS is not set".into())).with_ignored_flag(true)
}

fn trials(root: &Path, (folder, set, fewest): (&'static str, Set, usize)) -> Vec<Trial> {
    let mut pairs = Vec::new();
    let found = find_pairs(&root.join(folder), set, &mut pairs);
    let count = pairs.len();
    let mut trials = vec![Trial::test(format!("{folder}: is complete"), move || {
        found?;
        ensure(count >= fewest, || format!("expected at least {fewest} pairs, found {count}"))
    })];
    for (json, object) in pairs {
        let name = json.strip_prefix(root).unwrap_or(&json).with_extension("").display().to_string();
        let mut add = |test: &str, run: fn(&Pair) -> Result<(), Failed>| {
            let (json, object) = (json.clone(), object.clone());
            trials.push(Trial::test(format!("{name}: {test}"), move || {
                run(&Pair { set, json: std::fs::read(json)?, object: std::fs::read(object)? })
            }));
        };
        add("verdict", verdict);
        add("flips", flips);
        add("cross check", agreement);
    }
    trials
}

/// Every `.json` under `folder` with the object that it describes beside it.
fn find_pairs(folder: &Path, set: Set, pairs: &mut Vec<(PathBuf, PathBuf)>) -> std::io::Result<()> {
    let suffix = match set {
        Set::Ascend => "o",
        Set::AkgCpu => "so",
    };
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            find_pairs(&path, set, pairs)?;
        } else if path.extension().is_some_and(|extension| extension == "json") {
            let object = path.with_extension(suffix);
            if object.is_file() {
                pairs.push((path, object));
            }
        }
    }
    Ok(())
}

fn expect(set: Set) -> Expectations {
    let (target, machine) = match set {
        Set::Ascend => ("Ascend", 0x1029),
        Set::AkgCpu => ("cpu-x86_64", 62),
    };
    let magics = Magic::ALL.into_iter().filter(|magic| magic.is_elf()).collect();
    Expectations { target: target.into(), machines: vec![machine], magics }
}

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(message().into()) }
}

fn verdict(Pair { set, json, object }: &Pair) -> Result<(), Failed> {
    let meta = KernelMeta::parse(json)?;
    let accepted = match set {
        Set::Ascend => validate(json, object, &expect(*set)),
        Set::AkgCpu => {
            let verdict = validate(json, object, &expect(*set));
            ensure(matches!(verdict, Err(Refusal::Missing { field: "magic" })), || format!("{verdict:?}"))?;
            // The magic is all that it lacks.
            let meta = KernelMeta { magic: Some(Magic::Elf), ..meta.clone() };
            validate(meta.to_json().as_bytes(), object, &expect(*set))
        }
    };
    let report = accepted.map_err(|refusal| Failed::from(refusal.to_string()))?;
    for name in meta.entry_names() {
        let defined = report.object.kernels.iter().any(|kernel| kernel.starts_with(name));
        ensure(defined, || format!("{name} is not among {:?}", report.object.kernels))?;
    }
    // The same kernel for another machine, and one name that the object does not have.
    let elsewhere = Expectations { machines: vec![183], ..expect(*set) };
    let meta = KernelMeta { magic: Some(Magic::Elf), ..meta };
    let verdict = validate(meta.to_json().as_bytes(), object, &elsewhere);
    ensure(matches!(verdict, Err(Refusal::Machine { .. })), || format!("{verdict:?}"))?;
    let meta = KernelMeta { kernel_name: Some("absent".into()), kernel_list: None, ..meta };
    let verdict = validate(meta.to_json().as_bytes(), object, &expect(*set));
    ensure(matches!(verdict, Err(Refusal::Kernel { .. })), || format!("{verdict:?}"))
}

fn flips(Pair { set, json, object }: &Pair) -> Result<(), Failed> {
    for at in [0, 18, object.len() / 2, object.len() - 1] {
        let mut object = object.clone();
        object[at] ^= 1;
        let verdict = validate(json, &object, &expect(*set));
        ensure(matches!(verdict, Err(Refusal::Sha256 { .. })), || format!("byte {at}: {verdict:?}"))?;
    }
    Ok(())
}

fn agreement(Pair { object, .. }: &Pair) -> Result<(), Failed> {
    match cross_check(object) {
        CrossCheck::Agree { kernels: 1.., .. } => Ok(()),
        other => Err(other.to_string().into()),
    }
}

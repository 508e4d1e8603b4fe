//! Genuine `.json` files, which may not be redistributed: `OPKEEP_CORPUS` names the directory that holds them.
//!
//! Without it, every test here shows as ignored, never as passed.

#![expect(clippy::disallowed_methods, reason = "a test may read its corpus, and where it is")]

use std::path::Path;

use libtest_mimic::{Arguments, Failed, Trial};
use opkeep_cann_meta::{CoreType, Effect, KernelMeta, Magic, fe_lints, fuzz, mindspore_lints};
use opkeep_testkit::corpus;
use serde_json::Value;

/// The least number of kernels' files in a complete corpus.
const FEWEST: usize = 19;

fn main() {
    let arguments = Arguments::from_args();
    let trials = corpus::directory().map_or_else(|| vec![corpus::absent("kernels")], |root| trials(&root));
    libtest_mimic::run(&arguments, trials).exit();
}

fn trials(root: &Path) -> Vec<Trial> {
    // A directory that cannot be listed has too few files.
    let files = corpus::files_ending(root, &["json"]).unwrap_or_default();
    let kernels = files.iter().filter(|file| is_kernel(file)).count();
    let mut trials = vec![Trial::test("the corpus is complete", move || {
        ensure(kernels >= FEWEST, || format!("expected at least {FEWEST} kernels, found {kernels}"))
    })];
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        trials.push(Trial::test(name, move || {
            let bytes = std::fs::read(&file)?;
            fuzz(&bytes);
            if is_kernel(&file) { check(&bytes) } else { Ok(()) }
        }));
    }
    trials
}

/// A kernel's file has a digest; the others are lists of operators.
fn is_kernel(file: &Path) -> bool {
    let tree = std::fs::read(file).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    tree.is_some_and(|tree| tree.get("sha256").is_some())
}

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(message().into()) }
}

fn check(bytes: &[u8]) -> Result<(), Failed> {
    let meta = KernelMeta::parse(bytes)?;
    let (read, written): (Value, Value) =
        (serde_json::from_slice(bytes)?, serde_json::from_str(&meta.to_json())?);
    ensure(read == written, || format!("{read} became {written}"))?;
    ensure(meta.extra.is_empty(), || format!("unknown: {:?}", meta.extra))?;
    ensure(meta.repeated.is_empty(), || format!("repeated: {:?}", meta.repeated))?;
    ensure(!meta.entry_names().is_empty(), || "no kernel".to_owned())?;
    if meta.thread_number.is_some() {
        return host(bytes);
    }
    let magic: Magic = meta.magic.as_ref().and_then(|magic| magic.known()).ok_or("unknown magic")?;
    for core in [&meta.core_type, &meta.old_core_type].into_iter().flatten() {
        let core: CoreType = core.known().ok_or("unknown core type")?;
        ensure(magic.fits(core), || format!("{magic} is not for {core}"))?;
    }
    let complaints: Vec<String> = fe_lints(bytes).iter().map(ToString::to_string).collect();
    ensure(complaints.is_empty(), || format!("{complaints:?}"))?;
    let worst = mindspore_lints(bytes).into_iter().map(|lint| lint.effect).max();
    ensure(worst < Some(Effect::Refuse), || format!("MindSpore 2.0 would {worst:?} it"))
}

/// FE reads no kernel for the host.
fn host(bytes: &[u8]) -> Result<(), Failed> {
    let complaints = mindspore_lints(bytes);
    ensure(complaints.is_empty(), || format!("{complaints:?}"))?;
    ensure(fe_lints(bytes).iter().any(|lint| lint.field == "magic"), || "FE takes it".to_owned())
}

//! Models and tensors of other origin, in the directory that `OPKEEP_CORPUS` names.
#![expect(clippy::disallowed_methods, reason = "a test reads files, and where the corpus is")]

use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};
use opkeep_onnx::{fuzz, read_tensor};
use opkeep_testkit::corpus;

pub(crate) fn trials() -> Vec<Trial> {
    match corpus::directory() {
        None => vec![corpus::absent("models and tensors")],
        Some(corpus) => trials_in(&corpus.join("onnx")),
    }
}

fn trials_in(directory: &Path) -> Vec<Trial> {
    let files = corpus::files_ending(directory, &["onnx", "pb"]).unwrap_or_default();
    let mut trials = vec![Trial::test("there are models and tensors", {
        let (models, tensors) = (count(&files, "onnx"), count(&files, "pb"));
        move || if models > 0 && tensors > 0 { Ok(()) } else { Err("some are missing".into()) }
    })];
    trials.extend(files.into_iter().map(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Trial::test(format!("fuzz::{name}"), move || check(&path))
    }));
    trials
}

fn is(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn count(files: &[PathBuf], extension: &str) -> usize {
    files.iter().filter(|path| is(path, extension)).count()
}

/// Each file is read, and so are pieces of it.
fn check(path: &Path) -> Result<(), Failed> {
    if is(path, "pb") {
        read_tensor(path)?;
    }
    let bytes = std::fs::read(path)?;
    fuzz(&bytes);
    (1..64).for_each(|part| fuzz(&bytes[..bytes.len() / 64 * part]));
    Ok(())
}

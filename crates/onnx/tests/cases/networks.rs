//! Networks that may not be redistributed, from the directory that `OPKEEP_CORPUS` names.

#![expect(clippy::disallowed_methods, reason = "tests on files that the environment points to")]

use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};
use opkeep_onnx::{Options, from_bytes};
use opkeep_testkit::corpus;

pub(crate) fn trials() -> Vec<Trial> {
    match corpus::directory() {
        None => vec![corpus::absent("networks")],
        Some(corpus) => trials_in(&corpus.join("onnx")),
    }
}

fn trials_in(directory: &Path) -> Vec<Trial> {
    // A directory that cannot be listed counts as empty.
    let models = corpus::files_ending(directory, &["onnx"]).unwrap_or_default();
    let count = models.len();
    let trial = |file: PathBuf| {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Trial::test(format!("network::{name}"), move || check(&file))
    };
    let mut trials: Vec<Trial> = models.into_iter().map(trial).collect();
    // A wrong directory must not pass as an empty corpus.
    trials.push(Trial::test("the corpus has networks", move || match count {
        0 => Err("no .onnx file".into()),
        _ => Ok(()),
    }));
    trials
}

/// Such a network has one image as input, a thousand classes as output, and weights that its nodes compute.
fn check(file: &Path) -> Result<(), Failed> {
    let network = from_bytes(std::fs::read(file)?.into(), None, &Options::default())?;
    let shapes = |infos: &[opkeep_onnx::ValueInfo]| -> Vec<Vec<i64>> {
        infos.iter().map(|info| info.shape.iter().copied().filter(|dim| *dim != 1).collect()).collect()
    };
    if shapes(&network.inputs) != [[3, 224, 224]] || shapes(&network.outputs) != [[1000]] {
        return Err(format!("from {:?} to {:?}", network.inputs, network.outputs).into());
    }
    let jobs = network.graph.jobs();
    if jobs.is_empty() || jobs.iter().any(|(name, _)| name.is_empty()) {
        return Err(format!("{} jobs, each of which must have a name", jobs.len()).into());
    }
    let idle = network.graph.nodes().iter().find(|node| node.inputs.iter().flatten().next().is_none());
    match idle {
        Some(node) => Err(format!("`{}` computes what is known", node.name).into()),
        None => Ok(()),
    }
}

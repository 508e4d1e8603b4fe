//! Whole networks: ours, and those that we may not redistribute, from the directory that `OPKEEP_CORPUS` names.
#![expect(clippy::unwrap_used, reason = "helpers fail the test that calls them")]
#![expect(clippy::disallowed_methods, reason = "tests read models")]

use std::path::{Path, PathBuf};

use crate::common::formats::ByHand;
use crate::common::same::{check, count};
use crate::common::{Place, SOC};
use libtest_mimic::{Failed, Trial};
use opkeep_backend_ascend::{OpsInfo, Prepare};
use opkeep_onnx::{Options, from_bytes};
use opkeep_ops::{Graph, Node, Origin};
use opkeep_testkit::corpus;

pub(crate) fn trials() -> Vec<Trial> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/networks");
    let ours = ["lenet", "squeezenet", "resnet18", "bert"];
    let mut models: Vec<PathBuf> = ours.map(|name| fixtures.join(name).join("model.onnx")).to_vec();
    let mut trials = Vec::new();
    match corpus::directory() {
        None => trials.push(corpus::absent("other networks")),
        Some(dir) => models.extend(corpus::files_ending(&dir.join("onnx"), &["onnx"]).unwrap()),
    }
    trials.extend(models.into_iter().map(|path| {
        let name = path.parent().and_then(Path::file_name).unwrap().to_string_lossy().into_owned();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let name = format!("{name}/{stem}");
        Trial::test(name.clone(), move || whole(&path, &name))
    }));
    trials
}

/// By directory and file: nodes; `TransData` of weights, and of what flows; `Cast`; warnings. Of ours, what flows leaves the
/// blocks for outputs inside the network, too.
const FOUND: [(&str, [usize; 5]); 7] = [
    ("lenet/model", [13, 2, 5, 2, 1]),
    ("squeezenet/model", [53, 22, 7, 0, 0]),
    ("resnet18/model", [69, 100, 6, 0, 0]),
    ("bert/model", [37, 0, 0, 1, 1]),
    ("onnx/light_resnet50", [176, 265, 2, 2, 1]),
    ("onnx/light_inception_v1", [142, 57, 6, 2, 1]),
    ("onnx/light_squeezenet", [65, 26, 2, 0, 0]),
];

fn whole(path: &Path, name: &str) -> Result<(), Failed> {
    let network = from_bytes(std::fs::read(path)?.into(), None, &Options::default())?;
    let place = Place::new();
    let toolkit = place.found();
    let ops = OpsInfo::read(&toolkit, &toolkit.platforms.soc(SOC)?)?;
    let formats = ByHand::default();
    let prepare = Prepare::new(&ops, &formats);
    let (after, warnings) = prepare.run(&network.graph)?;
    check(&network.graph, &after, &ops)?;
    convolutions_stay_in_blocks(&after)?;
    // Equal jobs are asked about once.
    let asked = formats.asked.borrow().len();
    let (again, _) = prepare.run(&network.graph)?;
    if again.jobs() != after.jobs() || formats.asked.borrow().len() != asked {
        return Err("the second time it is another network".into());
    }
    let (weights, flow): (Vec<&Node>, Vec<&Node>) = after
        .nodes()
        .iter()
        .filter(|node| node.op_type == "TransData")
        .partition(|node| is_constant(&after, node));
    let casts = count(&after, "Cast") - count(&network.graph, "Cast");
    let found = [network.graph.nodes().len(), weights.len(), flow.len(), casts, warnings.len()];
    match FOUND.iter().find(|(known, _)| *known == name) {
        Some((_, expected)) if *expected != found => {
            Err(format!("expected {expected:?}, found {found:?}; {warnings:?}").into())
        }
        _ => Ok(()),
    }
}

/// Whether a node converts what is known.
fn is_constant(graph: &Graph, node: &Node) -> bool {
    let source = node.inputs[0].first().map(|id| graph.source(*id));
    source.is_some_and(|id| matches!(graph.origin(id), Origin::Constant(_)))
}

/// Outputs of convolutions, normalisations and sums go to the next of them without a conversion.
fn convolutions_stay_in_blocks(graph: &Graph) -> Result<(), Failed> {
    let chain = ["Conv2D", "BNInfer", "Relu", "Add", "AccumulateNV2", "MaxPoolV3"];
    for node in graph.nodes().iter().filter(|node| chain.contains(&node.op_type.as_str())) {
        let Some(Origin::Node { node: made, .. }) = node.inputs[0].first().map(|id| graph.origin(*id)) else {
            continue;
        };
        let made = &graph.nodes()[made];
        let Some(Origin::Node { node: from, .. }) = made.inputs[0].first().map(|id| graph.origin(*id)) else {
            continue;
        };
        let from = &graph.nodes()[from];
        if made.op_type == "TransData" && chain.contains(&from.op_type.as_str()) {
            return Err(format!("`{}` is converted for `{}`", from.name, node.name).into());
        }
    }
    Ok(())
}

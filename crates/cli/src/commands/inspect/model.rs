//! `opkeep inspect` for an ONNX model: what it declares, and what a build of it would compile.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use opkeep::{Config, Engine};
use opkeep_backend::Support;
use opkeep_descriptor::{BuildSpec, ResolvedSpec};
use opkeep_digest::Digest;
use opkeep_onnx::{Declared, ModelError, Network, OnnxError, OpenDim, Outline, Problem};
use serde::Serialize;

use super::inspected_file::InspectedFile;
use crate::config::Settings;
use crate::input::{self, dims::Dims};
use crate::setup;
use crate::ui::registry::registry;
use crate::ui::text::{by_reason, counted, first_names};

/// The maximum number of nodes that are named for one reason.
const MAX_NAMED: usize = 3;
/// The time limit of a query to a toolkit.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A model as JSON.
#[derive(Serialize)]
struct ModelOutput {
    graph: String,
    ir_version: i64,
    opsets: BTreeMap<String, i64>,
    nodes: usize,
    initializers: usize,
    inputs: Vec<ValueOutput>,
    outputs: Vec<ValueOutput>,
    open_dims: Vec<DimOutput>,
    operators: Vec<OperatorOutput>,
    build: BuildOutput,
}

#[derive(Serialize)]
struct ValueOutput {
    name: String,
    dtype: Option<String>,
    shape: Option<Vec<String>>,
}

#[derive(Serialize)]
struct DimOutput {
    name: String,
    places: Vec<String>,
}

#[derive(Serialize)]
struct OperatorOutput {
    domain: String,
    #[serde(rename = "type")]
    op_type: String,
    count: usize,
    refused: Option<String>,
}

/// What a build for one target would do.
#[derive(Default, Serialize)]
struct BuildOutput {
    target: String,
    /// The operators of the network that have a kernel, and the number of different kernels. None if that is not known.
    operators: Option<usize>,
    kernels: Option<usize>,
    /// The kernels that are refused, or the nodes, each with the reason.
    refused: Vec<RefusedOutput>,
    /// Why it is not known what would be built.
    unknown: Option<String>,
}

#[derive(Serialize)]
struct RefusedOutput {
    node: String,
    #[serde(rename = "type")]
    op_type: String,
    reason: String,
}

/// Returns the fields of the model in the file `path`.
pub(super) fn model(
    path: &Path,
    target: &str,
    settings: &Settings,
    dims: &mut Dims,
) -> anyhow::Result<InspectedFile> {
    let outline = opkeep_onnx::outline(path).map_err(|error| input::with_path(path, error))?;
    let mut file = InspectedFile::new("ONNX model");
    describe(&mut file, &outline);
    let build = build(path, target, settings, dims)?;
    describe_build(&mut file, &build);
    file.detail("model", &output(outline, build));
    Ok(file)
}

/// Returns what a model declares, its nodes and its weights, for a comparison.
pub(super) fn compared(path: &Path) -> anyhow::Result<InspectedFile> {
    let contents = opkeep_onnx::contents(path, &|bytes| Digest::of(bytes).to_string())?;
    let mut file = InspectedFile::new("ONNX model");
    describe(&mut file, &contents.outline);
    for node in contents.nodes {
        for (name, value) in node.attributes {
            file.field(format!("attribute {}: {name}", node.name), value);
        }
        file.field(format!("node {}", node.name), node.call);
    }
    contents.weights.into_iter().for_each(|(name, value)| file.field(format!("weight {name}"), value));
    Ok(file)
}

fn describe(file: &mut InspectedFile, outline: &Outline) {
    file.field("graph", &outline.name);
    file.field("format", format!("IR version {}", outline.ir_version));
    let domain = |domain: &str| if domain.is_empty() { "ai.onnx".to_owned() } else { domain.to_owned() };
    let opsets = outline.opsets.iter().map(|(name, version)| format!("{} {version}", domain(name)));
    file.field("operator sets", opsets.collect::<Vec<_>>().join(", "));
    for (kind, values) in [("input", &outline.inputs), ("output", &outline.outputs)] {
        values.iter().for_each(|value| file.field(format!("{kind} {}", value.name), value_text(value)));
    }
    for OpenDim { name, places, .. } in &outline.open_dims {
        let places = places.iter().map(|(input, axis)| format!("axis {axis} of `{input}`"));
        file.field(format!("open dimension {name}"), places.collect::<Vec<_>>().join(", "));
    }
    file.field("weights", counted(outline.initializers, "tensor"));
    file.field("nodes", outline.nodes);
    for operator in &outline.operators {
        let name = match operator.domain.as_str() {
            "" => operator.op_type.clone(),
            domain => format!("{domain}.{}", operator.op_type),
        };
        let refused = operator.refusal.iter().map(|why| format!("; refused: {why}")).collect::<String>();
        file.field(format!("operator {name}"), format!("{}{refused}", counted(operator.count, "node")));
    }
}

fn value_text(value: &Declared) -> String {
    let dtype = value.dtype.as_deref().unwrap_or("no tensor");
    match &value.shape {
        Some(shape) => format!("{dtype} [{}]", shape.join(", ")),
        None => format!("{dtype} of an undeclared shape"),
    }
}

/// Finds out what a build would compile. No compiler is run.
fn build(path: &Path, target: &str, settings: &Settings, dims: &mut Dims) -> anyhow::Result<BuildOutput> {
    let mut found = BuildOutput { target: target.to_owned(), ..BuildOutput::default() };
    match dims.read(path) {
        Ok(network) => add_kernels(&mut found, network, target, settings)?,
        Err(OnnxError::Model(ModelError::Dims { dims })) => {
            let names = dims.iter().map(|dim| format!("--dim {}=SIZE", dim.name)).collect::<Vec<_>>();
            found.unknown =
                Some(format!("kernels are made for fixed shapes: give sizes with {}", names.join(" ")));
        }
        Err(OnnxError::Unmappable(problems)) => {
            let refused = |Problem { node, op_type, why, .. }| RefusedOutput { node, op_type, reason: why };
            found.refused = problems.into_iter().map(refused).collect();
        }
        Err(error) => found.unknown = Some(error.to_string()),
    }
    Ok(found)
}

/// Adds the kernels of a network, and those that the target refuses.
fn add_kernels(
    found: &mut BuildOutput,
    network: Network,
    target: &str,
    settings: &Settings,
) -> anyhow::Result<()> {
    let backends = registry(setup::cpu_config(settings, TIMEOUT)?, setup::ascend_config(settings)?);
    let backend = backends.open(target).context("opening the backend")?;
    let spec = BuildSpec::new(target);
    let graph = match Engine::new(backend.clone(), Config::default()).prepare(network.graph, &spec) {
        Ok(graph) => graph,
        Err(error) => {
            found.unknown = Some(error.to_string());
            return Ok(());
        }
    };
    let resolved = ResolvedSpec { target: target.to_owned(), options: BTreeMap::new(), debug: false };
    let mut kernels: BTreeMap<Digest, bool> = BTreeMap::new();
    let requests = opkeep::requests(&graph, &spec);
    for request in &requests {
        let job = &request.descriptor.job;
        let refusal = match backend.supports(job, &resolved) {
            Support::No(why) => Some(why.to_string()),
            Support::Yes | Support::Unknown => None,
        };
        kernels.insert(job.digest(), refusal.is_some());
        found.refused.extend(refusal.map(|reason| RefusedOutput {
            node: request.descriptor.envelope.full_name.clone(),
            op_type: job.op_types(),
            reason,
        }));
    }
    found.operators = Some(requests.len());
    found.kernels = Some(kernels.values().filter(|is_refused| !**is_refused).count());
    Ok(())
}

fn describe_build(file: &mut InspectedFile, build: &BuildOutput) {
    let name = format!("built for {}", build.target);
    match (build.operators, build.kernels, &build.unknown) {
        (Some(operators), Some(kernels), _) => file.field(
            name,
            format!("{}, {}", counted(operators, "operator"), counted(kernels, "different kernel")),
        ),
        (_, _, Some(unknown)) => file.field(name, format!("not known: {unknown}")),
        _ => file.field(name, "nothing, since nodes are refused"),
    }
    let of_reason = |one: &RefusedOutput| ((one.op_type.clone(), one.reason.clone()), one.node.clone());
    for ((op_type, reason), nodes) in by_reason(build.refused.iter().map(of_reason)) {
        let count = counted(nodes.len(), "node");
        let nodes = first_names(nodes.into_iter().map(|node| format!("`{node}`")), MAX_NAMED);
        file.problems.push(format!("{op_type} is refused: {reason} ({count}: {nodes})"));
    }
}

fn output(outline: Outline, build: BuildOutput) -> ModelOutput {
    let value = |Declared { name, dtype, shape, .. }| ValueOutput { name, dtype, shape };
    let dim = |OpenDim { name, places, .. }| DimOutput {
        name,
        places: places.into_iter().map(|(input, axis)| format!("{input}:{axis}")).collect(),
    };
    let operator = |one: opkeep_onnx::OperatorCount| OperatorOutput {
        domain: one.domain,
        op_type: one.op_type,
        count: one.count,
        refused: one.refusal,
    };
    ModelOutput {
        graph: outline.name,
        ir_version: outline.ir_version,
        opsets: outline.opsets,
        nodes: outline.nodes,
        initializers: outline.initializers,
        inputs: outline.inputs.into_iter().map(value).collect(),
        outputs: outline.outputs.into_iter().map(value).collect(),
        open_dims: outline.open_dims.into_iter().map(dim).collect(),
        operators: outline.operators.into_iter().map(operator).collect(),
        build,
    }
}

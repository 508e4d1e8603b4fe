//! What a model declares: for people, and without a translation.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use crate::load::read_model;
use crate::model::declared::{fixed, tensor_type};
use crate::model::functions::{FUNCTION, functions};
use crate::model::order::short;
use crate::model_error::{ModelError, OpenDim};
use crate::wire::proto::{DimensionProto, GraphProto, ModelProto, ValueInfoProto};
use crate::{OnnxError, dtype, table};

/// What a model declares. Nothing of it is checked beyond the encoding of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outline {
    /// The version of the file's format.
    pub ir_version: i64,
    /// The name of the graph.
    pub name: String,
    /// The versions of the operator sets that it imports, by domain; the default one is empty.
    pub opsets: BTreeMap<String, i64>,
    /// The inputs that have no value in the model.
    pub inputs: Vec<Declared>,
    /// The outputs.
    pub outputs: Vec<Declared>,
    /// The dimensions of the inputs that have no size.
    pub open_dims: Vec<OpenDim>,
    /// The number of nodes.
    pub nodes: usize,
    /// The operators, the most frequent first.
    pub operators: Vec<OperatorCount>,
    /// The number of weights and other tensors with a value.
    pub initializers: usize,
}

/// An input or output as the model declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Declared {
    /// The name.
    pub name: String,
    /// The element type. None if it is no tensor.
    pub dtype: Option<String>,
    /// The dimensions: sizes, names, or `?`. None if the shape is not declared.
    pub shape: Option<Vec<String>>,
}

/// An operator with the number of its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperatorCount {
    /// The domain; empty for the default one.
    pub domain: String,
    /// The name.
    pub op_type: String,
    /// The number of nodes.
    pub count: usize,
    /// Why no node of this operator can be translated. Whether a certain node can be shows a translation only.
    pub refusal: Option<String>,
}

/// Reads what the model in the file `path` declares. The file is read once; files beside it are not read.
///
/// # Errors
/// The file cannot be read, is not a model, or is damaged.
pub fn outline(path: &Path) -> Result<Outline, OnnxError> {
    let model = read_model(path)?;
    let graph = model.graph.as_ref().ok_or(ModelError::NoGraph)?;
    Ok(outline_of(&model, graph))
}

pub(crate) fn outline_of(model: &ModelProto, graph: &GraphProto) -> Outline {
    let opsets = model.opset_import.iter().map(|import| (short(&import.domain).to_owned(), import.version));
    let opsets: BTreeMap<String, i64> = opkeep_order::map(opsets);
    let with_value: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
    let inputs = graph.input.iter().filter(|input| !with_value.contains(input.name.as_str()));
    let inputs: Vec<&ValueInfoProto> = inputs.collect();
    Outline {
        ir_version: model.ir_version,
        name: graph.name.clone(),
        operators: operators(model, graph, &opsets),
        opsets,
        open_dims: open_dims(&inputs),
        inputs: inputs.into_iter().map(declared).collect(),
        outputs: graph.output.iter().map(declared).collect(),
        nodes: graph.node.len(),
        initializers: graph.initializer.len() + graph.sparse_initializer.len(),
    }
}

fn declared(info: &ValueInfoProto) -> Declared {
    let tensor = tensor_type(info);
    let shape = tensor.and_then(|tensor| tensor.shape.as_ref());
    let dim = |dim: &DimensionProto| match (fixed(dim), &dim.dim_param) {
        (Some(size), _) => size.to_string(),
        (None, Some(name)) if !name.is_empty() => name.clone(),
        _ => "?".to_owned(),
    };
    Declared {
        name: info.name.clone(),
        dtype: tensor.map(|tensor| dtype::shown(tensor.elem_type)),
        shape: shape.map(|shape| shape.dim.iter().map(dim).collect()),
    }
}

/// Returns the dimensions without a size, in the order of the inputs. Those of one name are one.
fn open_dims(inputs: &[&ValueInfoProto]) -> Vec<OpenDim> {
    let mut open: Vec<OpenDim> = Vec::new();
    let mut known = BTreeMap::new();
    for input in inputs {
        let shape = tensor_type(input).and_then(|tensor| tensor.shape.as_ref());
        let dims = shape.into_iter().flat_map(|shape| shape.dim.iter().enumerate());
        for (axis, dim) in dims.filter(|(_, dim)| fixed(dim).is_none()) {
            let name = dim.dim_param.clone().filter(|name| !name.is_empty());
            let name = name.unwrap_or_else(|| format!("{}:{axis}", input.name));
            let at = *known.entry(name.clone()).or_insert(open.len());
            if at == open.len() {
                open.push(OpenDim { name, places: Vec::new() });
            }
            open[at].places.push((input.name.clone(), axis));
        }
    }
    open
}

fn operators(model: &ModelProto, graph: &GraphProto, opsets: &BTreeMap<String, i64>) -> Vec<OperatorCount> {
    let own = functions(model);
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for node in &graph.node {
        *counts.entry((short(&node.domain), node.op_type.as_str())).or_default() += 1;
    }
    let operator = |((domain, op_type), count): ((&str, &str), usize)| {
        let refusal = match opsets.get(domain) {
            _ if own.contains(&(domain.to_owned(), op_type.to_owned())) => Some(FUNCTION.to_owned()),
            None => Some(format!("the model imports no operator set of its domain `{domain}`")),
            Some(opset) => table::find(domain, op_type, *opset).err(),
        };
        OperatorCount { domain: domain.to_owned(), op_type: op_type.to_owned(), count, refusal }
    };
    let mut operators: Vec<OperatorCount> = counts.into_iter().map(operator).collect();
    opkeep_order::by_key(&mut operators, |operator| std::cmp::Reverse(operator.count));
    operators
}

//! A network, and the options for reading it.

use std::collections::BTreeMap;

use opkeep_ops::Graph;

/// Options for reading a model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Sizes of dimensions without a size in the model, by their name there, or by input and axis (`input:axis`).
    pub dims: BTreeMap<String, i64>,
}

impl Options {
    /// Options with these sizes of dimensions.
    pub const fn new(dims: BTreeMap<String, i64>) -> Self {
        Self { dims }
    }
}

/// A network.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Network {
    /// Its operators.
    pub graph: Graph,
    /// Its inputs, in the order of the graph's; without those that have a value in the model.
    pub inputs: Vec<ValueInfo>,
    /// Its outputs, in the order of the graph's.
    pub outputs: Vec<ValueInfo>,
}

/// An input or output of a network, as in ONNX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueInfo {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: String,
    /// Its shape. A scalar has no dimensions here, and one dimension of one element in the graph.
    pub shape: Vec<i64>,
}

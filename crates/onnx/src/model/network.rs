//! A network, and the options for reading one.

use std::collections::BTreeMap;

use opkeep_ops::Graph;

/// How a model is read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Sizes of dimensions that have none in the model, by the name that they have there, or by input and axis
    /// (`input:axis`).
    pub dims: BTreeMap<String, i64>,
}

/// A network.
#[derive(Clone, Debug)]
pub struct Network {
    /// What it computes.
    pub graph: Graph,
    /// Its inputs, in the order of the graph's; without those that the model gives a value.
    pub inputs: Vec<ValueInfo>,
    /// Its outputs, in the order of the graph's.
    pub outputs: Vec<ValueInfo>,
}

/// An input or output of a network as ONNX has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueInfo {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: String,
    /// Its shape. A scalar has no dimensions, where the graph's tensor has one, of one element.
    pub shape: Vec<i64>,
}

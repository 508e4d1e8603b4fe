//! Errors of a model's graph.

use std::fmt;

use thiserror::Error;

/// The reason why a model cannot be translated, whatever its operators are.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// There is no graph.
    #[error("the model has no graph")]
    NoGraph,
    /// The graph has no outputs.
    #[error("the model's graph has no outputs")]
    NoOutputs,
    /// A version of the default operators that is not supported.
    #[error(
        "the model is of operator set {found}, expected {oldest} to {newest}; convert it with \
         `onnx.version_converter`, or export it again"
    )]
    Opset {
        /// The version that the model imports; 0 if it imports none.
        found: i64,
        /// The oldest supported version.
        oldest: i64,
        /// The newest supported version.
        newest: i64,
    },
    /// An operator set that is imported in two versions.
    #[error("the model imports the operator set `{domain}` as {first} and as {second}")]
    Opsets {
        /// The set's domain; empty for the default one.
        domain: String,
        /// One version.
        first: i64,
        /// The other.
        second: i64,
    },
    /// Sparse weights.
    #[error("the model has {count} sparse initializers, expected none; make them dense")]
    Sparse {
        /// Their number.
        count: usize,
    },
    /// Two definitions of a name.
    #[error("`{name}` is defined twice: as {first} and as {second}")]
    DefinedTwice {
        /// The name.
        name: String,
        /// The kind of the first definition.
        first: String,
        /// The kind of the second definition.
        second: String,
    },
    /// A name without a definition.
    #[error(
        "`{name}`, which {reader} reads, is neither an input nor an initializer nor the output of a node"
    )]
    Undefined {
        /// The name.
        name: String,
        /// The node or output that reads it.
        reader: String,
    },
    /// Nodes that form a cycle.
    #[error("nodes wait for each other's outputs: {}", .nodes.join(" -> "))]
    Cycle {
        /// The nodes, each reading from the one before it; the first is repeated at the end.
        nodes: Vec<String>,
    },
    /// A graph output without a name, or listed twice.
    #[error("output {index} of the graph is `{name}`, expected a name that no other output has")]
    Output {
        /// Its index.
        index: usize,
        /// Its name.
        name: String,
    },
    /// An input that is not a tensor, or has no description.
    #[error("input `{input}` {problem}")]
    Input {
        /// The input's name.
        input: String,
        /// The problem.
        problem: String,
    },
    /// Dimensions without a size.
    #[error(
        "kernels are made for fixed shapes, and {} no size: {}; give each one",
        if .dims.len() == 1 { "one dimension has" } else { "some dimensions have" },
        .dims.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Dims {
        /// The dimensions that need a size.
        dims: Vec<OpenDim>,
    },
    /// A size for a dimension that the model does not have.
    #[error(
        "a size is given for dimension `{name}`, and the model's dimensions without a size are {known:?}"
    )]
    NoSuchDim {
        /// The name that was given.
        name: String,
        /// The dimensions without a size.
        known: Vec<String>,
    },
    /// A size that is negative.
    #[error("the size given for dimension `{name}` is {size}, expected 0 or more")]
    DimSize {
        /// The dimension.
        name: String,
        /// The size.
        size: i64,
    },
    /// A declared output that contradicts what the nodes compute.
    #[error(
        "shapes that contradict: the model declares output `{name}` as {declared}, and computes {computed}"
    )]
    Contradiction {
        /// The output.
        name: String,
        /// Element type and shape as declared.
        declared: String,
        /// Element type and shape as computed.
        computed: String,
    },
    /// An operator's call is invalid.
    #[error(transparent)]
    Graph(#[from] opkeep_ops::OpsError),
}

/// A dimension of an input without a size in the model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenDim {
    /// The name by which a size is given: its name in the model, or `input:axis`.
    pub name: String,
    /// The inputs that have it, with the axis.
    pub places: Vec<(String, usize)>,
}

impl fmt::Display for OpenDim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places: Vec<String> =
            self.places.iter().map(|(input, axis)| format!("axis {axis} of `{input}`")).collect();
        write!(f, "`{}` ({})", self.name, places.join(", "))
    }
}

/// A node that cannot be mapped, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The node's name; if it has none, its operator with a number.
    pub node: String,
    /// Its operator.
    pub op_type: String,
    /// The operator's domain; empty for the default one.
    pub domain: String,
    /// The version of that domain which the model imports; 0 if it imports none.
    pub opset: i64,
    /// The reason.
    pub why: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, op_type, domain, opset, why } = self;
        match domain.as_str() {
            "" => write!(f, "`{node}` ({op_type}, operator set {opset}): {why}"),
            domain => write!(f, "`{node}` ({domain}.{op_type}, operator set {opset}): {why}"),
        }
    }
}

/// Problems, one on each line, up to a limit.
pub(crate) struct Listed<'a>(pub(crate) &'a [Problem]);

impl Listed<'_> {
    const MOST: usize = 20;
}

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, nodes) = (self.0.len(), if self.0.len() == 1 { "node" } else { "nodes" });
        write!(f, "{count} {nodes} of the model cannot be mapped to Ascend IR operators:")?;
        self.0.iter().take(Self::MOST).try_for_each(|problem| write!(f, "\n  {problem}"))?;
        match count.saturating_sub(Self::MOST) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

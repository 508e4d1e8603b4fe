//! Why an operator cannot be.

use thiserror::Error;

/// Why an operator cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpsError {
    /// The table has no such operator.
    #[error("operator type `{op_type}` is not in the operator table")]
    UnknownOp {
        /// The IR type asked for.
        op_type: String,
    },
    /// Another number of inputs or outputs than the operator has.
    #[error("`{op_type}` has {expected} {what}, found {found}")]
    Count {
        /// The operator's IR type.
        op_type: String,
        /// `inputs` or `outputs`.
        what: &'static str,
        /// How many the table says.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// A position that holds another number of tensors than it may.
    #[error("`{op_type}`: {what} `{name}` must be {expected}, found {found}")]
    Port {
        /// The operator's IR type.
        op_type: String,
        /// `input` or `output`.
        what: &'static str,
        /// Its name in the table.
        name: &'static str,
        /// What may stand there: `one tensor`, `one tensor or none`, `one tensor or more`.
        expected: &'static str,
        /// How many tensors there are.
        found: usize,
    },
    /// Inputs of different element types where the operator wants one.
    #[error("`{op_type}`: input `{name}` is {found}, expected {expected}")]
    Dtype {
        /// The operator's IR type.
        op_type: String,
        /// The input's name in the table.
        name: &'static str,
        /// What fits the other inputs.
        expected: String,
        /// This input's element type.
        found: String,
    },
    /// Shapes that do not broadcast.
    #[error(
        "`{op_type}`: shapes {left:?} and {right:?} do not broadcast: each dimension must be equal, or 1"
    )]
    Broadcast {
        /// The operator's IR type.
        op_type: String,
        /// One input's shape.
        left: Vec<i64>,
        /// The other's.
        right: Vec<i64>,
    },
    /// A dimension that is not a size.
    #[error("`{op_type}`: shape {shape:?} is not static, or has more than {limit} elements")]
    Shape {
        /// The operator's IR type.
        op_type: String,
        /// The shape.
        shape: Vec<i64>,
        /// The most elements that a tensor may have.
        limit: u64,
    },
    /// Shapes and attributes that do not go together.
    #[error("`{op_type}`: {problem}")]
    Misfit {
        /// The operator's IR type.
        op_type: String,
        /// What does not fit what, with both values.
        problem: String,
    },
    /// An input whose value the compiler needs, and that is not a constant.
    #[error("`{op_type}`: the value of input `{name}` must be known when the kernel is compiled")]
    NotConstant {
        /// The operator's IR type.
        op_type: String,
        /// The input's name in the table.
        name: &'static str,
    },
    /// An output that contradicts the inputs.
    #[error("`{op_type}`: output `{name}` is {found}, but the inputs give {expected}")]
    Output {
        /// The operator's IR type.
        op_type: String,
        /// The output's name in the table.
        name: &'static str,
        /// What follows from the inputs.
        expected: String,
        /// What the descriptor says.
        found: String,
    },
    /// An attribute that the operator does not have.
    #[error("`{op_type}` has no attribute `{attr}`; it has {known:?}")]
    UnknownAttr {
        /// The operator's IR type.
        op_type: String,
        /// The attribute.
        attr: String,
        /// Those it has.
        known: Vec<&'static str>,
    },
    /// A required attribute that is not given.
    #[error("`{op_type}`: attribute `{attr}` is required and not given")]
    MissingAttr {
        /// The operator's IR type.
        op_type: String,
        /// The attribute.
        attr: &'static str,
    },
    /// An attribute of another type than the table says.
    #[error("`{op_type}`: attribute `{attr}` must be {expected}, found {found}")]
    AttrType {
        /// The operator's IR type.
        op_type: String,
        /// The attribute.
        attr: &'static str,
        /// The type the table says.
        expected: &'static str,
        /// The value given.
        found: String,
    },
    /// An attribute with a value that the operator does not have.
    #[error("`{op_type}`: attribute `{attr}` is {found}, expected {expected}")]
    AttrValue {
        /// The operator's IR type.
        op_type: String,
        /// The attribute.
        attr: &'static str,
        /// What it may be.
        expected: &'static str,
        /// The value given.
        found: String,
    },
    /// A tensor id of another graph.
    #[error("tensor {id} is not one of this graph's {count}")]
    NoSuchTensor {
        /// The id.
        id: usize,
        /// How many tensors the graph has.
        count: usize,
    },
    /// A view with another number of elements than what it shows.
    #[error("a tensor of shape {from:?} cannot be seen as {to:?}: they differ in their number of elements")]
    View {
        /// The tensor's shape.
        from: Vec<i64>,
        /// The shape asked for.
        to: Vec<i64>,
    },
    /// A shape that has no such storage format.
    #[error("a tensor of shape {shape:?} and type {dtype} cannot be stored as `{format}`")]
    Storage {
        /// The shape, as operators mean it.
        shape: Vec<i64>,
        /// The element type.
        dtype: String,
        /// The format asked for.
        format: String,
    },
    /// A tensor whose elements do not lie side by side, where nothing else will do.
    #[error("{what} must be stored as the network has it, and is stored as `{format}`: convert it first")]
    NotPlain {
        /// What: `a tensor that is seen in another shape`, or the output of the network.
        what: String,
        /// How it is stored.
        format: String,
    },
}

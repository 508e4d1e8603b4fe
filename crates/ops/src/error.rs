//! The error type of this crate.

use opkeep_text::counted;
use thiserror::Error;

/// The reason why an operator is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpsError {
    /// The table has no such operator.
    #[error("operator type `{op_type}` is not in the operator table")]
    UnknownOp {
        /// The requested IR type.
        op_type: String,
    },
    /// An unexpected number of inputs or outputs.
    #[error("`{op_type}` has {expected} {ports}, found {found}")]
    Count {
        /// The operator's IR type.
        op_type: String,
        /// `inputs` or `outputs`.
        ports: &'static str,
        /// The number in the table.
        expected: usize,
        /// The number found.
        found: usize,
    },
    /// A position with an unexpected number of tensors.
    #[error("`{op_type}`: {port} `{name}` must be {expected}, found {found}")]
    Port {
        /// The operator's IR type.
        op_type: String,
        /// `input` or `output`.
        port: &'static str,
        /// Its name in the table.
        name: &'static str,
        /// The allowed number: `one tensor`, `one tensor or none`, `one tensor or more`.
        expected: &'static str,
        /// The number of tensors found.
        found: usize,
    },
    /// Inputs whose element types differ although the operator requires one.
    #[error("`{op_type}`: input `{name}` is {found}, expected {expected}")]
    Dtype {
        /// The operator's IR type.
        op_type: String,
        /// The input's name in the table.
        name: &'static str,
        /// The element type of the other inputs.
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
        /// The other input's shape.
        right: Vec<i64>,
    },
    /// A dimension that is not a size.
    #[error(
        "`{op_type}`: shape {shape:?} is not static, or has more than {limit}",
        limit = counted(*.limit, "element")
    )]
    Shape {
        /// The operator's IR type.
        op_type: String,
        /// The shape.
        shape: Vec<i64>,
        /// The largest number of elements of a tensor.
        limit: u64,
    },
    /// Shapes and attributes that do not fit each other.
    #[error("`{op_type}`: {problem}")]
    Misfit {
        /// The operator's IR type.
        op_type: String,
        /// The parts that do not fit, with their values.
        problem: String,
    },
    /// An input whose value the compiler needs, but which is not a constant.
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
        /// The type and shape that follow from the inputs.
        expected: String,
        /// The type and shape in the descriptor.
        found: String,
    },
    /// An attribute that the operator does not have.
    #[error("`{op_type}` has no attribute `{attr}`; it has {known:?}")]
    UnknownAttr {
        /// The operator's IR type.
        op_type: String,
        /// The attribute.
        attr: String,
        /// The attributes of the operator.
        known: Vec<&'static str>,
    },
    /// A required attribute that is unset.
    #[error("`{op_type}`: attribute `{attr}` is required and not given")]
    MissingAttr {
        /// The operator's IR type.
        op_type: String,
        /// The attribute.
        attr: &'static str,
    },
    /// An attribute whose type differs from the table's.
    #[error("`{op_type}`: attribute `{attr}` must be {expected}, found {found}")]
    AttrType {
        /// The operator's IR type.
        op_type: String,
        /// The attribute.
        attr: &'static str,
        /// The type in the table.
        expected: &'static str,
        /// The value found.
        found: String,
    },
    /// An attribute with a value that the operator does not have.
    #[error("`{op_type}`: attribute `{attr}` is {found}, expected {expected}")]
    AttrValue {
        /// The operator's IR type.
        op_type: String,
        /// The attribute.
        attr: &'static str,
        /// The allowed values.
        expected: &'static str,
        /// The value found.
        found: String,
    },
    /// A tensor id of another graph.
    #[error("tensor {id} is not one of this graph's {count}")]
    NoSuchTensor {
        /// The id.
        id: usize,
        /// The number of tensors of the graph.
        count: usize,
    },
    /// A view whose number of elements differs from its source's.
    #[error("a tensor of shape {from:?} cannot be seen as {to:?}: they differ in their number of elements")]
    View {
        /// The tensor's shape.
        from: Vec<i64>,
        /// The requested shape.
        to: Vec<i64>,
    },
    /// A shape that has no such storage format.
    #[error("a tensor of shape {shape:?} and type {dtype} cannot be stored as `{format}`")]
    Storage {
        /// The logical shape.
        shape: Vec<i64>,
        /// The element type.
        dtype: String,
        /// The requested format.
        format: String,
    },
    /// A tensor in a blocked format where a plain one is required.
    #[error("{tensor} must be stored as the network has it, and is stored as `{format}`: convert it first")]
    NotPlain {
        /// The tensor: `a tensor that is seen in another shape`, or the output of the network.
        tensor: String,
        /// Its format.
        format: String,
    },
}

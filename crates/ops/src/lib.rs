//! The operator table (Ascend IR types) and the operator graph.
//!
//! One row an operator: ordered inputs, outputs and attributes with types and defaults, and the rule that gives the
//! outputs' element types and shapes. Front ends make jobs from it, backends read what a job means from it; what code
//! an operator becomes is each backend's own affair.
//!
//! ```
//! use opbuild_ops::Graph;
//!
//! let mut graph = Graph::new("example");
//! let x = graph.input("x", "float32", [2, 3]);
//! let bias = graph.input("bias", "float32", [3]);
//! let sum = graph.node("sum", "Add", &[x, bias], [])?;
//! let y = graph.node("act", "Relu", &[sum], [])?;
//! assert_eq!(graph.tensor(y).shape, [2, 3]);
//! assert_eq!(graph.jobs()[1].1.ops[0].func_name, "relu");
//! # Ok::<(), opbuild_ops::OpsError>(())
//! ```

mod graph;
mod naming;
mod shape;
mod table;

pub use graph::{Graph, Node, TensorId};
pub use naming::func_name;
pub use shape::broadcast;
pub use table::{AttrDefault, AttrSpec, OpSpec, Rule, all, find};

use opbuild_descriptor::{Arg, Attr, AttrValue, Input, Op, Tensor};
use thiserror::Error;

/// Why an operator cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OpsError {
    /// The table has no such operator.
    #[error(
        "operator type `{op_type}` is not in the operator table; see `opbuild targets` for those that are"
    )]
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
    /// An input that is absent or variadic where one tensor belongs.
    #[error("`{op_type}`: {what} `{name}` must be one tensor")]
    NotOneTensor {
        /// The operator's IR type.
        op_type: String,
        /// `input` or `output`.
        what: &'static str,
        /// Its name in the table.
        name: &'static str,
    },
    /// Inputs of different element types where the operator wants one.
    #[error("`{op_type}`: input `{name}` is {found}, expected {expected} as the first input is")]
    Dtype {
        /// The operator's IR type.
        op_type: String,
        /// The input's name in the table.
        name: &'static str,
        /// The first input's element type.
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
    /// A tensor id of another graph.
    #[error("tensor {id} is not one of this graph's {count}")]
    NoSuchTensor {
        /// The id.
        id: usize,
        /// How many tensors the graph has.
        count: usize,
    },
}

impl OpSpec {
    /// The row for `op`'s type.
    ///
    /// # Errors
    /// [`OpsError::UnknownOp`].
    pub fn of(op: &Op) -> Result<&'static Self, OpsError> {
        find(&op.op_type).ok_or_else(|| OpsError::UnknownOp { op_type: op.op_type.clone() })
    }

    /// Checks `op` against this row: counts, element types, shapes, attributes.
    ///
    /// # Errors
    /// [`OpsError`], the first thing that does not fit.
    pub fn check(&self, op: &Op) -> Result<(), OpsError> {
        let inputs: Vec<&Tensor> =
            self.each(&op.inputs, self.inputs, "input", "inputs")?.into_iter().map(tensor_of).collect();
        let outputs = self.each(&op.outputs, self.outputs, "output", "outputs")?;
        for ((name, output), expected) in self.outputs.iter().zip(outputs).zip(self.infer(&inputs)?) {
            if (&output.dtype, &output.shape) != (&expected.dtype, &expected.shape) {
                let show = |tensor: &Tensor| format!("{} {:?}", tensor.dtype, tensor.shape);
                let (expected, found) = (show(&expected), show(output));
                return Err(OpsError::Output { op_type: self.op_type.into(), name, expected, found });
            }
        }
        for attr in given(op) {
            if !self.attrs.iter().any(|spec| spec.name == attr.name) {
                return Err(OpsError::UnknownAttr {
                    op_type: self.op_type.into(),
                    attr: attr.name.clone(),
                    known: self.attrs.iter().map(|spec| spec.name).collect(),
                });
            }
        }
        self.attrs.iter().try_for_each(|spec| self.attr(op, spec.name).map(drop))
    }

    /// The value of the attribute `name`: as given, or the default.
    ///
    /// # Errors
    /// Unknown, required but not given, or of another type.
    pub fn attr(&self, op: &Op, name: &str) -> Result<AttrValue, OpsError> {
        let Some(spec) = self.attrs.iter().find(|spec| spec.name == name) else {
            return Err(OpsError::UnknownAttr {
                op_type: self.op_type.into(),
                attr: name.to_owned(),
                known: self.attrs.iter().map(|spec| spec.name).collect(),
            });
        };
        let value = given(op).find(|attr| attr.name == name).map(|attr| &attr.value);
        match value {
            Some(value) if spec.takes(value) => Ok(value.clone()),
            Some(value) => Err(OpsError::AttrType {
                op_type: self.op_type.into(),
                attr: spec.name,
                expected: spec.type_name(),
                found: format!("{value:?}"),
            }),
            None => spec
                .default_value()
                .ok_or(OpsError::MissingAttr { op_type: self.op_type.into(), attr: spec.name }),
        }
    }

    /// The one tensor at each position.
    fn each<'a, T>(
        &self,
        args: &'a [Arg<T>],
        names: &[&'static str],
        what: &'static str,
        whats: &'static str,
    ) -> Result<Vec<&'a T>, OpsError> {
        let op_type = || self.op_type.to_owned();
        if args.len() != names.len() {
            let (expected, found) = (names.len(), args.len());
            return Err(OpsError::Count { op_type: op_type(), what: whats, expected, found });
        }
        let one = |(arg, name): (&'a Arg<T>, &&'static str)| match arg {
            Arg::One(tensor) => Ok(tensor),
            _ => Err(OpsError::NotOneTensor { op_type: op_type(), what, name }),
        };
        args.iter().zip(names).map(one).collect()
    }
}

fn tensor_of(input: &Input) -> &Tensor {
    &input.tensor
}

/// The attributes that were given; `isRef` is a mark of the framework's, not an attribute.
fn given(op: &Op) -> impl Iterator<Item = &Attr> {
    let attrs = op.attrs.as_deref().unwrap_or_default();
    attrs.iter().filter(|attr| attr.valid != Some(false) && attr.name != "isRef")
}

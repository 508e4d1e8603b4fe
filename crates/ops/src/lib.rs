//! The operator table (Ascend IR types) and the operator graph.
//!
//! Each operator has a row: ordered inputs, outputs and attributes with types and defaults, and the rule that gives the
//! outputs' element types and shapes. Front ends create jobs from it, and backends read a job's meaning from it; the
//! code of an operator is each backend's own matter.
//!
//! ```
//! use opkeep_ops::Graph;
//!
//! let mut graph = Graph::new("example");
//! let x = graph.input("x", "float32", [2, 3]);
//! let bias = graph.input("bias", "float32", [3]);
//! let sum = graph.node("sum", "Add", &[x, bias], [])?;
//! let y = graph.node("act", "Relu", &[sum], [])?;
//! assert_eq!(graph.tensor(y).shape, [2, 3]);
//! assert_eq!(graph.jobs()[1].1.ops[0].func_name, "relu");
//! # Ok::<(), opkeep_ops::OpsError>(())
//! ```

mod call;
mod constant;
mod dtype;
mod error;
mod formats;
mod func_name;
mod graph;
mod infer;
mod rewrite;
mod shape;
mod spec;
mod table;

pub use call::Call;
pub use constant::{Constant, Elements};
pub use dtype::{dtype_bytes, ge_number, of_bfloat16, of_float16};
pub use error::OpsError;
pub use formats::{Storage, block, is_blocked, logical, ordered, storage_shape};
pub use func_name::func_name;
pub use graph::{
    Function, Graph, Node, Origin, TensorId, bool_attr, float_attr, int_attr, ints_attr, str_attr,
};
pub use infer::{
    Conv2d, Gather, LayerNorm, MatMul, Pad, PadMode, Pool, PoolKind, Reduce, Slice, Window, axis, concat,
    multiples, permutation, pieces, slice_range,
};
pub use rewrite::{Conversion, Rewriter};
pub use shape::{MAX_ELEMENTS, TensorType, broadcast, elements};
pub use spec::{AttrDefault, AttrSpec, OpSpec, Port, PortKind, Rule};
pub use table::{all, find};

use opkeep_descriptor::{Arg, AttrValue, Op, Tensor};

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
    /// [`OpsError`], the first mismatch.
    pub fn check(&self, op: &Op) -> Result<(), OpsError> {
        let expected = Call::of(op)?.infer()?;
        if op.outputs.len() != expected.len() {
            let (expected, found) = (expected.len(), op.outputs.len());
            return Err(OpsError::Count { op_type: self.op_type.into(), ports: "outputs", expected, found });
        }
        for ((port, output), expected) in self.outputs.iter().zip(&op.outputs).zip(&expected) {
            let found: Vec<&Tensor> = output.iter().collect();
            let grouped = matches!(output, Arg::Many(_)) == (port.kind == PortKind::Dynamic);
            if !grouped || found.len() != expected.len() {
                return Err(OpsError::Port {
                    op_type: self.op_type.into(),
                    port: "output",
                    name: port.name,
                    expected: port.kind.expected(),
                    found: found.len(),
                });
            }
            for (found, expected) in found.iter().zip(expected) {
                if (&found.dtype, &found.shape) != (&expected.dtype, &expected.shape) {
                    return Err(OpsError::Output {
                        op_type: self.op_type.into(),
                        name: port.name,
                        expected: format!("{} {:?}", expected.dtype, expected.shape),
                        found: format!("{} {:?}", found.dtype, found.shape),
                    });
                }
            }
        }
        Ok(())
    }

    /// The value of the attribute `name`, or its default.
    ///
    /// # Errors
    /// It is unknown, required but unset, or of another type.
    pub fn attr(&self, op: &Op, name: &str) -> Result<AttrValue, OpsError> {
        Call::of(op)?.attr(name)
    }
}

//! ONNX networks as graphs of Ascend IR operators.
//!
//! [`read`] reads a model's file, [`from_bytes`] the content of one, and both translate it: every tensor gets a shape,
//! every node becomes one or a few operators of [`opkeep_ops`], and values that are known are computed. [`operators`]
//! is the table of the supported operators. A model is translated completely, or all nodes that cannot be mapped are
//! reported at once. [`read_tensor`] reads a file of one tensor.
//!
//! - Files are not trusted: the memory for decoding is counted before it is used, and the properties of a tensor are
//!   checked against its elements.
//! - Weights are not copied: a constant stays in the single buffer of the file, or in the file beside it, until a
//!   caller reads it, and a uniform constant stays one value with a shape, whatever its size. Only small tensors, such as
//!   shapes and axes, are decoded.
//! - An operator that changes no element needs no kernel: reshapes and the like are views, and operators without an
//!   effect are left out, as are those that lead to no output.
//! - Results are those of ONNX; where the standard leaves a choice, those of ONNX Runtime.

mod dtype;
mod error;
mod fold;
mod fuzz;
mod load;
mod mapping;
mod model;
mod model_error;
mod node;
mod number;
mod opened;
mod sniff;
mod table;
mod tensor;
mod value;
mod wire;

pub use error::{ExternalError, NpyError, OnnxError, TensorError, TensorProblem};
#[doc(hidden)]
pub use fuzz::fuzz;
pub use load::{MAX_FILE_BYTES, from_bytes, read};
pub use model::contents::{Contents, NodeContents, contents};
pub use model::network::{Network, Options, ValueInfo};
pub use model::outline::{Declared, OperatorCount, Outline, outline};
pub use model_error::{ModelError, OpenDim, Problem};
pub use table::{Operator, operators};
pub use tensor::dense::Tensor;
pub use tensor::file::{read_tensor, write_npy};

//! ONNX networks as graphs of Ascend IR operators.
//!
//! [`read`] takes a model's file, [`from_bytes`] what is in one, and both translate it: every tensor gets a shape, every
//! node becomes an operator of [`opkeep_ops`] or a few, and what is known is computed on the way. Which operator
//! becomes what is one table, [`operators`]. A model either can be translated as a whole, or all nodes that cannot be
//! are reported at once. [`read_tensor`] takes a file of one tensor.
//!
//! - Files come from anywhere, so nothing in them is believed: what decoding takes is counted before it is taken, and
//!   what a tensor says of itself is checked against what is there.
//! - Weights are not touched: a constant stays in the one buffer that the file was read into, or in the file beside it,
//!   until a caller asks for it, and a constant of one value stays that value and a shape, however large it is. Only
//!   small ones, such as shapes and axes, are ever looked at.
//! - What changes no element makes no kernel: reshapes and the like are views, and what does nothing is left out, as is
//!   what leads to no output.
//! - Results are those of ONNX; where the standard leaves room, those of ONNX Runtime.

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
pub use model::network::{Network, Options, ValueInfo};
pub use model_error::{ModelError, OpenDim, Problem};
pub use table::{Operator, operators};
pub use tensor::dense::Tensor;
pub use tensor::file::{read_tensor, write_npy};

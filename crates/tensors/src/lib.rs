//! The inputs and outputs of a model that runs.
//!
//! [`input_buffers`] reads, parses or generates the value of every input, [`assign_files`] reads references for the
//! outputs, [`compare`] compares an output with its reference, and [`write_outputs`] writes the outputs.
//!
//! A tensor is described by an [`opkeep_onnx::ValueInfo`]: a name, an element type by its name in the operator table, such
//! as `float32`, and a static shape, outermost dimension first. Its elements are bytes in the machine's order, dense and
//! row-major; a bool is a byte, 0 or not 0.

mod compare;
mod element;
mod error;
mod inputs;
mod outputs;
mod random;
mod tolerance;

pub use compare::{Comparison, ElementErrors, WorstElement, compare};
pub use element::{Element, elements};
pub use error::{Role, TensorError};
pub use inputs::{AssignedFile, Fill, InputSources, assign_files, input_buffers};
pub use outputs::{summary, write_outputs};
pub use tolerance::Tolerance;

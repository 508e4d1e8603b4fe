//! What each ONNX operator becomes, by family.

pub(crate) mod constants;
pub(crate) mod conv;
pub(crate) mod conv_transpose;
pub(crate) mod elementwise;
pub(crate) mod matrix;
pub(crate) mod movement;
pub(crate) mod normalise;
pub(crate) mod pool;
pub(crate) mod reduce;
pub(crate) mod resize;
pub(crate) mod slice;
pub(crate) mod views;
mod window;

//! The mapping of each ONNX operator, by family.
//!
//! A node becomes the operators for which kernels are compiled, while the vendor's parser first creates intermediate
//! ones: BatchNormalization directly becomes `BNInfer`, global pooling `ReduceMean` or `ReduceMax`. `auto_pad` becomes
//! explicit pads. Dilated max pooling becomes `MaxPool3D`, since `MaxPoolV3` has no dilations.

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

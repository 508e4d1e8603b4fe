//! Models of a few nodes, and their operators. Expectations are worked out by hand from the ONNX and IR documents.

mod constants;
mod descriptors;
mod elementwise;
mod hostile;
mod images;
mod matrices;
mod model;
mod movement;
mod render;
mod structure;
mod views;
mod windows;

//! Translation of a model to a graph: its declared inputs and outputs, the order of its nodes, and each node.

pub(crate) mod contents;
pub(crate) mod declared;
pub(crate) mod functions;
pub(crate) mod network;
pub(crate) mod order;
pub(crate) mod outline;
pub(crate) mod translate;

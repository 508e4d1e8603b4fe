//! Whole networks: the requests of a graph, and runs of the network.

pub(crate) mod requests;
pub(crate) mod session;

//! Whole networks: the requests of a graph, and running it.

pub(crate) mod requests;
pub(crate) mod session;

//! What importing the toolkit takes, and how compiles are kept to it.

pub(crate) mod domain;
pub(crate) mod guards;
pub(crate) mod reach;
pub(crate) mod record;
pub(crate) mod sandbox;
pub(crate) mod toolkit_probe;
pub(crate) mod unkeyed;

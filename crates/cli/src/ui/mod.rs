//! What the command shares with its user and its environment.

pub(crate) mod env;
pub(crate) mod file_limit;
pub(crate) mod hints;
pub(crate) mod interrupt;
pub(crate) mod json;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod registry;
pub(crate) mod text;

//! Commands of real programs, run with a launcher.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "tests lay files and run programs over them")]

mod before;
#[path = "../common/mod.rs"]
mod common;
mod inputs;
mod links;
mod modes;
mod modules;
mod moved;
mod other_processes;
mod outputs;
mod places;
mod refused;
mod stores;
mod variables;

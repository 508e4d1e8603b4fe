//! Tests with a stand-in toolkit on disk, without running anything of it.

mod common;
mod find;
mod sources;
mod toolchain;

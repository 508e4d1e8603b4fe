//! Tests of what is read of a toolkit, without running anything of it.

mod common;
mod find;
mod prepare;
mod read;
mod sources;
mod toolchain;

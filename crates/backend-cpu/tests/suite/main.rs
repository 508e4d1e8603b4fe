//! Tests of the backend that need a C compiler and nothing else.

mod broadcast;
mod common;
mod kernels;
mod loader;
mod movement_and_reduction;
mod process;
mod questions;
mod supports;
mod toolchain;

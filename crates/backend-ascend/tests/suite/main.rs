//! Tests of the parts that run nothing of a toolkit.

mod common;
mod errors;
mod prepare;
mod read;

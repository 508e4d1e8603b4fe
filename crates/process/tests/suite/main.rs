//! Tests with real programs.

mod forks;
mod sandbox;

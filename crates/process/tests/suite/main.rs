//! Tests with real programs.

mod forks;
mod forwarding;
mod own;
mod sandbox;
mod writes;

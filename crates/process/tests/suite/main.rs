//! Tests with real programs.

mod forks;
mod forwarding;
mod sandbox;
mod writes;

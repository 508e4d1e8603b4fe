//! Tests with real programs.

mod forks;
mod forwarding;
mod own;
mod parents;
mod peers;
mod sandbox;
mod writes;

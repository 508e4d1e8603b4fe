//! Tests with real programs.

mod sandbox;

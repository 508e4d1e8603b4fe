//! The tests that need no C compiler: the header, and the library's names and numbers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
#[cfg(test)]
mod header;
#[cfg(test)]
mod library;

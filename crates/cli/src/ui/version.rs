//! The version of the command.

/// The version alone.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version, the commit if it is known, and the target: `0.1.0 (0123456789 2026-11-28, x86_64-unknown-linux-gnu)`.
pub(crate) const LONG_VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("BUILD_DETAILS"), ")");

//! The crate that is the Python package's wheel.

pub(crate) const CRATE: &str = "crates/python";
/// Its feature that gives its crates the features which they have in the tests: then those are built once for both.
pub(crate) const AS_IN_TESTS: &str = "as-in-tests";

//! The built libraries.

use std::path::PathBuf;

/// The directory in which cargo builds the libraries of this crate for its tests.
fn built() -> PathBuf {
    let mut program = std::env::current_exe().unwrap();
    program.pop();
    program
}

/// The shared library.
pub(crate) fn shared_library() -> PathBuf {
    built().join("libopkeep_capi.so")
}

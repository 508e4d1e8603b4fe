//! The built libraries.

use std::path::PathBuf;

/// A library that cargo built for the tests of this crate: `so` or `a`.
pub(crate) fn library(extension: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.with_file_name(format!("libopkeep_capi.{extension}"))
}

//! The result of a program that ended by itself.

use std::process::ExitStatus;

use crate::ending::ending;

/// A program that ended by itself.
#[derive(Debug)]
pub struct ProcessOutput {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to its outputs, both, bounded.
    pub output: String,
}

impl ProcessOutput {
    /// How it ended, and the limit that it met, if it met one.
    pub fn ending(&self) -> String {
        ending(self.status, &self.output)
    }
}

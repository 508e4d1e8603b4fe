//! The result of a program that was not killed.

use std::process::ExitStatus;

use crate::ending::ending;

/// The result of a program that was not killed.
#[derive(Debug)]
#[non_exhaustive]
pub struct ProcessOutput {
    /// Its exit status.
    pub status: ExitStatus,
    /// The text that it wrote to its two outputs, bounded.
    pub output: String,
}

impl ProcessOutput {
    /// Its status in words, with the limit of the system that it exceeded, if any.
    pub fn ending(&self) -> String {
        ending(self.status, &self.output)
    }
}

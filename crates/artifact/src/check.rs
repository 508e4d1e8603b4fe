//! A backend's own checks, for properties that no rule covers.

use std::fmt;

use crate::artifact::Artifact;
use crate::expectations::{CheckId, Expectations};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Information; genuine kernels have such findings.
    Note,
    /// Unusual: no known genuine kernel has it, but no specification forbids it.
    Warning,
    /// The kernel differs from its metadata, or its loader refuses it.
    Error,
}

impl Severity {
    /// The severity's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The input of a check.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CheckInput<'a> {
    /// The kernel.
    pub artifact: &'a Artifact,
    /// The expectations, with the parameters of the check.
    pub expectations: &'a Expectations,
}

impl<'a> CheckInput<'a> {
    /// The input for `artifact`, judged by `expectations`.
    pub fn new(artifact: &'a Artifact, expectations: &'a Expectations) -> Self {
        Self { artifact, expectations }
    }
}

/// A backend's own check. Its result must depend only on its input, since it also judges stored kernels on other
/// machines.
pub trait ArtifactCheck: Send + Sync {
    /// Its name and version. A check that rejects kernels which it accepted before needs a higher version.
    fn id(&self) -> CheckId;

    /// Calls `found` for each finding, with a sentence that states what was expected and what was found.
    fn check(&self, input: &CheckInput<'_>, found: &mut dyn FnMut(Severity, String));
}

//! Checks that a backend brings along, for what no rule describes.

use std::fmt;

use crate::artifact::Artifact;
use crate::expectations::{CheckId, Expectations};

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Good to know; genuine kernels have such.
    Note,
    /// No genuine kernel that was seen has such, but nothing says that none may.
    Warning,
    /// The kernel is not what its `.json` says, or its loader refuses it.
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

/// What a check is given.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CheckInput<'a> {
    /// The kernel.
    pub artifact: &'a Artifact,
    /// What is expected of it, with the parameters of the check.
    pub expectations: &'a Expectations,
}

impl<'a> CheckInput<'a> {
    /// A kernel, and what is expected of it.
    pub fn new(artifact: &'a Artifact, expectations: &'a Expectations) -> Self {
        Self { artifact, expectations }
    }
}

/// A check of a backend's own. It must depend on nothing but its input: it judges stored kernels on other machines, too.
pub trait ArtifactCheck: Send + Sync {
    /// Its name and version. A check that refuses what it accepted before has a higher version.
    fn id(&self) -> CheckId;

    /// Calls `found` for each thing that is wrong, or worth a note, with a sentence that says what was expected and found.
    fn check(&self, input: &CheckInput<'_>, found: &mut dyn FnMut(Severity, String));
}

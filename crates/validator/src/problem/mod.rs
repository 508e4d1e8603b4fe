//! What can be wrong with a kernel, or noteworthy.

mod description;
mod kernel;
mod object;

use opkeep_artifact::{CheckId, Severity};
use opkeep_cann_meta::{Lint, MetaError};
use thiserror::Error;

use crate::code::Code;
use crate::display::Bytes;

pub use description::DescriptionProblem;
pub use kernel::KernelProblem;
pub use object::ObjectProblem;

/// What was found, with what was expected. Text from files is cut short, and holds nothing that a terminal obeys.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// It is about the `.json`, or the files that belong to it.
    #[error(transparent)]
    Description(#[from] DescriptionProblem),
    /// It is about the object as a file.
    #[error(transparent)]
    Object(#[from] ObjectProblem),
    /// It is about the kernels in the object.
    #[error(transparent)]
    Kernel(#[from] KernelProblem),
    /// Two parsers differ.
    #[error("two parsers disagree on {what}: `object` sees {object}, `goblin` sees {goblin}")]
    Disagree {
        /// The first fact in which they differ.
        what: &'static str,
        /// The fact according to `object`.
        object: String,
        /// The fact according to `goblin`.
        goblin: String,
    },
    /// The second parser gives up.
    #[error("`goblin` cannot read the object: {problem}")]
    SecondParser {
        /// What it says.
        problem: String,
    },
    /// The object begins with other bytes.
    #[error("the object for {target} should begin with {}, found {}", Bytes(expected), Bytes(found))]
    OpaqueStart {
        /// The target.
        target: String,
        /// How its objects begin.
        expected: Vec<u8>,
        /// How this one begins.
        found: Vec<u8>,
    },
    /// The object is too long.
    #[error("the object has {found} bytes, one for {target} at most {expected}")]
    TooLong {
        /// The target.
        target: String,
        /// How many bytes it may have.
        expected: u64,
        /// How many it has.
        found: u64,
    },
    /// A check of a backend's own found something.
    #[error("{check}: {message}")]
    Check {
        /// The check.
        check: CheckId,
        /// How much it weighs.
        severity: Severity,
        /// What it says.
        message: String,
    },
    /// A check of a backend's own is not known here.
    #[error("not checked by {check}, which is not known here")]
    Unverified {
        /// The check.
        check: CheckId,
    },
    /// CANN's graph engine would refuse the `.json`.
    #[error("{0}")]
    FeRefuses(Lint),
    /// CANN's graph engine would take the `.json`, but not as it is meant.
    #[error("{0}")]
    FeLint(Lint),
    /// MindSpore would refuse or ignore something.
    #[error("{0}")]
    MindsporeLint(Lint),
}

impl From<MetaError> for Problem {
    fn from(error: MetaError) -> Self {
        Self::Description(error.into())
    }
}

impl Problem {
    /// The problem's code.
    pub const fn code(&self) -> Code {
        match self {
            Self::Description(problem) => problem.code(),
            Self::Object(problem) => problem.code(),
            Self::Kernel(problem) => problem.code(),
            Self::Disagree { .. } => Code::DISAGREE,
            Self::SecondParser { .. } => Code::SECOND_PARSER,
            Self::OpaqueStart { .. } => Code::OPAQUE_START,
            Self::TooLong { .. } => Code::TOO_LONG,
            Self::Check { severity: Severity::Error, .. } => Code::CHECK_REFUSES,
            Self::Check { severity: Severity::Warning, .. } => Code::CHECK_DOUBTS,
            Self::Check { .. } => Code::CHECK_NOTE,
            Self::Unverified { .. } => Code::UNVERIFIED,
            Self::FeRefuses(_) => Code::FE_REFUSES,
            Self::FeLint(_) => Code::FE_LINT,
            Self::MindsporeLint(_) => Code::MINDSPORE_LINT,
        }
    }
}

#[cfg(test)]
mod tests;

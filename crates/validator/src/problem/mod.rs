//! Problems of a kernel.

mod description;
mod kernel;
mod object;

use opkeep_artifact::{CheckId, Severity};
use opkeep_cann_meta::{Lint, MetaError};
use opkeep_text::counted;
use thiserror::Error;

use crate::code::Code;
use crate::display::Bytes;

pub use description::DescriptionProblem;
pub use kernel::KernelProblem;
pub use object::ObjectProblem;

/// A problem: the value found, and the expected value. Text from files is truncated and has no control characters.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// A problem of the `.json`, or of the files that belong to it.
    #[error(transparent)]
    Description(#[from] DescriptionProblem),
    /// A problem of the object as a file.
    #[error(transparent)]
    Object(#[from] ObjectProblem),
    /// A problem of the kernels in the object.
    #[error(transparent)]
    Kernel(#[from] KernelProblem),
    /// Two parsers differ.
    #[error("two parsers disagree on {fact}: `object` sees {object}, `goblin` sees {goblin}")]
    Disagree {
        /// The first fact in which they differ.
        fact: &'static str,
        /// `object`'s value.
        object: String,
        /// `goblin`'s value.
        goblin: String,
    },
    /// The second parser cannot read the object.
    #[error("`goblin` cannot read the object: {problem}")]
    SecondParser {
        /// Its error.
        problem: String,
    },
    /// The object begins with other bytes than expected.
    #[error("the object for {target} should begin with {}, found {}", Bytes(expected), Bytes(found))]
    OpaqueStart {
        /// The target.
        target: String,
        /// The first bytes of its objects.
        expected: Vec<u8>,
        /// The first bytes of this object.
        found: Vec<u8>,
    },
    /// The object exceeds the size limit.
    #[error("the object has {found}, one for {target} at most {expected}", found = counted(*.found, "byte"))]
    TooLong {
        /// The target.
        target: String,
        /// The limit in bytes.
        expected: u64,
        /// The object's size in bytes.
        found: u64,
    },
    /// A finding of a backend's own check.
    #[error("{check}: {message}")]
    Check {
        /// The check.
        check: CheckId,
        /// Its severity.
        severity: Severity,
        /// Its message.
        message: String,
    },
    /// A backend's own check is not available.
    #[error("not checked by {check}, which is not available")]
    Unverified {
        /// The check.
        check: CheckId,
    },
    /// CANN's graph engine would refuse the `.json`.
    #[error("{0}")]
    FeRefuses(Lint),
    /// CANN's graph engine would ignore or misread a part of the `.json`.
    #[error("{0}")]
    FeLint(Lint),
    /// MindSpore would refuse, ignore or misread a part of the `.json`.
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
            Self::Check { severity: Severity::Warning, .. } => Code::CHECK_WARNS,
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

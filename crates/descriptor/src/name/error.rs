//! The reasons why a descriptor has no name.

use opkeep_text::counted;
use thiserror::Error;

use crate::model::generation::Generation;
use crate::name::kernel::KernelName;
use crate::nlohmann::dump::TooGreat;

/// The reason why a generation has no name for a descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NameError {
    /// A job of another compiler: AKG names no jobs of MindSpore, and MindSpore none of AKG.
    #[error("{generation} has no name for this: the job is one of another compiler")]
    OtherCompiler {
        /// The requested generation.
        generation: Generation,
    },
    /// Descriptors of r1.2 and older hold one operator.
    #[error(
        "{generation} has no name for this: the job has {ops}, and its files hold one",
        ops = counted(*.ops, "operator")
    )]
    Operators {
        /// The requested generation.
        generation: Generation,
        /// Operators in the job.
        ops: usize,
    },
    /// The descriptor's generation spells a field differently, and the requested generation's spelling is unknown.
    #[error("the name that {generation} gives is not known: how it writes {what} is not documented")]
    Spelling {
        /// The requested generation.
        generation: Generation,
        /// The field with the unknown spelling.
        what: &'static str,
    },
    /// Names since r2.1 hash the device and its directories.
    #[error(
        "the name that {generation} gives on device {asked} is not known: it hashes the device and its directories, and \
         the descriptor states those of device {stated}"
    )]
    OtherDevice {
        /// The requested generation.
        generation: Generation,
        /// The device in the descriptor, truncated to 80 characters.
        stated: String,
        /// The requested device.
        asked: u32,
    },
    /// The name hashes a field that the descriptor lacks.
    #[error(
        "the name that {generation} gives is not known: it needs {what}, which the descriptor does not state"
    )]
    Unstated {
        /// The requested generation.
        generation: Generation,
        /// The missing field.
        what: &'static str,
    },
    /// Names of r1.2 and older begin with the operator's type.
    #[error(
        "the name begins with the operator's type, which files of r1.0 and r1.1 do not state; the number in it is \
         {number}"
    )]
    NoType {
        /// The hash in the name.
        number: u64,
    },
    /// The name contains characters that no file name of a kernel has.
    #[error(
        "`{name}` is no name of a kernel: expected letters, digits and underscores, at most {} of them",
        KernelName::MAX_VENDOR_BYTES
    )]
    NotAName {
        /// The name, truncated to 80 characters.
        name: String,
    },
    /// A number that the vendor's JSON library cannot read.
    #[error("the descriptor has the number {token}, which MindSpore cannot read")]
    Number {
        /// The number, truncated to 80 characters.
        token: String,
    },
}

impl From<TooGreat> for NameError {
    fn from(TooGreat(token): TooGreat) -> Self {
        Self::Number { token }
    }
}

impl NameError {
    pub(crate) fn not_a_name(name: &str) -> Self {
        Self::NotAName { name: name.chars().take(80).collect() }
    }
}

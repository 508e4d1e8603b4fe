//! Why there is no name.

use thiserror::Error;

use crate::model::generation::Generation;
use crate::name::kernel::KernelName;
use crate::nlohmann::dump::TooGreat;

/// Why a generation has no name for a descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// AKG does not name MindSpore's jobs, nor MindSpore those of AKG.
    #[error("{generation} has no name for this: the job is one of another compiler")]
    OtherCompiler {
        /// Whose name was asked for.
        generation: Generation,
    },
    /// Descriptors of r1.2 and older hold one operator.
    #[error("{generation} has no name for this: the job has {ops} operators, and its files hold one")]
    Operators {
        /// Whose name was asked for.
        generation: Generation,
        /// Operators in the job.
        ops: usize,
    },
    /// The descriptor is of a generation that spells something otherwise, and it is not known how this one spells it.
    #[error("the name that {generation} gives is not known: how it writes {what} is not documented")]
    Spelling {
        /// Whose name was asked for.
        generation: Generation,
        /// What cannot be spelled.
        what: &'static str,
    },
    /// Names since r2.1 hash the device and its folders.
    #[error(
        "the name that {generation} gives on device {asked} is not known: it hashes the device and its folders, and \
         the descriptor says those of device {said}"
    )]
    OtherDevice {
        /// Whose name was asked for.
        generation: Generation,
        /// The device that the descriptor says, cut to 80 characters.
        said: String,
        /// For which device it was asked for.
        asked: u32,
    },
    /// The name hashes what the descriptor does not say.
    #[error(
        "the name that {generation} gives is not known: it needs {what}, which the descriptor does not say"
    )]
    Unsaid {
        /// Whose name was asked for.
        generation: Generation,
        /// What is not said.
        what: &'static str,
    },
    /// Names of r1.2 and older begin with the operator's type.
    #[error(
        "the name begins with the operator's type, which files of r1.0 and r1.1 do not say; the number in it is \
         {number}"
    )]
    NoType {
        /// The hash in the name.
        number: u64,
    },
    /// The words of the name are no words: it could be none of a file.
    #[error(
        "`{name}` is no name of a kernel: expected letters, digits and underscores, at most {} of them",
        KernelName::MAX_VENDOR_BYTES
    )]
    NotAName {
        /// The name, cut to 80 characters.
        name: String,
    },
    /// A number that the vendor's JSON library refuses.
    #[error("the descriptor has the number {token}, which MindSpore cannot read")]
    Number {
        /// The number, cut to 80 characters.
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

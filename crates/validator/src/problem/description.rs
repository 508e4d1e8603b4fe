//! Problems of the `.json`, and of the files that belong to it.

use opkeep_cann_meta::{Magic, MetaError};
use opkeep_digest::Digest;
use thiserror::Error;

use crate::code::Code;
use crate::display::list;

/// What is wrong with a description, or noteworthy.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum DescriptionProblem {
    /// The `.json` is torn, or one of its fields has a wrong type.
    #[error(transparent)]
    Json(#[from] MetaError),
    /// A field of the `.json` holds another value than every producer writes.
    #[error("field `{field}`: expected {expected}, found `{found}`")]
    Field {
        /// The field.
        field: &'static str,
        /// What may stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// The `.json` lacks a field.
    #[error("field `{field}` is missing")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A field occurs more than once.
    #[error("field `{place}` occurs more than once; the last was taken")]
    Repeated {
        /// The field, such as `kernelList[0].tilingKey`.
        place: String,
    },
    /// A field holds what says nothing.
    #[error("field `{field}`: expected {expected}, found {found}; it was passed over")]
    OddValue {
        /// The field.
        field: &'static str,
        /// What may stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// Two items of `kernelList` have one name.
    #[error("field `kernelList`: expected each kernel once, found `{kernel}` again")]
    ListedTwice {
        /// The kernel.
        kernel: String,
    },
    /// A name in the `.json` would leave its folder, or hide in it.
    #[error(
        "field `{field}`: expected a file name out of letters, digits, `_`, `.` and `-`, with its suffix of at most 255 \
         characters, found `{found}`"
    )]
    UnsafeName {
        /// The field.
        field: &'static str,
        /// What stands there.
        found: String,
    },
    /// The object is not the one that the `.json` describes.
    #[error("field `{field}`: the `.json` says {expected}, the object has {found}")]
    Sha256 {
        /// The field: `sha256`, or `objSha256` for the relocatable object of AKG.
        field: &'static str,
        /// The digest in the `.json`.
        expected: Digest,
        /// The object's digest.
        found: Digest,
    },
    /// The target's loader does not take this kind of binary.
    #[error("field `magic`: {target} expects {}, found {found}", list(.expected))]
    Magic {
        /// The target.
        target: String,
        /// What it takes.
        expected: Vec<Magic>,
        /// What stands there.
        found: Magic,
    },
    /// A CPU kernel of AKG has no magic.
    #[error("field `magic` is missing, as in all that AKG writes for CPUs")]
    NoMagic,
    /// The magic is not the one that CANN gives to kernels for such cores.
    #[error("field `magic`: {magic} does not go with {with}")]
    MagicMisfit {
        /// The magic.
        magic: Magic,
        /// What it does not go with: `coreType VectorCore`, `kernel type AIV of a`.
        with: String,
    },
    /// Both spellings of the core type are there and differ.
    #[error("field `coreType` is `{core_type}`, but `core_type` is `{other}`")]
    CoreTypes {
        /// `coreType`.
        core_type: String,
        /// `core_type`.
        other: String,
    },
    /// The common name is not the beginning of the listed ones.
    #[error("field `kernelName`: expected the beginning of `{kernel}` in `kernelList`, found {found}")]
    BaseName {
        /// What stands there.
        found: String,
        /// The first listed name that begins otherwise.
        kernel: String,
    },
    /// The kind of core is none that a compiler writes.
    #[error("field `{field}`: expected a kind of core such as VectorCore, found `{found}`")]
    UnknownCore {
        /// `coreType` or `core_type`.
        field: &'static str,
        /// What stands there.
        found: String,
    },
    /// A field is missing that the compilers for the object's chip write.
    #[error("field `{field}` is missing: {reader}")]
    Unsaid {
        /// The field.
        field: &'static str,
        /// What its readers do without it.
        reader: &'static str,
        /// Whether all kernels like this one have it.
        always: bool,
    },
    /// Kernels are not called after the file.
    #[error("field `binFileName` is `{bin_file_name}`, but the kernel is called `{kernel}`")]
    BinName {
        /// `binFileName`.
        bin_file_name: String,
        /// `kernelName`, or the first name of the list.
        kernel: String,
    },
    /// The file is not called as the `.json` says.
    #[error("the file is called `{found}`, but the `.json` says `{expected}`")]
    FileName {
        /// What the `.json` says.
        expected: String,
        /// The file's name.
        found: String,
    },
    /// A `.json` without an object.
    #[error("expected the object beside the `.json` as {expected}, found none")]
    NoObject {
        /// The names that were looked for.
        expected: String,
    },
    /// An object without a `.json`.
    #[error("no `.json` stands beside the object")]
    Alone,
    /// A further kernel is absent, unreadable or wrong: a part of a master, or a twin.
    #[error("the part `{part}` cannot be taken: {problem}")]
    Part {
        /// The part's file.
        part: String,
        /// Why not.
        problem: String,
    },
}

impl DescriptionProblem {
    /// The code.
    pub const fn code(&self) -> Code {
        match self {
            Self::Json(MetaError::Json { .. } | MetaError::TooLarge { .. }) => Code::JSON,
            Self::Json(_) | Self::Field { .. } => Code::FIELD,
            Self::Missing { .. } => Code::MISSING,
            Self::Repeated { .. } => Code::REPEATED,
            Self::OddValue { .. } => Code::ODD_VALUE,
            Self::ListedTwice { .. } => Code::LISTED_TWICE,
            Self::UnsafeName { .. } => Code::UNSAFE_NAME,
            Self::Sha256 { .. } => Code::SHA256,
            Self::Magic { .. } => Code::MAGIC,
            Self::NoMagic => Code::NO_MAGIC,
            Self::MagicMisfit { .. } => Code::MAGIC_MISFIT,
            Self::CoreTypes { .. } => Code::CORE_TYPES,
            Self::BaseName { .. } => Code::BASE_NAME,
            Self::UnknownCore { .. } => Code::UNKNOWN_CORE,
            Self::Unsaid { always: true, .. } => Code::UNSAID,
            Self::Unsaid { .. } => Code::MAY_BE_UNSAID,
            Self::BinName { .. } => Code::BIN_NAME,
            Self::FileName { .. } => Code::FILE_NAME,
            Self::NoObject { .. } => Code::NO_OBJECT,
            Self::Alone => Code::ALONE,
            Self::Part { .. } => Code::PART,
        }
    }
}

//! Problems of the `.json`, and of the files that belong to it.

use opkeep_cann_meta::{Magic, MetaError};
use opkeep_digest::Digest;
use thiserror::Error;

use crate::code::Code;
use crate::display::list;

/// A problem of a description.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum DescriptionProblem {
    /// The `.json` is truncated, or one of its fields has a wrong type.
    #[error(transparent)]
    Json(#[from] MetaError),
    /// A field of the `.json` has a value that no producer writes.
    #[error("field `{field}`: expected {expected}, found `{found}`")]
    Field {
        /// The field.
        field: &'static str,
        /// The expected value.
        expected: &'static str,
        /// The value found.
        found: String,
    },
    /// The `.json` lacks a field.
    #[error("field `{field}` is missing")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// The field that names the kernel is missing, or no name.
    #[error("field `{field}`: expected the kernel's name, found {}", .found.as_deref().unwrap_or("no such field"))]
    KernelName {
        /// The field.
        field: String,
        /// The value found.
        found: Option<String>,
    },
    /// A field occurs more than once.
    #[error("field `{place}` occurs more than once; the last was taken")]
    Repeated {
        /// The field, such as `kernelList[0].tilingKey`.
        place: String,
    },
    /// A field has a value without meaning.
    #[error("field `{field}`: expected {expected}, found {found}; it was ignored")]
    IgnoredValue {
        /// The field.
        field: &'static str,
        /// The expected value.
        expected: &'static str,
        /// The value found.
        found: String,
    },
    /// Two items of `kernelList` have one name.
    #[error("field `kernelList`: expected each kernel once, found `{kernel}` again")]
    ListedTwice {
        /// The kernel.
        kernel: String,
    },
    /// A name in the `.json` leaves its directory, or is hidden in it.
    #[error(
        "field `{field}`: expected a file name of letters, digits, `_`, `.` and `-`, with its suffix of at most 255 \
         characters, found `{found}`"
    )]
    UnsafeName {
        /// The field.
        field: &'static str,
        /// The value found.
        found: String,
    },
    /// The object is not the one that the `.json` describes.
    #[error("field `{field}`: the `.json` states {expected}, the object has {found}")]
    Sha256 {
        /// The field: `sha256`, or `objSha256` for the relocatable object of AKG.
        field: &'static str,
        /// The digest in the `.json`.
        expected: Digest,
        /// The object's digest.
        found: Digest,
    },
    /// The target's loader does not accept this kind of binary.
    #[error("field `magic`: {target} expects {}, found {found}", list(.expected))]
    Magic {
        /// The target.
        target: String,
        /// The values that it accepts.
        expected: Vec<Magic>,
        /// The value found.
        found: Magic,
    },
    /// A CPU kernel of AKG has no magic.
    #[error("field `magic` is missing, as in all CPU kernels of AKG")]
    NoMagic,
    /// CANN gives another magic to kernels for such cores.
    #[error("field `magic`: {magic} does not match {with}")]
    MagicMisfit {
        /// The magic.
        magic: Magic,
        /// The statement that it does not match: `coreType VectorCore`, `kernel type AIV of a`.
        with: String,
    },
    /// `coreType` and `core_type` differ.
    #[error("field `coreType` is `{core_type}`, but `core_type` is `{other}`")]
    CoreTypes {
        /// `coreType`.
        core_type: String,
        /// `core_type`.
        other: String,
    },
    /// `kernelName` is not the beginning of the listed names.
    #[error("field `kernelName`: expected the beginning of `{kernel}` in `kernelList`, found {found}")]
    BaseName {
        /// The value found.
        found: String,
        /// The first listed name with another beginning.
        kernel: String,
    },
    /// A kind of core that no compiler writes.
    #[error("field `{field}`: expected a kind of core such as VectorCore, found `{found}`")]
    UnknownCore {
        /// `coreType` or `core_type`.
        field: &'static str,
        /// The value found.
        found: String,
    },
    /// A missing field that the compilers for the object's chip write.
    #[error("field `{field}` is missing: {reader}")]
    LacksField {
        /// The field.
        field: &'static str,
        /// The behaviour of readers without it.
        reader: &'static str,
        /// Whether all kernels like this one have it.
        always: bool,
    },
    /// The kernels are not named after the file.
    #[error("field `binFileName` is `{bin_file_name}`, but the kernel is named `{kernel}`")]
    BinName {
        /// `binFileName`.
        bin_file_name: String,
        /// `kernelName`, or the first name of the list.
        kernel: String,
    },
    /// The file's name differs from that in the `.json`.
    #[error("the file is named `{found}`, but the `.json` states `{expected}`")]
    FileName {
        /// The name in the `.json`.
        expected: String,
        /// The file's name.
        found: String,
    },
    /// A `.json` without an object.
    #[error("expected the object of the `.json` as {expected}, found none")]
    NoObject {
        /// The expected names.
        expected: String,
    },
    /// An object without a `.json`.
    #[error("the `.json` of the object is missing")]
    NoJson,
    /// A part of a master or a deterministic variant is missing, unreadable or wrong.
    #[error("the part `{part}` cannot be used: {problem}")]
    Part {
        /// The part's file.
        part: String,
        /// The reason.
        problem: String,
    },
}

impl DescriptionProblem {
    /// Metadata without a CANN description that are not JSON.
    pub(crate) fn no_json(error: &serde_json::Error) -> Self {
        Self::Field { field: "description", expected: "JSON", found: error.to_string() }
    }

    /// The code.
    pub const fn code(&self) -> Code {
        match self {
            Self::Json(MetaError::Json { .. } | MetaError::TooLarge { .. }) => Code::JSON,
            Self::Missing { .. } | Self::KernelName { found: None, .. } => Code::MISSING,
            Self::Json(_) | Self::Field { .. } | Self::KernelName { .. } => Code::FIELD,
            Self::Repeated { .. } => Code::REPEATED,
            Self::IgnoredValue { .. } => Code::IGNORED_VALUE,
            Self::ListedTwice { .. } => Code::LISTED_TWICE,
            Self::UnsafeName { .. } => Code::UNSAFE_NAME,
            Self::Sha256 { .. } => Code::SHA256,
            Self::Magic { .. } => Code::MAGIC,
            Self::NoMagic => Code::NO_MAGIC,
            Self::MagicMisfit { .. } => Code::MAGIC_MISFIT,
            Self::CoreTypes { .. } => Code::CORE_TYPES,
            Self::BaseName { .. } => Code::BASE_NAME,
            Self::UnknownCore { .. } => Code::UNKNOWN_CORE,
            Self::LacksField { always: true, .. } => Code::LACKS_FIELD,
            Self::LacksField { .. } => Code::MAY_LACK_FIELD,
            Self::BinName { .. } => Code::BIN_NAME,
            Self::FileName { .. } => Code::FILE_NAME,
            Self::NoObject { .. } => Code::NO_OBJECT,
            Self::NoJson => Code::NO_JSON,
            Self::Part { .. } => Code::PART,
        }
    }
}

//! The items of a cache, and the findings about them.

use std::borrow::Cow;
use std::fmt;

use opkeep_cann_meta::{Lint, unjudged};
use opkeep_digest::Digest;
use opkeep_validator::Finding;

use crate::scan::chip::{Chip, OtherChip};
use opkeep_cann_meta::file_names::FileSet;
use opkeep_fs::FileState;
use opkeep_kernel_meta::InUse;

/// An item of a cache, with the findings about it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Item {
    /// Its kind.
    pub kind: ItemKind,
    /// The kernel's stem, or the file's name.
    pub name: String,
    /// The subdirectory of the cache that it is in, such as `tbe_prebuild_res`; mostly none.
    pub below: Option<&'static str>,
    /// Its state.
    pub state: ItemState,
    /// Its use by another process, so that its state may be temporary.
    pub in_use: Option<InUse>,
    /// The framework's reaction to it.
    pub behavior: FrameworkBehavior,
    /// Remarks that are no fault.
    pub notes: Vec<Note>,
    /// The kernel, if it is intact.
    pub kernel: Option<Kernel>,
    /// The facts about the chip of a kernel that was read.
    pub(crate) chip: Option<Chip>,
    pub(crate) members: FileSet,
    /// The object, if its name is not made of the stem.
    pub(crate) object: Option<Box<str>>,
    /// All files that its `.json` names and whose names are not made of the stem, existing or not.
    pub(crate) named: Vec<Box<str>>,
    /// Its `.json` was read, so the files that it names are known.
    pub(crate) is_read: bool,
    /// The files of an item that is not intact, in the state in which they were judged.
    pub(crate) judged: Vec<(String, Option<FileState>)>,
}

/// The kinds of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ItemKind {
    /// A kernel: those of `.json`, object and descriptor that exist.
    Kernel,
    /// The result of a precompile: CANN's `_pre.json`, MindSpore's `tbe_prebuild_res/*.json`.
    Precompile,
    /// A temporary file.
    Temp,
    /// A lock file.
    Lock,
    /// A `.json` that describes no kernel.
    OtherJson,
}

/// The state of an item.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ItemState {
    /// It is valid.
    Intact,
    /// It is invalid.
    Damaged(Vec<ItemProblem>),
    /// It is the remains of a kernel.
    Orphan(Orphan),
    /// It is a valid kernel for another chip than the one that is named beside it.
    OtherChip(OtherChip),
    /// It changed each time it was read.
    Changing,
    /// A file of it could not be read.
    Unreadable {
        /// The file.
        file: String,
        /// The error of the system.
        problem: String,
    },
}

/// Why a name in a `.json` is not followed.
pub(crate) const UNSAFE_NAME: &str =
    "such a name may leave the directory; expected letters, digits, `_`, `.` and `-`";

/// A problem of a damaged item.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ItemProblem {
    /// The `.json` is empty, as after a power cut.
    EmptyJson,
    /// The `.json` is cut off, or no JSON.
    TornJson {
        /// The position and the text there.
        problem: String,
    },
    /// The `.json` is complete, and no compiler writes such a value of this field.
    Field {
        /// The field, such as `workspace.size[1]`.
        field: String,
        /// The value, and the expected one.
        problem: String,
    },
    /// The object that the `.json` describes is missing.
    NoObject {
        /// The names of the object.
        expected: String,
    },
    /// A name in the `.json` may lead out of the directory.
    UnsafeName {
        /// The name, or its beginning.
        name: String,
    },
    /// A part that a master names is missing or damaged.
    Part {
        /// Its file.
        part: String,
        /// The problem.
        problem: String,
    },
    /// A file is larger than any genuine one.
    TooLarge {
        /// The file.
        file: String,
        /// Its bytes.
        bytes: u64,
    },
    /// The `.json` is that of another kernel: it describes the other object, although one of its own name exists.
    JsonOfOtherKernel {
        /// The other's object.
        object: String,
    },
    /// The library that contains the kernel is invalid or cut off.
    BrokenLibrary {
        /// The problem.
        problem: String,
    },
    /// The `.json` has no digest, and CANN loads no kernel without one.
    NoDigest,
    /// A directory or pipe has the name of a file.
    NotAFile {
        /// Its name.
        file: String,
    },
    /// The validator refuses the pair.
    Invalid(Finding),
}

/// The remains of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Orphan {
    /// A descriptor alone: the compile was interrupted before it wrote anything.
    InfoOnly,
    /// An object without its `.json`.
    ObjectOnly,
    /// A header without its `.json`.
    HeaderOnly,
    /// A temporary file that its writer left.
    Temp,
    /// The lock of a missing kernel.
    StaleLock,
}

/// The framework's reaction to an item.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameworkBehavior {
    /// In a word.
    pub effect: Effect,
    /// In a sentence, with the framework's name.
    pub text: Cow<'static, str>,
}

/// The effect of an item in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// The framework uses it.
    Used,
    /// Unknown, since it cannot be read.
    Unknown,
    /// The framework ignores it, without a loss.
    Ignored,
    /// The kernel is compiled again, once.
    CompiledAgain,
    /// The kernel is compiled again by each process, and never kept.
    RecompiledEveryTime,
    /// It is loaded, and fails when it is launched or registered.
    FailsLater,
    /// The framework aborts, with any network.
    Aborts,
}

/// A remark about an item that is no fault.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// The file and the kernel in it have different names: valid in several generations.
    KernelName {
        /// The name in the `.json`.
        kernel_name: String,
    },
    /// The name does not follow from the descriptor: of r1.0 to r1.2, or renamed.
    DescriptorName {
        /// The name that results from the descriptor, if there is one.
        expected: Option<String>,
    },
    /// MindSpore never reads files with `_loc` or `_compute` in their names.
    Skipped,
    /// The descriptor beside a kernel is damaged; no framework reads it.
    DamagedDescriptor {
        /// The problem.
        problem: String,
    },
    /// The object is a library of the host that CANN loads for the kernel. Only its completeness is known.
    Library {
        /// The digest in the `.json` is that of the library, not of its content.
        is_its_own: bool,
    },
    /// It is for another chip than most others in its directory, as its descriptor says.
    OtherChip(OtherChip),
    /// It is for another chip than its descriptor says, and a [`View`](opkeep_kernel_meta::View) wrote it, as requested.
    OwnOtherChip(OtherChip),
    /// Its descriptor or its directory names an unknown chip.
    UnknownChip {
        /// The name.
        chip: String,
    },
    /// The object beside AKG's library is not the one that the library was linked from. No framework reads it.
    OtherObject,
    /// A remark of the validator that is no error.
    Finding(Finding),
    /// The reaction of a vendor's reader to a field.
    Lint(Lint),
}

/// An intact kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// SHA-256 of its object.
    pub sha256: Digest,
    /// The size of all files that were read.
    pub bytes: u64,
}

impl Item {
    /// The names of its files.
    pub fn files(&self) -> Vec<String> {
        self.members.names(&self.name).chain(self.object.as_deref().map(str::to_owned)).collect()
    }

    /// Whether it is invalid, and no process uses it.
    pub fn is_finding(&self) -> bool {
        let is_wrong =
            matches!(self.state, ItemState::Damaged(_) | ItemState::Orphan(_) | ItemState::OtherChip(_));
        self.in_use.is_none() && is_wrong
    }

    /// Whether a repair would quarantine it: a kernel for another chip is not damaged.
    pub fn is_repairable(&self) -> bool {
        self.is_finding() && !matches!(self.state, ItemState::OtherChip(_))
    }

    /// The name of its state: `intact`, `damaged`, `orphan`, `other chip`, `in progress`, `in use`, `unreadable`.
    pub fn state_name(&self) -> &'static str {
        match (&self.state, self.in_use) {
            (ItemState::Intact, _) => "intact",
            (ItemState::Changing, _) => "in use",
            (ItemState::OtherChip(_), _) => "other chip",
            (ItemState::Unreadable { .. }, _) => "unreadable",
            (_, Some(_)) => "in progress",
            (ItemState::Damaged(_), None) => "damaged",
            (ItemState::Orphan(_), None) => "orphan",
        }
    }
}

impl fmt::Display for ItemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kernel => "kernel",
            Self::Precompile => "trial compile",
            Self::Temp => "temporary file",
            Self::Lock => "lock file",
            Self::OtherJson => "record",
        })
    }
}

impl fmt::Display for ItemProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyJson => f.write_str("the .json is empty"),
            Self::TornJson { problem } => write!(f, "the .json is cut off or damaged: {problem}"),
            Self::Field { field: _, problem } => f.write_str(problem),
            Self::NoObject { expected } => write!(f, "the object is missing: expected {expected}"),
            Self::UnsafeName { name } => {
                write!(f, "the .json names `{name}`: {UNSAFE_NAME}")
            }
            Self::Part { part, problem } => write!(f, "its part `{part}`: {problem}"),
            Self::TooLarge { file, bytes } => {
                write!(f, "`{file}` has {bytes} bytes, more than any genuine one")
            }
            Self::NotAFile { file } => write!(f, "`{file}` is no regular file"),
            Self::JsonOfOtherKernel { object } => write!(
                f,
                "the .json is another kernel's: it describes `{object}`, though an object of its own name is there"
            ),
            Self::BrokenLibrary { problem } => write!(f, "the library is damaged: {problem}"),
            Self::NoDigest => f.write_str("the .json says no sha256"),
            Self::Invalid(finding) => write!(f, "{finding}"),
        }
    }
}

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InfoOnly => "a descriptor alone: the compile was interrupted before it wrote anything",
            Self::ObjectOnly => {
                "an object without its .json: the compile was interrupted, or the .json deleted"
            }
            Self::HeaderOnly => "a header without its .json",
            Self::Temp => "a temporary file that its writer did not rename",
            Self::StaleLock => "the lock of a kernel that is missing, with no holder",
        })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KernelName { kernel_name } => write!(
                f,
                "the kernel in it is called `{kernel_name}`: legitimate, since frameworks find a kernel by its \
                 file and launch it by that name"
            ),
            Self::DescriptorName { expected: Some(expected) } => {
                write!(f, "its descriptor would be called `{expected}`: renamed, or of another generation")
            }
            Self::DescriptorName { expected: None } => {
                f.write_str("its name does not follow from its descriptor: renamed, or of another generation")
            }
            Self::Skipped => f.write_str(
                "MindSpore never reads names with `_loc` or `_compute` in them: it compiles this anew",
            ),
            Self::DamagedDescriptor { problem } => {
                write!(f, "its descriptor is damaged, which no program reads: {problem}")
            }
            Self::Library { is_its_own: true } => f.write_str(
                "its object is a library that CANN asks for the kernel: the library is intact, and what is inside was \
                 not checked",
            ),
            Self::Library { is_its_own: false } => f.write_str(
                "its object is a library that CANN asks for the kernel: the digest may be that of what is inside, \
                 which was not checked",
            ),
            Self::OtherChip(other) => write!(f, "{other}; its descriptor says so, too"),
            Self::UnknownChip { chip } => f.write_str(&unjudged(chip)),
            Self::OwnOtherChip(other) => write!(f, "{other}; opkeep was asked to put it there"),
            Self::OtherObject => f.write_str(
                "the object beside the library is not the one that it was linked from; no program reads it",
            ),
            Self::Finding(finding) => write!(f, "{finding}"),
            Self::Lint(lint) => write!(f, "{lint}"),
        }
    }
}

impl Effect {
    /// The effect's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Unknown => "unknown",
            Self::Ignored => "ignored",
            Self::CompiledAgain => "compiled-again",
            Self::RecompiledEveryTime => "blocks",
            Self::FailsLater => "fails-later",
            Self::Aborts => "aborts",
        }
    }
}

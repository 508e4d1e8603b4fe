//! The items of a cache, and the findings about them.

use std::borrow::Cow;
use std::fmt;

use opkeep_cann_meta::{Lint, unjudged};
use opkeep_digest::Digest;
use opkeep_text::counted;
use opkeep_validator::Finding;

use crate::scan::chip::{Chip, OtherChip};
use opkeep_cann_meta::file_names::FileSet;
use opkeep_fs::{Dir, FileState};
use opkeep_kernel_meta::InUse;

/// An item of a cache, such as a kernel, with the findings about it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Item {
    /// The kind of the item.
    pub kind: ItemKind,
    /// The stem of the kernel, or the name of the file.
    pub name: String,
    /// The subdirectory of the cache with the item, such as `tbe_prebuild_res`; usually `None`.
    pub below: Option<&'static str>,
    /// The state of the item.
    pub state: ItemState,
    /// The current use of the item, if any: its state may be temporary.
    pub in_use: Option<InUse>,
    /// The framework's reaction to the item.
    pub behavior: FrameworkBehavior,
    /// Remarks that are not problems.
    pub notes: Vec<Note>,
    /// The digest and size of the kernel, if it is intact.
    pub kernel: Option<Kernel>,
    /// The facts about the kernel's chip, if the kernel is intact.
    pub(crate) chip: Option<Chip>,
    pub(crate) members: FileSet,
    /// The name of the object, if it is not the stem with a suffix.
    pub(crate) object: Option<Box<str>>,
    /// All files, existing or not, that the `.json` names and whose names are not the stem with a suffix.
    pub(crate) named: Vec<Box<str>>,
    /// Whether the `.json` was read, so that the files that it names are known.
    pub(crate) is_read: bool,
    /// The files of an item that is not intact, with the states in which they were judged; `None` if the file was
    /// missing.
    pub(crate) judged: Vec<(String, Option<FileState>)>,
}

/// The kinds of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ItemKind {
    /// A kernel: the `.json`, the object and the descriptor, as far as they exist.
    Kernel,
    /// The result of a precompile: CANN's `_pre.json`, MindSpore's `tbe_prebuild_res/*.json`.
    Precompile,
    /// A temporary file.
    Temp,
    /// A lock file.
    Lock,
    /// A `.json` that does not describe a kernel.
    OtherJson,
}

/// The state of an item.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ItemState {
    /// The item is valid.
    Intact,
    /// The item has these problems.
    Damaged(Vec<ItemProblem>),
    /// The item is the remains of a kernel.
    Orphan(Orphan),
    /// The item is a valid kernel for another chip than the one that its descriptor or directory names.
    OtherChip(OtherChip),
    /// The item changed each time that it was read.
    Changing,
    /// A file of the item could not be read.
    Unreadable {
        /// The file.
        file: String,
        /// The error of the system.
        problem: String,
    },
}

/// The reason why a file with a name from a `.json` is not read.
pub(crate) const UNSAFE_NAME: &str =
    "such a name may leave the directory; expected letters, digits, `_`, `.` and `-`";

/// A problem of a damaged item.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ItemProblem {
    /// The `.json` is empty, as after a power cut.
    EmptyJson,
    /// The `.json` is truncated, or not JSON.
    InvalidJson {
        /// The error, with its position.
        problem: String,
    },
    /// The `.json` is complete, but no compiler writes such a value of this field.
    Field {
        /// The field, such as `workspace.size[1]`.
        field: String,
        /// The error, with the value and the expected one.
        problem: String,
    },
    /// The object that the `.json` describes is missing.
    NoObject {
        /// The possible names of the object.
        expected: String,
    },
    /// A name in the `.json` may lead out of the directory.
    UnsafeName {
        /// The name, or its first 80 characters.
        name: String,
    },
    /// A part of a multi-part kernel is missing or damaged.
    Part {
        /// The file of the part.
        part: String,
        /// The problem.
        problem: String,
    },
    /// A file is larger than any genuine one.
    TooLarge {
        /// The file.
        file: String,
        /// The size of the file in bytes.
        bytes: u64,
    },
    /// The `.json` is that of another kernel: it describes that kernel's object, although an object with the item's
    /// stem exists.
    JsonOfOtherKernel {
        /// The object of the other kernel.
        object: String,
    },
    /// The library that contains the kernel is invalid or truncated.
    BrokenLibrary {
        /// The problem.
        problem: String,
    },
    /// The `.json` has no digest, and CANN loads no kernel without one.
    NoDigest,
    /// A directory or a pipe has the name of a file.
    NotAFile {
        /// The name of the file.
        file: String,
    },
    /// The validator rejects the `.json` with the object.
    Invalid(Finding),
}

/// The remains of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Orphan {
    /// A descriptor alone: the compile was interrupted before it wrote another file.
    InfoOnly,
    /// An object without its `.json`.
    ObjectOnly,
    /// A header without its `.json`.
    HeaderOnly,
    /// A temporary file that its writer left behind.
    Temp,
    /// The lock of a missing kernel.
    StaleLock,
}

/// The framework's reaction to an item.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameworkBehavior {
    /// The effect of the item.
    pub effect: Effect,
    /// A sentence about the effect, with the framework's name.
    pub text: Cow<'static, str>,
}

/// The effect of an item in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// The framework uses it.
    Used,
    /// The effect is unknown, since the item cannot be read.
    Unknown,
    /// The framework ignores it, without any loss.
    Ignored,
    /// The framework compiles the kernel again, once.
    CompiledAgain,
    /// Each process compiles the kernel again, and never stores it.
    RecompiledEveryTime,
    /// The kernel is loaded, and fails when it is registered or launched.
    FailsLater,
    /// The framework aborts.
    Aborts,
}

/// A remark about an item that is not a problem.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// The file and the kernel in it have different names, which is valid in several generations.
    KernelName {
        /// The name in the `.json`.
        kernel_name: String,
    },
    /// The name does not follow from the descriptor: the kernel is from r1.0 to r1.2, or was renamed.
    DescriptorName {
        /// The name that results from the descriptor, if any.
        expected: Option<String>,
    },
    /// MindSpore never reads files with `_loc` or `_compute` in their names.
    Skipped,
    /// The descriptor beside a kernel is damaged, but no framework reads it.
    DamagedDescriptor {
        /// The problem.
        problem: String,
    },
    /// The object is a library of the host that CANN loads for the kernel. Only the completeness of the library is
    /// known.
    Library {
        /// Whether the digest in the `.json` is that of the library; if not, it may be that of the content.
        is_its_own: bool,
    },
    /// The kernel is for another chip than most others in its directory, but its descriptor names its chip.
    OtherChip(OtherChip),
    /// The kernel is for another chip than its descriptor or directory names, but a [`View`](opkeep_kernel_meta::View)
    /// wrote its object. Another program changed its `.json` or descriptor since.
    OwnOtherChip(OtherChip),
    /// The descriptor or the directory names an unknown chip.
    UnknownChip {
        /// The name.
        chip: String,
    },
    /// The `.o` beside AKG's library is not the one from which the library was linked. No framework reads this `.o`.
    OtherObject,
    /// A finding of the validator that is not an error.
    Finding(Finding),
    /// The reaction of a vendor's reader to a field.
    Lint(Lint),
}

/// The facts about an intact kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// The SHA-256 of the object.
    pub sha256: Digest,
    /// The total size of the `.json` and the object, in bytes.
    pub bytes: u64,
}

impl Item {
    /// Returns the names of the item's files.
    pub fn files(&self) -> Vec<String> {
        self.members.names(&self.name).chain(self.object.as_deref().map(str::to_owned)).collect()
    }

    /// Records the current states of the item's files, which are in `dir`.
    pub(crate) fn record_states(&mut self, dir: &Dir) {
        let state = |file: String| (dir.file_state(&file), file);
        self.judged = self.files().into_iter().map(state).map(|(state, file)| (file, state)).collect();
    }

    /// Returns whether the item is invalid or for another chip, and no process uses it.
    pub fn is_finding(&self) -> bool {
        let is_wrong =
            matches!(self.state, ItemState::Damaged(_) | ItemState::Orphan(_) | ItemState::OtherChip(_));
        self.in_use.is_none() && is_wrong
    }

    /// Returns whether a repair would quarantine the item. A kernel for another chip stays, since it is not damaged.
    pub fn is_repairable(&self) -> bool {
        self.is_finding() && !matches!(self.state, ItemState::OtherChip(_))
    }

    /// Returns the name of the state: `intact`, `damaged`, `orphan`, `other chip`, `in progress`, `in use` or
    /// `unreadable`.
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
            Self::InvalidJson { problem } => write!(f, "the .json is cut off or damaged: {problem}"),
            Self::Field { field: _, problem } => f.write_str(problem),
            Self::NoObject { expected } => write!(f, "the object is missing: expected {expected}"),
            Self::UnsafeName { name } => {
                write!(f, "the .json names `{name}`: {UNSAFE_NAME}")
            }
            Self::Part { part, problem } => write!(f, "its part `{part}`: {problem}"),
            Self::TooLarge { file, bytes } => {
                write!(f, "`{file}` has {bytes}, more than any genuine one", bytes = counted(*bytes, "byte"))
            }
            Self::NotAFile { file } => write!(f, "`{file}` is no regular file"),
            Self::JsonOfOtherKernel { object } => write!(
                f,
                "the .json is that of another kernel: it describes `{object}`, although an object with its own name \
                 exists"
            ),
            Self::BrokenLibrary { problem } => write!(f, "the library is damaged: {problem}"),
            Self::NoDigest => f.write_str("the .json has no sha256"),
            Self::Invalid(finding) => write!(f, "{finding}"),
        }
    }
}

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InfoOnly => "a descriptor alone: the compile was interrupted before it wrote another file",
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
                "the kernel in it is called `{kernel_name}`, which is valid: frameworks find a kernel by its file and \
                 launch it by this name"
            ),
            Self::DescriptorName { expected: Some(expected) } => {
                write!(f, "its descriptor would be called `{expected}`: renamed, or of another generation")
            }
            Self::DescriptorName { expected: None } => {
                f.write_str("its name does not follow from its descriptor: renamed, or of another generation")
            }
            Self::Skipped => f.write_str(
                "MindSpore never reads names with `_loc` or `_compute` in them: it compiles this kernel again",
            ),
            Self::DamagedDescriptor { problem } => {
                write!(f, "its descriptor is damaged, which no program reads: {problem}")
            }
            Self::Library { is_its_own: true } => f.write_str(
                "its object is a library that returns the kernel to CANN: the library is intact, and its content was \
                 not checked",
            ),
            Self::Library { is_its_own: false } => f.write_str(
                "its object is a library that returns the kernel to CANN: the digest may be that of its content, which \
                 was not checked",
            ),
            Self::OtherChip(other) => write!(f, "{other}; its descriptor names that chip, too"),
            Self::UnknownChip { chip } => f.write_str(&unjudged(chip)),
            Self::OwnOtherChip(other) => write!(f, "{other}; opkeep wrote its object, and its other files were changed since"),
            Self::OtherObject => f.write_str(
                "the object beside the library is not the one that it was linked from; no program reads it",
            ),
            Self::Finding(finding) => write!(f, "{finding}"),
            Self::Lint(lint) => write!(f, "{lint}"),
        }
    }
}

impl Effect {
    /// Returns the name of the effect in JSON output.
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

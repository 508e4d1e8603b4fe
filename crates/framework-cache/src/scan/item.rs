//! What is said of each thing in a cache.

use std::borrow::Cow;
use std::fmt;

use opkeep_cann_meta::{Lint, unjudged};
use opkeep_digest::Digest;
use opkeep_validator::Finding;

use crate::scan::chip::{Chip, OtherChip};
use opkeep_cann_meta::file_names::FileSet;
use opkeep_fs::FileState;
use opkeep_kernel_meta::InUse;

/// Something in a cache, with what was found about it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Item {
    /// What it is.
    pub kind: ItemKind,
    /// The kernel's stem, or the file's name.
    pub name: String,
    /// The folder below the cache's own that it is in, such as `tbe_prebuild_res`; mostly none.
    pub below: Option<&'static str>,
    /// Whether it is in order.
    pub state: ItemState,
    /// Who is at it, so that what is wrong with it may be so for a moment only.
    pub in_use: Option<InUse>,
    /// What the framework would do with it.
    pub behavior: FrameworkBehavior,
    /// What is good to know, and no fault.
    pub notes: Vec<Note>,
    /// Of an intact kernel, what it is.
    pub kernel: Option<Kernel>,
    /// Of a kernel that was read, what is known of its chip.
    pub(crate) chip: Option<Chip>,
    pub(crate) members: FileSet,
    /// The object, if it is not called after the stem.
    pub(crate) object: Option<Box<str>>,
    /// All files that its `.json` names and that are not called after it, there or not.
    pub(crate) named: Vec<Box<str>>,
    /// Whether its `.json` was read, so that it is known what it names.
    pub(crate) is_read: bool,
    /// Of what is not intact: its files, in the state in which they were judged.
    pub(crate) judged: Vec<(String, Option<FileState>)>,
}

/// What a thing in a cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ItemKind {
    /// A kernel: `.json`, object, descriptor, whatever is there of it.
    Kernel,
    /// What a trial compile said: CANN's `_pre.json`, MindSpore's `tbe_prebuild_res/*.json`.
    Precompile,
    /// A file that was to be renamed.
    Temp,
    /// A lock file.
    Lock,
    /// A `.json` that describes no kernel.
    OtherJson,
}

/// Whether a thing is in order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ItemState {
    /// It is.
    Intact,
    /// It is there, and is not what it should be.
    Damaged(Vec<ItemProblem>),
    /// It is what is left of something.
    Orphan(Orphan),
    /// It is a kernel in order, for another chip than the one that is named beside it.
    OtherChip(OtherChip),
    /// It changed whenever it was read.
    Changing,
    /// It could not be read: which file, and why.
    Unreadable {
        /// The file.
        file: String,
        /// What the system said.
        problem: String,
    },
}

/// Why a name in a `.json` is not followed.
pub(crate) const UNSAFE_NAME: &str =
    "such a name may leave the directory; expected letters, digits, `_`, `.` and `-`";

/// What is wrong with a damaged thing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ItemProblem {
    /// The `.json` is empty, as after a power cut.
    EmptyJson,
    /// The `.json` is cut off, or no JSON.
    TornJson {
        /// Where, and what stands there.
        problem: String,
    },
    /// The `.json` is whole, and one of its fields is such as no compiler writes it.
    Field {
        /// The field, such as `workspace.size[1]`.
        field: String,
        /// What stands there, and what should.
        problem: String,
    },
    /// The object that the `.json` describes is not there.
    NoObject {
        /// Under which names it was looked for.
        expected: String,
    },
    /// A name in the `.json` may leave the directory.
    UnsafeName {
        /// The name, cut.
        name: String,
    },
    /// A part that a master names is missing or damaged.
    Part {
        /// Its file.
        part: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A file is larger than any genuine one.
    TooLarge {
        /// The file.
        file: String,
        /// Its bytes.
        bytes: u64,
    },
    /// The `.json` is that of another kernel here: it describes that one's object, though one of its own name is there.
    JsonOfOtherKernel {
        /// The other's object.
        object: String,
    },
    /// The library that CANN asks for the kernel is none, or cut off.
    BrokenLibrary {
        /// What is wrong with it.
        problem: String,
    },
    /// The `.json` says no digest, and CANN takes no kernel without one.
    NoDigest,
    /// A folder or pipe stands where a file should be.
    NotAFile {
        /// Its name.
        file: String,
    },
    /// The validator refuses the pair.
    Invalid(Finding),
}

/// Of what there is only a rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Orphan {
    /// A descriptor alone: the compile was interrupted before it wrote anything.
    InfoOnly,
    /// An object without its `.json`.
    ObjectOnly,
    /// A header without its `.json`.
    HeaderOnly,
    /// A temporary file that nobody will rename any more.
    Temp,
    /// The lock of a kernel that is not there.
    StaleLock,
}

/// What the framework whose cache it is would do with a thing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameworkBehavior {
    /// In a word.
    pub effect: Effect,
    /// In a sentence, with the framework's name.
    pub text: Cow<'static, str>,
}

/// What comes of a thing in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// It is used as it is.
    Used,
    /// That is not known, since it cannot be read.
    Unknown,
    /// It is passed over, and nobody misses it.
    Ignored,
    /// The kernel is compiled again, once.
    CompiledAgain,
    /// The kernel is compiled again by each process, and never kept.
    RecompiledEveryTime,
    /// It is loaded, and fails when it is launched or registered.
    FailsLater,
    /// The framework ends, whatever network it was to run.
    Aborts,
}

/// What is good to know about a thing that is no fault.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// The file is not called as the kernel in it: legitimate in several generations.
    KernelName {
        /// The name in the `.json`.
        kernel_name: String,
    },
    /// The name does not follow from the descriptor: of r1.0 to r1.2, or renamed.
    DescriptorName {
        /// The name that follows, if there is one.
        expected: Option<String>,
    },
    /// MindSpore never reads files with `_loc` or `_compute` in their names.
    Skipped,
    /// The descriptor beside a kernel is damaged; nobody reads it.
    DamagedDescriptor {
        /// What is wrong with it.
        problem: String,
    },
    /// The object is a library of the host that CANN opens to ask for the kernel: no more can be told than that it is whole.
    Library {
        /// Whether the digest in the `.json` is that of the library, not of what is inside.
        is_its_own: bool,
    },
    /// It is for another chip than most others in its directory, as its descriptor says.
    OtherChip(OtherChip),
    /// It is for another chip than its descriptor says, and a [`View`](opkeep_kernel_meta::View) put it there: that was asked for.
    OwnOtherChip(OtherChip),
    /// Its descriptor or its directory names a chip of which it is not known which objects it runs.
    UnknownChip {
        /// The name.
        chip: String,
    },
    /// The object from which AKG linked the shared one is another. Nobody reads it.
    OtherObject,
    /// What the validator says that is no error.
    Finding(Finding),
    /// What a vendor's reader makes of a field.
    Lint(Lint),
}

/// An intact kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// SHA-256 of its object.
    pub sha256: Digest,
    /// Bytes of all its files that were read.
    pub bytes: u64,
}

impl Item {
    /// Its files, without folders.
    pub fn files(&self) -> Vec<String> {
        self.members.names(&self.name).chain(self.object.as_deref().map(str::to_owned)).collect()
    }

    /// Whether something is wrong with it, for good as far as can be told.
    pub fn is_finding(&self) -> bool {
        let is_wrong =
            matches!(self.state, ItemState::Damaged(_) | ItemState::Orphan(_) | ItemState::OtherChip(_));
        self.in_use.is_none() && is_wrong
    }

    /// Whether a repair would move it away: a kernel for another chip is not damaged.
    pub fn is_repairable(&self) -> bool {
        self.is_finding() && !matches!(self.state, ItemState::OtherChip(_))
    }

    /// In a word: `intact`, `damaged`, `orphan`, `other chip`, `in progress`, `in use`, `unreadable`.
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

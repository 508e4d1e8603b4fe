//! What is wrong in a package.

use std::fmt;
use std::path::PathBuf;

use opkeep_validator::{Finding as KernelFinding, Severity};

/// A finding about one file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The file, below the directory that was named.
    pub file: PathBuf,
    /// The unit that it belongs to.
    pub unit: String,
    /// The problem.
    pub problem: Problem,
}

/// A disagreement of two files, or a file that is unusable.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Problem {
    /// The validator's finding about a kernel.
    Kernel(KernelFinding),
    /// A `.json` without an object.
    NoObject {
        /// The name of the object.
        expected: String,
    },
    /// An object without a `.json`.
    NoJson {
        /// The name of the `.json`.
        expected: String,
    },
    /// A file that is not read: a link out of the package, a pipe, or too large.
    Unreadable {
        /// What was found in the place of a file.
        found: String,
    },
    /// A file that is not JSON.
    NotJson {
        /// The error of the reader.
        error: String,
    },
    /// A field that has another type or value than all indexes have.
    Field {
        /// The field.
        field: String,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// `binFileName` or `binFileSuffix` is not the object's.
    FileName {
        /// The name of the object.
        expected: String,
        /// The name in the `.json`.
        found: String,
    },
    /// A file, or what it names, is of another unit.
    OtherUnit {
        /// Where the other unit is named.
        field: String,
        /// The unit of the directory.
        expected: String,
        /// The other unit.
        found: String,
    },
    /// A kernel without `supportInfo`: no index can be made of it.
    NoSupportInfo,
    /// A path in an index that leads out of the package.
    Path {
        /// The field.
        field: String,
        /// The path.
        found: String,
    },
    /// A path in an index that leads to no file.
    MissingFile {
        /// The field.
        field: String,
        /// The path.
        expected: String,
    },
    /// An index differs from the kernel that it names.
    Differs {
        /// The kernel's `.json`.
        kernel: String,
        /// The field.
        field: String,
        /// The kernel's value.
        expected: String,
        /// The index's value.
        found: String,
    },
    /// The kernel is used for inputs that it was not compiled for, which another entry states.
    Reused {
        /// The kernel's `.json`.
        kernel: String,
        /// The first field that differs.
        field: String,
        /// The index's value.
        found: String,
    },
    /// A kernel that an index of the unit lacks.
    NotListed {
        /// The index.
        index: String,
    },
    /// Two equal entries for one kernel.
    ListedTwice {
        /// The kernel's `.json`.
        kernel: String,
    },
    /// Two kernels of a unit with one simplified key.
    DuplicateKey {
        /// The key.
        key: String,
        /// The kernel that has it, too.
        other: String,
    },
    /// A simplified key that does not describe the kernel's inputs and outputs.
    KeyMismatch {
        /// The key.
        key: String,
        /// What the `supportInfo` states.
        expected: String,
        /// What the key states.
        found: String,
    },
    /// A unit without indexes.
    NoIndexes,
    /// An index without entries.
    EmptyIndex,
    /// An operator with kernels that the operator information lacks.
    UnknownOperator {
        /// The operator.
        operator: String,
    },
    /// An operator of the operator information without kernels.
    NoKernels {
        /// The operators: their names and their number.
        operators: Vec<String>,
    },
    /// A kernel's input or output is not that of the operator information.
    Port {
        /// The operator and the port: `AddCustom input1 name`.
        field: String,
        /// What the operator information states.
        expected: String,
        /// What the kernel states.
        found: String,
    },
    /// `dynamicRankSupport` does not fit the kernels or the operator information.
    DynamicRank {
        /// The operator.
        operator: String,
        /// What it must be, and by what.
        expected: String,
        /// What it is.
        found: String,
    },
    /// An operator without its generated Python, which only compiles need.
    NoPython {
        /// The operator.
        operator: String,
        /// The name of the file.
        expected: String,
    },
    /// A generated Python file that lacks the operator's function.
    NoFunction {
        /// The operator.
        operator: String,
        /// The function.
        expected: String,
    },
    /// A `.json` among the kernels that describes no kernel.
    NotAKernel,
}

impl Finding {
    /// How severe it is: only errors make a package inconsistent.
    pub fn severity(&self) -> Severity {
        self.problem.severity()
    }
}

impl Problem {
    /// How severe it is.
    pub fn severity(&self) -> Severity {
        match self {
            Self::Kernel(finding) => finding.severity(),
            Self::NoObject { .. }
            | Self::NoJson { .. }
            | Self::Unreadable { .. }
            | Self::NotJson { .. }
            | Self::Field { .. }
            | Self::FileName { .. }
            | Self::OtherUnit { .. }
            | Self::NoSupportInfo
            | Self::Path { .. }
            | Self::MissingFile { .. }
            | Self::Differs { .. }
            | Self::NotListed { .. }
            | Self::DuplicateKey { .. } => Severity::Error,
            Self::ListedTwice { .. }
            | Self::KeyMismatch { .. }
            | Self::UnknownOperator { .. }
            | Self::Port { .. }
            | Self::DynamicRank { .. }
            | Self::NoFunction { .. } => Severity::Warning,
            Self::Reused { .. }
            | Self::NoIndexes
            | Self::EmptyIndex
            | Self::NoKernels { .. }
            | Self::NoPython { .. }
            | Self::NotAKernel => Severity::Note,
        }
    }

    /// A stable word for its kind; the code of a kernel's finding.
    pub fn kind(&self) -> String {
        let word = match self {
            Self::Kernel(finding) => return finding.code().to_string(),
            Self::NoObject { .. } => "no-object",
            Self::NoJson { .. } => "no-json",
            Self::Unreadable { .. } => "unreadable",
            Self::NotJson { .. } => "not-json",
            Self::Field { .. } => "field",
            Self::FileName { .. } => "file-name",
            Self::OtherUnit { .. } => "other-unit",
            Self::NoSupportInfo => "no-support-info",
            Self::Path { .. } => "path",
            Self::MissingFile { .. } => "missing-file",
            Self::Differs { .. } => "differs",
            Self::Reused { .. } => "reused",
            Self::NotListed { .. } => "not-listed",
            Self::ListedTwice { .. } => "listed-twice",
            Self::DuplicateKey { .. } => "duplicate-key",
            Self::KeyMismatch { .. } => "key-mismatch",
            Self::NoIndexes => "no-indexes",
            Self::EmptyIndex => "empty-index",
            Self::UnknownOperator { .. } => "unknown-operator",
            Self::NoKernels { .. } => "no-kernels",
            Self::Port { .. } => "port",
            Self::DynamicRank { .. } => "dynamic-rank",
            Self::NoPython { .. } => "no-python",
            Self::NoFunction { .. } => "no-function",
            Self::NotAKernel => "not-a-kernel",
        };
        word.to_owned()
    }

    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Kernel(finding) => finding.rule().remedy,
            Self::NoObject { .. } | Self::NoJson { .. } => {
                "build the kernel again, or install the package again: one of its two files was lost"
            }
            Self::Unreadable { .. } => "install the package again as plain files, all of them inside it",
            Self::NotJson { .. } | Self::Field { .. } => {
                "write the indexes again, or install the package again"
            }
            Self::FileName { .. } => {
                "build the kernel again: its files were renamed, or are another kernel's"
            }
            Self::OtherUnit { .. } => {
                "build the kernel for this unit; a kernel of another unit was copied here"
            }
            Self::NoSupportInfo => "build the kernel with opc, which writes supportInfo",
            Self::Path { .. } | Self::MissingFile { .. } => {
                "build the missing kernel, or write the indexes again: the index is older or newer than the kernels"
            }
            Self::Differs { .. } => "write the indexes again from the kernels' `.json`",
            Self::NotListed { .. } => "write the indexes again: the runtime finds no kernel that they lack",
            Self::ListedTwice { .. } | Self::DuplicateKey { .. } => {
                "remove one of the two: the runtime uses only one of them"
            }
            Self::KeyMismatch { .. } => "build the kernel again: its `.json` was edited",
            Self::UnknownOperator { .. } | Self::Port { .. } | Self::DynamicRank { .. } => {
                "install kernels and operator information of one build"
            }
            Self::NoFunction { .. } => "generate the operator's Python again",
            Self::NoIndexes => "no harm while a build is incomplete; it writes the indexes last",
            Self::Reused { .. } | Self::EmptyIndex | Self::NoKernels { .. } | Self::NotAKernel => "no harm",
            Self::NoPython { .. } => "no harm, unless kernels are compiled while a model runs",
        }
    }

    /// What was expected, and what was found, where the problem is a difference.
    pub fn expected_and_found(&self) -> (Option<&str>, Option<&str>) {
        match self {
            Self::Field { expected, found, .. }
            | Self::FileName { expected, found }
            | Self::OtherUnit { expected, found, .. }
            | Self::Differs { expected, found, .. }
            | Self::KeyMismatch { expected, found, .. }
            | Self::Port { expected, found, .. }
            | Self::DynamicRank { expected, found, .. } => (Some(expected), Some(found)),
            Self::NoObject { expected }
            | Self::NoJson { expected }
            | Self::MissingFile { expected, .. }
            | Self::NoPython { expected, .. }
            | Self::NoFunction { expected, .. } => (Some(expected), None),
            Self::Unreadable { found } | Self::Path { found, .. } | Self::Reused { found, .. } => {
                (None, Some(found))
            }
            _ => (None, None),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(finding) => write!(f, "{}: {}", finding.code(), finding.message()),
            Self::NoObject { expected } => write!(f, "expected its object `{expected}`, found no file"),
            Self::NoJson { expected } => write!(f, "expected its description `{expected}`, found no file"),
            Self::Unreadable { found } => write!(f, "expected a file of the package, found {found}"),
            Self::NotJson { error } => write!(f, "expected JSON: {error}"),
            Self::Field { field, expected, found } => {
                write!(f, "field `{field}`: expected {expected}, found {found}")
            }
            Self::FileName { expected, found } => {
                write!(f, "binFileName and binFileSuffix: expected `{expected}`, found `{found}`")
            }
            Self::OtherUnit { field, expected, found } => {
                write!(f, "{field} names another unit: expected `{expected}`, found `{found}`")
            }
            Self::NoSupportInfo => {
                write!(f, "expected a supportInfo, as each kernel that an index names has")
            }
            Self::Path { field, found } => {
                write!(f, "field `{field}`: expected a path in the package, found `{found}`")
            }
            Self::MissingFile { field, expected } => {
                write!(f, "field `{field}` names `{expected}`, and there is no such file")
            }
            Self::Differs { kernel, field, expected, found } => {
                write!(f, "`{kernel}`: field `{field}`: expected {expected} as in its .json, found {found}")
            }
            Self::Reused { kernel, field, found } => {
                write!(f, "`{kernel}` is used for further inputs: field `{field}` is {found}")
            }
            Self::NotListed { index } => write!(f, "expected an entry for it in `{index}`, found none"),
            Self::ListedTwice { kernel } => write!(f, "`{kernel}` has two equal entries"),
            Self::DuplicateKey { key, other } => write!(f, "simplified key `{key}`: `{other}` has it, too"),
            Self::KeyMismatch { key, expected, found } => {
                write!(f, "simplified key `{key}`: expected {expected} as in supportInfo, found {found}")
            }
            Self::NoIndexes => write!(f, "the kernels have no indexes yet"),
            Self::EmptyIndex => write!(f, "the index names no kernel"),
            Self::UnknownOperator { operator } => {
                write!(f, "operator `{operator}` has kernels: expected it in the operator information")
            }
            Self::NoKernels { operators } => {
                let shown: Vec<&str> = operators.iter().take(3).map(String::as_str).collect();
                let more = if operators.len() > shown.len() { ", ..." } else { "" };
                let count = opkeep_text::counted(operators.len(), "operator");
                write!(f, "{count} without kernels: {}{more}", shown.join(", "))
            }
            Self::Port { field, expected, found } => {
                write!(f, "{field}: expected {expected} as in the operator information, found {found}")
            }
            Self::DynamicRank { operator, expected, found } => {
                write!(f, "`{operator}`: field `dynamicRankSupport`: expected {expected}, found {found}")
            }
            Self::NoPython { operator, expected } => {
                write!(f, "operator `{operator}` has no generated Python `{expected}`")
            }
            Self::NoFunction { operator, expected } => {
                write!(f, "expected the function `{expected}` of operator `{operator}`, found none")
            }
            Self::NotAKernel => write!(f, "it describes no kernel"),
        }
    }
}

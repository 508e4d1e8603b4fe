//! Kernels that a view does not write, with the reasons.

use std::fmt;
use std::path::PathBuf;

/// A kernel that was not written, because of existing files with its name or in its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftKernel {
    /// The name of the kernel's files, without suffix.
    pub stem: String,
    /// The reason why the kernel was not written.
    pub reason: LeftReason,
}

/// The reason why a kernel was not written to a view.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeftReason {
    /// A valid foreign kernel has the kernel's name.
    Foreign(ForeignKernel),
    /// Damaged foreign files have the kernel's name, and the kernel is not for the chip that its descriptor names.
    DamagedForOther {
        /// The problem of the files.
        problem: String,
    },
    /// The kernel is for another target than its descriptor names, the user did not choose that target, and the
    /// directory holds a foreign kernel.
    ForeignDirectory {
        /// A file of the foreign kernel.
        file: String,
        /// Whether we wrote a file with this name, which was changed since: it is damaged, or another program's.
        is_changed: bool,
    },
    /// The kernel is for another target than its descriptor names, the user did not choose that target, and the
    /// directory cannot be searched for foreign kernels.
    UnreadableDirectory {
        /// The path in the directory that cannot be read.
        path: String,
        /// The error.
        problem: String,
    },
    /// The kernel was compiled for debugging, and a kernel with its name was not.
    Release,
    /// The files with the kernel's name may be in progress.
    InProgress(InUse),
    /// A link, a directory or a pipe has the name of one of the kernel's files.
    NotAFile {
        /// The name of the file.
        file: String,
    },
    /// A file with the kernel's name cannot be read.
    Unreadable {
        /// The name of the file.
        file: String,
        /// The error of the system.
        problem: String,
    },
    /// Another program wrote a file with the kernel's name meanwhile.
    Changed {
        /// The name of the file.
        file: String,
    },
    /// The files with the kernel's name cannot be quarantined.
    NotQuarantined {
        /// The error.
        problem: String,
    },
}

/// The reason why the files of a kernel may be in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InUse {
    /// A file was written less than half an hour ago.
    RecentlyWritten {
        /// The time since the write, in seconds.
        seconds: u64,
    },
    /// A process has one of the files open.
    Open {
        /// The number of the process.
        process: u32,
    },
    /// A process holds the kernel's lock.
    Locked,
}

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RecentlyWritten { seconds } => write!(f, "written {seconds} s ago"),
            Self::Open { process } => write!(f, "open in process {process}"),
            Self::Locked => f.write_str("locked by another process"),
        }
    }
}

impl LeftReason {
    /// Returns the name of the reason in JSON output.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Foreign(_) => "foreign",
            Self::DamagedForOther { .. } => "damaged-for-other",
            Self::ForeignDirectory { .. } => "foreign-directory",
            Self::UnreadableDirectory { .. } => "closed-directory",
            Self::Release => "release",
            Self::InProgress(_) => "in-progress",
            Self::NotAFile { .. } => "not-a-file",
            Self::Unreadable { .. } => "unreadable",
            Self::Changed { .. } => "changed",
            Self::NotQuarantined { .. } => "not-kept",
        }
    }
}

impl fmt::Display for LeftReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign(kernel) => write!(f, "{kernel}, and opkeep did not write it"),
            Self::DamagedForOther { problem } => write!(
                f,
                "the files there are damaged ({problem}), opkeep did not write them, and this kernel is not for the chip \
                 that its descriptor names"
            ),
            Self::ForeignDirectory { file, is_changed: true } => write!(
                f,
                "it is not for the chip that its descriptor names, and a file in the directory was changed since opkeep \
                 wrote it (`{file}`): it is damaged, or another program wrote it"
            ),
            Self::ForeignDirectory { file, is_changed: false } => write!(
                f,
                "it is not for the chip that its descriptor names, and the directory holds a kernel that opkeep did not \
                 write (`{file}`)"
            ),
            Self::UnreadableDirectory { path, problem } => write!(
                f,
                "it is not for the chip that its descriptor names, and whether the directory holds a kernel that opkeep \
                 did not write cannot be seen: `{path}` cannot be looked into: {problem}"
            ),
            Self::Release => f.write_str("it is compiled for debugging, and the kernel there is not"),
            Self::InProgress(in_use) => write!(f, "the files there may be in progress: {in_use}"),
            Self::NotAFile { file } => {
                write!(
                    f,
                    "`{file}` is a link, a directory or a pipe; move it away if the kernel is to be there"
                )
            }
            Self::Unreadable { file, problem } => write!(f, "`{file}` cannot be read: {problem}"),
            Self::Changed { file } => write!(f, "another program wrote `{file}` meanwhile"),
            Self::NotQuarantined { problem } => {
                write!(f, "no copy of the files there can be kept: {problem}")
            }
        }
    }
}

/// The facts about a foreign kernel, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignKernel {
    /// The machine of the object, if the object could be read.
    pub machine: Option<String>,
    /// The `e_flags` of the object, if it could be read.
    pub flags: Option<u32>,
    /// The architecture that machine and flags name, if known.
    pub architecture: Option<&'static str>,
    /// The chip that the kernel's descriptor names.
    pub chip: Option<String>,
}

impl fmt::Display for ForeignKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the kernel there ")?;
        match &self.machine {
            Some(machine) => write!(f, "is for machine {machine}")?,
            None => f.write_str("is for a machine that is not known")?,
        }
        if let Some(flags) = self.flags.filter(|flags| *flags != 0) {
            write!(f, ", e_flags {flags:#x}")?;
        }
        if let Some(architecture) = self.architecture {
            write!(f, " ({architecture})")?;
        }
        match &self.chip {
            Some(chip) => write!(f, ", its descriptor names {chip}"),
            None => Ok(()),
        }
    }
}

/// A directory of kernels, or a directory above it, in which another user may write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryRisk {
    /// The directory.
    pub path: PathBuf,
    /// The user ID of the directory's owner.
    pub owner: u32,
    /// The user ID of this process.
    pub user: u32,
    /// The permission bits of the directory.
    pub mode: u32,
}

impl fmt::Display for DirectoryRisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, owner, user, mode } = self;
        let path = path.display();
        write!(f, "`{path}` ")?;
        match (owner != user, mode & 0o002 != 0) {
            (_, false) => {
                write!(f, "belongs to user {owner} (mode {mode:04o}), and this build runs as {user}")?
            }
            (_, true) => write!(f, "is writable by every user (owner {owner}, mode {mode:04o})")?,
        }
        f.write_str(": another user may put kernels there that your framework loads; ")?;
        if mode & 0o002 != 0 {
            write!(f, "run `chmod o-w {path}`, or choose another directory")
        } else {
            f.write_str("choose another directory, or run as that user")
        }
    }
}

//! The reasons why a result is not kept.

use std::fmt;
use std::path::PathBuf;

/// The reason why a command's result is not kept, or not looked up. The command ran, and its result is as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The exit status was not 0: failures are never kept.
    Failed,
    /// This host does not let programs be observed.
    NotObservable,
    /// A system call ended before it was observed.
    Incomplete(String),
    /// A program of another architecture, such as a 32-bit one, which cannot be observed.
    Foreign(PathBuf),
    /// A program that made a call which observed programs are refused, such as `mount`: without an observer it might go on in another way.
    RefusedCall(PathBuf),
    /// A process that the command started ran on, or held an output open.
    StillRunning,
    /// The reader of an output was gone.
    OutputClosed,
    /// A pipe, a socket, a device or another process's state was read: what comes from it is in no key.
    NotAFile(PathBuf),
    /// Data was exchanged with another process by this socket, pipe or device: what comes from it is in no key, and what it gets would be
    /// missing in a later build.
    OtherProcess(String),
    /// An argument names an inherited file, such as `/dev/fd/63`.
    DescriptorArgument(String),
    /// A file that the key covers cannot be read.
    Unreadable(PathBuf),
    /// A file, or the names in a directory, changed while the command ran.
    Changed(PathBuf),
    /// The command wrote a file that is none of its expected outputs.
    WroteElsewhere(PathBuf),
    /// The command removed a file that it had not made.
    Removed(PathBuf),
    /// A part of an output may be older than the run: it was not truncated.
    PartlyWritten(PathBuf),
    /// The command read or looked at its own old output: its content and its date are in no key.
    ReadsOutput(PathBuf),
    /// An output is a link that the command made, a pipe, or a moved directory.
    OutputKind(PathBuf),
    /// An output or a directory above it has the setuid, setgid or sticky bit.
    OutputMode(PathBuf),
    /// An output contains the path of the private work directory, which differs in each run.
    NamesWorkDirectory(PathBuf),
    /// A compiler was to use the instructions of this machine, by this argument: they are in no key.
    ThisMachine(String),
    /// The outputs are not those of a success, or are not valid.
    Refused(String),
    /// There are more outputs, or more bytes, than an entry can hold.
    TooLarge,
    /// The store does not take it.
    Store(String),
}

impl Reason {
    /// A stable word for counters.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::NotObservable => "not-observable",
            Self::Incomplete(_) => "incomplete",
            Self::Foreign(_) => "foreign-program",
            Self::RefusedCall(_) => "refused-call",
            Self::StillRunning => "still-running",
            Self::OutputClosed => "output-closed",
            Self::NotAFile(_) => "not-a-file",
            Self::OtherProcess(_) => "other-process",
            Self::DescriptorArgument(_) => "descriptor-argument",
            Self::Unreadable(_) => "unreadable",
            Self::Changed(_) => "changed",
            Self::WroteElsewhere(_) => "wrote-elsewhere",
            Self::Removed(_) => "removed",
            Self::PartlyWritten(_) => "partly-written",
            Self::ReadsOutput(_) => "reads-output",
            Self::OutputKind(_) => "output-kind",
            Self::OutputMode(_) => "output-mode",
            Self::NamesWorkDirectory(_) => "names-work-directory",
            Self::ThisMachine(_) => "this-machine",
            Self::Refused(_) => "refused",
            Self::TooLarge => "too-large",
            Self::Store(_) => "store",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed => f.write_str("the command failed, and failures are not kept"),
            Self::NotObservable => f.write_str("this host does not let programs be observed"),
            Self::Incomplete(why) => write!(f, "the command could not be observed completely: {why}"),
            Self::Foreign(path) => {
                write!(
                    f,
                    "`{}` is a program of another architecture, which cannot be observed",
                    path.display()
                )
            }
            Self::RefusedCall(path) => {
                write!(f, "`{}` makes calls that fail under observation", path.display())
            }
            Self::StillRunning => f.write_str("a process that the command started ran on"),
            Self::OutputClosed => f.write_str("the reader of the command's output was gone"),
            Self::NotAFile(path) => write!(f, "`{}` was read, which is not a file", path.display()),
            Self::OtherProcess(peer) => write!(f, "data was exchanged with another process by `{peer}`"),
            Self::DescriptorArgument(arg) => write!(f, "the argument `{arg}` names an inherited file"),
            Self::Unreadable(path) => write!(f, "`{}` cannot be read", path.display()),
            Self::Changed(path) => write!(f, "`{}` changed while the command ran", path.display()),
            Self::WroteElsewhere(path) => {
                write!(f, "`{}` was written, which is no expected output", path.display())
            }
            Self::Removed(path) => write!(f, "`{}` was removed", path.display()),
            Self::PartlyWritten(path) => {
                write!(f, "a part of `{}` may be older than the run", path.display())
            }
            Self::ReadsOutput(path) => write!(f, "the old output `{}` was read or looked at", path.display()),
            Self::OutputKind(path) => write!(f, "the output `{}` is not a plain file", path.display()),
            Self::OutputMode(path) => {
                write!(f, "the output `{}` has the setuid, setgid or sticky bit", path.display())
            }
            Self::NamesWorkDirectory(path) => {
                write!(f, "the output `{}` contains the path of the work directory", path.display())
            }
            Self::ThisMachine(arg) => {
                write!(f, "the argument `{arg}` means the instructions of this machine")
            }
            Self::Refused(why) => write!(f, "the outputs are not valid: {why}"),
            Self::TooLarge => f.write_str("the result is larger than an entry can be"),
            Self::Store(why) => write!(f, "the store does not keep it: {why}"),
        }
    }
}

//! The reasons why a command line is run as it is.

use std::path::PathBuf;

use thiserror::Error;

/// The reason why a run of a compiler is neither looked up nor kept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotCached {
    /// It is another compiler, whose arguments have other meanings.
    #[error("`{program}` is neither bisheng nor ccec")]
    Program {
        /// The program.
        program: PathBuf,
    },
    /// The program is a script, or a part of its installation cannot be read.
    #[error("the compiler `{path}` has no content that could count: {why}")]
    Compiler {
        /// The file or the directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It is a part of an observed command, whose whole result is kept.
    #[error("it is a part of a task whose result is kept as a whole")]
    Observed,
    /// It writes no object: it preprocesses, links, or prints something.
    #[error("it is no compile of a source to an object")]
    NoCompile,
    /// It has no source, several, or standard input.
    #[error("it has {count} sources that can be cached, and not one")]
    Sources {
        /// Their number.
        count: usize,
    },
    /// It does not say which file it writes.
    #[error("it has not one `-o`")]
    Output,
    /// It compiles for the host and for the device at once.
    #[error("it compiles for the host and the device at once")]
    HostAndDevice,
    /// The meaning of an argument is not known.
    #[error("compiles with `{argument}` are not cached")]
    Argument {
        /// The argument.
        argument: String,
    },
    /// A variable changes what the compiler does with its arguments.
    #[error("the variable {name} is set")]
    Variable {
        /// The variable.
        name: String,
    },
    /// The source cannot be preprocessed: the compiler says why.
    #[error("the source cannot be preprocessed")]
    Preprocessor,
    /// The source uses the date or the time.
    #[error("the source uses a macro of the date or the time")]
    Date,
    /// A directive of the assembler, such as `.incbin`, may read a file or show a place.
    #[error("the source has assembly with directives, or whose text is not plain")]
    Assembly,
    /// A line of the text reads a file when it is compiled.
    #[error("the preprocessed text reads further files")]
    ReadsFiles,
}

impl NotCached {
    /// A stable word for counters.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Program { .. } => "other-program",
            Self::Compiler { .. } => "compiler",
            Self::Observed => "observed",
            Self::NoCompile => "no-compile",
            Self::Sources { .. } => "sources",
            Self::Output => "output",
            Self::HostAndDevice => "host-and-device",
            Self::Argument { .. } => "argument",
            Self::Variable { .. } => "variable",
            Self::Preprocessor => "preprocessor",
            Self::Date => "date",
            Self::Assembly => "assembly",
            Self::ReadsFiles => "reads-files",
        }
    }
}

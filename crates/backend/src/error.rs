//! The errors of a backend.

use std::fmt;
use std::path::PathBuf;

use opkeep_ops::OpsError;
use thiserror::Error;

/// The reason why a call of a backend failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The backend does not compile the job.
    #[error("{0}")]
    Unsupported(#[from] Unsupported),
    /// There is no usable toolchain.
    #[error("{}{}; {help}", if tool.is_none() { "no usable toolchain: " } else { "" }, one_line(problem))]
    Toolchain {
        /// The missing or wrong part. Of a tool that fails, the tool and the line that it gave as the reason.
        problem: String,
        /// The help: what to install or set.
        help: String,
        /// The tool that fails, if one does.
        tool: Option<Box<FailedTool>>,
    },
    /// An option has a value out of its range.
    #[error("option `{name}`: value `{value}` is not valid, expected {expected}")]
    Option {
        /// The option.
        name: String,
        /// Its value.
        value: String,
        /// The valid values.
        expected: String,
    },
    /// No backend serves a target.
    #[error("no backend serves the target `{target}`; known targets: {known}")]
    UnknownTarget {
        /// The target asked for.
        target: String,
        /// The known targets.
        known: String,
    },
    /// The compiler ran and failed.
    #[error("`{command}` failed: {status}{}{}", tail(log_tail), kept(log))]
    Compile {
        /// The program and its arguments.
        command: String,
        /// Its exit status: `exit status: 1`, `signal: 11 (SIGSEGV)`.
        status: String,
        /// The end of its output.
        log_tail: String,
        /// A file with all of its output that was kept.
        log: Option<PathBuf>,
    },
    /// The compiler did not end in time, and was ended with all its children.
    #[error(
        "`{command}` did not end within its deadline of {seconds:.1} s and was killed{}{}",
        tail(log_tail),
        kept(log)
    )]
    TimedOut {
        /// The program and its arguments.
        command: String,
        /// The time that it ran.
        seconds: f64,
        /// The end of its output.
        log_tail: String,
        /// A file with all of its output that was kept.
        log: Option<PathBuf>,
    },
    /// The caller cancelled the call.
    #[error("cancelled")]
    Cancelled,
    /// The compiler reported success but its output is missing or wrong.
    #[error("`{command}` ended without an error, but {problem}{}{}", tail(log_tail), kept(log))]
    MissingOutput {
        /// The program and its arguments.
        command: String,
        /// The missing or wrong part.
        problem: String,
        /// The end of its output.
        log_tail: String,
        /// A file with all of its output that was kept.
        log: Option<PathBuf>,
    },
    /// A compile read or looked up a file that no key covers.
    #[error(
        "the compiler reads or looks up {} for this kernel, which it did not when the toolchain was probed, so that no \
         key covers it; {help}; the command was `{command}`",
        listed(paths)
    )]
    UnkeyedRead {
        /// The program and its arguments.
        command: String,
        /// The paths that it read or looked up.
        paths: Vec<PathBuf>,
        /// The help.
        help: String,
    },
    /// A file or process operation failed.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// The operation, such as `write`.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A kernel could not be loaded.
    #[error("kernel `{kernel}` cannot be loaded: {problem}")]
    Load {
        /// The kernel's symbol.
        kernel: String,
        /// The loader's reason.
        problem: String,
    },
    /// This program loads no shared objects.
    #[error(
        "this program is statically linked, so it cannot load kernels or a vendor's runtime; it compiles, checks and \
         stores kernels"
    )]
    StaticProgram,
    /// A launch with buffers that do not fit the kernel.
    #[error("kernel `{kernel}`: {what}: expected {expected}, found {found}")]
    Launch {
        /// The kernel's symbol.
        kernel: String,
        /// Which buffer, and which of its properties.
        what: String,
        /// The value that the kernel takes.
        expected: String,
        /// The given value.
        found: String,
    },
}

impl BackendError {
    /// Returns the error of a toolchain of which `problem` is missing or wrong. `help` says what to install or set.
    pub fn toolchain(problem: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Toolchain { problem: problem.into(), help: help.into(), tool: None }
    }

    /// Returns the error of a toolchain in which `tool` fails. The message has `problem`, and not the tool's output.
    pub fn failed_tool(problem: impl Into<String>, help: impl Into<String>, tool: FailedTool) -> Self {
        Self::Toolchain { problem: problem.into(), help: help.into(), tool: Some(Box::new(tool)) }
    }
}

/// A program of a toolchain that fails. Its `Debug` form leaves out the output, which may be long.
#[derive(Clone, PartialEq, Eq)]
pub struct FailedTool {
    /// What it is.
    pub kind: ToolKind,
    /// The program and its arguments.
    pub command: String,
    /// The end of its output.
    pub output: String,
}

impl fmt::Debug for FailedTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailedTool").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// The kind of a program in a toolchain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolKind {
    /// A compiler that the user can choose.
    Compiler,
    /// Another program.
    Other,
}

fn tail(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("\n{log}") }
}

fn kept(log: &Option<PathBuf>) -> String {
    log.as_ref().map(|path| format!("\nthe whole output is in `{}`", path.display())).unwrap_or_default()
}

/// The output of a program, for the middle of a sentence.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" | ")
}

fn listed(paths: &[PathBuf]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<String> = paths.iter().take(SHOWN).map(|path| format!("`{}`", path.display())).collect();
    match paths.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The reason why a backend does not compile a job.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// The backend has no such operator.
    #[error("backend `{backend}` has no operator `{op_type}`")]
    Op {
        /// The backend.
        backend: &'static str,
        /// The operator's IR type.
        op_type: String,
    },
    /// The operator does not fit the operator table.
    #[error("not a valid operator: {0}")]
    Invalid(#[from] OpsError),
    /// The backend has the operator, but not for this element type.
    #[error("backend `{backend}` has `{op_type}` for {known}, not for {dtype}")]
    Dtype {
        /// The backend.
        backend: &'static str,
        /// The operator's IR type.
        op_type: String,
        /// The element type asked for.
        dtype: String,
        /// The element types there are.
        known: &'static str,
    },
    /// A shape that is known only at the launch.
    #[error("backend `{backend}` compiles static shapes only, `{op_type}` has {shape:?}")]
    DynamicShape {
        /// The backend.
        backend: &'static str,
        /// The operator's IR type.
        op_type: String,
        /// The shape.
        shape: Vec<i64>,
    },
    /// A kernel of several fused operators.
    #[error("backend `{backend}` compiles one operator a kernel, this job fuses {ops}")]
    Fused {
        /// The backend.
        backend: &'static str,
        /// How many operators the job has.
        ops: usize,
    },
    /// Anything else.
    #[error("backend `{backend}` cannot compile `{op_type}`: {problem}")]
    Other {
        /// The backend.
        backend: &'static str,
        /// The operator's IR type.
        op_type: String,
        /// The error of the system.
        problem: String,
    },
}

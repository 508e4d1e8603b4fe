//! Faults of compiles, and the record of compiles.

use std::io;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

/// Which compiles something happens to.
///
/// ```
/// use opkeep_testkit::toolkit::{Fault, Rule};
///
/// let first_square_hangs = Rule::new(Fault::Hang { deaf: true }).op("Square").times(1);
/// # let _ = first_square_hangs;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    fault: Fault,
    op: Option<String>,
    kernel: Option<String>,
    soc: Option<String>,
    tool: Option<String>,
    times: Option<u32>,
}

impl Rule {
    /// It happens to every compile.
    pub fn new(fault: Fault) -> Self {
        Self { fault, op: None, kernel: None, soc: None, tool: None, times: None }
    }

    /// Only to those of this operator type.
    pub fn op(self, op_type: &str) -> Self {
        Self { op: Some(op_type.to_owned()), ..self }
    }

    /// Only to those of kernels whose names contain `part`.
    pub fn kernel(self, part: &str) -> Self {
        Self { kernel: Some(part.to_owned()), ..self }
    }

    /// Only to those for this chip.
    pub fn soc(self, soc: &str) -> Self {
        Self { soc: Some(soc.to_owned()), ..self }
    }

    /// Not to compiles, but to a program that a [`package`](super::package)'s compiles run: `bisheng`, `ccec`, `ld.lld`.
    /// [`kernel`](Self::kernel) is then a part of any of its arguments, and operator and chip are not known. A program can crash,
    /// hang, flood, exit, fail and sleep, each before it does anything else.
    pub fn tool(self, name: &str) -> Self {
        Self { tool: Some(name.to_owned()), ..self }
    }

    /// Only to the first `times` of those, whichever process compiles them.
    pub fn times(self, times: u32) -> Self {
        Self { times: Some(times), ..self }
    }

    /// As the Python part reads it; `id` identifies rules that apply a limited number of times.
    pub(super) fn to_json(&self, id: &str) -> Value {
        let Self { fault, op, kernel, soc, times, tool: _ } = self;
        json!({"id": id, "op": op, "kernel": kernel, "soc": soc, "times": times, "fault": fault.to_json()})
    }
}

impl Rule {
    /// Whether it is about a program, not a compile.
    pub(super) fn is_of_tool(&self) -> bool {
        self.tool.is_some()
    }

    /// A line as the programs read it, if it is about one.
    pub(super) fn to_line(&self, id: &str) -> io::Result<Option<String>> {
        let Self { fault, op, kernel, soc, tool, times } = self;
        let Some(tool) = tool else { return Ok(None) };
        let (kind, number, message) = match fault {
            Fault::Crash => ("crash", 0, ""),
            Fault::Hang { deaf } => ("hang", u64::from(*deaf), ""),
            Fault::Flood { bytes } => ("flood", u64::from(*bytes), ""),
            Fault::Exit { code } => ("exit", u64::from(*code), ""),
            Fault::Fail { message, .. } => ("fail", 0, message.as_str()),
            Fault::Sleep(time) => ("sleep", millis(*time), ""),
            other => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("{tool} cannot do {other:?}"),
                ));
            }
        };
        let part = kernel.as_deref().unwrap_or("");
        if op.is_some()
            || soc.is_some()
            || [tool, part, message].iter().any(|text| text.contains(['\t', '\n']))
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{tool} cannot tell what {self:?} is about"),
            ));
        }
        let times = times.map_or(-1, i64::from);
        Ok(Some(format!("{id}\t{tool}\t{part}\t{times}\t{kind}\t{number}\t{message}\n")))
    }
}

/// A fault of a compile.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The Python process is ended by SIGSEGV.
    Crash,
    /// It never ends. `deaf`: it ignores SIGTERM, SIGINT and SIGHUP as well.
    Hang {
        /// Whether it ignores them.
        deaf: bool,
    },
    /// A process is started that outlives the compile and holds its output open: [`left`](super::Installation::left).
    Leave {
        /// How long it lives.
        seconds: u32,
        /// Whether it is in a session of its own, where a signal to the group does not reach it.
        own_session: bool,
    },
    /// So many bytes are printed on standard output, and as many on standard error; they are not all UTF-8.
    Flood {
        /// How many.
        bytes: u32,
    },
    /// The process ends at once with this exit code, without a word.
    Exit {
        /// The code.
        code: u8,
    },
    /// The compile is well, and the process ends with this exit code.
    ExitAfter {
        /// The code.
        code: u8,
    },
    /// The operator's function raises an error with this code and text.
    Fail {
        /// The code: `E80012`.
        code: String,
        /// The text.
        message: String,
    },
    /// It takes so much longer.
    Sleep(Duration),
    /// It says that all is well and writes neither file, so that old ones stay.
    Nothing,
    /// The object is missing.
    NoObject,
    /// The `.json` is missing.
    NoJson,
    /// The object is cut off after so many bytes.
    CutObject {
        /// How many stay.
        bytes: u32,
    },
    /// The `.json` is cut off after so many bytes.
    CutJson {
        /// How many stay.
        bytes: u32,
    },
    /// The object is not the one that the `.json` has the digest of.
    OtherDigest,
    /// The object is no ELF file; its digest is right.
    NoElf,
    /// The object is for another machine; its digest is right.
    OtherMachine,
    /// The object holds another kernel; its digest is right.
    OtherKernel,
    /// The object's bytes differ from compile to compile.
    Chance,
    /// There are two objects, for cube and vector cores, and a master that names them: `jsonList`.
    SplitMix,
    /// `ccec` fails so many times before it takes it: with 3, always.
    CompilerFails {
        /// How many.
        attempts: u8,
    },
    /// `ccec` is ended by SIGSEGV.
    CompilerCrashes,
    /// `ccec` never ends.
    CompilerHangs,
}

impl Fault {
    fn to_json(&self) -> Value {
        match self {
            Self::Crash => json!({"kind": "crash"}),
            Self::Hang { deaf } => json!({"kind": "hang", "deaf": deaf}),
            Self::Leave { seconds, own_session } => {
                json!({"kind": "leave", "seconds": seconds, "own_session": own_session})
            }
            Self::Flood { bytes } => json!({"kind": "flood", "bytes": bytes}),
            Self::Exit { code } => json!({"kind": "exit", "code": code}),
            Self::ExitAfter { code } => json!({"kind": "exit_after", "code": code}),
            Self::Fail { code, message } => json!({"kind": "fail", "code": code, "message": message}),
            Self::Sleep(time) => json!({"kind": "sleep", "ms": millis(*time)}),
            Self::Nothing => json!({"kind": "nothing"}),
            Self::NoObject => json!({"kind": "no_object"}),
            Self::NoJson => json!({"kind": "no_json"}),
            Self::CutObject { bytes } => json!({"kind": "cut_object", "bytes": bytes}),
            Self::CutJson { bytes } => json!({"kind": "cut_json", "bytes": bytes}),
            Self::OtherDigest => json!({"kind": "other_digest"}),
            Self::NoElf => json!({"kind": "no_elf"}),
            Self::OtherMachine => json!({"kind": "other_machine"}),
            Self::OtherKernel => json!({"kind": "other_kernel"}),
            Self::Chance => json!({"kind": "chance"}),
            Self::SplitMix => json!({"kind": "split_mix"}),
            Self::CompilerFails { attempts } => json!({"kind": "compiler_fails", "attempts": attempts}),
            Self::CompilerCrashes => json!({"kind": "compiler_crashes"}),
            Self::CompilerHangs => json!({"kind": "compiler_hangs"}),
        }
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A compile that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compile {
    /// The operator's type.
    pub op: String,
    /// The kernel's name.
    pub kernel: String,
    /// The chip.
    pub soc: String,
    /// `true` or `false`, as it was asked for, or as `all` makes of it.
    pub deterministic: String,
    /// The process that compiled.
    pub pid: u32,
    /// The process that started that one.
    pub parent: u32,
    /// When it began, in nanoseconds of the monotonic clock.
    pub begun: u64,
    /// When it ended, if it did.
    pub ended: Option<u64>,
    /// Whether it ended in an error.
    pub failed: bool,
}

#[derive(Deserialize)]
struct Line {
    id: String,
    event: String,
    at: u64,
    op: String,
    kernel: String,
    soc: String,
    deterministic: String,
    pid: u32,
    parent: u32,
    #[serde(default)]
    failed: bool,
}

/// The compiles in the log, in the order in which they began. Lines that cannot be read are skipped.
pub(super) fn compiles(log: &str) -> Vec<Compile> {
    let mut compiles: Vec<(String, Compile)> = Vec::new();
    for line in log.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
        let Line { id, event, at, op, kernel, soc, deterministic, pid, parent, failed } = line;
        if event == "begin" {
            let compile = Compile {
                op,
                kernel,
                soc,
                deterministic,
                pid,
                parent,
                begun: at,
                ended: None,
                failed: false,
            };
            compiles.push((id, compile));
        } else if let Some((_, compile)) = compiles.iter_mut().find(|(own, _)| *own == id) {
            compile.ended = Some(at);
            compile.failed = failed;
        }
    }
    compiles.into_iter().map(|(_, compile)| compile).collect()
}

//! The programs of a probe: Python that imports the toolkit, and the toolkit's own.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use opkeep_backend::{BackendError, Context, FailedTool, ToolKind};
use opkeep_cann_toolkit::Toolkit;
use opkeep_fs::{Fs, private_dir};
use opkeep_process::{
    Observation, Observer, ProbeDir, ProcessBuilder, ProcessOutput, Sandbox, error_line,
    is_short_of_resources, tail,
};
use serde_json::json;

use super::headers;
use crate::error::io_error;
use crate::probe::interpreter::{Interpreter, PYTHON_HELP, with_temporary};
use crate::probe::reach::{Extra, Reach};
use crate::probe::report::Report;
use crate::process_error::backend_error;
use crate::worker::pool::{SCRIPT, text};

/// The timeout of each program. One imports all modules that operators name.
const LIMIT: Duration = Duration::from_secs(600);

/// The maximum length of a report.
const LONGEST: u64 = 64 << 20;

/// The programs that the toolkit looks for on `PATH`: the device compiler, its companions, and those run by its Python,
/// by generated build scripts and by the script `opc`.
pub(super) const PROGRAMS: [&str; 15] = [
    "sh",
    "bash",
    "which",
    "ccec",
    "bisheng",
    "ld.lld",
    "llvm-objdump",
    "llvm-objcopy",
    "llvm-ar",
    "ar",
    "make",
    "python3",
    "realpath",
    "readlink",
    "dirname",
];

/// The exit code of a program that was run with `--help`, if it has one.
pub(super) type HelpExit = Option<i32>;

/// The programs that the probe runs with `--help`: the compilers of a toolkit.
pub(super) fn help_programs(toolkit: &Toolkit) -> impl Iterator<Item = &PathBuf> {
    toolkit.opc.iter().chain(&toolkit.asc_opc)
}

/// A program for a probe to run.
struct Launch<'a> {
    program: &'a Path,
    args: &'a [OsString],
    environment: &'a [(OsString, OsString)],
    /// Its working directory.
    dir: &'a Path,
    /// The directory that it may write to, also for temporary files.
    work_dir: &'a Path,
    /// The file that it writes, if its result is read from one.
    result: Option<&'a Path>,
}

/// The request of one run of the probe.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) interpreter: &'a Interpreter,
    /// Modules that the toolkit imports when it needs them.
    pub(super) lazy: &'a BTreeSet<String>,
    /// Modules that operators name.
    pub(super) names: &'a BTreeSet<String>,
    /// Whether those `names` that the toolkit does not import are imported, each in a child process.
    pub(super) children: bool,
}

/// How one run of the probe is observed and confined.
#[derive(Clone, Copy, Default)]
pub(super) struct Watched<'a> {
    pub(super) is_observed: bool,
    /// The only paths that it may read.
    pub(super) reach: Option<&'a Reach>,
}

/// Runs the programs of a probe.
pub(super) struct Runner {
    /// The complete environment of the toolkit's programs.
    pub(super) environment: Vec<(OsString, OsString)>,
    /// The directory of the package `opc_tool`. Without it, workers answer queries but do not compile.
    pub(super) tool_dir: Option<PathBuf>,
    /// The directory that keeps bytecode and records for the next process.
    pub(super) kept: Option<PathBuf>,
    pub(super) scratch: PathBuf,
}

impl Runner {
    /// The directory for bytecode.
    pub(super) fn bytecode(&self) -> Option<PathBuf> {
        let path = self.kept.as_deref()?.join("ascend-bytecode");
        private_dir(&path).is_ok().then_some(path)
    }

    /// Runs a compiler with `--help`; returns its exit code and its reads.
    pub(super) fn run_help(
        &self,
        cx: &Context<'_>,
        program: &Path,
        interpreter: &Interpreter,
        watched: Watched<'_>,
    ) -> Result<(HelpExit, Observation), BackendError> {
        self.run_program(cx, program, &["--help"], self.work_dir()?.path(), interpreter, watched)
    }

    /// Preprocesses the headers of the C and C++ libraries, of which generated sources include some; returns the reads.
    /// Headers that a toolkit's release lacks are left out.
    pub(super) fn preprocess(
        &self,
        cx: &Context<'_>,
        compiler: &Path,
        interpreter: &Interpreter,
        watched: Watched<'_>,
    ) -> Result<Observation, BackendError> {
        let work = self.work_dir()?;
        let source = work.path().join("headers.cpp");
        Fs::new().write(&source, headers::source().as_bytes()).map_err(io_error("write", &source))?;
        let args = ["-x", "c++", "-std=c++17", "-E", "-o", "/dev/null", &text(&source)];
        Ok(self.run_program(cx, compiler, &args, work.path(), interpreter, watched)?.1)
    }

    fn run_program(
        &self,
        cx: &Context<'_>,
        program: &Path,
        args: &[&str],
        work_dir: &Path,
        interpreter: &Interpreter,
        watched: Watched<'_>,
    ) -> Result<(HelpExit, Observation), BackendError> {
        let environment = interpreter.for_programs(&self.environment);
        let args: Vec<_> = args.iter().map(OsString::from).collect();
        let launch =
            Launch { program, args: &args, environment: &environment, dir: work_dir, work_dir, result: None };
        let (ended, seen) = self.run_to_end(cx, &launch, watched)?;
        match ended {
            Ok(ended) => Ok((ended.status.code(), seen)),
            Err(error @ (BackendError::Cancelled | BackendError::TimedOut { .. })) => Err(error),
            Err(BackendError::Io { action, path, source }) if is_short_of_resources(&source) => {
                Err(BackendError::Io { action, path, source })
            }
            // A program that cannot be run is reported at the first compile.
            Err(_) => Ok((None, seen)),
        }
    }

    /// Runs a program to its end; returns its result and its observed reads.
    fn run_to_end(
        &self,
        cx: &Context<'_>,
        launch: &Launch<'_>,
        watched: Watched<'_>,
    ) -> Result<(Result<ProcessOutput, BackendError>, Observation), BackendError> {
        let Launch { program, args, environment, dir, work_dir, result } = *launch;
        let domain = watched.reach.map(|reach| reach.domain(&Extra::default(), work_dir)).transpose();
        let domain =
            domain.map_err(std::io::Error::other).map_err(io_error("confine programs in", work_dir))?;
        let environment = with_temporary(environment, work_dir);
        let deadline = cx.deadline_before(Some(Instant::now() + LIMIT));
        let run = |observer: Option<&Observer>| {
            // What an interrupted run wrote is no result of the next one.
            if let Some(result) = result {
                let _ = Fs::new().remove(result);
            }
            let run = ProcessBuilder {
                program,
                args,
                environment: &environment,
                dir,
                log: None,
                deadline,
                cancel: cx.cancel,
                sandbox: Sandbox { domain: domain.as_ref(), observer },
            };
            run.wait_with_output().map_err(backend_error)
        };
        if !watched.is_observed {
            return Ok((run(None), Observation::default()));
        }
        let observed = Observer::of_run(work_dir, |observer| run(Some(observer)));
        observed.map_err(io_error("observe programs in", work_dir))
    }

    fn work_dir(&self) -> Result<ProbeDir, BackendError> {
        ProbeDir::create(&[&self.scratch]).map_err(io_error("create a directory in", &self.scratch))
    }

    /// Runs the probe's Python; returns its report and its observed reads.
    pub(super) fn run_probe(
        &self,
        cx: &Context<'_>,
        ask: &Ask<'_>,
        watched: Watched<'_>,
    ) -> Result<(Report, Observation), BackendError> {
        let work = self.work_dir()?;
        let Ask { interpreter, lazy, names, children } = *ask;
        let report = work.path().join("report.json");
        let request = json!({"do": "probe", "tool_folder": self.tool_dir.as_deref().map(text), "lazy": lazy,
            "names": names, "children": children, "programs": PROGRAMS, "report": text(&report)});
        let request_path = work.path().join("request.json");
        Fs::new()
            .write(&request_path, request.to_string().as_bytes())
            .map_err(io_error("write", &request_path))?;
        let bytecode = self.bytecode().map(PathBuf::into_os_string).unwrap_or_default();
        let mut args = interpreter.arguments.clone();
        args.extend(["-S", "-u", "-c", SCRIPT].map(OsString::from));
        args.extend([bytecode, request_path.into_os_string()]);
        let launch = Launch {
            program: &interpreter.program,
            args: &args,
            environment: &interpreter.environment,
            dir: Path::new("/"),
            work_dir: work.path(),
            result: Some(&report),
        };
        let (ended, seen) = self.run_to_end(cx, &launch, watched)?;
        let ended = ended?;
        let unusable = |problem: String| {
            let command = interpreter.program.display().to_string();
            let why = error_line(&ended.output).map(|line| format!(": {line}")).unwrap_or_default();
            let problem = format!("`{command}` {problem}{why}");
            let tool = FailedTool { kind: ToolKind::Other, command, output: tail(&ended.output) };
            BackendError::failed_tool(problem, PYTHON_HELP, tool)
        };
        let bytes = Fs::new()
            .read(&report, LONGEST)
            .map_err(|_| unusable(format!("does not report what it imports ({})", ended.status)))?;
        let report = serde_json::from_slice(&bytes)
            .map_err(|error| unusable(format!("wrote an unreadable report ({error})")))?;
        Ok((report, seen))
    }
}

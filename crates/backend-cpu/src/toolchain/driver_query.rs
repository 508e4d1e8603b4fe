//! Asking the compiler what it is, and what it would do.
//!
//! Each question is a process. So the dry run (`-###`), which says what the compiler is, too, is asked for with the flags for
//! the compiler that is probably there, and once more only if it proves to be another.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Instant;

use opkeep_backend::{BackendError, Context, FailedTool, ToolKind};
use opkeep_fs::Fs;
use opkeep_process::{
    ProbeDir, ProcessBuilder, ProcessError, ProcessOutput, RunningProcess, Sandbox, error_line, tail,
};

use super::runs::environment;
use crate::config::CpuConfig;
use crate::config::Features;
use crate::process_error::backend_error;

use super::programs::is_elf;
use super::words::line_after;

/// What helps if there is no compiler.
const INSTALL: &str = "install a C compiler (Debian, Ubuntu: apt install gcc; Fedora, openEuler: dnf install gcc), \
    or name one in CC";

/// What helps if there is one that does not work.
const OTHER: &str = "name another gcc or clang in CC, or install this one again (Debian, Ubuntu: apt install gcc; \
    Fedora, openEuler: dnf install gcc)";

/// The error that there is no compiler.
pub(crate) fn missing(problem: String) -> BackendError {
    BackendError::toolchain(problem, INSTALL)
}

/// The error of a compiler that does not work.
pub(crate) fn unusable(problem: String) -> BackendError {
    BackendError::toolchain(problem, OTHER)
}

/// The error of a compiler that ran, with the output of `command`.
fn failing(problem: String, command: String, output: &str) -> BackendError {
    let tool = FailedTool { kind: ToolKind::Compiler, command, output: tail(output) };
    BackendError::failed_tool(problem, OTHER, tool)
}

/// A compiler that is asked something that takes no time.
pub(crate) struct DriverQuery<'a> {
    config: &'a CpuConfig,
    cx: &'a Context<'a>,
    driver: &'a Path,
    /// Arguments that come before all others.
    leading: &'a [String],
}

/// A dry run that was asked for.
pub(crate) struct PendingQuery {
    guess: Vec<String>,
    steps: Asking,
}

/// A question, and the directory that is its own while it is answered: compilers make temporary files even for a dry run, and
/// do not always remove them.
struct Asking {
    running: RunningProcess,
    /// The error, if no directory can be made: an answer may not need one.
    dir: io::Result<ProbeDir>,
}

impl PendingQuery {
    /// No caller waits for the answer.
    pub(crate) fn terminate(self) {
        self.steps.running.terminate();
    }
}

/// The identity of a compiler and its dry run.
pub(crate) struct DriverInfo {
    pub(crate) version: String,
    pub(crate) triple: String,
    /// Those that it was asked with.
    pub(crate) flags: Vec<String>,
    /// All that it said of its steps.
    pub(crate) steps: String,
}

impl<'a> DriverQuery<'a> {
    pub(crate) fn new(
        config: &'a CpuConfig,
        cx: &'a Context<'a>,
        driver: &'a Path,
        leading: &'a [String],
    ) -> Self {
        Self { config, cx, driver, leading }
    }

    /// The compiler's answer to `args` is what it wrote.
    pub(crate) fn answer(&self, args: &[&str]) -> Result<String, BackendError> {
        let (Asking { running, dir }, command) = self.ask(args)?;
        let ended = running.wait_with_output().map_err(|error| self.unanswered(error))?;
        if ended.status.success() {
            return Ok(ended.output);
        }
        Err(match dir {
            Ok(_) => {
                let problem = format!("the compiler `{}` fails: {}", self.name(), reason(&ended));
                failing(problem, command, &ended.output)
            }
            Err(error) => without_dir(self.config, &error),
        })
    }

    /// Begins to ask for a dry run.
    pub(crate) fn begin(&self) -> Result<PendingQuery, BackendError> {
        let guess = self.flags(std::env::consts::ARCH, is_called_clang(self.driver));
        let (steps, _) = self.ask(&dry(&guess))?;
        Ok(PendingQuery { guess, steps })
    }

    /// Waits for the answers. What came to nothing is asked again: who began it may have been a thread that is gone, and
    /// with it what it started. Nor does time count that passed before anybody waited.
    pub(crate) fn dry_run(&self, begun: PendingQuery) -> Result<DriverInfo, BackendError> {
        let PendingQuery { guess, steps } = begun;
        let (version, triple, flags, steps) = self.identified(guess, self.said(steps)?)?;
        Ok(DriverInfo { version, triple, flags, steps })
    }

    /// The output of a compiler that succeeded.
    fn said(&self, asking: Asking) -> Result<Option<String>, BackendError> {
        match asking.running.set_deadline(self.deadline(), self.cx.cancel).wait_with_output() {
            Ok(ended) => Ok(ended.status.success().then_some(ended.output)),
            // Another thread has waited for all children of this process; or the process was forked and the child belongs to its parent.
            Err(ProcessError::Io { .. }) => Ok(None),
            Err(error) => Err(self.unanswered(error)),
        }
    }

    /// The compiler's kind, the flags for it, and its steps with these; `said` are its steps with the flags that were
    /// guessed.
    fn identified(
        &self,
        guess: Vec<String>,
        said: Option<String>,
    ) -> Result<(String, String, Vec<String>, String), BackendError> {
        let fitting = |version: &str, triple: &str| self.flags(triple, version.contains("clang"));
        if let Some(steps) = said
            && let Some((version, triple)) = version_and_triple(&steps)
            && fitting(&version, &triple) == guess
        {
            return Ok((version, triple, guess, steps));
        }
        // It may have failed for the flags of another compiler.
        let (version, triple) = version_and_triple(&self.answer(&["-v"])?).ok_or_else(|| {
            unusable(format!("`{} -v` does not answer as gcc or clang do", self.driver.display()))
        })?;
        let flags = fitting(&version, &triple);
        let steps = self.answer(&dry(&flags))?;
        Ok((version, triple, flags, steps))
    }

    /// The generated C includes nothing. What a script or an argument includes besides must be found.
    fn flags(&self, triple: &str, clang: bool) -> Vec<String> {
        let needs_no_header = self.leading.is_empty() && is_elf(self.driver);
        let mut flags = flags(triple, clang, self.config.features, needs_no_header);
        // gold knows no such layout, and lays segments out so anyway.
        if self.leading.iter().any(|word| word == "-fuse-ld=gold") {
            flags.retain(|flag| flag != "-Wl,-z,noseparate-code");
        }
        flags
    }

    fn words(&self, args: &[&str]) -> Vec<OsString> {
        let leading = self.leading.iter().map(OsString::from);
        leading.chain(args.iter().map(OsString::from)).collect()
    }

    /// Starts the compiler with a question; with the command, for messages.
    fn ask(&self, args: &[&str]) -> Result<(Asking, String), BackendError> {
        // A question needs no directory; a machine without a temporary one can still reuse what it has.
        let dir = probe_dir(self.config);
        let path = dir.as_ref().map_or(Path::new("/"), ProbeDir::path);
        let words = self.words(args);
        let run = ProcessBuilder {
            program: self.driver,
            args: &words,
            environment: &environment(&self.config.path, path),
            dir: path,
            log: None,
            deadline: self.deadline(),
            cancel: self.cx.cancel,
            sandbox: Sandbox::default(),
        };
        let (running, command) = (run.spawn().map_err(|error| self.unanswered(error))?, run.to_string());
        Ok((Asking { running, dir }, command))
    }

    /// The error of a question without an answer.
    fn unanswered(&self, error: ProcessError) -> BackendError {
        match error {
            ProcessError::Cancelled => BackendError::Cancelled,
            ProcessError::TimedOut { .. } if self.is_past_deadline() => backend_error(error),
            // Not the caller's deadline: a usable compiler answers at once.
            ProcessError::TimedOut { command, seconds, log_tail, .. } => {
                let problem = format!(
                    "the compiler `{}` fails: it does not state its version within a deadline of {seconds:.1} s",
                    self.name()
                );
                failing(problem, command, &log_tail)
            }
            other => unusable(other.to_string()),
        }
    }

    /// The compiler and its arguments, as the user named them.
    fn name(&self) -> String {
        let leading = self.leading.iter().map(String::as_str);
        std::iter::once(&*self.driver.to_string_lossy()).chain(leading).collect::<Vec<_>>().join(" ")
    }

    fn is_past_deadline(&self) -> bool {
        self.cx.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// When who is asked now must have answered.
    fn deadline(&self) -> Option<Instant> {
        self.cx.deadline_before(Instant::now().checked_add(self.config.probe_deadline))
    }
}

/// Where a directory for a run of the compiler is made, if not below the configured one.
const OTHER_PLACES: [&str; 3] = ["/dev/shm", "/var/tmp", "/tmp"];

/// Makes a directory for a run of the compiler, below the configured one or wherever else there is room.
pub(super) fn probe_dir(config: &CpuConfig) -> io::Result<ProbeDir> {
    let others = OTHER_PLACES.map(Path::new);
    ProbeDir::create(&[&[config.scratch.as_path()], others.as_slice()].concat())
}

/// The problem that [`probe_dir`] failed. Most compilers do not even answer without temporary files, so another compiler is no help.
pub(super) fn without_dir(config: &CpuConfig, error: &io::Error) -> BackendError {
    BackendError::Toolchain {
        problem: format!(
            "the compiler has no directory for temporary files below `{}`, {}: {error}",
            config.scratch.display(),
            OTHER_PLACES.join(", ")
        ),
        help: "TMPDIR names a directory that this user can write, with some space".to_owned(),
        tool: None,
    }
}

/// The line that a program which failed gave as the reason, and its exit status.
pub(super) fn reason(ended: &ProcessOutput) -> String {
    match error_line(&ended.output) {
        // What is behind a semicolon in the text of an error is what helps.
        Some(line) => format!("{} ({})", line.replace("; ", ", "), ended.ending()),
        None => ended.ending(),
    }
}

/// The version and the target triple, which `-v` and `-###` begin with.
fn version_and_triple(said: &str) -> Option<(String, String)> {
    let triple = line_after(said, "Target: ").filter(|triple| !triple.is_empty())?;
    let version = said.lines().find(|line| line.contains(" version "))?.trim().to_owned();
    Some((version, triple))
}

/// Whether a compiler is clang by its name, or by the name of what it is a link to.
fn is_called_clang(driver: &Path) -> bool {
    let real = Fs::new().real_path(driver).unwrap_or_default();
    let names =
        [driver, &real].map(|path| path.file_name().unwrap_or_default().to_string_lossy().into_owned());
    names.iter().any(|name| name.contains("clang"))
}

/// The arguments of a dry run.
fn dry(flags: &[String]) -> Vec<&str> {
    let flags = flags.iter().map(String::as_str);
    std::iter::once("-###").chain(flags).chain(["-x", "c", "-", "-o", "kernel.o"]).collect()
}

/// Everything that decides the code, made explicit.
fn flags(triple: &str, clang: bool, features: Features, needs_no_header: bool) -> Vec<String> {
    let x86 = triple.starts_with("x86_64");
    let arch = match (features, x86) {
        (Features::Native, true) => Some("-march=native"),
        (Features::Native, false) => Some("-mcpu=native"),
        (Features::Portable, true) => Some("-march=x86-64"),
        (Features::Portable, false) if triple.starts_with("aarch64") => Some("-march=armv8-a"),
        (Features::Portable, false) => None,
    };
    let mut flags = vec!["-std=c11", "-O3", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra"];
    flags.extend(arch);
    if needs_no_header {
        // Not even the one that compilers include by themselves.
        flags.push("-nostdinc");
    }
    // Floats mean what the source says, on every machine.
    flags.extend(["-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]);
    // Nothing that needs a C library: no stack guard, no loops turned into memset.
    flags.push("-fno-stack-protector");
    flags.push(if clang { "-fno-builtin" } else { "-fno-tree-loop-distribute-patterns" });
    // Small, and the same bytes every time.
    flags.extend(["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-ident"]);
    if x86 {
        flags.push("-fcf-protection=none");
    }
    flags.extend(["-shared", "-nostdlib", "-s"]);
    flags.extend(["-Wl,-z,noseparate-code", "-Wl,-z,norelro", "-Wl,-z,noexecstack"]);
    flags.extend(["-Wl,--build-id=none", "-Wl,--hash-style=gnu", "-Wl,--as-needed"]);
    flags.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test writes and reads what a compiler reads and writes")]
mod tests {
    use std::process::Command;

    use opkeep_testkit::job;

    use super::*;
    use crate::codegen::generate::generate;

    /// Compilers include a header by themselves, which must then count; the code that is generated needs none.
    #[test]
    fn without_headers_the_object_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        for op in ["Square", "Exp", "SoftmaxV2"] {
            let source = dir.path().join("kernel.c");
            std::fs::write(&source, generate(&job(op, &[&[3, 5]]), "kernel", |_| None).unwrap().text)
                .unwrap();
            let object = |needs_no_header| {
                let flags = flags(std::env::consts::ARCH, false, Features::Portable, needs_no_header);
                assert_eq!(flags.iter().any(|flag| flag == "-nostdinc"), needs_no_header);
                let output = dir.path().join("kernel.o");
                let mut gcc = Command::new("gcc");
                gcc.args(flags).arg("-o").arg(&output).arg(&source).arg("-lm");
                assert!(gcc.status().unwrap().success());
                std::fs::read(output).unwrap()
            };
            assert!(object(true) == object(false), "{op}");
        }
    }
}

//! One compile by either driver: in a process of its own, or in a worker.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opkeep_artifact::Artifact;
use opkeep_backend::{BackendError, CompileRequest, Context};
use opkeep_cann_toolkit::{Implementation, Toolkit, knowledge_bank};
use opkeep_descriptor::Op;
use opkeep_fs::Fs;
use opkeep_process::{ProcessBuilder, ProcessOutput, Sandbox, keep_log, tail};
use serde_json::{Map, Value, json};

use crate::compile::compile_output;
use crate::compile::options;
use crate::error::io_error;
use crate::probe::interpreter::with_temporary;
use crate::probe::reach::Extra;
use crate::probe::sandbox::is_interrupted;
use crate::process_error::backend_error;
use crate::slog;
use crate::worker::pool::{Answer, Asked, Pool, WorkerConfig, WorkerError, WorkerOptions};

/// The input of the compiler, the same for both drivers.
pub(crate) struct CompilerInput<'a> {
    cx: &'a Context<'a>,
    pub(crate) request: &'a CompileRequest<'a>,
    pub(crate) op: &'a Op,
    /// The parameter file's content.
    pub(crate) parameters: Value,
    /// The operator's source file and function, if the compiler cannot find the operator by its type.
    pub(crate) file: Option<(PathBuf, String)>,
    /// The directory from which the operator's package is imported.
    base: PathBuf,
    /// The attempt's own directory.
    dir: PathBuf,
    output: PathBuf,
    debug: PathBuf,
}

impl<'a> CompilerInput<'a> {
    /// The input of attempt number `attempt`. Each attempt has a directory of its own, since the files that a killed
    /// attempt leaves in the debug directory make the next attempt fail.
    pub(crate) fn new(
        cx: &'a Context<'a>,
        request: &'a CompileRequest<'a>,
        op: &'a Op,
        parameters: Value,
        implementation: &Implementation,
        toolkit: &Toolkit,
        attempt: u32,
    ) -> Self {
        let dir = request.work_dir.join(format!("attempt-{attempt}"));
        let (output, debug) = (dir.join("output"), dir.join("debug"));
        // Built-in operators and those of `vendors/` are found by their type.
        let found = toolkit.vendors.iter().find(|vendor| vendor.tbe == implementation.base);
        let by_type = implementation.base == toolkit.tbe || found.is_some_and(|vendor| !vendor.is_custom());
        let file = implementation.dynamic.clone().or_else(|| implementation.file.clone());
        let file = file.filter(|_| !by_type).map(|file| (file, implementation.function.clone()));
        let base = implementation.base.clone();
        Self { cx, request, op, parameters, file, base, dir, output, debug }
    }

    /// The options by the compiler's names, without the directories.
    fn options(&self, has_banks: bool) -> Result<Vec<(&'static str, Value)>, BackendError> {
        let spec = self.request.spec;
        let option = |name: &str| spec.options.get(name).map(String::as_str);
        let mut all = vec![
            ("soc_version", spec.target.as_str().into()),
            // With the compiler's default, `all`, it compiles twice.
            ("deterministic", option("deterministic").unwrap_or("false").into()),
        ];
        let number = |name: &str| option(name).and_then(|text| text.parse::<u32>().ok());
        // Level 4 differs from level 3 only by a file that no compile reads.
        all.extend(number("op_debug_level").map(|level| ("op_debug_level", level.min(3).into())));
        all.extend(number("aicore_num").map(|cores| ("aicore_num", cores.into())));
        for name in ["op_debug_config", "core_type"] {
            all.extend(option(name).map(|value| (name, value.into())));
        }
        all.extend(options::mode_of(&spec.options, &self.op.op_type).map(|mode| ("impl_mode", mode.into())));
        for name in ["mdl_bank_path", "op_bank_path"] {
            let Some(value) = option(name) else { continue };
            if !has_banks {
                return Err(BackendError::Option {
                    name: name.to_owned(),
                    value: value.to_owned(),
                    expected: "no value: this toolkit's `asc_opc` does not have this option".to_owned(),
                });
            }
            all.push((name, value.into()));
        }
        Ok(all)
    }

    fn log(&self) -> PathBuf {
        self.request.work_dir.join("compile.log")
    }

    /// The kernel. If it is missing, the error has the cause that the compiler logged.
    fn collect_artifact(
        &self,
        output: &str,
        failure_of: &dyn Fn(Option<String>) -> BackendError,
    ) -> Result<Artifact, BackendError> {
        let missing = match compile_output::collect(&self.output, self.request.name.as_str()) {
            Ok(artifact) => return Ok(artifact),
            Err(problem) => problem,
        };
        let parse_log = slog::parse_log(output);
        let cause = slog::cause(&parse_log).filter(|cause| cause.level == slog::Level::Error);
        let Some(cause) = cause else { return Err(failure_of(Some(missing))) };
        let hint = slog::hint(&cause.text);
        if let Some(help) = hint.filter(|_| is_toolkit_failure(&cause.text)) {
            return Err(BackendError::Toolchain {
                problem: cause.to_string(),
                help: help.to_owned(),
                tool: None,
            });
        }
        Err(failure_of(None))
    }
}

/// Whether the toolkit itself is broken, so that every compile fails.
fn is_toolkit_failure(text: &str) -> bool {
    text.contains("Descriptors cannot") || text.contains("No module named")
}

/// How many more attempts may succeed after this output: one, if a killed compile left a lock.
fn repeats_after(output: &str) -> u32 {
    u32::from(output.contains("Another process is using this dir"))
}

/// How many more attempts may succeed after an attempt whose calls a signal interrupted.
const INTERRUPTED_REPEATS: u32 = 4;

/// The part of the output that errors show: the cause with its help, then the end.
fn log_excerpt(output: &str) -> String {
    let parse_log = slog::parse_log(output);
    let cause = slog::cause(&parse_log).map(|cause| {
        let hint = slog::hint(&cause.text).map(|hint| format!("\n({hint})")).unwrap_or_default();
        format!("{cause}{hint}\n")
    });
    format!("{}{}", cause.unwrap_or_default(), tail(output))
}

/// The result of one attempt.
pub(crate) struct AttemptResult {
    pub(crate) artifact: Result<Artifact, BackendError>,
    /// How many further attempts the failure allows, counted from the first: another attempt may succeed.
    pub(crate) max_repeats: u32,
    /// Paths that the attempt read and the job's key does not cover.
    pub(crate) unkeyed_paths: Vec<PathBuf>,
    /// Whether the attempt read files that it wrote outside its work directory: a domain denies such reads.
    pub(crate) reads_own_files: bool,
    /// The command.
    pub(crate) command: String,
}

impl AttemptResult {
    fn of(artifact: Result<Artifact, BackendError>) -> Self {
        Self {
            artifact,
            max_repeats: 0,
            unkeyed_paths: Vec::new(),
            reads_own_files: false,
            command: String::new(),
        }
    }
}

/// Driver A: one process per compile.
pub(crate) struct Process<'a> {
    /// `opc` or `asc_opc`.
    pub(crate) program: &'a Path,
    pub(crate) has_banks: bool,
    pub(crate) environment: &'a [(OsString, OsString)],
    pub(crate) config: &'a WorkerConfig,
    pub(crate) extra: &'a Extra,
}

impl Process<'_> {
    pub(crate) fn compile(&self, input: &CompilerInput<'_>) -> AttemptResult {
        self.try_compile(input).unwrap_or_else(|error| {
            let max_repeats = if is_interrupted(&error) { INTERRUPTED_REPEATS } else { 0 };
            AttemptResult { max_repeats, ..AttemptResult::of(Err(error)) }
        })
    }

    fn try_compile(&self, input: &CompilerInput<'_>) -> Result<AttemptResult, BackendError> {
        for dir in [&input.dir, &input.output, &input.debug] {
            Fs::new().create_dir(dir, 0o777).map_err(io_error("create", dir))?;
        }
        let parameters = input.dir.join("params.json");
        let text = input.parameters.to_string();
        Fs::new().write(&parameters, text.as_bytes()).map_err(io_error("write", &parameters))?;
        let mut args: Vec<OsString> = Vec::new();
        if let Some((file, function)) = &input.file {
            args.push(file.into());
            args.push(format!("--main_func={function}").into());
        }
        args.push(option("input_param", parameters.as_os_str()));
        args.push(option("output", input.output.as_os_str()));
        args.push(option("debug_dir", input.debug.as_os_str()));
        for (name, value) in input.options(self.has_banks)? {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            args.push(option(name, OsStr::new(&text)));
        }
        let log = input.log();
        // The domain contains no other attempt's directory, so that no attempt reads the files of another.
        let sandbox = self.config.sandbox(self.extra, &input.dir)?;
        let environment = with_temporary(self.environment, &input.dir);
        let run = ProcessBuilder {
            program: self.program,
            args: &args,
            environment: &environment,
            dir: &input.dir,
            log: Some(&log),
            deadline: input.cx.deadline,
            cancel: input.cx.cancel,
            sandbox: Sandbox::default(),
        };
        let ended = ProcessBuilder { sandbox: sandbox.as_run(), ..run }.wait_with_output();
        let command = run.to_string();
        let (unkeyed_paths, reads_own_files) = match sandbox.finish(self.config.reach(), self.extra) {
            Ok(read) => read,
            // A program that is ended at its deadline is ended amid a call, perhaps.
            Err(error) if is_interrupted(&error) => return Err(ended.err().map_or(error, backend_error)),
            Err(error) => return Err(error),
        };
        let (artifact, max_repeats) = match ended {
            Ok(ended) => (self.process_result(input, &run, &ended, &log), repeats_after(&ended.output)),
            Err(error) => (Err(backend_error(error)), 0),
        };
        Ok(AttemptResult { artifact, max_repeats, unkeyed_paths, reads_own_files, command })
    }

    fn process_result(
        &self,
        input: &CompilerInput<'_>,
        run: &ProcessBuilder<'_>,
        ended: &ProcessOutput,
        log: &Path,
    ) -> Result<Artifact, BackendError> {
        let crashed = !ended.status.success();
        input.collect_artifact(&ended.output, &|missing| match missing {
            Some(problem) if !crashed => backend_error(run.missing_output_error(ended, problem)),
            _ => BackendError::Compile {
                command: run.to_string(),
                status: ended.ending(),
                log_tail: log_excerpt(&ended.output),
                log: keep_log(log, &ended.output),
            },
        })
    }
}

fn option(name: &str, value: &OsStr) -> OsString {
    let mut option = OsString::from(format!("--{name}="));
    option.push(value);
    option
}

/// Driver B: a worker that has imported the toolkit.
pub(crate) fn compile_by_worker(
    pool: &Pool,
    config: &Arc<WorkerConfig>,
    extra: &Extra,
    input: &CompilerInput<'_>,
) -> AttemptResult {
    let request = input.request;
    let mut options: Map<String, Value> = match input.options(true) {
        Ok(options) => {
            opkeep_order::collected(options.into_iter().map(|(name, value)| (name.to_owned(), value)))
        }
        Err(error) => return AttemptResult::of(Err(error)),
    };
    options.insert("bin_filename".to_owned(), request.name.as_str().into());
    if let Some((file, function)) = &input.file {
        options.insert("op_path".to_owned(), file.to_string_lossy().into());
        options.insert("main_func".to_owned(), function.as_str().into());
    }
    let message = json!({"do": "compile", "parameters": input.parameters, "options": options});
    let worker_options = WorkerOptions {
        extra,
        watched: input.file.is_some().then_some(input.base.as_path()),
        // A worker reads a knowledge bank once and does not notice later changes.
        is_last: knowledge_bank::OPTIONS.iter().any(|option| request.spec.options.contains_key(*option)),
        output_dir: Some(&input.dir),
    };
    let command = || format!("opc_tool.opc_api.compile_op ({})", request.name.as_str());
    let Asked { answer, unkeyed_paths, reads_own_files } =
        pool.ask(config, &message, worker_options, input.cx);
    let (artifact, max_repeats) = match answer {
        Ok(Answer { content, output }) => worker_result(input, &content, output, &command),
        Err(error) => (Err(failure(error, command(), input)), 0),
    };
    AttemptResult { artifact, max_repeats, unkeyed_paths, reads_own_files, command: command() }
}

/// The result of a worker's answer, and how many more attempts may succeed.
fn worker_result(
    input: &CompilerInput<'_>,
    content: &Value,
    output: String,
    command: &dyn Fn() -> String,
) -> (Result<Artifact, BackendError>, u32) {
    let problem = content["problem"].as_str().unwrap_or_default();
    let output = if problem.is_empty() { output } else { format!("{output}\n{problem}") };
    let done = content["done"] == true;
    let artifact = input.collect_artifact(&output, &|missing| match missing {
        Some(problem) if done => BackendError::MissingOutput {
            command: command(),
            problem,
            log_tail: log_excerpt(&output),
            log: keep_log(&input.log(), &output),
        },
        _ => BackendError::Compile {
            command: command(),
            status: "the compiler reported a failure".to_owned(),
            log_tail: log_excerpt(&output),
            log: keep_log(&input.log(), &output),
        },
    });
    (artifact, repeats_after(&output))
}

fn failure(error: WorkerError, command: String, input: &CompilerInput<'_>) -> BackendError {
    let log = |output: &str| keep_log(&input.log(), output);
    match error {
        WorkerError::Died { status, output } => BackendError::Compile {
            command,
            status: format!("the worker ended: {status}"),
            log_tail: log_excerpt(&output),
            log: log(&output),
        },
        WorkerError::Late { seconds, output } => {
            BackendError::TimedOut { command, seconds, log_tail: tail(&output), log: log(&output) }
        }
        WorkerError::Cancelled => BackendError::Cancelled,
        WorkerError::Start(error) => error,
    }
}

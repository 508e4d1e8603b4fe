//! One compile: the same for both drivers but for who does it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opbuild_artifact::Artifact;
use opbuild_backend::{BackendError, CompileRequest};
use opbuild_descriptor::Op;
use opbuild_process::{Run, Sandbox, keep_log, tail};
use serde_json::{Map, Value, json};

use crate::find::Toolkit;
use crate::pool::{Answer, Patience, Pool, Setup, Trouble, Whom, text};
use crate::sources::Implementation;
use crate::{banks, disk, made, options, slog};

/// What the compiler is told, whoever tells it.
pub(crate) struct Told<'a> {
    pub(crate) request: &'a CompileRequest<'a>,
    pub(crate) op: &'a Op,
    /// The parameter file's content.
    pub(crate) parameters: Value,
    /// The file of an operator that the compiler would not find by its type, and the function in it.
    pub(crate) file: Option<(PathBuf, String)>,
    /// The folder that its package is imported from.
    base: PathBuf,
    pub(crate) output: PathBuf,
    debug: PathBuf,
}

impl<'a> Told<'a> {
    /// Makes the folders of attempt number `attempt`. The compiler would make them with odd modes, and what a killed
    /// attempt leaves in the debug folder keeps the next one out.
    pub(crate) fn new(
        request: &'a CompileRequest<'a>,
        op: &'a Op,
        parameters: Value,
        implementation: &Implementation,
        toolkit: &Toolkit,
        attempt: u32,
    ) -> Result<Self, BackendError> {
        let folder = request.work_dir.join(format!("attempt-{attempt}"));
        let (output, debug) = (folder.join("output"), folder.join("debug"));
        for path in [&folder, &output, &debug] {
            disk::make_folder(path)?;
        }
        // Built-in operators and those of `vendors/` are found by their type.
        let found = toolkit.vendors.iter().find(|vendor| vendor.tbe == implementation.base);
        let by_type = implementation.base == toolkit.tbe || found.is_some_and(|vendor| !vendor.is_custom());
        let file = implementation.dynamic.clone().or_else(|| implementation.file.clone());
        let file = file.filter(|_| !by_type).map(|file| (file, implementation.function.clone()));
        let base = implementation.base.clone();
        Ok(Self { request, op, parameters, file, base, output, debug })
    }

    /// The options, as the compiler calls them.
    fn options(&self, has_banks: bool) -> Result<Vec<(&'static str, Value)>, BackendError> {
        let spec = self.request.spec;
        let option = |name: &str| spec.options.get(name).map(String::as_str);
        let path = |path: &Path| Value::from(path.to_string_lossy());
        let mut all = vec![
            ("soc_version", spec.target.as_str().into()),
            ("output", path(&self.output)),
            ("debug_dir", path(&self.debug)),
            // `all`, which is what it is if nothing is said, compiles twice.
            ("deterministic", option("deterministic").unwrap_or("false").into()),
        ];
        let number = |name: &str| option(name).and_then(|text| text.parse::<u32>().ok());
        // Level 4 is level 3 and a file that nobody compiles from.
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
                    expected: "nothing: this toolkit's `asc_opc` has no such option".to_owned(),
                });
            }
            all.push((name, value.into()));
        }
        Ok(all)
    }

    fn log(&self) -> PathBuf {
        self.request.work_dir.join("compile.log")
    }

    /// The kernel, if it is there; else why not, by the compiler's own words.
    fn judge(
        &self,
        output: &str,
        ended: &dyn Fn(Option<String>) -> BackendError,
    ) -> Result<Artifact, BackendError> {
        let missing = match made::collect(&self.output, self.request.name.as_str()) {
            Ok(artifact) => return Ok(artifact),
            Err(problem) => problem,
        };
        let complaints = slog::complaints(output);
        let cause = slog::cause(&complaints).filter(|cause| cause.level == slog::Level::Error);
        let Some(cause) = cause else { return Err(ended(Some(missing))) };
        let hint = slog::hint(&cause.text);
        if let Some(way_out) = hint.filter(|_| is_the_toolkits(&cause.text)) {
            return Err(BackendError::Toolchain { problem: cause.to_string(), way_out: way_out.to_owned() });
        }
        Err(ended(None))
    }
}

/// Whether it is the toolkit itself that does not work, whatever is compiled.
fn is_the_toolkits(text: &str) -> bool {
    text.contains("Descriptors cannot") || text.contains("No module named")
}

/// Whether another attempt may go well: a lock that a killed compile left behind.
fn is_transient(output: &str) -> bool {
    output.contains("Another process is using this dir")
}

/// What to show of the output: the cause first, with what can be done, then its end.
fn shown(output: &str) -> String {
    let complaints = slog::complaints(output);
    let cause = slog::cause(&complaints).map(|cause| {
        let hint = slog::hint(&cause.text).map(|hint| format!("\n({hint})")).unwrap_or_default();
        format!("{cause}{hint}\n")
    });
    format!("{}{}", cause.unwrap_or_default(), tail(output))
}

/// Driver A: one process a compile.
pub(crate) struct Process<'a> {
    /// `opc` or `asc_opc`.
    pub(crate) program: &'a Path,
    pub(crate) has_banks: bool,
    pub(crate) environment: &'a [(OsString, OsString)],
}

impl Process<'_> {
    /// Compiles. The second value says whether it is worth another attempt.
    pub(crate) fn compile(&self, told: &Told<'_>) -> (Result<Artifact, BackendError>, bool) {
        let mut transient = false;
        let made = self.try_compile(told, &mut transient);
        (made, transient)
    }

    fn try_compile(&self, told: &Told<'_>, transient: &mut bool) -> Result<Artifact, BackendError> {
        let request = told.request;
        let parameters = told.output.with_file_name("params.json");
        disk::write(&parameters, told.parameters.to_string().as_bytes())?;
        let mut args: Vec<OsString> = Vec::new();
        if let Some((file, function)) = &told.file {
            args.push(file.into());
            args.push(format!("--main_func={function}").into());
        }
        args.push(option("input_param", parameters.as_os_str()));
        for (name, value) in told.options(self.has_banks)? {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            args.push(option(name, OsStr::new(&text)));
        }
        let temporary = request.work_dir.as_os_str();
        let mut environment: Vec<(&OsStr, &OsStr)> =
            self.environment.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())).collect();
        environment.push((OsStr::new("TMPDIR"), temporary));
        let log = told.log();
        let run = Run {
            program: self.program,
            args: &args,
            environment: &environment,
            dir: request.work_dir,
            log: Some(&log),
            deadline: request.deadline,
            cancel: request.cancel,
            sandbox: Sandbox::default(),
        };
        let ended = run.to_end()?;
        *transient = is_transient(&ended.output);
        let crashed = !ended.status.success();
        told.judge(&ended.output, &|missing| match missing {
            Some(problem) if !crashed => run.lied(&ended, problem),
            _ => BackendError::Compile {
                command: run.to_string(),
                status: ended.ending(),
                log_tail: shown(&ended.output),
                log: keep_log(&log, &ended.output),
            },
        })
    }
}

fn option(name: &str, value: &OsStr) -> OsString {
    let mut option = OsString::from(format!("--{name}="));
    option.push(value);
    option
}

/// What one compile may read beyond what every compile may.
pub(crate) struct Extra {
    /// Modules that the operator names, beyond those that the toolkit imports.
    pub(crate) names: BTreeSet<String>,
    /// The files that these take.
    pub(crate) files: BTreeSet<PathBuf>,
}

impl Extra {
    /// As a worker is told: knowledge banks that the options name, and sources of an operator outside the toolkit.
    fn message(&self, told: &Told<'_>) -> Value {
        let options = &told.request.spec.options;
        let banks: Vec<&String> = banks::OPTIONS.iter().filter_map(|option| options.get(*option)).collect();
        let sources: Vec<String> = told.file.iter().map(|_| text(&told.base)).collect();
        let files: Vec<String> = self.files.iter().map(|path| text(path)).collect();
        json!({"files": files, "beneath": banks, "sources": sources})
    }
}

/// Driver B: a worker that has imported the toolkit.
///
/// With the result, what the compile read beyond its domain.
pub(crate) fn by_worker(
    pool: &Pool,
    setup: &Arc<Setup>,
    extra: &Extra,
    told: &Told<'_>,
) -> ((Result<Artifact, BackendError>, bool), Vec<String>) {
    let request = told.request;
    let mut options: Map<String, Value> = match told.options(true) {
        Ok(options) => options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        Err(error) => return ((Err(error), false), Vec::new()),
    };
    options.insert("bin_filename".to_owned(), request.name.as_str().into());
    if let Some((file, function)) = &told.file {
        options.insert("op_path".to_owned(), file.to_string_lossy().into());
        options.insert("main_func".to_owned(), function.as_str().into());
    }
    let message = json!({"do": "compile", "folder": request.work_dir.to_string_lossy(),
        "parameters": told.parameters, "options": options, "domain": extra.message(told)});
    let patience = Patience { deadline: request.deadline, cancel: request.cancel };
    let file = told.file.as_ref().map(|(file, _)| file.to_string_lossy());
    // What a worker imported for one operator is not looked for when the next one names it.
    let home = extra
        .names
        .iter()
        .fold(file.as_deref().unwrap_or_default().to_owned(), |home, name| home + "\n" + name);
    let whom = Whom {
        home: &home,
        watched: file.is_some().then_some(told.base.as_path()),
        // What a bank holds is read once.
        is_last: banks::OPTIONS.iter().any(|option| request.spec.options.contains_key(*option)),
    };
    let command = || format!("opc_tool.opc_api.compile_op ({})", request.name.as_str());
    let Answer { content, output } = match pool.ask(setup, &message, whom, patience) {
        Ok(answer) => answer,
        Err(trouble) => return ((Err(failure(trouble, command(), told)), false), Vec::new()),
    };
    let problem = content["problem"].as_str().unwrap_or_default();
    let output = if problem.is_empty() { output } else { format!("{output}\n{problem}") };
    let done = content["done"] == true;
    let made = told.judge(&output, &|missing| match missing {
        Some(problem) if done => BackendError::Output {
            command: command(),
            problem,
            log_tail: shown(&output),
            log: keep_log(&told.log(), &output),
        },
        _ => BackendError::Compile {
            command: command(),
            status: "it says that the compile failed".to_owned(),
            log_tail: shown(&output),
            log: keep_log(&told.log(), &output),
        },
    });
    let beyond = content["beyond"].as_array().into_iter().flatten().filter_map(Value::as_str);
    ((made, is_transient(&output)), beyond.map(str::to_owned).collect())
}

fn failure(trouble: Trouble, command: String, told: &Told<'_>) -> BackendError {
    let log = |output: &str| keep_log(&told.log(), output);
    match trouble {
        Trouble::Died { status, output } => BackendError::Compile {
            command,
            status: format!("the worker ended: {status}"),
            log_tail: shown(&output),
            log: log(&output),
        },
        Trouble::Late { seconds, output } => {
            BackendError::Deadline { command, seconds, log_tail: tail(&output), log: log(&output) }
        }
        Trouble::Cancelled => BackendError::Cancelled,
        Trouble::Start(error) => error,
    }
}

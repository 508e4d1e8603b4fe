//! `opc` and `asc_opc`, the commands of CANN that compile the kernels of one operator for one row of types and formats.
//!
//! Builds of operator packages call one of them for each task, by its bare name. Both read a Python file, a parameter
//! file, and what these lead to, and write `<output>/<bin_filename>.o` and `.json`, for a deterministic operator also
//! `<bin_filename>_deterministic.o` and `.json`.
//!
//! Each run gets a work directory of its own. Without one, the command works in `./kernel_meta_<bin_filename>`, whose name
//! has no process number: two tasks with equal names in one directory fail with `Another process is using this dir`, and so
//! does each task after one that was killed. (asc-devkit 9.1, `op_compilation.py`)

mod not_cached;
mod options;
mod parameters;
mod results;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use opkeep_fs::Fs;

pub use self::not_cached::NotCached;
use self::options::Options;
use self::parameters::Parameters;
use self::results::Expected;
use crate::task::{Invocation, Task, ToolFacts};

/// The names of the commands.
pub const NAMES: [&str; 2] = ["opc", "asc_opc"];

/// The variable by which the compiler finds its headers. If it is unset, it searches `PATH` for the name of the command.
const HOME_PATH: &str = "ASCEND_HOME_PATH";

/// The mode of a new output directory: 750 was meant as an octal number. (`opc.py`)
const OUTPUT_MODE: u32 = 750;

/// A run of `opc` whose results may be kept.
#[derive(Debug)]
pub struct Opc {
    options: Options,
    parameters: Parameters,
    /// The directory of the results, without links in its path if it exists.
    output: PathBuf,
    target: String,
    run: Invocation,
    /// Directories of logs.
    logs: Vec<PathBuf>,
}

impl Opc {
    /// Reads the command line of `invocation`, whose program is `opc` or `asc_opc`.
    ///
    /// # Errors
    /// The reason why the command is run as it is.
    pub fn read(invocation: Invocation) -> Result<Self, NotCached> {
        let fs = Fs::new();
        let options = Options::read(&invocation.args)?;
        let file = invocation.dir.join(options.directory("input_param"));
        let parameters = Parameters::read(&fs, &file)?;
        let target = options.get("soc_version").and_then(OsStr::to_str).unwrap_or_default().to_owned();
        if !is_target(&target) {
            return Err(NotCached::Target { target });
        }
        let output = resolved(&fs, &invocation.dir.join(options.directory("output")));
        let logs = log_dirs(&invocation.env);
        Ok(Self { options, parameters, output, target, run: invocation, logs })
    }

    /// The same run. What it writes below `dirs` has no effect on later steps, and is not kept: logs of wrappers, for example.
    #[must_use]
    pub fn with_logs(mut self, dirs: impl IntoIterator<Item = PathBuf>) -> Self {
        self.logs.extend(dirs);
        self
    }

    /// Makes the directory of the results as the command does: a stored result is only written into a directory that exists.
    ///
    /// # Errors
    /// It cannot be made: the command says so, too.
    pub fn make_output_dir(&self) -> io::Result<()> {
        let fs = Fs::new();
        if fs.exists(&self.output) {
            return Ok(());
        }
        self.output.parent().map_or(Ok(()), |parent| fs.create_dirs(parent, 0o777))?;
        fs.create_dir(&self.output, OUTPUT_MODE)
    }

    /// Calls `run` with the task whose private directory is `work_dir`.
    pub fn with_task<T>(&self, work_dir: &Path, run: impl FnOnce(&Task<'_>) -> T) -> T {
        let mut invocation = self.run.clone();
        invocation.args = self.options.args_with_debug_dir(work_dir.as_os_str());
        let outputs = |path: &Path| self.is_output(path);
        let check = |files: &[(&Path, &[u8])]| self.check(files);
        let is_log = |path: &Path| self.logs.iter().any(|dir| path.starts_with(dir));
        run(&Task {
            tool: "opc",
            run: invocation,
            key_args: self.key_args(),
            inputs: vec![self.run.dir.join(self.options.directory("input_param"))],
            work_dir,
            outputs: &outputs,
            ignored: &is_log,
            check: &check,
            exclusive: self.exclusive(),
            facts: self.facts(),
            target: self.target.clone(),
            name: self.parameters.kernel_names().next().unwrap_or(&self.parameters.op_type).to_owned(),
        })
    }

    /// The kernels, and one name for all that the command names itself.
    fn exclusive(&self) -> Vec<PathBuf> {
        let named: Vec<_> = self.parameters.kernel_names().collect();
        let others = (named.len() < self.parameters.kernels()).then_some(self.parameters.op_type.as_str());
        named.into_iter().chain(others).map(|name| self.output.join(name)).collect()
    }

    /// What is known of the command.
    fn facts(&self) -> ToolFacts {
        ToolFacts {
            // Without debug options: objects are linked with `-x`, which discards local symbols (`ascendc_compile_base.py`), and none of the 175 objects
            // and 213 `.json` files of vllm-ascend 0.23.0 has a path of its build. They are equal for two hosts and two versions of Python.
            is_movable: !self.options.may_show_paths() && !self.has_coverage(),
            // It copies both files from its work directory over old ones. (`post_compile_base.py`)
            replaces_outputs: true,
            // It imports the operator's file, which it is given by its path, and modules of its own packages. (`op_manager.py`)
            ignores_byte_code: true,
        }
    }

    fn key_args(&self) -> Vec<OsString> {
        let source = self.options.source.iter().cloned();
        let options = self.options.effective().map(|(name, value)| {
            let mut arg = OsString::from(format!("--{name}="));
            arg.push(value);
            arg
        });
        source.chain(options).collect()
    }

    /// Whether a path is that of a result. Other tasks of the same build write into the same directory.
    fn is_output(&self, path: &Path) -> bool {
        let is_kernel = path.extension().is_some_and(|end| end == "o" || end == "json");
        is_kernel && path.parent() == Some(&self.output)
    }

    fn check(&self, files: &[(&Path, &[u8])]) -> Result<(), String> {
        let named = files.iter().filter_map(|(path, bytes)| Some((path.file_name()?.to_str()?, *bytes)));
        let is_relocatable = ["op_relocatable_kernel_binary", "relocatable_bin"]
            .iter()
            .any(|name| self.options.get(name).is_some_and(|value| !value.is_empty()));
        let expected = Expected { parameters: &self.parameters, chip: &self.target, is_relocatable };
        expected.check(&opkeep_order::map(named))
    }

    /// Whether objects are built for measurements of coverage, with debug information.
    fn has_coverage(&self) -> bool {
        self.run.env.iter().any(|(name, value)| name == "ASCENDC_COV" && value == "1")
    }
}

/// Sets the root of the toolkit for a command at `real` that a link on `PATH` hides: the compiler derives it from a search
/// for the command, and would find the link. (asc-devkit 9.1, `compile_op.py`)
pub fn set_toolkit_root(env: &mut Vec<(OsString, OsString)>, real: &Path) {
    let is_set = env.iter().any(|(name, value)| name == HOME_PATH && !value.is_empty());
    if let Some(dir) = real.parent().filter(|_| !is_set) {
        env.retain(|(name, _)| name != HOME_PATH);
        env.push((HOME_PATH.into(), Fs::new().resolved(&dir.join("../..")).into()));
    }
}

/// A path as the command resolves it: without links in the part of it that exists.
fn resolved(fs: &Fs, path: &Path) -> PathBuf {
    match (fs.real_path(path), path.parent(), path.file_name()) {
        (Ok(real), ..) => real,
        (Err(_), Some(parent), Some(name)) => resolved(fs, parent).join(name),
        (Err(_), ..) => path.to_owned(),
    }
}

/// Whether a text can be the name of a target's directory.
fn is_target(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=100).contains(&text.len()) && text.bytes().all(is_plain)
}

/// The directories of CANN's logs: `~/ascend/log`, and what `ASCEND_PROCESS_LOG_PATH` names. (observed)
fn log_dirs(env: &[(OsString, OsString)]) -> Vec<PathBuf> {
    let value = |name: &str| env.iter().find(|(known, value)| known == name && !value.is_empty());
    let home = value("HOME").map(|(_, home)| Path::new(home).join("ascend/log"));
    home.into_iter().chain(value("ASCEND_PROCESS_LOG_PATH").map(|(_, dir)| PathBuf::from(dir))).collect()
}

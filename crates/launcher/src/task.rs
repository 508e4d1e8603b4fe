//! A command, and what its tool's adapter knows of it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use opkeep_fs::Fs;

/// A command to run. Its standard input is empty, and of the other open files of this process it has only the pipes that `MAKEFLAGS`
/// names for the tokens of jobs: no key could cover what it reads there. A command of which no result is looked for has all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    /// The program: an absolute path.
    pub program: PathBuf,
    /// Its arguments, without its name.
    pub args: Vec<OsString>,
    /// Its environment. A run whose result may be kept gets it without [`INERT`](crate::INERT) variables, and with others set: `TMPDIR`,
    /// `PYTHONDONTWRITEBYTECODE` and `PYTHONPYCACHEPREFIX`, and `PWD` if that does not lead to the working directory.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory: an absolute path.
    pub dir: PathBuf,
}

impl Invocation {
    /// Runs the command in the place of this process. Returns only if that fails.
    pub fn exec(&self) -> io::Error {
        let env = self.env.iter().map(|(name, value)| (name, value));
        Command::new(&self.program).args(&self.args).env_clear().envs(env).current_dir(&self.dir).exec()
    }
}

/// Judges the files that a run wrote, by their paths and bytes; an error is the reason why they are not kept.
pub type OutputCheck<'a> = dyn Fn(&[(&Path, &[u8])]) -> Result<(), String> + 'a;

/// A command whose result may be kept, as the adapter of a tool describes it.
#[derive(Clone)]
pub struct Task<'a> {
    /// The name of the tool, such as `opc`: a namespace of keys.
    pub tool: &'static str,
    /// What is run, with the options of a private directory in it.
    pub run: Invocation,
    /// The arguments as they take effect, for the key: in a fixed order where their order has no effect, and without those that only
    /// name private directories. Paths below roots and below the work directory may be in them as they are.
    pub key_args: Vec<OsString>,
    /// Files whose content is known to count before anything runs. It keeps tasks with different contents apart.
    pub inputs: Vec<PathBuf>,
    /// A private directory that exists and is empty: neither reads nor writes below it are observed, and no output contains its path.
    pub work_dir: &'a Path,
    /// Whether a path that was written is an expected output. The path is the real one of its directory, as far as that exists, with the
    /// file's name. A stored result that would write another path is not used.
    pub outputs: &'a dyn Fn(&Path) -> bool,
    /// Outputs that another command may write at the same time, such as a task with other options. Commands that name one path here, with one
    /// store and one target, run one after the other.
    pub exclusive: Vec<PathBuf>,
    /// Whether a path that was written has no effect on later steps, such as a log, and is not kept.
    pub ignored: &'a dyn Fn(&Path) -> bool,
    /// Judges the files that a successful run wrote.
    pub check: &'a OutputCheck<'a>,
    /// What is known of the tool beyond what a run shows.
    pub facts: ToolFacts,
    /// The target, such as `Ascend910B1`: 1 to 100 letters, digits, `_`, `-` and `.`.
    pub target: String,
    /// The name of the kernel, for reports.
    pub name: String,
}

/// What an adapter knows of its tool beyond what a run shows. By default nothing is known, and all that could be seen counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolFacts {
    /// Paths in arguments, variables and texts only name files: the result does not depend on where the roots and the home directory lie,
    /// nor on the user's name. If not, the key has the real paths.
    pub is_movable: bool,
    /// An old file at the path of an output has no effect, nor its name in a directory, its mode or its date: the tool replaces it.
    pub replaces_outputs: bool,
    /// Its Python programs take no notice of `__pycache__` directories, in which other processes keep compiled modules meanwhile.
    pub ignores_byte_code: bool,
}

impl Task<'_> {
    /// Whether a path is an expected output.
    pub(crate) fn expects(&self, path: &Path) -> bool {
        (self.outputs)(&real_name(path))
    }

    /// Judges whether a name in a directory is that of a result that does not count there, of this task or of another, or of a log.
    pub(crate) fn results_in(&self, dir: &Path) -> impl Fn(&OsStr) -> bool {
        let dir = real_dir(dir);
        move |name| {
            let path = dir.join(name);
            self.facts.replaces_outputs && (self.outputs)(&path) || (self.ignored)(&path)
        }
    }
}

/// A path by the real path of its directory, as far as that exists: without links and `..` in it. The path itself may be a link.
pub(crate) fn real_name(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(dir), Some(name)) => real_dir(dir).join(name),
        _ => Fs::new().resolved(path),
    }
}

fn real_dir(dir: &Path) -> PathBuf {
    match Fs::new().real_path(dir) {
        Ok(real) => real,
        Err(_) => real_name(dir),
    }
}

impl fmt::Debug for Task<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("tool", &self.tool)
            .field("run", &self.run)
            .field("target", &self.target)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

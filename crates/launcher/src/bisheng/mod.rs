//! `bisheng` and `ccec`, the compilers of kernels, by preprocessed text.
//!
//! `opc` starts one of them for each tiling key, of a file that has blocks for all keys. A change of one key changes the file, and the
//! preprocessed text of that key alone. So the text counts, and not the files.
//!
//! ```text
//! by code    compiler, arguments without places, variables, lines of the text without markers
//!   or
//! by place   compiler, all arguments, directory, all variables, the whole text, the files that it is from
//! ```
//!
//! A result is kept by code if nothing in it can show a place: no debug information, no sanitizer, no word in the code that gives its line, and no
//! diagnostic, whose text has line numbers. Any other result is kept by place.
//!
//! No run is observed. Arguments are taken only if they are known to read nothing but through the preprocessor, and to write nothing but the
//! object. A run is kept if the same text comes from the same files before and after it, by the same compiler.

mod arguments;
mod compiler;
mod not_cached;
mod options;
mod text;
mod variables;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use opkeep_digest::{Digest, Hasher};
use opkeep_fs::{FileState, Fs};
use opkeep_process::{ForwardingProcess, InheritedFiles, Sandbox, Stream};

use self::arguments::Arguments;
use self::compiler::Compiler;
pub use self::not_cached::NotCached;
use self::text::Text;
use self::variables::Variables;
use crate::environment::OBSERVED;
use crate::error::LauncherError;
use crate::key::Machine;
use crate::keyed::{KeyedTask, Settled};
use crate::launcher::{Launcher, Ran};
use crate::reason::Reason;
use crate::result::{Output, OutputContent, StoredResult, encode_text};
use crate::roots::{PathName, Roots, contains};
use crate::streams::Streams;
use crate::task::{Invocation, Task, ToolFacts, real_name};

/// The names of the compilers.
pub const NAMES: [&str; 2] = ["bisheng", "ccec"];

/// The name of the program that goes before a compiler: the builds take a launcher only if its name ends so. (asc-devkit 9.1,
/// `ascendc_common_utility.py`)
pub const LAUNCHER_NAME: &str = "opkeep-ccache";

/// The variable with the compiler's path. If it is unset, the generated Python searches `PATH` for it, and takes headers from there.
const REAL_PATH: &str = "BISHENG_REAL_PATH";

/// The version of the keys.
const SCHEMA: u64 = 1;

/// The root by which the object is named in a stored result.
const OBJECT: &str = "object";

/// The largest preprocessed text, and the largest object.
const MAX_TEXT: usize = 256 << 20;
const MAX_OBJECT: u64 = 256 << 20;

/// A compile whose result may be kept.
#[derive(Debug)]
pub struct Bisheng {
    run: Invocation,
    arguments: Arguments,
    compiler: Compiler,
}

/// The result of a call.
#[derive(Debug)]
#[must_use]
pub enum Outcome {
    /// The compile's result.
    Ran(Ran),
    /// Nothing was compiled: the caller runs the command as it is.
    NotCached(NotCached),
}

/// What the preprocessor gave.
#[derive(Debug, PartialEq, Eq)]
struct Preprocessed {
    text: Text,
    /// Its diagnostics.
    diagnostics: Vec<u8>,
    /// The files that the text is from.
    files: BTreeMap<PathBuf, Option<FileState>>,
    compiler: Digest,
}

/// The output of a command that is not forwarded.
#[derive(Default)]
struct Collected {
    out: Vec<u8>,
    err: Vec<u8>,
    is_success: bool,
}

impl Bisheng {
    /// Reads the command line of `invocation`, whose program is `bisheng` or `ccec`.
    ///
    /// # Errors
    /// The reason why the command is run as it is.
    pub fn read(invocation: Invocation) -> Result<Self, NotCached> {
        let is_known = |name: &OsStr| NAMES.iter().any(|known| name == *known);
        if !invocation.program.file_name().is_some_and(is_known) {
            return Err(NotCached::Program { program: invocation.program });
        }
        if invocation.env.iter().any(|(name, value)| name == OBSERVED && !value.is_empty()) {
            return Err(NotCached::Observed);
        }
        let arguments = Arguments::read(&invocation.args)?;
        let compiler = Compiler::at(&invocation.program)?;
        Ok(Self { run: invocation, arguments, compiler })
    }

    /// Takes the result from the store, or compiles in the place of the caller and keeps it.
    ///
    /// # Errors
    /// As those of [`Launcher::run`].
    pub fn compile(&self, launcher: &Launcher, io: &mut dyn Streams) -> Result<Outcome, LauncherError> {
        let variables = match Variables::of(&self.run.env, &self.run.dir, &launcher.config().inert) {
            Ok(variables) => variables,
            Err(reason) => return Ok(Outcome::NotCached(reason)),
        };
        let compile = Compile { bisheng: self, launcher, variables };
        match compile.preprocess()? {
            Ok(before) => compile.run(&before, io).map(Outcome::Ran),
            Err(reason) => Ok(Outcome::NotCached(reason)),
        }
    }
}

/// Sets the path of the compiler for commands that search `PATH` for it, of which a link hides the one at `real`.
pub fn set_real_path(env: &mut Vec<(OsString, OsString)>, real: &Path) {
    let is_set = env.iter().any(|(name, value)| name == REAL_PATH && !value.is_empty());
    if !is_set {
        env.retain(|(name, _)| name != REAL_PATH);
        env.push((REAL_PATH.into(), Fs::new().resolved(real).into()));
    }
}

/// One compile during a call.
struct Compile<'a> {
    bisheng: &'a Bisheng,
    launcher: &'a Launcher,
    variables: Variables,
}

impl Compile<'_> {
    /// What the compiler would read now.
    fn preprocess(&self) -> Result<Result<Preprocessed, NotCached>, LauncherError> {
        let Bisheng { run, arguments, compiler } = self.bisheng;
        // No text has this by chance.
        let mark = opkeep_fs::unique_name("opkeep-date-");
        let listed = match compiler.list_libraries() {
            Some((program, args)) => self.collect(program, &args)?,
            None => Collected { is_success: true, ..Collected::default() },
        };
        if !listed.is_success {
            let why = "its libraries cannot be listed".to_owned();
            return Ok(Err(NotCached::Compiler { path: run.program.clone(), why }));
        }
        let compiler = match compiler.digest(&listed.out, &*self.launcher.config().digests) {
            Ok(digest) => digest,
            Err(reason) => return Ok(Err(reason)),
        };
        if arguments.forced.iter().any(|header| is_compiled(&run.dir.join(header))) {
            return Ok(Err(NotCached::ReadsFiles));
        }
        let preprocessed = self.collect(&run.program, &arguments.preprocess(&mark))?;
        if !preprocessed.is_success {
            return Ok(Err(NotCached::Preprocessor));
        }
        Ok(Text::read(preprocessed.out, &run.dir, &mark).map(|text| {
            let files = opkeep_order::map(text.files.iter().map(|path| (path.clone(), state(path))));
            Preprocessed { text, diagnostics: preprocessed.err, files, compiler }
        }))
    }

    /// Runs a command whose output is not that of the compile.
    fn collect(&self, program: &Path, args: &[OsString]) -> Result<Collected, LauncherError> {
        let environment: Vec<(&OsStr, &OsStr)> =
            self.variables.given.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())).collect();
        let config = self.launcher.config();
        let process = ForwardingProcess {
            program,
            args,
            environment: &environment,
            dir: &self.bisheng.run.dir,
            files: InheritedFiles::Only(&[]),
            deadline: None,
            cancel: &config.cancel,
            signals: &config.signals,
            sandbox: Sandbox::default(),
        };
        let mut collected = Collected::default();
        let forwarded = process.run(&mut |stream, bytes| {
            let text = if stream == Stream::Stdout { &mut collected.out } else { &mut collected.err };
            match text.len() + bytes.len() <= MAX_TEXT {
                true => text.extend_from_slice(bytes),
                false => return Err(std::io::ErrorKind::FileTooLarge.into()),
            }
            Ok(())
        })?;
        collected.is_success = forwarded.status.success() && forwarded.is_complete;
        Ok(collected)
    }

    fn run(&self, before: &Preprocessed, io: &mut dyn Streams) -> Result<Ran, LauncherError> {
        let Bisheng { run, arguments, .. } = self.bisheng;
        let output = real_name(&run.dir.join(&arguments.output));
        let roots = Roots::new([(OBJECT.to_owned(), output.clone())])?;
        let old = Fs::new().symlink_metadata(&output).ok();
        let name = output.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let task = Task {
            tool: "bisheng",
            run: run.clone(),
            key_args: Vec::new(),
            inputs: Vec::new(),
            work_dir: Path::new(""),
            outputs: &|path| path == output,
            ignored: &|_| false,
            check: &|_| Ok(()),
            facts: ToolFacts::default(),
            exclusive: vec![output.clone()],
            target: arguments.arch.clone().unwrap_or_else(|| "host".to_owned()),
            name,
        };
        let whole = OnceCell::new();
        let keyed = KeyedTask {
            task: &task,
            env: &self.variables.given,
            roots: &roots,
            narrow: self.narrow(before),
            whole: &|| whole.get_or_init(|| self.whole(before)).clone(),
            settle: &|texts| self.settle(before, &output, old.as_ref(), texts),
            // An old object may keep its mode.
            is_usable: &|result| {
                let mode = |found: &Metadata| found.mode() & 0o7777;
                result.outputs.len() == 1
                    && old.as_ref().is_none_or(|old| mode(old) == result.outputs[0].mode)
            },
        };
        self.launcher.run_keyed(&keyed, io)
    }

    /// The key by code. `None`: the object or the texts may show a place.
    fn narrow(&self, before: &Preprocessed) -> Option<Digest> {
        let arguments = &self.bisheng.arguments;
        let code = before.text.code.as_ref()?;
        if arguments.shows_places || !before.diagnostics.is_empty() {
            return None;
        }
        let mut hasher = self.hasher("opkeep compile by code", before);
        arguments.hash(&mut hasher);
        self.variables.hash(&mut hasher);
        hasher.bytes(code);
        Some(hasher.finish())
    }

    /// The key by everything.
    fn whole(&self, before: &Preprocessed) -> Result<Digest, Reason> {
        let run = &self.bisheng.run;
        let mut hasher = self.hasher("opkeep compile by place", before);
        hasher.bytes(run.program.as_os_str().as_bytes());
        hasher.bytes(run.dir.as_os_str().as_bytes());
        hasher.list(run.args.len());
        run.args.iter().for_each(|arg| hasher.bytes(arg.as_bytes()));
        self.variables.hash_all(&mut hasher);
        hasher.bytes(&before.text.whole);
        hasher.bytes(&before.diagnostics);
        // A warning may depend on a comment, or on which code is from a macro.
        hasher.list(before.files.len());
        for (path, found) in &before.files {
            hasher.bytes(path.as_os_str().as_bytes());
            hasher.option(found.is_some());
            if found.is_some() {
                let digest = self.launcher.config().digests.digest(path);
                hasher.digest(&digest.map_err(|_| Reason::Unreadable(path.clone()))?);
            }
        }
        Ok(hasher.finish())
    }

    fn hasher(&self, domain: &str, before: &Preprocessed) -> Hasher {
        let Machine { name, umask } = self.launcher.machine();
        let mut hasher = Hasher::new(domain);
        hasher.u64(SCHEMA);
        hasher.str(name);
        hasher.u64(u64::from(*umask));
        hasher.digest(&before.compiler);
        hasher
    }

    /// What is kept of a compile that has succeeded.
    fn settle(
        &self,
        before: &Preprocessed,
        output: &Path,
        old: Option<&Metadata>,
        texts: [&[u8]; 2],
    ) -> Result<Settled, Reason> {
        let kind = || Reason::OutputKind(output.to_owned());
        let found = Fs::new().symlink_metadata(output).map_err(|_| kind())?;
        if !found.is_file() || found.nlink() != 1 {
            return Err(kind());
        }
        if found.mode() & 0o7000 != 0 {
            return Err(Reason::OutputMode(output.to_owned()));
        }
        // A file that was there and that the compiler wrote into may be older in part, or in its mode.
        let file = |found: &Metadata| (found.dev(), found.ino(), found.created().ok());
        if old.is_some_and(|old| file(old) == file(&found)) {
            return Err(Reason::PartlyWritten(output.to_owned()));
        }
        let bytes = Fs::new().read(output, MAX_OBJECT).map_err(|_| kind())?;
        let again = state(output) == Some(FileState::of(&found));
        let after = self.preprocess().map_err(|_| Reason::Changed(output.to_owned()))?;
        let after = after.map_err(|_| Reason::Changed(output.to_owned()))?;
        if let Some((path, _)) =
            before.files.iter().find(|(path, found)| after.files.get(*path) != Some(*found))
        {
            return Err(Reason::Changed(path.clone()));
        }
        if !again || after != *before {
            return Err(Reason::Changed(self.bisheng.run.dir.clone()));
        }
        let is_everywhere = texts.iter().all(|text| text.is_empty()) && !self.shows_path(&bytes, output);
        let name = PathName { root: OBJECT.to_owned(), rest: PathBuf::new() };
        let object = Output { name, mode: found.mode() & 0o777, content: OutputContent::File(bytes) };
        // The texts as they are.
        let texts = texts.map(|text| encode_text(&Roots::default(), text));
        Ok(Settled { result: StoredResult { outputs: vec![object], texts }, is_everywhere })
    }

    /// Whether an object contains the path of its source, of itself, or of the directory.
    fn shows_path(&self, object: &[u8], output: &Path) -> bool {
        let Bisheng { run, arguments, .. } = self.bisheng;
        let source = Path::new(&arguments.source);
        let joined = run.dir.join(source);
        let paths = [source, joined.as_path(), Path::new(&arguments.output), output, run.dir.as_path()];
        let is_place = |path: &&Path| path.components().count() > 1;
        paths.into_iter().filter(is_place).any(|path| contains(object, path.as_os_str().as_bytes()))
    }
}

/// Whether a compiled form lies beside a header that is included by force: the compiler takes that, and its declarations are not in the text.
fn is_compiled(header: &Path) -> bool {
    ["pch", "gch"].iter().any(|end| {
        let mut path = header.as_os_str().to_owned();
        path.push(format!(".{end}"));
        Fs::new().symlink_metadata(Path::new(&path)).is_ok()
    })
}

fn state(path: &Path) -> Option<FileState> {
    Fs::new().metadata(path).ok().map(|found| FileState::of(&found))
}

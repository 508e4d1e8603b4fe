//! One compile: C and object in the work directory, then the artifact.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use opkeep_artifact::Artifact;
use opkeep_backend::{BackendError, CompileRequest, Context};
use opkeep_cann_meta::{BlockDim, Flag, KernelMeta, Magic, Parameter};
use opkeep_descriptor::{Arg, ResolvedSpec};
use opkeep_digest::Digest;
use opkeep_fs::Fs;
use opkeep_process::{
    Domain, DomainError, Found, Inputs, Observer, ProcessBuilder, ProcessError, ProcessOutput, Sandbox,
};

use crate::codegen::expression::calls_libm;
use crate::codegen::generate::Generated;
use crate::config::CpuConfig;
use crate::process_error::backend_error;
use crate::toolchain::{DEPENDENCY_FLAGS, Means, Toolchain, environment, foreign, read_dependencies};
use crate::work_dir::{read_made, write_source};

/// The help for a file that no key covers.
const HELP: &str = "declare it as an input of the toolchain: then the key covers it";
/// The help for a path that was looked up in vain.
const HELP_MISSING: &str = "; for a path that does not exist, declare its directory";
/// The help for a program that a wrapper starts.
const HELP_PROGRAM: &str = "; a program that the wrapper starts by its name is looked up in each directory of PATH: let the \
    wrapper start it by its full path, and declare that";

/// Our own field of the `.json`: the digest of the job that the kernel computes, for the loader.
pub(crate) const JOB_FIELD: &str = "opkeepJob";

/// Compiles generated C with `toolchain`. What it reads is confined to what the key covers, or checked afterwards.
pub(crate) fn compile(
    cx: &Context<'_>,
    config: &CpuConfig,
    toolchain: &Toolchain,
    source: &Generated,
    request: &CompileRequest<'_>,
) -> Result<Artifact, CompileError> {
    let work_dir = request.work_dir;
    write_source(work_dir, &source.text)?;
    let log = work_dir.join("compile.log");
    let environment = environment(&config.path, work_dir);
    let job = Compile { cx, toolchain, source, request, log: &log, environment: &environment };
    let (ended, args) = job.run()?;
    let run = job.prepared(&args, Sandbox::default());
    let object = read_made(work_dir, "kernel.o").map_err(|error| {
        run.missing_output_error(&ended, format!("its object `kernel.o` cannot be read: {error}"))
    })?;
    Ok(artifact(source, request, object))
}

/// Why a compile came to nothing.
pub(crate) enum CompileError {
    /// The toolchain is not what it was when it was probed: with one that is probed again it may go well.
    Moved(BackendError),
    Failed(BackendError),
}

impl From<BackendError> for CompileError {
    fn from(error: BackendError) -> Self {
        Self::Failed(error)
    }
}

impl From<ProcessError> for CompileError {
    fn from(error: ProcessError) -> Self {
        Self::Failed(backend_error(error))
    }
}

impl CompileError {
    pub(crate) fn into_inner(self) -> BackendError {
        match self {
            Self::Moved(error) | Self::Failed(error) => error,
        }
    }

    /// The paths, if it is that the compile reads what no key covers.
    fn unkeyed(&self) -> Option<&[PathBuf]> {
        match self {
            Self::Moved(BackendError::UnkeyedRead { paths, .. }) => Some(paths),
            _ => None,
        }
    }
}

/// One compile that is to be run, perhaps twice.
struct Compile<'a> {
    cx: &'a Context<'a>,
    toolchain: &'a Toolchain,
    source: &'a Generated,
    request: &'a CompileRequest<'a>,
    log: &'a Path,
    environment: &'a [(&'a OsStr, &'a OsStr)],
}

impl Compile<'_> {
    /// Runs the compiler as the host allows. Gives the arguments, too, for messages.
    fn run(&self) -> Result<(ProcessOutput, Vec<OsString>), CompileError> {
        let args = self.args(&[]);
        // Kernels for debugging are not kept.
        let ended = match self.toolchain.means() {
            _ if self.request.spec.debug => self.plain(&args)?,
            Means::None => self.plain(&args)?,
            Means::Landlock => self.confined(&args)?,
            Means::Observation => self.observed(&args, None)?,
            Means::Dependencies => {
                let args = self.args(&DEPENDENCY_FLAGS);
                let ended = self.plain(&args)?;
                self.check_dependencies(&args)?;
                ended
            }
        };
        Ok((ended, args))
    }

    /// The paths that it may read.
    fn inputs(&self) -> &Inputs {
        self.toolchain.inputs(calls_libm(&self.source.text))
    }

    fn plain(&self, args: &[OsString]) -> Result<ProcessOutput, CompileError> {
        let run = self.prepared(args, Sandbox::default());
        Ok(succeeded(&run, run.wait_with_output()?)?)
    }

    /// Denies what the probe did not read. A compiler to which something is denied fails, or says so, or goes on
    /// without it; so whatever is not as usual is run once more and observed, to name the file. One with a wrapper is
    /// observed at once: the wrapper decides by more than what can be denied.
    fn confined(&self, args: &[OsString]) -> Result<ProcessOutput, CompileError> {
        let domain = match self.inputs().domain(self.request.work_dir) {
            Ok(domain) => domain,
            Err(error @ DomainError::Path { .. }) => return Err(CompileError::Moved(self.unconfined(error))),
            Err(error) => return Err(self.unconfined(error).into()),
        };
        if self.toolchain.is_wrapped() {
            return self.observed(args, Some(&domain)).map_err(|error| self.with_all_paths(error, args));
        }
        let run = self.prepared(args, Sandbox { domain: Some(&domain), observer: None });
        let ended = run.wait_with_output()?;
        // Without an observer, a success with a message cannot be explained, and the object is that of the confined run.
        let is_as_usual = self.toolchain.always_says(&ended.output) || !Observer::is_available();
        if ended.status.success() && is_as_usual {
            return Ok(ended);
        }
        match self.observed(args, None) {
            Ok(_) if ended.status.success() => Ok(ended),
            // It took its own directory away, for instance: how it failed at first says more.
            Err(CompileError::Failed(BackendError::Io { .. })) if !ended.status.success() => {
                Ok(succeeded(&run, ended)?)
            }
            observed => observed,
        }
    }

    /// An error of a confined compile: if it names unkeyed files, then all of them, since a denied read keeps a wrapper
    /// from its later ones.
    fn with_all_paths(&self, error: CompileError, args: &[OsString]) -> CompileError {
        let Some(denied) = error.unkeyed() else { return error };
        let free = self.observed(args, None).err();
        let further = free.as_ref().and_then(CompileError::unkeyed).unwrap_or_default();
        let paths = opkeep_order::set(denied.iter().chain(further).cloned());
        self.unkeyed_read(paths, &self.prepared(args, Sandbox::default()))
    }

    /// Observes what is read, and refuses what no key covers.
    fn observed(&self, args: &[OsString], domain: Option<&Domain>) -> Result<ProcessOutput, CompileError> {
        let work_dir = self.request.work_dir;
        let failed =
            |source| BackendError::Io { action: "observe programs in", path: work_dir.to_owned(), source };
        let observed = Observer::of_run(work_dir, |observer| {
            // What an earlier run left is no result of this one.
            let _ = Fs::new().remove(&work_dir.join("kernel.o"));
            self.prepared(args, Sandbox { domain, observer: Some(observer) }).wait_with_output()
        });
        let (ended, seen) = observed.map_err(failed)?;
        let run = self.prepared(args, Sandbox::default());
        // A program whose observer failed fails, too. One that was ended at its deadline was ended amid a call, perhaps.
        match seen.error() {
            Some(why) if ended.is_ok() || !seen.is_interrupted() => return Err(failed(why).into()),
            _ => {}
        }
        let ended = ended?;
        let refuse = |paths: BTreeSet<&Path>| self.refuse(paths.into_iter().map(Path::to_owned), &run);
        refuse(match self.toolchain.is_wrapped() {
            true => self.inputs().uncovered_by_name(&seen),
            false => self.inputs().uncovered(&seen),
        })?;
        if let Some(program) = seen.foreign {
            // Its calls were denied.
            return Err(run.missing_output_error(&ended, foreign(&program)).into());
        }
        let ended = succeeded(&run, ended)?;
        if self.toolchain.is_wrapped() {
            refuse(self.toolchain.looks_beyond(calls_libm(&self.source.text), &seen))?;
        }
        Ok(ended)
    }

    fn check_dependencies(&self, args: &[OsString]) -> Result<(), CompileError> {
        let work_dir = self.request.work_dir;
        let read = read_dependencies(work_dir).map_err(|source| BackendError::Io {
            action: "read what the compiler says that it reads in",
            path: work_dir.to_owned(),
            source,
        })?;
        let unknown = read.into_iter().filter(|path| !self.inputs().covers(path));
        self.refuse(unknown, &self.prepared(args, Sandbox::default()))
    }

    /// Refuses a compile that reads `paths`, if there are any.
    fn refuse(
        &self,
        paths: impl Iterator<Item = PathBuf>,
        run: &ProcessBuilder<'_>,
    ) -> Result<(), CompileError> {
        let paths: BTreeSet<PathBuf> = opkeep_order::set(paths);
        if paths.is_empty() { Ok(()) } else { Err(self.unkeyed_read(paths, run)) }
    }

    /// The error of a compile that reads `paths`, which no key covers.
    fn unkeyed_read(&self, paths: BTreeSet<PathBuf>, run: &ProcessBuilder<'_>) -> CompileError {
        let is_missing = paths.iter().any(|path| Found::at(path).is_nothing());
        let in_path = |path: &PathBuf| {
            std::env::split_paths(self.search_path()).any(|dir| path.parent() == Some(&*dir))
        };
        let mut help = HELP.to_owned();
        if self.toolchain.is_wrapped() && paths.iter().any(in_path) {
            help.push_str(HELP_PROGRAM);
        } else if is_missing {
            help.push_str(HELP_MISSING);
        }
        // If the toolchain changed since it was probed, what it reads may have changed with it.
        let (command, paths) = (run.to_string(), paths.into_iter().collect());
        CompileError::Moved(BackendError::UnkeyedRead { command, paths, help })
    }

    /// PATH of the compiler.
    fn search_path(&self) -> &OsStr {
        let path = self.environment.iter().find(|(name, _)| *name == "PATH");
        path.map_or(OsStr::new(""), |(_, value)| value)
    }

    fn unconfined(&self, error: DomainError) -> BackendError {
        let path = self.request.work_dir.to_owned();
        BackendError::Io { action: "confine programs in", path, source: io::Error::other(error) }
    }

    fn args(&self, further: &[&str]) -> Vec<OsString> {
        let mut args: Vec<String> = self.toolchain.args().map(str::to_owned).collect();
        for_debugging(&mut args, self.request.spec);
        args.extend(further.iter().copied().map(str::to_owned));
        // Relative names: the work directory's path must not find its way into the object.
        args.extend(["-o", "kernel.o", "kernel.c"].map(str::to_owned));
        if calls_libm(&self.source.text) {
            args.push("-lm".to_owned());
        }
        args.into_iter().map(OsString::from).collect()
    }

    fn prepared<'r>(&'r self, args: &'r [OsString], sandbox: Sandbox<'r>) -> ProcessBuilder<'r> {
        ProcessBuilder {
            program: self.toolchain.driver(),
            args,
            environment: self.environment,
            dir: self.request.work_dir,
            log: Some(self.log),
            deadline: self.cx.deadline,
            cancel: self.cx.cancel,
            sandbox,
        }
    }
}

fn succeeded(run: &ProcessBuilder<'_>, ended: ProcessOutput) -> Result<ProcessOutput, BackendError> {
    if ended.status.success() { Ok(ended) } else { Err(backend_error(run.exit_error(&ended))) }
}

/// The object with its `.json`.
fn artifact(source: &Generated, request: &CompileRequest<'_>, object: Vec<u8>) -> Artifact {
    let CompileRequest { job, name, .. } = request;
    let outputs = job.ops.iter().flat_map(|op| &op.outputs);
    let arguments = job.data.iter().flat_map(|data| &data.outputs).chain(outputs).flat_map(Arg::iter).count();
    let meta = KernelMeta {
        bin_file_name: Some(name.to_string()),
        bin_file_suffix: Some(".o".to_owned()),
        block_dim: Some(BlockDim::Fixed(source.blocks)),
        kernel_name: Some(name.symbol()),
        magic: Some(Magic::Elf.into()),
        sha256: Some(Digest::of(&object).to_string()),
        op_para_size: Some(0),
        parameters: Some(vec![Parameter::Int(0); arguments]),
        batch_bind_only: Some(Flag::Number(1)),
        build_result: Some(String::new()),
        extra: BTreeMap::from([(JOB_FIELD.to_owned(), job.digest().to_string().into())]),
        ..KernelMeta::default()
    };
    Artifact { metadata: meta.to_json().into_bytes(), object, extra: Vec::new() }
}

/// Changes the flags as the debug options say: level 2 is "not optimised, with symbols", as in the vendor's compiler.
fn for_debugging(args: &mut Vec<String>, spec: &ResolvedSpec) {
    let option = |name: &str| spec.options.get(name).map(String::as_str).unwrap_or_default();
    let word = |word: &str| option("op_debug_config").split(',').any(|found| found == word);
    let level_2 = option("op_debug_level") == "2";
    if level_2 || word("ccec_O0") {
        args.push("-O0".to_owned());
    }
    if level_2 || word("ccec_g") {
        args.retain(|flag| flag != "-s");
        args.push("-g".to_owned());
    }
}

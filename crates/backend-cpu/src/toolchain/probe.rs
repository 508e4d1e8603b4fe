//! The files that a compiler reads, observed on two small sources: one with the mathematical library, one without.
//!
//! They are fixed, so that a key depends on the toolchain alone and not on the kernel that happens to be first. Each is
//! compiled once while it is observed, and once more in the domain that follows from that. Steps and objects must be
//! equal, or the domain is not used.
//!
//! Files that were read count by content. Paths that were looked up, found or not, and directories that were listed are
//! watched: a change of them changes no key by itself, but the toolchain is observed again, and the files that it reads
//! then count.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use opkeep_backend::{BackendError, Context, FailedTool, ToolKind};
use opkeep_digest::{Digest, Hasher};
use opkeep_fs::Fs;
use opkeep_process::{
    Inputs, InputsError, Observation, Observer, ProcessBuilder, ProcessOutput, Program, Sandbox,
    is_short_of_resources, tail,
};

use super::cc::Cc;
use super::driver_query::{DriverInfo, probe_dir, reason, unusable, without_dir};
use super::looks::{Looks, Places, parts_of};
use super::made_up::Pattern;
use super::part_names::{DRIVER, FILE_READ};
use super::record::{Means, Probed, Read, Steps};
use super::runs::{environment, foreign};
use super::toolchain_files::ToolchainFiles;
use super::{dependencies, words, wrapper};
use crate::config::CpuConfig;
use crate::process_error::backend_error;
use crate::work_dir::{read_made, write_source};

/// Needs neither a header nor a library.
const PLAIN: &str = "\
typedef float vector __attribute__((vector_size(16)));
void kernel__kernel0(const void *const *inputs, void *const *outputs, void *workspace, unsigned long block)
{
    const float *x = inputs[0];
    float *y = outputs[0];
    (void)workspace;
    for (unsigned long i = 0; i < 64; ++i)
        y[i] = x[i] * (float)block + __builtin_fabsf(x[63 - i]);
    for (unsigned long i = 0; i < 16; ++i)
        ((vector *)y)[i] += ((const vector *)x)[i];
}
";

/// Needs the mathematical library.
const LIBM: &str = "\
void kernel__kernel0(const void *const *inputs, void *const *outputs, void *workspace, unsigned long block)
{
    const float *x = inputs[0];
    float *y = outputs[0];
    (void)workspace;
    (void)block;
    for (unsigned long i = 0; i < 64; ++i)
        y[i] = __builtin_expf(x[i]) + (float)__builtin_lgamma((double)x[i]);
}
";

/// How often a toolchain is observed again that changes while it is observed.
const ATTEMPTS: usize = 3;

/// Why a compiler is not known whose observation is incomplete in each run.
const INTERRUPTED: &str = "signals interrupt its system calls, or end its programs amid one, in each run";

/// A compiler to be probed.
pub(crate) struct Probe<'a> {
    pub(crate) config: &'a CpuConfig,
    pub(crate) cx: &'a Context<'a>,
    pub(crate) cc: &'a Cc,
    pub(crate) dry_run: &'a DriverInfo,
}

/// One run of both sources.
struct Pass {
    plain: Compiled,
    libm: Compiled,
}

/// One source, compiled.
struct Compiled {
    object: Digest,
    says: String,
    seen: Observation,
}

/// How programs are run for a pass.
#[derive(Clone, Copy)]
struct How<'a> {
    observed: bool,
    inputs: Option<&'a Inputs>,
    /// Further flags.
    flags: &'a [&'a str],
}

impl Probe<'_> {
    pub(crate) fn run(&self) -> Result<Probed, BackendError> {
        let dir = probe_dir(self.config).map_err(|error| without_dir(self.config, &error))?;
        let mut unsteady = String::new();
        for _ in 0..ATTEMPTS {
            let passed = self.pass(dir.path(), How { observed: true, inputs: None, flags: &[] });
            let first = match passed {
                Ok(first) => first,
                // There is no observer here, or nothing can be run; the next says which.
                Err(BackendError::Io { source, .. }) if !is_short_of_resources(&source) => {
                    return self
                        .by_dependencies(dir.path(), format!("programs cannot be observed: {source}"));
                }
                Err(error) => return Err(error),
            };
            unsteady = match self.inputs(&first) {
                Ok(inputs) => match self.confirm(dir.path(), first, inputs)? {
                    Ok(probed) => return Ok(probed),
                    Err(why) => why,
                },
                Err(InputsError::Changed(path)) => {
                    format!(
                        "`{}` changes while the compiler runs (temporary files belong in $TMPDIR)",
                        path.display()
                    )
                }
                Err(InputsError::Incomplete(why)) if why.kind() == io::ErrorKind::Interrupted => {
                    INTERRUPTED.to_owned()
                }
                Err(error @ InputsError::Incomplete(_)) => {
                    return self.by_dependencies(dir.path(), error.to_string());
                }
                Err(error) => return Err(unusable(error.to_string())),
            };
        }
        self.unkept(dir.path(), unsteady)
    }

    fn inputs(&self, pass: &Pass) -> Result<Inputs, InputsError> {
        Inputs::of(&[&pass.plain.seen, &pass.libm.seen], &|path| self.cx.files.digest(path))
    }

    /// Compiles again in the domain of what was read. What differs from the `first` pass is the reason if it cannot be
    /// confirmed that the compiler is steady.
    fn confirm(
        &self,
        dir: &Path,
        first: Pass,
        mut inputs: Inputs,
    ) -> Result<Result<Probed, String>, BackendError> {
        let names = self.names(&first, &inputs);
        let is_wrapped = self.is_wrapped(&first.plain.seen) || self.is_wrapped(&first.libm.seen);
        // An object that depends on the directory differs for each kernel.
        let dir = &dir.join("confirmed");
        let confined = self.pass(dir, How { observed: true, inputs: Some(&inputs), flags: &[] });
        let (means, why, second) = match confined {
            Ok(second) if second.is_as(&first) => (Means::Landlock, None, second),
            Err(error @ (BackendError::Cancelled | BackendError::TimedOut { .. })) => return Err(error),
            Err(BackendError::Io { action, path, source }) if is_short_of_resources(&source) => {
                return Err(BackendError::Io { action, path, source });
            }
            confined => {
                let why = match confined {
                    Ok(_) => "in a domain the compiler makes other objects".to_owned(),
                    Err(BackendError::Io { source, .. }) => source.to_string(),
                    Err(error) => error.to_string(),
                };
                let second = self.pass(dir, How { observed: true, inputs: None, flags: &[] })?;
                (Means::Observation, Some(why), second)
            }
        };
        match [&second.plain, &second.libm].into_iter().find_map(|compiled| compiled.seen.error()) {
            Some(why) if why.kind() == io::ErrorKind::Interrupted => return Ok(Err(INTERRUPTED.to_owned())),
            Some(why) => return Ok(Err(format!("a program could not be observed: {why}"))),
            None => {}
        }
        let [plain, libm] = [(&first.plain, &second.plain), (&first.libm, &second.libm)].map(|(one, two)| {
            let made_up = one.seen.made_up(&two.seen);
            inputs.leave_out(&made_up);
            let patterns = Pattern::of(&made_up, &one.seen, &two.seen);
            let of = |compiled: &Compiled| {
                let looks = is_wrapped.then(|| Looks::of(&compiled.seen, self.places(), &made_up, &patterns));
                steps(compiled, &names, looks)
            };
            of(one).steady_with(&of(two))
        });
        if !is_wrapped {
            inputs.ignore_permissions();
        }
        let (plain, libm) = match (plain, libm) {
            (Ok(plain), Ok(libm)) => (plain, libm),
            (Err(why), _) | (_, Err(why)) => return Ok(Err(why)),
        };
        let says = first.plain.says;
        Ok(Ok(Probed { inputs, plain, libm, means, why, says, is_wrapped, unkept: None }))
    }

    fn places(&self) -> Places<'_> {
        Places {
            home: self.cc.driver.parent(),
            path: std::env::split_paths(&self.config.path).collect(),
            parts: parts_of(&self.dry_run.steps),
        }
    }

    fn is_wrapped(&self, seen: &Observation) -> bool {
        // A plug-in is no program, and can do what a wrapper can.
        let has_plugin =
            self.cc.leading.iter().any(|word| word.contains("-fplugin") || word.contains("-plugin"));
        has_plugin || wrapper::takes_part(seen, &self.dry_run.steps)
    }

    /// The names of all files that are read, in the order of the first time: the same wherever they lie.
    fn names(&self, pass: &Pass, inputs: &Inputs) -> ToolchainFiles {
        let mut names = ToolchainFiles::default();
        names.add(DRIVER, self.cc.driver.clone());
        for program in pass.plain.seen.programs.iter().chain(&pass.libm.seen.programs) {
            for path in program.read.iter().filter(|path| inputs.digest(path).is_some()) {
                let is_program = program.path == *path;
                names.add(&part_name(path, is_program), path.clone());
            }
        }
        names
    }

    /// Without an observer: what the dry run shows, and what compiler and linker say that they read.
    fn by_dependencies(&self, dir: &Path, why: String) -> Result<Probed, BackendError> {
        let flags = dependencies::FLAGS;
        let pass = self.pass(dir, How { observed: false, inputs: None, flags: &flags })?;
        let mut seen = dependencies::of_dry_run(self.config, self.cc, self.dry_run)?;
        let is_wrapped = self.is_wrapped(&seen) || !dependencies::is_driver(self.cc, self.dry_run);
        let mut inputs = Inputs::default();
        let mut declare = |path: &Path| {
            let digest = inputs.declare(path, &|path| self.cx.files.digest(path));
            digest.map_err(|error| unusable(error.to_string()))
        };
        seen.read.keys().try_for_each(|path| declare(path).map(drop))?;
        let mut program = |name: &str| -> Result<Program, BackendError> {
            let read = dependencies::read(&dir.join(name)).map_err(|source| BackendError::Io {
                action: "read what the compiler says that it reads in",
                path: dir.join(name),
                source,
            })?;
            read.iter().try_for_each(|path| declare(path).map(drop))?;
            Ok(Program { read, ..Program::default() })
        };
        let (plain, libm) = (program("plain")?, program("libm")?);
        seen.programs.push(plain);
        let mut with_libm = seen.clone();
        with_libm.programs.push(libm);
        let unkept = is_wrapped.then(|| format!("another program runs the compiler, and {why}"));
        let says = pass.plain.says.clone();
        let first =
            Pass { plain: Compiled { seen, ..pass.plain }, libm: Compiled { seen: with_libm, ..pass.libm } };
        let names = self.names(&first, &inputs);
        let (plain, libm) = (steps(&first.plain, &names, None), steps(&first.libm, &names, None));
        // Landlock needs no observer.
        let confined = self.pass(dir, How { observed: false, inputs: Some(&inputs), flags: &[] });
        let means = match confined {
            Ok(second)
                if first.plain.object == second.plain.object && first.libm.object == second.libm.object =>
            {
                Means::Landlock
            }
            Err(error @ BackendError::Cancelled) => return Err(error),
            _ => Means::Dependencies,
        };
        Ok(Probed { inputs, plain, libm, means, why: Some(why), says, is_wrapped, unkept })
    }

    /// A compiler that cannot be known can still compile.
    fn unkept(&self, dir: &Path, why: String) -> Result<Probed, BackendError> {
        let pass = self.pass(dir, How { observed: false, inputs: None, flags: &[] })?;
        let names = ToolchainFiles::default();
        Ok(Probed {
            inputs: Inputs::default(),
            plain: steps(&pass.plain, &names, None),
            libm: steps(&pass.libm, &names, None),
            means: Means::None,
            why: Some(why.clone()),
            says: pass.plain.says,
            is_wrapped: true,
            unkept: Some(why),
        })
    }

    /// Compiles both sources at the same time.
    fn pass(&self, dir: &Path, how: How<'_>) -> Result<Pass, BackendError> {
        make_empty(dir)?;
        std::thread::scope(|scope| {
            let libm = scope.spawn(|| self.compile(&dir.join("libm"), LIBM, true, how));
            let plain = self.compile(&dir.join("plain"), PLAIN, false, how);
            let libm = libm.join().unwrap_or_else(|_| Err(unusable("probing it failed".to_owned())));
            Ok(Pass { plain: plain?, libm: libm? })
        })
    }

    fn compile(&self, dir: &Path, source: &str, libm: bool, how: How<'_>) -> Result<Compiled, BackendError> {
        let io = |action| move |source| BackendError::Io { action, path: dir.to_owned(), source };
        let args = self.args(libm, how.flags);
        let environment = environment(&self.config.path, dir);
        let limit = Instant::now().checked_add(self.config.probe_deadline);
        let run = ProcessBuilder {
            program: &self.cc.driver,
            args: &args,
            environment: &environment,
            dir,
            log: None,
            deadline: self.cx.deadline_before(limit),
            cancel: self.cx.cancel,
            sandbox: Sandbox::default(),
        };
        let run_once = |observer: Option<&Observer>| {
            make_empty(dir)?;
            write_source(dir, source)?;
            let domain = how.inputs.map(|inputs| inputs.domain(dir)).transpose();
            let domain = domain.map_err(|error| io("confine programs in")(io::Error::other(error)))?;
            let sandbox = Sandbox { domain: domain.as_ref(), observer };
            ProcessBuilder { sandbox, ..run }.wait_with_output().map_err(backend_error)
        };
        make_empty(dir)?;
        let (ended, seen) = match how.observed {
            true => Observer::of_run(dir, |observer| run_once(Some(observer)))
                .map_err(io("observe programs in"))?,
            false => (run_once(None), Observation::default()),
        };
        // A program whose observer failed fails, too.
        let is_short = |why: &io::Error| is_short_of_resources(why) && !seen.is_interrupted();
        if let Some(why) = seen.error().filter(is_short) {
            return Err(io("observe programs in")(why));
        }
        let ended = ended?;
        if let Some(program) = &seen.foreign {
            return Err(unusable(foreign(program)));
        }
        let object = self.object(&run, &ended, dir)?;
        Ok(Compiled { object, says: ended.output, seen })
    }

    fn args(&self, libm: bool, flags: &[&str]) -> Vec<OsString> {
        let words = self.cc.leading.iter().chain(&self.dry_run.flags).map(String::as_str);
        let words = words.chain(flags.iter().copied()).chain(["-o", "kernel.o", "kernel.c"]);
        words.chain(libm.then_some("-lm")).map(OsString::from).collect()
    }

    fn object(
        &self,
        run: &ProcessBuilder<'_>,
        ended: &ProcessOutput,
        dir: &Path,
    ) -> Result<Digest, BackendError> {
        let help = "compilers run in a directory of their own, and with no environment but PATH, TMPDIR, LC_ALL and \
                    PYTHONDONTWRITEBYTECODE: name files by absolute paths, and set variables in a script that CC names";
        let cannot = |why: String| {
            let words = self.cc.leading.iter().map(String::as_str);
            let words: Vec<&str> = words.collect();
            let compiler = [&[&*self.cc.driver.to_string_lossy()], words.as_slice()].concat().join(" ");
            let problem = format!("the compiler `{compiler}` cannot compile a small source: {why}");
            let (command, output) = (run.to_string(), tail(&ended.output));
            BackendError::failed_tool(problem, help, FailedTool { kind: ToolKind::Compiler, command, output })
        };
        if !ended.status.success() {
            return Err(cannot(reason(ended)));
        }
        let object = read_made(dir, "kernel.o");
        object
            .map(|object| Digest::of(&object))
            .map_err(|error| cannot(format!("it makes no object: {error}")))
    }
}

/// Makes the directory `dir`, without what an earlier pass left in it.
fn make_empty(dir: &Path) -> Result<(), BackendError> {
    let _ = Fs::new().remove_tree(dir);
    let made = Fs::new().create_dir(dir, 0o700);
    made.map_err(|source| BackendError::Io { action: "make", path: dir.to_owned(), source })
}

impl Pass {
    fn is_as(&self, other: &Self) -> bool {
        self.plain.object == other.plain.object && self.libm.object == other.libm.object
    }
}

/// The name of a file's part of the fingerprint: programs and shared libraries are called as they are; how a header, a flag
/// file or an archive is called is the user's choice, and does not count.
fn part_name(path: &Path, is_program: bool) -> String {
    let name = words::name_of(path);
    let is_library = name.contains(".so.") || name.ends_with(".so") || name.starts_with("ld-");
    if is_program || is_library { name } else { FILE_READ.to_owned() }
}

/// The steps of a compile, in words that are the same wherever the toolchain lies. With a wrapper its `looks` count.
fn steps(compiled: &Compiled, names: &ToolchainFiles, looks: Option<Looks>) -> Steps {
    let (mut resolved, mut reads, mut intermediate) =
        (Vec::new(), Vec::new(), Hasher::new("opkeep cpu intermediate"));
    for (at, program) in compiled.seen.programs.iter().enumerate() {
        if !program.path.as_os_str().is_empty() {
            // One in the work directory may be called otherwise each time.
            let name = names.name_of(&program.path).unwrap_or_else(|| "temporary program".to_owned());
            resolved.push(name);
            // The first one's are those that the driver is called with, which count by themselves.
            if at > 0 {
                resolved.extend(words::that_count(program.args.iter().skip(1)));
            }
        }
        reads.push(";".to_owned());
        for path in &program.read {
            if let Some(name) = names.name_of(path) {
                reads.push(name);
            }
        }
        for digest in &program.intermediate {
            intermediate.bytes(digest.as_bytes());
        }
    }
    let read: Vec<Read> = names
        .iter()
        .filter(|(_, path)| compiled.seen.programs.iter().any(|program| program.read.contains(path)))
        .map(|(name, path)| Read { name: name.to_owned(), path: PathBuf::clone(path) })
        .collect();
    Steps {
        resolved: resolved.join(" "),
        read,
        order: Digest::of(reads.join("\n").as_bytes()),
        intermediate: Some(intermediate.finish()),
        looks,
        object: Some(compiled.object),
    }
}

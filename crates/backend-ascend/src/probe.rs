//! Finds out what importing the toolkit takes, by one run of Python for each interpreter, environment and toolkit.
//!
//! What is probed never depends on the operators that are compiled, so the key of a kernel depends neither on those that
//! were compiled before it nor on the host.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opbuild_backend::{BackendError, Cancel, FileDigests};
use opbuild_digest::{Digest, Hasher};
use opbuild_process::{Domain, Observation, Observer, ProbeDir, Run, Sandbox, tail};
use serde_json::json;

use crate::domain::{self, ReadDomain, Reasoned};
use crate::find::Toolkit;
use crate::guards::{self, Guards};
use crate::interpreter::Interpreter;
use crate::pool::{SCRIPT, python, text};
use crate::reach::{Extra, Reach};
use crate::record::{Record, Report};
use crate::{disk, externals, fingerprint};

/// How long the toolkit may take to be imported, with all that its operators name.
const LIMIT: Duration = Duration::from_secs(600);
/// Records that are longer are none of ours.
const LONGEST: u64 = 64 << 20;

/// The programs that the toolkit looks for on `PATH`: the device compiler and its companions, and what its Python, the
/// generated build scripts and the script `opc` run.
const PROGRAMS: [&str; 15] = [
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

/// Why the directory of bytecode may be read.
const BYTECODE: &str = "bytecode of our own, by the content of sources";

/// The headers of the C and C++ libraries.
const HEADERS: [&str; 42] = [
    "assert.h",
    "ctype.h",
    "errno.h",
    "float.h",
    "inttypes.h",
    "limits.h",
    "math.h",
    "stdarg.h",
    "stdbool.h",
    "stddef.h",
    "stdint.h",
    "stdio.h",
    "stdlib.h",
    "string.h",
    "time.h",
    "algorithm",
    "array",
    "atomic",
    "cassert",
    "cfloat",
    "climits",
    "cmath",
    "cstddef",
    "cstdint",
    "cstdio",
    "cstdlib",
    "cstring",
    "functional",
    "initializer_list",
    "iostream",
    "iterator",
    "limits",
    "map",
    "memory",
    "numeric",
    "string",
    "tuple",
    "type_traits",
    "unordered_map",
    "utility",
    "vector",
    "sys/types.h",
];

/// Makes records, and remembers the last one.
pub(crate) struct Probe {
    /// All of the environment of the toolkit's programs.
    environment: Vec<(OsString, OsString)>,
    /// The folder of the package `opc_tool`, without which operators can only be asked.
    tool_folder: Option<PathBuf>,
    /// Where records are kept for the next process, and bytecode.
    kept: Option<PathBuf>,
    scratch: PathBuf,
    cancel: Cancel,
    known: Mutex<Option<Arc<Record>>>,
    /// A record that was made anew and said the same.
    confirmed: Mutex<Option<Arc<Record>>>,
    making: Mutex<()>,
}

impl Probe {
    pub(crate) fn new(
        environment: Vec<(OsString, OsString)>,
        tool_folder: Option<PathBuf>,
        kept: Option<PathBuf>,
        scratch: PathBuf,
        cancel: Cancel,
    ) -> Self {
        Self {
            environment,
            tool_folder,
            kept,
            scratch,
            cancel,
            known: Mutex::default(),
            confirmed: Mutex::default(),
            making: Mutex::default(),
        }
    }

    /// A record that holds now and covers the modules called `names`. `toolchain` is the digest of the toolkit.
    ///
    /// # Errors
    /// There is no Python, or it cannot be run.
    pub(crate) fn record(
        &self,
        toolkit: &Toolkit,
        toolchain: &Digest,
        names: &BTreeSet<String>,
        files: &dyn FileDigests,
    ) -> Result<Arc<Record>, BackendError> {
        let named = python(&self.environment)?;
        let interpreter = Interpreter::resolve(&named, &self.environment, &self.cancel)?;
        let id = self.id(&interpreter, toolchain);
        let holds = |record: &Record| {
            record.id == id && names.iter().all(|name| record.knows(name)) && record.is_current(files)
        };
        if let Some(record) = self.last().filter(|record| holds(record)) {
            return Ok(record);
        }
        // Threads that ask at once get one probe.
        let _one = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = self.last().filter(|record| record.id == id).or_else(|| self.read(&id).map(Arc::new));
        let record = match earlier {
            Some(record) if holds(&record) => record,
            earlier => {
                let mut wanted = names.clone();
                wanted.extend(earlier.iter().flat_map(|record| record.names().cloned()));
                let record = Arc::new(self.make(toolkit, &interpreter, id, wanted, files)?);
                if record.problem().is_none() {
                    self.write(&record);
                }
                record
            }
        };
        *self.known() = Some(Arc::clone(&record));
        Ok(record)
    }

    /// The last record that was found to hold.
    pub(crate) fn last(&self) -> Option<Arc<Record>> {
        self.known().clone()
    }

    /// Has the next one who asks get a new record: this one lacks something.
    pub(crate) fn forget(&self) {
        if let Some(record) = self.known().take()
            && let Some(path) = self.path(&record.id)
        {
            disk::remove_own(&path);
        }
    }

    /// Whether a record was made anew to see whether it still holds.
    pub(crate) fn is_confirmed(&self, record: &Arc<Record>) -> bool {
        let confirmed = self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        confirmed.as_ref().is_some_and(|confirmed| Arc::ptr_eq(confirmed, record))
    }

    pub(crate) fn confirm(&self, record: &Arc<Record>) {
        *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(record));
    }

    /// The directory for bytecode.
    pub(crate) fn bytecode(&self) -> Option<PathBuf> {
        disk::private_below(self.kept.as_deref()?, "ascend-bytecode")
    }

    fn known(&self) -> MutexGuard<'_, Option<Arc<Record>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is probed, in one word, which begins with where the interpreter and the toolkit are.
    fn id(&self, interpreter: &Interpreter, toolchain: &Digest) -> String {
        use std::os::unix::ffi::OsStrExt;
        let mut hasher = Hasher::new("probe of a toolkit");
        hasher.bytes(SCRIPT.as_bytes());
        hasher.bytes(interpreter.program.as_os_str().as_bytes());
        // Where a link leads to is where its modules are.
        let real = disk::real(&interpreter.program);
        hasher.list(interpreter.arguments.len());
        interpreter.arguments.iter().for_each(|argument| hasher.bytes(argument.as_bytes()));
        hasher.list(interpreter.environment.len());
        for (name, value) in &interpreter.environment {
            hasher.bytes(name.as_bytes());
            hasher.bytes(value.as_bytes());
        }
        let folder = self.tool_folder.as_ref().map_or(&b""[..], |folder| folder.as_os_str().as_bytes());
        hasher.bytes(folder);
        let place = hasher.clone().finish().to_string();
        hasher.bytes(real.as_os_str().as_bytes());
        hasher.digest(toolchain);
        // By what means compiles are kept to what was probed is a matter of the host.
        let system = rustix::system::uname();
        for text in [system.nodename(), system.release(), system.machine()] {
            hasher.bytes(text.to_bytes());
        }
        hasher.bool(guards::landlock().is_ok());
        hasher.bool(Observer::is_available());
        format!("{place:.16}{}", hasher.finish())
    }

    fn make(
        &self,
        toolkit: &Toolkit,
        interpreter: &Interpreter,
        id: String,
        mut names: BTreeSet<String>,
        files: &dyn FileDigests,
    ) -> Result<Record, BackendError> {
        let modules = fingerprint::module_names(toolkit);
        let lazy = externals::below(&fingerprint::python_packages(toolkit), &modules)?;
        let scanned = externals::below(&fingerprint::operator_packages(toolkit), &modules)?;
        names.extend(scanned.iter().cloned());
        let mut own = domain::of_toolkit(toolkit);
        own.extend(self.bytecode().map(|path| (path, BYTECODE)));
        let ask = Ask { interpreter, lazy: &lazy, names: &names, children: false };
        let (mut report, mut guards) = self.observed(toolkit, &ask, &own)?;
        let pending: BTreeSet<String> = std::mem::take(&mut report.pending).into_iter().collect();
        if !pending.is_empty() {
            let more = self.run(&Ask { names: &pending, children: true, ..ask }, Watched::default())?.0;
            report.names.extend(more.names);
        }
        let packages = fingerprint::operator_packages(toolkit);
        let mut record = Record::new(id, interpreter.clone(), report, scanned, (&own, &packages), files);
        guards.without_landlock =
            self.without_landlock(toolkit, &record, &Ask { children: false, ..ask }, &own)?;
        record.guards = guards;
        Ok(record)
    }

    /// What importing the toolkit takes, and its program, as far as it can be seen here; and why not all can, if so.
    fn observed(
        &self,
        toolkit: &Toolkit,
        ask: &Ask<'_>,
        own: &[Reasoned],
    ) -> Result<(Report, Guards), BackendError> {
        let unobserved = |why: String| {
            let guards = Guards { without_observer: Some(why), ..Guards::default() };
            Ok((self.run(ask, Watched::default())?.0, guards))
        };
        let watched = Watched { is_observed: true, reach: None };
        let (mut report, seen) = match self.run(ask, watched) {
            Ok(found) => found,
            // Either there is no observer here, or nothing can be run; another attempt says which.
            Err(BackendError::Io { source, .. }) => {
                return unobserved(format!("programs cannot be observed: {source}"));
            }
            Err(error) => return Err(error),
        };
        report.add(&seen, own);
        for program in toolkit.opc.iter().chain(&toolkit.asc_opc) {
            report.add(&self.greet(program, ask.interpreter, watched)?.1, own);
        }
        for compiler in report.compilers() {
            report.add(&self.preprocess(&compiler, ask.interpreter, watched)?, own);
        }
        match seen.incomplete {
            Some(why) => unobserved(format!("programs cannot be observed: {why}")),
            None => Ok((report, Guards::default())),
        }
    }

    /// Why the domain of what a record says is of no use here, if it is none: then the toolkit is imported in it otherwise
    /// than without it.
    fn without_landlock(
        &self,
        toolkit: &Toolkit,
        record: &Record,
        ask: &Ask<'_>,
        own: &[Reasoned],
    ) -> Result<Option<String>, BackendError> {
        if let Err(why) = guards::landlock() {
            return Ok(Some(why));
        }
        if record.problem().is_some() {
            return Ok(None);
        }
        let reach = Reach::of(&self.domain(toolkit, record, &[]));
        let watched = Watched { is_observed: false, reach: Some(&reach) };
        for program in toolkit.opc.iter().chain(&toolkit.asc_opc) {
            let free = self.greet(program, ask.interpreter, Watched::default())?.0;
            if self.greet(program, ask.interpreter, watched)?.0 != free {
                return Ok(Some(format!("in a domain `{}` does not run as without", program.display())));
            }
        }
        match self.run(ask, watched) {
            Ok((again, _)) if record.is_confirmed_by(&again, own) => Ok(None),
            Ok((Report { problem: Some(problem), .. }, _)) => {
                Ok(Some(format!("in a domain the toolkit cannot be imported: {problem}")))
            }
            Ok(_) => Ok(Some("in a domain the toolkit imports something else".to_owned())),
            Err(error @ BackendError::Cancelled) => Err(error),
            Err(error) => Ok(Some(error.to_string())),
        }
    }

    /// What every compile may read; `declared` are files that the user added.
    pub(crate) fn domain(&self, toolkit: &Toolkit, record: &Record, declared: &[PathBuf]) -> ReadDomain {
        let mut domain = ReadDomain::new(toolkit, record);
        domain.beneath.extend(self.bytecode().map(|path| (path, BYTECODE)));
        domain.add_files(declared.iter().cloned(), "declared by the user, in the toolchain fingerprint");
        let parents: BTreeSet<&Path> = declared.iter().filter_map(|path| path.parent()).collect();
        domain.listed.extend(parents.into_iter().map(|path| (path.to_owned(), "declared files are in it")));
        domain
    }

    /// How `opc` ends when it is only asked for its options, and what it reads.
    fn greet(
        &self,
        program: &Path,
        interpreter: &Interpreter,
        watched: Watched<'_>,
    ) -> Result<(Option<i32>, Observation), BackendError> {
        self.run_program(program, &["--help"], self.work_dir()?.path(), interpreter, watched)
    }

    /// What a device compiler reads for a source that includes the headers of the C and C++ libraries: generated sources
    /// include some of them. Which that are is a matter of the toolkit's release; those that are missing are left out.
    fn preprocess(
        &self,
        compiler: &Path,
        interpreter: &Interpreter,
        watched: Watched<'_>,
    ) -> Result<Observation, BackendError> {
        let work = self.work_dir()?;
        let source = work.path().join("headers.cpp");
        let includes =
            HEADERS.map(|name| format!("#if __has_include(<{name}>)\n#include <{name}>\n#endif\n"));
        disk::write(&source, includes.concat().as_bytes())?;
        let args = ["-x", "c++", "-std=c++17", "-E", "-o", "/dev/null", &text(&source)];
        Ok(self.run_program(compiler, &args, work.path(), interpreter, watched)?.1)
    }

    fn run_program(
        &self,
        program: &Path,
        args: &[&str],
        work_dir: &Path,
        interpreter: &Interpreter,
        watched: Watched<'_>,
    ) -> Result<(Option<i32>, Observation), BackendError> {
        let environment = interpreter.for_programs(&self.environment);
        let (domain, observer) = watched.begin(work_dir)?;
        let run = Run {
            program,
            args: &args.iter().map(OsString::from).collect::<Vec<_>>(),
            environment: &with_temporary(&environment, work_dir),
            dir: work_dir,
            log: None,
            deadline: Some(Instant::now() + LIMIT),
            cancel: &self.cancel,
            sandbox: Sandbox { domain: domain.as_ref(), observer: observer.as_ref() },
        };
        let ended = run.to_end();
        let seen = observer.map(Observer::finish).unwrap_or_default();
        match ended {
            Err(BackendError::Cancelled) => Err(BackendError::Cancelled),
            // Whether it can be run is found out when it is to compile.
            ended => Ok((ended.ok().and_then(|ended| ended.status.code()), seen)),
        }
    }

    fn work_dir(&self) -> Result<ProbeDir, BackendError> {
        let cannot =
            |source| BackendError::Io { action: "create a directory in", path: self.scratch.clone(), source };
        ProbeDir::create(&[&self.scratch]).map_err(cannot)
    }

    fn run(&self, ask: &Ask<'_>, watched: Watched<'_>) -> Result<(Report, Observation), BackendError> {
        let work = self.work_dir()?;
        let Ask { interpreter, lazy, names, children } = *ask;
        let report = work.path().join("report.json");
        let request = json!({"do": "probe", "tool_folder": self.tool_folder.as_deref().map(text), "lazy": lazy,
            "names": names, "children": children, "programs": PROGRAMS, "report": text(&report)});
        let ask = work.path().join("request.json");
        disk::write(&ask, request.to_string().as_bytes())?;
        let bytecode = self.bytecode().map(PathBuf::into_os_string).unwrap_or_default();
        let mut args = interpreter.arguments.clone();
        args.extend(["-S", "-u", "-c", SCRIPT].map(OsString::from));
        args.extend([bytecode, ask.into_os_string()]);
        let (domain, observer) = watched.begin(work.path())?;
        let run = Run {
            program: &interpreter.program,
            args: &args,
            environment: &with_temporary(&interpreter.environment, work.path()),
            dir: Path::new("/"),
            log: None,
            deadline: Some(Instant::now() + LIMIT),
            cancel: &self.cancel,
            sandbox: Sandbox { domain: domain.as_ref(), observer: observer.as_ref() },
        };
        let ended = run.to_end();
        let seen = observer.map(Observer::finish).unwrap_or_default();
        let ended = ended?;
        let unusable = |problem: String| BackendError::Toolchain {
            problem: format!("`{}` {problem}: {}", interpreter.program.display(), tail(&ended.output)),
            way_out: "HI_PYTHON names the Python that the toolkit was installed for".to_owned(),
        };
        let bytes = disk::read(&report)
            .map_err(|_| unusable(format!("does not report what it imports ({})", ended.status)))?;
        let report = serde_json::from_slice(&bytes)
            .map_err(|error| unusable(format!("reports what cannot be read ({error})")))?;
        Ok((report, seen))
    }

    fn path(&self, id: &str) -> Option<PathBuf> {
        Some(self.kept.as_ref()?.join(format!("ascend-python-{id:.16}.json")))
    }

    fn read(&self, id: &str) -> Option<Record> {
        let bytes = disk::read_own(&self.path(id)?, LONGEST)?;
        let (digest, body) = bytes.split_at_checked(64)?;
        let is_whole = Digest::of(body).to_string().as_bytes() == digest;
        let record: Record = is_whole.then(|| serde_json::from_slice(body).ok())??;
        (record.id == id).then_some(record)
    }

    fn write(&self, record: &Record) {
        let Some(path) = self.path(&record.id) else { return };
        let Ok(body) = serde_json::to_vec(record) else { return };
        let whole = [Digest::of(&body).to_string().as_bytes(), &body].concat();
        disk::replace_own(&path, &whole);
    }
}

/// What one run of the probe is asked.
#[derive(Clone, Copy)]
struct Ask<'a> {
    interpreter: &'a Interpreter,
    /// Modules that the toolkit imports when it needs them.
    lazy: &'a BTreeSet<String>,
    /// Modules that operators name.
    names: &'a BTreeSet<String>,
    /// Whether those of them are imported that are not there anyway, each in a child.
    children: bool,
}

/// How one run of the probe is watched.
#[derive(Clone, Copy, Default)]
struct Watched<'a> {
    is_observed: bool,
    /// What alone it may read.
    reach: Option<&'a Reach>,
}

impl Watched<'_> {
    /// What keeps a program that works in `work`, and watches it.
    fn begin(&self, work: &Path) -> Result<(Option<Domain>, Option<Observer>), BackendError> {
        let cannot = |action| move |source| BackendError::Io { action, path: work.to_owned(), source };
        let domain = self.reach.map(|reach| reach.domain(&Extra::default(), work)).transpose();
        let domain = domain.map_err(|error| cannot("confine programs in")(std::io::Error::other(error)))?;
        let observer = self.is_observed.then(|| Observer::start(work)).transpose();
        Ok((domain, observer.map_err(cannot("observe programs in"))?))
    }
}

/// An environment with another directory for temporary files.
pub(crate) fn with_temporary<'a>(
    environment: &'a [(OsString, OsString)],
    directory: &'a Path,
) -> Vec<(&'a OsStr, &'a OsStr)> {
    let others = environment.iter().filter(|(name, _)| name != "TMPDIR");
    let all = others.map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    all.chain([(OsStr::new("TMPDIR"), directory.as_os_str())]).collect()
}
